"""Lines of a log for diagnosis: which process printed one, what stands before its text, frames and tracebacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.core.text.regex import later
from autoresearch.runner.text import clean_line

# Fatal lines that any Python trainer can print: patterns with which the Runner wakes the monitor.
#
# They only report the event at once; `core.diagnosis.root` finds the cause after the run has ended.

# Allowed before the first word of a line: nothing, a Ray prefix `) `, a colour `m` or `m `, a progress bar's `]`,
# torch.distributed's `[rank0]: `.
_WORDS = "Traceback (most recent call last):"
_TRACEBACK = r"Traceback \(most recent call last\):"
_RANKS = "".join(rf"|(?<=\[rank\d{{{digits}}}\]: {_TRACEBACK})" for digits in (1, 2, 3))
_AT_START = (
    rf"(?:(?<=^{_TRACEBACK})|(?<=[\r\n]{_TRACEBACK})|(?<=[)m] {_TRACEBACK})|(?<=\dm{_TRACEBACK})"
    rf"|(?<=\]{_TRACEBACK})|(?<=(?:it|/s)\] {_TRACEBACK}){_RANKS})"
)

TRACEBACK = SignalPattern(SignalKind.ERROR, rf"{_TRACEBACK}{_AT_START}", needles=(_WORDS,))
"""The start of a traceback at the start of a line; one quoted in a sampled answer is elsewhere in its line."""

OUT_OF_MEMORY = SignalPattern(
    SignalKind.ERROR,
    r"out of memory(?:(?<=CUDA out of memory)\. Tried to allocate|(?<=CUDA error: out of memory))",
    needles=("out of memory",),
)
"""The messages of torch and of the CUDA driver."""

RAY_EXCEPTION = SignalPattern(
    SignalKind.ERROR, r"ray\.exceptions\.(?P<text>[A-Z]\w{0,60}[^\r\n]{0,160})", needles=("ray.exceptions.",)
)
"""An exception that Ray re-raised in the driver after a worker raised it."""

NCCL_TIMEOUT = SignalPattern(
    SignalKind.ERROR,
    r"Watchdog caught collective operation timeout: (?P<text>[^\r\n]{0,160})",
    needles=("Watchdog caught collective operation timeout: ",),
)
"""Printed by C++ without a traceback; the process may hang afterwards."""


MAX_SEEN = 2000  # characters of a line that are examined

HEAD = "Traceback (most recent call last):"
CHAIN = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# wherever they stand on a line, as a progress bar ends without a newline: what follows them is not fatal
IGNORED = ("Exception ignored in", "Error in atexit", "--- Logging error ---", "Call stack:")

_STAMP = later(  # of containers
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d) (?:stdout F |stderr F )?"
)
_TASK = later(r" {0,3}(\d{1,4}): (?=.)")  # srun --label
_LABEL = later(
    r"\[(?:rank|default)(?P<rank>\d{1,5})\]:"
    r"|\((?:(?P<name>[A-Za-z_][^()\n]{0,120}) )?pid=(?P<pid>\d{1,10})(?:, ip=[^()\n]{1,60})?\)"
)
_POINTERS = (
    later(r"ray::[^(\n]{1,200}\([^)\n]{0,40}\) \(pid=(?P<pids>\d{1,10})"),
    later(r"^ray::\S{1,200} \(pid=(?P<pids>\d{1,10})"),
    later(r"^pid: (?P<pids>\d{1,10})$"),  # of an ActorDiedError
    later(r"\bWorker PID: (?P<pids>\d{1,10})"),
    later(r"DataLoader worker \(pid(?:\(s\))? (?P<pids>\d[\d, ]{0,200})\)"),
    later(r"exitcode\s{0,4}: -?\d{1,3} {1,2}\(pid: (?P<pids>\d{1,10})\)"),  # torchrun's table of failures
    later(r"^rank\s{1,8}: (?P<rank>\d{1,5}) \(local_rank"),
    later(r"\(pid: (?P<pids>\d{1,10})\) of binary"),
)
_GROUP = later(r"[ +-]*\| ?|  \+ ")  # the margin of an exception group
_LOGGED = later(  # the prefix that a logger adds to each line of an error: vLLM, SGLang and slime, hydra, logging
    r"(?:ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]{1,80}:\d{1,6}\] ?"
    r"|\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\]]{0,40}\](?:\[[\w.]{1,80}\]){0,2}(?: [\w.-]{1,80}:\d{1,6})?(?: -)? "
    r"|(?:ERROR|CRITICAL):[\w.]{1,80}:"
)
_FRAME = later(r'\s*File "([^"\n]{1,400})", line (\d{1,7})(?:, in (\S{1,200}))?')
_INNER_FRAME = later(r'  File "[^"\n]{1,400}", line \d{1,7}, in ')
_LONGEST_PREFIX = 160  # characters
_RICH_FRAME = later(r"\s*│ (/\S{1,400}\.py|<\w+>):(\d{1,7}) in (\S{1,200})")
_FOREIGN = later(
    r"(?:site|dist)-packages/|/lib/python\d|/Python3\d+/Lib/|"
    r"<frozen |<string>|<__array|/torch/csrc/|importlib/|runpy\.py$|\.(?:pyx|pxi|cc?|cpp|cuh?|h)$"
)
_ROLES = tuple(
    (later(rf"(?<![a-z])(?:{words})"), role)
    for words, role in (
        (r"reward|scor(?:e|ing)|verif|rubric|grader|judge", "a reward function"),
        (r"data(?!_?parallel)|collat|loader|prompt|token", "the data"),
        (r"checkpoint|ckpt|load_state|save_|resume", "a checkpoint"),
        (r"conf(?:ig)?s?(?![a-z])|hydra|args?(?![a-z])|arguments?(?![a-z])", "the configuration"),
        (r"envs?(?![a-z])|environment|gym", "an environment"),
        (r"model|policy|actor|critic|layers?(?![a-z])|attention|forward", "the model"),
        (r"train|main|run|launch", "the training script"),
    )
)


@dataclass(frozen=True, slots=True)
class LogProcess:
    """A process as its lines are labelled; one without a label is the program itself, or one of several that mix."""

    name: str = ""
    pid: int = 0
    rank: int = -1

    def __str__(self) -> str:
        if self.pid:
            return f"{self.name} pid={self.pid}".strip()
        return f"rank {self.rank}" if self.rank >= 0 else ""


PLAIN = LogProcess()


def split(raw: str) -> tuple[LogProcess, str]:
    """The process that printed a line, by the last of its labels, and the line without labels and colours."""
    stamp = _STAMP.match(raw)
    raw = raw[stamp.end() :] if stamp else raw
    process = PLAIN
    if task := _TASK.match(raw):
        process, raw = LogProcess(rank=int(task[1])), raw[task.end() :]
    text = clean_line(raw)
    if "pid=" in raw[:200] or "[rank" in raw[:60] or "[default" in raw[:60]:
        own = raw.find(text[:40]) if text else len(raw)
        for label in _LABEL.finditer(raw, 0, own if own >= 0 else 200):
            if label["rank"]:
                process = LogProcess(rank=int(label["rank"]))
            else:
                process = LogProcess((label["name"] or "").partition("[")[0].strip(), int(label["pid"]))
    return process, text


def pointers(line: str) -> Iterator[LogProcess]:
    """The processes, by pid or rank alone, that a stripped line names as those that failed."""
    if "pid" not in line and "PID" not in line and "rank" not in line:
        return
    for pattern in _POINTERS:
        if match := pattern.search(line):
            groups = match.groupdict()
            if groups.get("rank"):
                yield LogProcess(rank=int(groups["rank"]))
            for pid in (groups.get("pids") or "").replace(",", " ").split():
                yield LogProcess(pid=int(pid))
            return


def unstamped(text: str) -> str:
    """A line without colours and labels: without its logger's stamp."""
    if "|" in text[:40] and (margin := _GROUP.match(text)):
        text = text[margin.end() :]
    logged = _LOGGED.match(text)
    return text[logged.end() :] if logged else text


