"""What a reading of a shell text finds: commands, and the scripts that they start."""

from __future__ import annotations

import contextlib
import errno
import posixpath
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autoresearch.core.shell.programs import ELSEWHERE, base, may_train
from autoresearch.core.text.regex import later

ABSENT, DIRECTORY = "No such file or directory", "Is a directory"  # why a script has no text, as the system says it
_SWAP = later(
    r"s([#|/,])([\w./()|^$-]{1,100})\1([\w./-]*)\1(g?)"
)  # of sed; a search with repeats may take for ever

OpenText = Callable[[str], str]
"""The text of the file at a path. Raises OSError."""


@dataclass(slots=True)
class SimpleCommand:
    """One simple command. What is unknown in its words stays as it is written, with its `$`."""

    words: list[str]  # without quotes, expanded
    argv: list[str]  # from the program on: without assignments, sudo, `env`, `uv run`
    line: int
    where: str = ""  # the script that holds it; "" for the text itself
    end: str = ""  # the operator behind it: | |& && || & or ""
    depth: int = 0  # 0: the text itself, or a script; more: inside `bash -c '...'`, `$(...)`, `ssh host '...'`
    start: int = 0  # offset of its first word in the text; 0 in scripts and nested texts
    stop: int = 0  # offset after its last word
    cwd: str | None = ""
    environment: dict[str, str] = field(default_factory=dict)  # assignments before it
    outputs: tuple[str, ...] = ()  # files that its output goes to
    pipefail: bool = False
    live: bool = True  # False: in a branch that is not taken, or in a function that nobody calls
    parent: SimpleCommand | None = None  # the program that passes it on: `ray job submit -- X`, `sbatch x.sub`, ssh
    python: bool = False  # started by a Python file
    repeated: bool = False  # by a loop that goes round more than once, as far as is known
    sure: bool = True  # it is in no branch, and in no text inside the text

    @property
    def name(self) -> str:
        """The program name without directories; "" if there is none."""
        return base(self.argv[0]) if self.argv else ""

    @property
    def text(self) -> str:
        """The program and its arguments, behind its own variables, as a shell text with nothing left to expand."""
        return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in self.environment.items()), shlex.join(self.argv)])

    @property
    def elsewhere(self) -> bool:
        """Whether it may run on another machine than the text: submitted to Slurm or Kubernetes, or by ssh."""
        return self.parent is not None and (self.parent.name in ELSEWHERE or self.parent.elsewhere)

    @property
    def may_train(self) -> bool:
        """Whether it could be the trainer."""
        return may_train(self.argv)


@dataclass(frozen=True, slots=True)
class Script:
    """A script that a text starts or sources, and its text; `text` is None if it was not read, and `why` says why."""

    name: str  # as written, without unknown parts
    path: str  # absolute, or relative to the directory where the text runs; "" if unknown
    line: int
    cwd: str | None = ""
    must: bool = False  # it must exist on the host before the text is run
    nested: bool = False  # started by another script
    kind: str = "shell"  # shell, make, python, or "" for what may be any program
    where: str = ""  # the path for people: relative to where the text runs, if it is below
    text: str | None = None
    why: str = ""
    has_py: bool = False  # it is not there, but a file of its name with .py is


@dataclass(frozen=True, slots=True)
class ShellReading:
    """The commands of a text and of its scripts, in the order in which they would be run."""

    text: str
    commands: tuple[SimpleCommand, ...]
    scripts: tuple[Script, ...]

    @property
    def own(self) -> tuple[SimpleCommand, ...]:
        """The commands of the text itself, without those of nested texts and scripts."""
        return tuple(one for one in self.commands if not one.depth and not one.where)

    @property
    def programs(self) -> tuple[Script, ...]:
        """The Python programs that it starts, with their texts."""
        return tuple(one for one in self.scripts if one.kind == "python" and one.text is not None)

    def trainer(self, recognises: Callable[[str], bool]) -> SimpleCommand | None:
        """The command that starts the trainer; None if none is recognised.

        The last one, as others prepare; one in a Python file only if there is no other; a whole `ray job submit`.
        """
        known = [one for one in self.commands if one.live and one.may_train and recognises(one.text)]
        last = ([one for one in known if not one.python] or known)[-1:]
        if not last:
            return None
        parent, argv = last[0].parent, last[0].argv
        return parent if parent is not None and parent.name == "ray" and parent.argv[-len(argv) :] == argv else last[0]


def no_file(path: str) -> str:
    """For a text whose scripts are not read."""
    raise FileNotFoundError(errno.ENOENT, ABSENT, path)


def printed(commands: Sequence[SimpleCommand], inside: str | None, cwd: str | None) -> str | None:
    """What a command substitution prints, if it is about paths: `pwd`, `dirname X`, `echo X`; None if unknown.

    inside: the directory behind its commands. cwd: that around it.
    """
    if not commands:
        return None
    last = commands[-1]
    if last.name == "pwd" and all(one.name in ("cd", "pushd", "set") for one in commands[:-1]):
        return inside if inside is None else inside or "."
    if [one.name for one in commands] == ["echo", "sed"]:
        text, swap = " ".join(commands[0].argv[1:]), _SWAP.fullmatch(last.argv[-1])
        with contextlib.suppress(re.error):
            if "$" not in text and swap and ({"-E", "-r"} & set(last.argv) or not set("()|") & set(swap[2])):
                return re.sub(swap[2], lambda _: swap[3], text, count=0 if swap[4] else 1)
    words = [word for word in last.argv[1:] if not re.match(r"--?[a-z]*\Z", word)]
    if len(commands) > 1 or not words or any("$" in word or "`" in word for word in words):
        return None
    if last.name == "dirname":
        return posixpath.dirname(words[0]) or "."
    if last.name == "basename":
        return base(words[0].rstrip("/")).removesuffix(words[1] if len(words) > 1 else "\n")
    if last.name in ("realpath", "readlink") and cwd is not None:
        return posixpath.normpath(posixpath.join(cwd, words[0]))
    return " ".join(words) if last.name == "echo" and last.end == "" else None
