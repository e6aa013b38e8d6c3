"""The syntax tree of a shell text, by tree-sitter: its nodes, their sources and their offsets."""

from __future__ import annotations

import re
from collections.abc import Sequence

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_BASH = Language(tree_sitter_bash.language())
_NO_SPACE, _AS_SPACE = {0x85: 0x1C, 0xA0: 0x1D}, {0x1C: 0x85, 0x1D: 0xA0}  # bytes that would be spaces in Latin-1
DEEPEST = 100  # brackets, and nodes of syntax trees, in each other; those of nested texts, functions and scripts too


def parsed(text: str) -> Node | None:
    """The root of the syntax tree of a text; None for one with so many open brackets that the parser takes minutes."""
    depth = 0
    for bracket in re.findall(r"[][(){}]", text):
        depth = max(depth + (1 if bracket in "([{" else -1), 0)
        if depth > DEEPEST:
            return None
    return Parser(_BASH).parse(_encoded(text)).root_node


def _encoded(text: str) -> bytes:
    """The text as the parser gets it; `decoded` undoes this.

    Its scanner asks C's `isalpha` of every character and crashes at some beyond Latin-1 (tree-sitter-bash#337), so it
    is given the bytes of UTF-8 as characters of their own.
    """
    data = text.encode("utf-8", "replace")
    return data if data.isascii() else data.decode("latin-1").translate(_NO_SPACE).encode()


def decoded(data: bytes) -> str:
    """A part of a syntax tree's source as text."""
    if data.isascii():
        return data.decode()
    return data.decode("utf-8", "replace").translate(_AS_SPACE).encode("latin-1", "replace").decode("utf-8", "replace")


def text_of(node: Node | None) -> str:
    """The source of a node; "" for none."""
    return decoded(node.text or b"") if node is not None else ""


def offsets_of(text: str) -> Sequence[int]:
    """The offset in a text of each byte that its syntax tree counts."""
    if text.isascii():
        return range(len(text) + 1)
    return [*(n for n, char in enumerate(text) for _ in _encoded(char)), len(text)]


def between(node: Node, start: int, stop: int) -> bytes:
    """The source of a node from one byte of the whole text to another."""
    return (node.text or b"")[start - node.start_byte : stop - node.start_byte]