def learnt_prefix(text: str) -> re.Pattern[str] | None:
    """What stands before a traceback's head or frame on its line, with any numbers in the place of its own.

    A host, a container, a journal, a logger that nobody listed, or a bar that has no newline. None if nothing does, or
    if the line only quotes one.
    """
    at = text.find(HEAD) if text.endswith(HEAD) else -1
    if at < 0 and (inner := _INNER_FRAME.search(text)):
        at = inner.start()
    before = text[: max(at, 0)]
    if label := _LABEL.search(before):
        before = before[: label.start()]
    if not before.strip() or len(before) > _LONGEST_PREFIX or any(quote in before for quote in "\"'`"):
        return None
    return re.compile(re.sub(r"(?:\d|\\\.)+", lambda _: r"[\d.]+", re.escape(before)))


@dataclass(frozen=True, slots=True)
class TracebackFrame:
    """One frame of a traceback."""

    path: str
    line: int
    function: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the file is the user's: outside of installed packages and of Python itself."""
        return not _FOREIGN.search(self.path.replace("\\", "/"))

    @property
    def role(self) -> str:
        """What the file is, by its name and the function's: "a reward function", "the data", ...; "" if unknown."""
        parts = self.path.lower().replace("\\", "/").split("/")
        for text in (self.function.lower(), parts[-1], "/".join(parts[-3:-1])):
            for pattern, role in _ROLES:
                if pattern.search(text):
                    return role
        return ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f" in {self.function}" if self.function else "")


def frame(line: str) -> TracebackFrame | None:
    """The frame that a stripped line of a traceback names, in Python's form or rich's; None if it names none."""
    match = _FRAME.match(line) or _RICH_FRAME.match(line)
    return TracebackFrame(match[1], int(match[2]), (match[3] or "").rstrip("│ ")) if match else None
