"""Paths as words of a text: where one may begin, where it ends. Nothing is parsed.

A remote `host:/path` cannot be told from a list `a:/path`: both are paths.
"""

from __future__ import annotations

import re

# Before a path: the beginning, a separator, `file://`, or a short option that is glued to it (-I/x); then quotes.
BEFORE = r"(?P<before>(?:^|[\s=:,;|&<>(\[{`@]|(?<=:)//|(?<=[\s\"'=]-)[A-Za-z]|(?<=^-)[A-Za-z])[\"'\\]*)"
AFTER = r"(?=$|[/\s\"'`:,;|&<>()\[\]{}#]|\\[\"'\n])"
REST = re.compile(r"(?:[^\s\"'`:,;|&<>()\[\]{}\\]|\\[^\n\"'])*")  # what follows of one
HOMES = ("~", "$HOME", "${HOME}")


def escaped(path: str) -> str:
    """A path as a shell has it outside of quotes."""
    return re.sub(r"([^\w@%+=:,./~${}-])", r"\\\1", path)
