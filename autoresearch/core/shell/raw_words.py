"""The words of a shell text as they are written, with their places, for changing one. Nothing is expanded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from autoresearch.core.shell.words import DEEPEST, brackets, offsets_of, parsed, text_of

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
    for node, offsets in _nodes(text):
        if node.type == "command":
            words = [child for child in node.children if child.type not in _NO_WORDS]
            yield [_word(child, offsets) for child in words]
        elif node.type == "array":
            yield [_word(child, offsets) for child in node.children if child.type not in _NO_WORDS]


def raw_assignments(text: str) -> Iterator[tuple[str, str]]:
    """(name, value without quotes) of each variable that the text sets."""
    for node, _ in _nodes(text):
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if node.type == "variable_assignment" and name is not None:
            yield text_of(name), unquoted(text_of(value)) if value is not None else ""


def unquoted(word: str) -> str:
    """A shell word without quotes and backslashes; nothing is expanded."""

    def piece(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        if match[2] is not None:
            return re.sub(r"\\([\"\\$`\n])", lambda m: "" if m[1] == "\n" else m[1], match[2])
        return "" if match[3] == "\n" else match[3]

    return _PIECE.sub(piece, word)


def _nodes(text: str) -> Iterator[tuple[Node, Sequence[int]]]:
    """All nodes outside of substitutions, with the offset in the text of each byte of the tree."""
    offsets, waiting = offsets_of(text), [parsed(text)] if brackets(text) <= DEEPEST else []
    while waiting:
        node = waiting.pop()
        if node.type not in _APART:
            yield node, offsets
            waiting += reversed(node.children)


def _word(node: Node, offsets: Sequence[int]) -> RawWord:
    return RawWord(unquoted(text_of(node)), offsets[node.start_byte], offsets[node.end_byte])
