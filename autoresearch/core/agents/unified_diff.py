"""Parses a unified diff of git: the path of each file, what happened to it, and the added and removed lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from autoresearch.core.text.regex import later

_HUNK = later(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_HEAD = later(r'diff --git ("?a/.*"?) ("?b/.*"?)\Z')
_ESCAPE = later(r"\\([0-7]{3}|.)")
_SIGNS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(slots=True)
class FileDiff:
    """One file of a diff. `added` and `removed`: line number (after and before) and text, in order."""

    path: str = ""  # after the change; before it, where the file is gone
    new: bool = False
    gone: bool = False
    binary: bool = False
    mode: str = ""  # where it is new or changed: 100755, 120000
    added: list[tuple[int, str]] = field(default_factory=list)
    removed: list[tuple[int, str]] = field(default_factory=list)


def files_of(patch: str) -> Iterator[FileDiff]:
    """The files of a patch as `git diff` writes it with prefixes a/ and b/.

    The lines of a hunk are counted, as they may look like headers.
    """
    diff: FileDiff | None = None
    lines = iter(patch.split("\n"))
    for line in lines:
        if line.startswith("diff --git "):
            if diff:
                yield diff
            diff = FileDiff(_path_in(line))
        elif diff is None:
            continue
        elif hunk := _HUNK.match(line):
            _read_hunk(diff, lines, *(int(part) if part is not None else 1 for part in hunk.groups()))
        else:
            _read_header(diff, line)
    if diff:
        yield diff


def _read_header(diff: FileDiff, line: str) -> None:
    word, _, rest = line.partition(" ")
    if line.startswith(("new file mode ", "new mode ")):
        diff.new, diff.mode = diff.new or (word == "new" and "file" in line), line.rpartition(" ")[2]
    elif line.startswith("deleted file mode "):
        diff.gone = True
    elif line.startswith(("rename to ", "copy to ")):
        diff.path = unquoted(rest.partition(" ")[2])
    elif word == "+++" and (name := unquoted(rest.removesuffix("\t"))) != "/dev/null":
        diff.path = name.removeprefix("b/")
    elif line == "GIT binary patch" or line.startswith("Binary files "):
        diff.binary = True


def _read_hunk(diff: FileDiff, lines: Iterator[str], before: int, old: int, after: int, new: int) -> None:
    """The lines of one hunk: `old` of them were there before, `new` are there now."""
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:
            return
        sign = line[:1]
        if sign == "+":
            diff.added.append((after, line[1:]))
        elif sign == "-":
            diff.removed.append((before, line[1:]))
        if sign == "\\":  # "\ No newline at end of file"
            continue
        before, old = before + (sign != "+"), old - (sign != "+")
        after, new = after + (sign != "-"), new - (sign != "-")


def unquoted(name: str) -> str:
    """The path that git printed, possibly in quotes and with escapes (core.quotePath)."""
    if not (len(name) > 1 and name[0] == name[-1] == '"'):
        return name
    raw = bytearray()
    at = 0
    body = name[1:-1]
    for escape in _ESCAPE.finditer(body):
        raw += body[at : escape.start()].encode("utf-8", "surrogateescape")
        sign = escape[1]
        raw += bytes([int(sign, 8)]) if len(sign) == 3 else _SIGNS.get(sign, sign).encode()
        at = escape.end()
    raw += body[at:].encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "surrogateescape")


def _path_in(line: str) -> str:
    """The path of a `diff --git` line; "" if it is ambiguous because of spaces: then a later header line names it."""
    head = _HEAD.match(line)
    if head and '"' in line:
        return unquoted(head[2]).removeprefix("b/")
    rest = line.removeprefix("diff --git ")
    half = len(rest) // 2
    first, second = rest[:half], rest[half + 1 :]
    same = re.sub(r"\Aa/", "", first) == re.sub(r"\Ab/", "", second)
    return second.removeprefix("b/") if same else ""
