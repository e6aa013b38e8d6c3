"""Tracebacks in logs: strips the prefixes of their lines, finds the last one with its chain, drops harmless ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autoresearch.core.text.lines import plain
from autoresearch.core.text.regex import later

MAX_SEEN = 2000  # characters of a line that are examined
MAX_TRACEBACK = 80  # lines of a traceback that are kept

HEAD = "Traceback (most recent call last):"
CHAIN = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
IGNORED = "Exception ignored in"  # printed by Python at exit: what follows is not fatal
_BAR = later(r".{0,1000}?\[\d\d+:[\d:]*[<,][^\[\]]{0,300}\]")  # a tqdm bar, which has no newline before the next line
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
    r"<frozen |<string>|<__array|ray/_raylet\.pyx|/torch/csrc/|importlib/|runpy\.py$"
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

_FINAL = re.compile(r"(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Died\w*)\b.{0,200}")


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


def traceback(lines: Sequence[str]) -> str:
    """The last traceback with its exception chain, stripped of prefixes; "" if there is none.

    At most MAX_TRACEBACK lines: a longer one keeps its beginning and end.
    """
    texts = [stripped(line[: 4 * MAX_SEEN]) for line in lines]
    heads = [i for i, line in enumerate(texts) if line.strip() == HEAD]
    heads = [i for i in heads if not any(IGNORED in line for line in texts[max(0, i - 1) : i])] or heads
    if not heads:
        return ""
    end = _block_end(texts, heads[-1])
    start = heads[-1]
    for head in reversed(heads[:-1]):
        between = texts[_block_end(texts, head) - 1 : start]
        if not any(line.strip().startswith(CHAIN) for line in between):
            break
        start = head
    return "\n".join(_bounded(texts[start:end]))


def _block_end(lines: Sequence[str], head: int) -> int:
    """Index after the last line of the traceback that begins at `head`.

    The frames are indented and the exception's own line follows; Ray adds the worker's frames after it.
    """
    at = head + 1
    last = at
    while at < len(lines):
        line = lines[at]
        if line.startswith((" ", "\t")) or _FINAL.match(line.strip()):
            last = at + 1
        elif line.strip() == HEAD or at > last:  # one line of a multi-line message may come in between
            break
        at += 1
    return max(last, head + 1)


def _bounded(lines: list[str]) -> list[str]:
    if len(lines) <= MAX_TRACEBACK:
        return lines
    half = MAX_TRACEBACK // 2
    return [*lines[:half], f"... {len(lines) - 2 * half} lines left out ...", *lines[-half:]]


def stripped(line: str) -> str:
    """One line without colours, prefixes and logger stamp; of a progress bar before a traceback head, only the head."""
    return unstamped(plain(line))


def unstamped(text: str) -> str:
    """The same of a line that has no colours and labels any more."""
    if text.endswith(HEAD) and (bar := _BAR.match(text)) and plain(text[bar.end() :]).strip() == HEAD:
        return HEAD
    if "|" in text[:40] and (margin := _GROUP.match(text)):
        text = text[margin.end() :]
    logged = _LOGGED.match(text)
    return text[logged.end() :] if logged else text


def sifted(lines: Iterable[str], harmless: Sequence[str]) -> list[str]:
    """The lines without those that match one of these patterns and without tracebacks that contain such a line.

    lines: stripped of prefixes and colours. A traceback ends with the first line that is not indented.
    """
    if not harmless:
        return list(lines)
    pattern = re.compile("|".join(f"(?:{one})" for one in harmless))
    return [line for block in _blocks(lines) if not any(map(pattern.search, block)) for line in block]


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Group lines: each traceback is one block, every other line a block of its own."""
    open_: list[str] = []
    for line in lines:
        starts = line.strip() == HEAD
        if open_ and (starts or not line.startswith((" ", "\t"))):
            done, open_ = open_, []
            if not starts:  # the exception itself
                yield [*done, line]
                continue
            yield done
        if starts or open_:
            open_.append(line)
        else:
            yield [line]
    if open_:
        yield open_
