"""What a shell knows at one moment of a reading: variables, directory, where its output goes, what text it reads."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from autoresearch.core.shell.commands import SimpleCommand

UNKNOWN = "\0"
_SPACES = {" ": "\1", "\n": "\2", "\t": "\3"}  # inside an unknown part, which is not split into words
_HIDE, _SHOW = str.maketrans(_SPACES), str.maketrans({UNKNOWN: "", **{v: k for k, v in _SPACES.items()}})

Value = str | list[str]  # a list for an array


@dataclass(slots=True)
class Work:
    """The work of one reading, of which a text of a few lines can ask for any amount, and what was not read for it."""

    left: int = 2_000_000  # characters that are read and made, and some for each statement; a long recipe takes 35,000
    level: int = 0  # how many nodes are being followed in each other
    unread: dict[tuple[str, str], int] = field(default_factory=dict)  # (script, why) -> line

    def spend(self, work: int) -> bool:
        """Take this much; whether all is spent."""
        self.left -= work
        return self.left < 0


@dataclass(frozen=True, slots=True)
class Input:
    """What a command reads from its standard input: a text, or a file."""

    text: str = ""
    file: str = ""
    line: int = 0  # of a here-document; 0: that of the command


@dataclass(slots=True)
class Shell:
    """What a shell knows, and the text that it reads."""

    variables: dict[str, Value]
    exported: set[str]
    cwd: str | None = ""  # absolute, or relative to where the text runs; None: unknown
    arguments: list[str] = field(default_factory=list)  # of "$@"
    script: str = ""  # $0, as a path; "" outside of a script
    sources: tuple[str, ...] = ()  # BASH_SOURCE: the file that is read, and those that source it
    stack: list[str | None] = field(default_factory=list)  # of pushd
    pipefail: bool = False
    outputs: tuple[str, ...] = ()  # files that standard output goes to instead of the terminal
    stdin: Input | None = None
    sure: bool = True  # it is certain that this is run
    live: bool = True  # it may be run
    away: bool = False  # on another host
    exited: bool = False
    where: str = ""  # the script that is read; "" for the text itself
    line: int = 1  # of the first line of the text
    fixed: bool = False  # all of it is on one line of the file: a text in quotes
    depth: int = 0  # of nested texts
    parent: SimpleCommand | None = None  # the program that passes commands on
    python: bool = False  # the text stands in a Python file
    repeated: bool = False  # it is the body of a loop
    work: Work = field(default_factory=Work)  # one for all shells of a reading

    def copy(self, **changes: Any) -> Shell:
        """A shell of its own, for a subshell or a branch."""
        self.work.spend(2 * len(self.variables) + len(self.arguments))
        own = {"variables": dict(self.variables), "exported": set(self.exported), "stack": list(self.stack)}
        return replace(self, **(own | changes))

    def child(self, **changes: Any) -> Shell:
        """The shell of another program: it gets only what is exported."""
        known = {key: value for key, value in self.variables.items() if key in self.exported}
        fresh = {"variables": known, "pipefail": False, "stack": [], "exited": False, "stdin": None}
        return self.copy(**(fresh | changes))

    @contextmanager
    def having(self, **changes: Any) -> Iterator[None]:
        """This shell, with changes for a while."""
        before = {name: getattr(self, name) for name in changes}
        self._set(changes)
        yield
        self._set(before)

    def _set(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def inner(self, line: int, **changes: Any) -> dict[str, Any]:
        """The changes for reading a text that stands inside of this one, in this line."""
        return {"line": line, "fixed": True, "depth": self.depth + 1, **changes}

    def unread(self, why: str) -> None:
        """Note that a text is not read to its end."""
        self.work.unread[self.where, why] = self.line

    def merge(self, outcomes: Sequence[Shell]) -> None:
        """Continue behind branches of which nobody knows which one is taken; one that exits does not count."""
        outcomes = [one for one in outcomes if not one.exited] or outcomes[:1]
        self.work.spend(len(outcomes) * len(self.variables))
        for name in {key: None for one in outcomes for key in one.variables}:
            self.variables[name] = _merged(name, [one.variables.get(name) for one in outcomes])
        self.exported = set().union(*(one.exported for one in outcomes))
        self.cwd = outcomes[0].cwd if len({one.cwd for one in outcomes}) == 1 else None
        self.pipefail = all(one.pipefail for one in outcomes)
        self.arguments = outcomes[0].arguments

    def value(self, name: str) -> Value | None:
        """The value of a variable, or of a parameter such as `@` or `1`; None if it is unset or unknown."""
        if (n := number(name)) is not None and n > 0:
            return self.arguments[n - 1] if n <= len(self.arguments) else ""
        special: dict[str, Value | None] = {"@": self.arguments, "*": self.arguments, "#": str(len(self.arguments))}
        special |= {"0": self.script or None, "BASH_SOURCE": list(self.sources)}
        special["PWD"] = None if self.cwd is None else self.cwd or "."
        return special[name] if name in special else self.variables.get(name)

    def path(self, word: str) -> str:
        """The path of a file that a word names; "" if unknown."""
        return "" if self.away or not word or re.search(r"[*?\[\]{}]", word) else self.below(word) or ""

    def below(self, word: str) -> str | None:
        """The directory after a change to `word`; None if unknown."""
        if UNKNOWN in word or (self.cwd is None and not word.startswith("/")):
            return None
        return posixpath.normpath(posixpath.join(self.cwd or "", word)) if word else self.cwd


def _merged(name: str, values: Sequence[Value | None]) -> Value:
    first = values[0]
    if first is not None and all(value == first for value in values):
        return first
    lists = [value for value in values if isinstance(value, list)]
    if len(lists) < len(values):
        return unknown(f"${name}")
    same = [group[0] for group in zip(*lists, strict=False) if len(set(group)) == 1]
    return [*same, unknown(f"${{{name}[@]}}")]


def number(text: str) -> int | None:
    """A whole number as an index or a count; None for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def unknown(source: str) -> str:
    """A part of a word whose value is unknown, as it is written."""
    return UNKNOWN + source.translate(_HIDE)


def shown(word: str) -> str:
    """A word for readers: without marks."""
    return word.translate(_SHOW)
