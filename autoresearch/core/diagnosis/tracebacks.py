"""Tracebacks in logs: strips the prefixes of their lines, and finds the last one with its exception chain."""

from __future__ import annotations

import re
from collections.abc import Sequence

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

_FINAL = re.compile(r"(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Died\w*)\b.{0,200}")


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
    text = plain(line)
    if text.endswith(HEAD) and (bar := _BAR.match(text)) and plain(text[bar.end() :]).strip() == HEAD:
        return HEAD
    if "|" in text[:40] and (margin := _GROUP.match(text)):
        text = text[margin.end() :]
    logged = _LOGGED.match(text)
    return text[logged.end() :] if logged else text
