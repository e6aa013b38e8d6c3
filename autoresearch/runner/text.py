"""Cleans log lines, once, for whoever reads them; texts for records.

Ray writes `(Actor pid=N) ` before each line of a worker, coloured even in a file, the workers of vLLM add their own,
and torchrun its `[rank0]: `, so labels nest. tqdm ends its bar with a carriage return instead of a newline, so that
the next output is on the same line.
"""

from __future__ import annotations

import re

from .basics import LazyPattern
from .masking import mask_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ESCAPES = LazyPattern(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])|\xc2\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n"))
_WIDE_CONTROLS = LazyPattern(rb"\xc2[\x80-\x9f]|\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9])")  # some turn the writing round
LABEL = (  # of a process
    r"\[(?:rank|default)\d{1,6}\]:(?: |(?=\S)(?!\[))|[ \t]{0,8}\("  # torch's hook for exceptions, torchrun --tee; Ray
    r"(?:(?:[A-Za-z_][^()\n]{0,120} )?pid=\d{1,10}"  # (TaskRunner pid=512), (Worker[rank=0] pid=7), (pid=7)
    r"|raylet|gcs_server|autoscaler[^()\n]{0,40})"  # Ray's own daemons
    r"(?:, ip=[^()\n]{1,60})?\) ?"
)
_LABEL = LazyPattern(LABEL.encode())
_MOST_LABELS = 8
_TAG = LazyPattern(r"<(?=[A-Za-z/!?])")


def without_escapes(line: bytes) -> bytes:
    """A line without terminal escape sequences; there is a fast path for Ray's common prefix."""
    if b"\x1b" in line:
        line = line.replace(b"\x1b[36m", b"", 1).replace(b"\x1b[0m", b"", 1)
    return _ESCAPES.sub(b"", line) if b"\x1b" in line or b"\x9b" in line else line


def clean(line: bytes) -> bytes:
    """A line as it is read: without escapes, control characters, labels of processes and Ray's repeat mark.

    Indentation is kept: it tells the frames of a traceback from its message. Of a line that a crash tore, the text
    after its last NUL is kept.
    """
    if b"\0" in line:
        line = line.rpartition(b"\0")[2]
    line = without_escapes(line).translate(None, _CONTROLS).removeprefix(b"\xef\xbb\xbf")  # a mark of byte order
    if b"\xc2" in line or b"\xe2" in line:
        line = _WIDE_CONTROLS.sub(b"", line)
    for _ in range(_MOST_LABELS):
        label = _LABEL.match(line) if line.startswith(b"[") or b"(" in line[:9] else None
        if label is None:
            break
        line = line[label.end() :]
    repeated = line.rfind(b" [repeated ")
    if repeated >= 0 and b"x across cluster]" in line[repeated:]:
        line = line[:repeated]
    return line.rstrip()


def clean_line(line: str) -> str:
    """The same for a line that was decoded."""
    return clean(line.encode("utf-8", "surrogatepass")).decode("utf-8", "replace").rstrip()


def logical_lines(raw: bytes) -> Iterator[str]:
    """The lines of a piece of a log, cleaned; empty ones are omitted. A carriage return ends one like a newline."""
    for line in raw.replace(b"\r", b"\n").split(b"\n"):
        if stripped := clean(line):
            yield stripped.decode("utf-8", "replace").rstrip()


class Needles:
    """Finds the lines with one of several texts. A set of first bytes, and what may follow, is found fastest."""

    def __init__(self, needles: Iterable[bytes], *, either_case: bool = False) -> None:
        known = set(needles)
        firsts = {first for needle in known for first in (needle[:1], needle[:1].upper() if either_case else b"")}
        rests = b"|".join(sorted(re.escape(needle[1:]) for needle in known))
        self.regex = re.compile(b"[" + re.escape(b"".join(firsts)) + b"](?:" + rests + b")") if known else None

    def lines(self, text: bytes, at: int = 0) -> Iterator[tuple[int, int]]:
        """(start, end) of every such line, in order; of every line that is not empty if there are no needles."""
        size = len(text)
        while at < size:
            if self.regex is not None:
                hit = self.regex.search(text, at)
                if hit is None:
                    return
                at = text.rfind(b"\n", at, hit.end()) + 1 or at
            end = text.find(b"\n", at)
            end = size if end < 0 else end
            if end > at:
                yield at, end
            at = end + 1


def plain(text: bytes | str, limit: int = 300) -> str:
    """A text fit for records: one line of at most `limit` characters, without escapes, control characters, secrets."""
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    decoded = without_escapes(raw[: 8 * limit]).decode("utf-8", "replace")
    words = "".join(c if c.isprintable() else " " for c in decoded).split()
    return mask_text(" ".join(words))[:limit]


def without_html(text: str) -> str:
    """Escape text for markdown pages, so that nothing in it becomes an HTML element or comment."""
    return str(_TAG.sub("&lt;", text))
