"""Append arguments to the trainer's own command within a launch command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from autoresearch.core.shell import SHELLS, simple_commands
from autoresearch.core.text.regex import later

# Paths as words of a text: patterns for where one may begin and end. Nothing is parsed.
#
# A remote `host:/path` cannot be distinguished from a list `a:/path`: in both, /path is a path.

# Before a path: the start of the text, a separator, `file://`, or a short option without a space (-I/x); then quotes.
BEFORE = r"(?P<before>(?:^|[\s=:,;|&<>(\[{`@]|(?<=:)//|(?<=[\s\"'=]-)[A-Za-z]|(?<=^-)[A-Za-z])[\"'\\]*)"
AFTER = r"(?=$|[/\s\"'`:,;|&<>()\[\]{}#]|\\[\"'\n])"
REST = later(r"(?:[^\s\"'`:,;|&<>()\[\]{}\\]|\\[^\n\"'])*")  # the rest of a path
HOMES = ("~", "$HOME", "${HOME}")


def escaped(path: str) -> str:
    """A path with special characters escaped by backslashes, as in unquoted shell text."""
    return re.sub(r"([^\w@%+=:,./~${}-])", r"\\\1", path)


_ELSEWHERE = frozenset(["eval", "ssh", "sbatch", "nrl-k8s", "kubectl", *SHELLS])
"""Programs that start the trainer from a text or a file of their own: words appended to them do not reach it."""


def with_words(command: str, words: Sequence[str], recognises: Callable[[str], bool], *, surely: bool = False) -> str:
    """The command with these words, quoted, appended to the last simple command that is the trainer's.

    If `recognises` accepts none, they are appended to the last one that could be the trainer, unless `surely`. "" if
    they cannot be appended: `bash run.sh`, `bash -c '...'` or `COMMAND='...' sbatch ray.sub` do not pass them on.
    """
    if not words:
        return command
    own = [simple for simple in simple_commands(command) if simple.own and simple.may_train]
    known = [one for one in own if recognises(command[one.raw[0].start : one.raw[-1].stop]) or recognises(one.text)]
    trainers = known[-1:] or ([] if surely else own[-1:])
    if not trainers or not _ELSEWHERE.isdisjoint([trainers[0].name, *trainers[0].through]):
        return ""
    at = trainers[0].raw[-1].stop
    return f"{command[:at]} {shlex.join(words)}{command[at:]}"
