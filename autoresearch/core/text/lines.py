"""Lines: decodes raw terminal output into lines without colours, control characters and Ray's prefixes.

Ray writes `(Actor pid=N) ` before each line of a worker, coloured even in a file, and the workers of
vLLM add their own, so prefixes nest. tqdm ends its bar with a carriage return instead of a newline, so that the next
output is on the same line. Everything here is pure and examines each byte a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Iterator

from autoresearch.core.text.regex import later

_ESCAPE = later(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])|\x9b[0-?]*[ -/]*[@-~]")
_CONTROL = later(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_PREFIX = later(
    r"\[(?:rank|default)\d{1,5}\]:(?: |(?=\S)(?!\[))|[ \t]{0,8}\("  # torch's hook for exceptions, torchrun --tee; Ray
    r"(?:(?:[A-Za-z_][^()\n]{0,120} )?pid=\d{1,10}"  # (TaskRunner pid=512), (Worker[rank=0] pid=7), (pid=7)
    r"|raylet|gcs_server|autoscaler[^()\n]{0,40})"  # Ray's own daemons
    r"(?:, ip=[^()\n]{1,60})?\) ?"
)
_MAX_PREFIXES = 8


def logical_lines(raw: bytes) -> Iterator[str]:
    """The lines of a piece of a log, stripped of escapes, prefixes and repeat marks; empty ones are omitted.

    Bytes that are not UTF-8 become U+FFFD. Every segment between carriage returns is a separate line.
    Indentation is kept: it distinguishes the frames of a traceback from its message.
    """
    for line in raw.decode("utf-8", "replace").split("\n"):
        if "\r" not in line:
            if stripped := plain(line):
                yield stripped
            continue
        for segment in line.split("\r"):
            if stripped := plain(segment):
                yield stripped


def plain(line: str) -> str:
    """One line without escapes, control characters, prefixes and Ray's repeat mark; "" if nothing is left."""
    if not line.isprintable():  # fast path: most lines have only the colour of Ray's prefix
        line = line.replace("\x1b[36m", "", 1).replace("\x1b[0m", "", 1)
        if "\x1b" in line or "\x9b" in line:
            line = _ESCAPE.sub("", line)
        line = _CONTROL.sub("", line)
    for _ in range(_MAX_PREFIXES):
        prefix = _PREFIX.match(line) if line.startswith("[") or "(" in line[:9] else None
        if prefix is None:
            break
        line = line[prefix.end() :]
    return _without_repeat_mark(line).rstrip()


def _without_repeat_mark(line: str) -> str:
    """Remove the `[repeated 4x across cluster]` that Ray appends to a line that several workers printed."""
    at = line.rfind(" [repeated ")
    return line[:at] if at >= 0 and "x across cluster]" in line[at:] else line
