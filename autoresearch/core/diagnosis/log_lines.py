"""Lines of a log for diagnosis: which process printed one, what stands before its text, frames and tracebacks."""

from __future__ import annotations

from dataclasses import dataclass

from autoresearch.core.text.regex import later
from autoresearch.runner.text import clean_line

HEAD = "Traceback (most recent call last):"
MAX_SEEN = 2000  # characters of a line that are examined

CHAIN = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# wherever they stand on a line, as a progress bar ends without a newline: what follows them is not fatal
IGNORED = ("Exception ignored in", "Error in atexit", "--- Logging error ---", "Call stack:")

_TASK = later(r" {0,3}(\d{1,4}): (?=.)")  # srun --label
_LABEL = later(
    r"\[(?:rank|default)(?P<rank>\d{1,5})\]:"
    r"|\((?:(?P<name>[A-Za-z_][^()\n]{0,120}) )?pid=(?P<pid>\d{1,10})(?:, ip=[^()\n]{1,60})?\)"
)
_GROUP = later(r"[ +-]*\| ?|  \+ ")  # the margin of an exception group
_LOGGED = later(  # the prefix that a logger adds to each line of an error: vLLM, SGLang and slime, hydra, logging
    r"(?:ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]{1,80}:\d{1,6}\] ?"
    r"|\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\]]{0,40}\](?:\[[\w.]{1,80}\]){0,2}(?: [\w.-]{1,80}:\d{1,6})?(?: -)? "
    r"|(?:ERROR|CRITICAL):[\w.]{1,80}:"
)
_FRAME = later(r'\s*File "([^"\n]{1,400})", line (\d{1,7})(?:, in (\S{1,200}))?')
_RICH_FRAME = later(r"\s*│ (/\S{1,400}\.py|<\w+>):(\d{1,7}) in (\S{1,200})")
_FOREIGN = later(
    r"(?:site|dist)-packages/|/lib/python\d|/Python3\d+/Lib/|"
    r"<frozen |<string>|<__array|/torch/csrc/|importlib/|runpy\.py$|\.(?:pyx|pxi|cc?|cpp|cuh?|h)$"
)


def split(raw: str) -> tuple[str, str]:
    """The process that printed a line, by the last of its labels, and the line without labels and colours.

    A process is `NAME pid=N` or `rank N`; "" is the program itself, or one of several that mix.
    """
    process = ""
    if task := _TASK.match(raw):
        process, raw = f"rank {task[1]}", raw[task.end() :]
    text = clean_line(raw)
    if "pid=" in raw[:200] or "[rank" in raw[:60] or "[default" in raw[:60]:
        own = raw.find(text[:40]) if text else len(raw)
        for label in _LABEL.finditer(raw, 0, own if own >= 0 else 200):
            name = (label["name"] or "").partition("[")[0]
            process = f"rank {label['rank']}" if label["rank"] else f"{name} pid={label['pid']}".strip()
    return process, text


def unstamped(text: str) -> str:
    """A line without colours and labels: without its logger's stamp."""
    if "|" in text[:40] and (margin := _GROUP.match(text)):
        text = text[margin.end() :]
    logged = _LOGGED.match(text)
    return text[logged.end() :] if logged else text


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

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f" in {self.function}" if self.function else "")


def frame(line: str) -> TracebackFrame | None:
    """The frame that a stripped line of a traceback names, in Python's form or rich's; None if it names none."""
    match = _FRAME.match(line) or _RICH_FRAME.match(line)
    return TracebackFrame(match[1], int(match[2]), (match[3] or "").rstrip("│ ")) if match else None
