"""The words of a shell text as they are written, with their offsets, for changing one. Nothing is expanded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from autoresearch.core.shell.syntax import offsets_of, parsed, text_of

_PIECE = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)
_APART = frozenset({"command_substitution", "process_substitution"})
_NO_WORDS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect", "comment", "(", ")"})


@dataclass(slots=True)
class RawWord:
    """One word and its offsets in the text."""

    text: str  # without quotes and backslashes
    start: int
    stop: int


def raw_commands(text: str) -> Iterator[list[RawWord]]:
    """The words of each command, and of each array that one may be given; not those of nested texts."""
    offsets = offsets_of(text)
    for node in _nodes(text):
        if node.type in ("command", "array"):
            words = [child for child in node.children if child.type not in _NO_WORDS]
            yield [RawWord(_unquoted(text_of(one)), offsets[one.start_byte], offsets[one.end_byte]) for one in words]


def raw_assignments(text: str) -> Iterator[tuple[str, str]]:
    """(name, value without quotes) of each variable that the text sets."""
    for node in _nodes(text):
        if node.type == "variable_assignment":
            yield text_of(node.child_by_field_name("name")), _unquoted(text_of(node.child_by_field_name("value")))


def _nodes(text: str) -> Iterator[Node]:
    """All nodes outside of substitutions."""
    root = parsed(text)
    waiting = [root] if root is not None else []
    while waiting:
        node = waiting.pop()
        if node.type not in _APART:
            yield node
            waiting += reversed(node.children)


def _unquoted(word: str) -> str:
    def piece(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        if match[2] is not None:
            return unescaped(match[2])
        return match[3].replace("\n", "")

    return _PIECE.sub(piece, word)


def unescaped(text: str) -> str:
    """What stands between double quotes, without its backslashes."""
    return re.sub(r"\\([\"\\$`\n])", lambda match: match[1].replace("\n", ""), text)
