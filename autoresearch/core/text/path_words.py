"""Paths as words of a text: patterns for where one may begin and end. Nothing is parsed.

A remote `host:/path` cannot be distinguished from a list `a:/path`: in both, /path is a path.
"""

from __future__ import annotations

import re

# Before a path: the start of the text, a separator, `file://`, or a short option without a space (-I/x); then quotes.
BEFORE = r"(?P<before>(?:^|[\s=:,;|&<>(\[{`@]|(?<=:)//|(?<=[\s\"'=]-)[A-Za-z]|(?<=^-)[A-Za-z])[\"'\\]*)"
AFTER = r"(?=$|[/\s\"'`:,;|&<>()\[\]{}#]|\\[\"'\n])"
REST = re.compile(r"(?:[^\s\"'`:,;|&<>()\[\]{}\\]|\\[^\n\"'])*")  # the rest of a path
HOMES = ("~", "$HOME", "${HOME}")


def escaped(path: str) -> str:
    """A path with special characters escaped by backslashes, as in unquoted shell text."""
    return re.sub(r"([^\w@%+=:,./~${}-])", r"\\\1", path)
