"""Expands the words of a shell text: quotes, variables, defaults, arrays, sums of known numbers.

A part whose value is unknown stays as it is written, behind a mark (`UNKNOWN`), and so does all that is made of it:
`X=$U/a; bash $X/b` starts `$U/a/b`.
"""

from __future__ import annotations

import ast
import fnmatch
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from autoresearch.core.shell.shell import UNKNOWN, Shell, Value, number, unknown
from autoresearch.core.text.python_text import expression
from autoresearch.core.text.regex import later

# The syntax tree of a shell text, by tree-sitter: its nodes, their sources and their offsets.

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


# The words of a shell text as they are written, with their offsets, for changing one. Nothing is expanded.

_PIECE = later(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)
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


_ANSI = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod},
}
_EXPANSIONS = frozenset({"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"})
_QUOTED = frozenset({"string", "raw_string", "ansi_c_string", "concatenation"})
WORDS = _EXPANSIONS | _QUOTED | {"translated_string", "process_substitution", "word", "number", "brace_expression"}
"""The types of the nodes that are words."""
_LONGEST = 500  # characters of a sum, and of a value that a pattern is compared with
_TARGETS = ("variable_name", "special_variable_name", "subscript")


@dataclass(frozen=True, slots=True)
class WordExpander:
    """Expands words. `substitute`: what a command substitution prints, with `UNKNOWN` if unknown."""

    substitute: Callable[[Node, Shell], str]

    def all_of(self, nodes: Sequence[Node], shell: Shell) -> list[str]:
        """The words that these nodes become."""
        return [word for node in nodes for word in self.of(node, shell)]

    def one(self, node: Node | None, shell: Shell) -> str:
        """The text that a node becomes in an assignment or a redirection, where nothing is split."""
        return "" if node is None else " ".join(self.of(node, shell, split=False))

    def of(self, node: Node, shell: Shell, *, split: bool = True) -> list[str]:
        """The words that a node becomes: none for an empty array, several for `$@`."""
        source = text_of(node)
        if shell.work.spend(20 + len(source)):
            return [unknown(source)]
        if shell.work.level > DEEPEST:
            shell.unread("it is nested too deeply")
            return [unknown(source)]
        shell.work.level += 1
        try:
            words = self._words(node, source, shell, split=split)
        finally:
            shell.work.level -= 1
        shell.work.spend(sum(map(len, words)) + len(words))
        return words

    def _words(self, node: Node, source: str, shell: Shell, *, split: bool) -> list[str]:
        match node.type:
            case "raw_string":
                return [source[1:-1]]
            case "ansi_c_string":
                return [re.sub(r"\\(.)", lambda m: _ANSI.get(m[1], m[0]), source[2:-1])]
            case "string" | "translated_string":
                start = node.start_byte + source.index('"') + 1
                stop = node.end_byte - source.endswith('"')
                empty = not node.children or start == stop  # `"${A[@]}"` of an empty array is no word, and "" is one
                return self._mixed(node, start, stop, shell) or ([""] if empty or not _expands(node) else [])
            case "concatenation":
                words: list[str] = []
                for child in node.children:
                    words = _joined(words, self.of(child, shell, split=split), shell)
                return words
            case kind if kind in _EXPANSIONS:
                values = self._values(node, source, shell)
                return [word for value in values for word in value.split()] if split else values
            case "process_substitution":
                self.substitute(node, shell)
                return [unknown(source)]
        home = shell.value("HOME")
        if (source == "~" or source.startswith("~/")) and isinstance(home, str):
            return [home + source[1:]]
        return [re.sub(r"\\(.|\n)", lambda m: m[1].replace("\n", ""), source)]

    def _mixed(self, node: Node, start: int, stop: int, shell: Shell) -> list[str]:
        """The words of a part of a node's source: text with expansions in it."""
        words, at = list[str](), start
        for child in [*(one for one in node.children if one.start_byte >= start), None]:
            if child is not None and child.type not in _EXPANSIONS | _QUOTED:
                continue
            text = unescaped(decoded(between(node, at, stop if child is None else child.start_byte)))
            words = _joined(words, [text] if text else [], shell)
            if child is not None:
                words = _joined(words, self.of(child, shell, split=False), shell)
                at = child.end_byte
        return words

    def _values(self, node: Node, source: str, shell: Shell) -> list[str]:
        """The values of an expansion."""
        if node.type == "arithmetic_expansion" or source.startswith("$(("):  # the parser takes some for subshells
            known = arithmetic(source.removeprefix("$((").removesuffix("))"), shell)
            return [unknown(source) if known is None else known]
        if node.type == "command_substitution":
            return [self.substitute(node, shell)]
        if node.type == "expansion":
            return self._braced(node, source, shell)
        value = shell.value(source[1:])
        return [unknown(source)] if value is None else _words_of(value, every=source[1:] in ("@", "*"))

    def _braced(self, node: Node, source: str, shell: Shell) -> list[str]:
        """`${NAME}` with its operators."""
        at = next((n for n, child in enumerate(node.children) if child.type in _TARGETS), None)
        if at is None or node.children[1].type == "!":
            return [unknown(source)]
        name, _, index = text_of(node.children[at]).partition("[")
        value, every = shell.value(name), index in ("@]", "*]") or name in ("@", "*")
        if index and not every and isinstance(value, list):
            n = number(arithmetic(index[:-1], shell) or "")
            value = value[n] if n is not None and n < len(value) else None
        if node.children[1].type == "#":
            return [unknown(source) if value is None else str(len(value))]
        rest = [child for child in node.children[at + 1 :] if child.type != "}"]
        action = text_of(rest[0]) if rest else ""
        other = " ".join(self._mixed(node, rest[0].end_byte, node.end_byte - 1, shell)) if rest else ""
        empty = value is None or (action.startswith(":") and not value)
        if action in (":-", "-", ":=", "="):
            if empty and action.endswith("="):
                shell.variables[name] = other
            return [other] if empty else _words_of(value or "", every=every)
        if action in (":+", "+"):
            return [] if empty else [other]
        if value is None or (
            rest and not isinstance(value, str) and not (action == ":" and number(other.strip()) is not None)
        ):
            return [unknown(source)]
        if not rest:
            return _words_of(value, every=every)
        if isinstance(value, list):  # `${@:2}` counts from 1, `${A[@]:2}` from 0
            return value[max(int(other) - (name in "@*"), 0) :]
        changed = value if UNKNOWN in value else _changed(value, action, other)
        return [unknown(source) if changed is None else changed]


def arithmetic(source: str, shell: Shell) -> str | None:
    """The value of a sum or product of known whole numbers; None for anything else.

    Public recipes of verl and slime set lengths and numbers of GPUs so: `max_response_length=$((1024 * 8))`.
    """

    def known(match: re.Match[str]) -> str:
        value = shell.value(match[1])
        return value if isinstance(value, str) and number(value) is not None else "?"

    def evaluated(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -evaluated(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](evaluated(node.left), evaluated(node.right))
        raise ValueError(ast.dump(node))

    bare = re.sub(r"\$?\{?([A-Za-z_]\w*|(?<=[${])\d+)\}?", known, source[: _LONGEST + 1])
    if len(source) > _LONGEST or not re.fullmatch(r"[\d\s()+*/%-]+", bare) or re.search(r"\*\s*\*|/\s*/", bare):
        return None
    try:
        return str(evaluated(expression(bare.strip().replace("/", "//"))))
    except (SyntaxError, ValueError, ArithmeticError, MemoryError):
        return None


def _expands(node: Node) -> bool:
    return any(child.type in _EXPANSIONS for child in node.children)


def _joined(before: list[str], after: list[str], shell: Shell) -> list[str]:
    """Two parts of one word, each of which may be several words."""
    shell.work.spend(len(before) + len(before[-1] if before else ""))
    return [*before[:-1], before[-1] + after[0], *after[1:]] if before and after else before or after


def _words_of(value: Value, *, every: bool) -> list[str]:
    if isinstance(value, str):
        return [value]
    return list(value) if every else value[:1]


def _changed(value: str, action: str, other: str) -> str | None:
    """The value after `%`, `#`, `/`, `:`, `^^` or `,,` of an expansion; None for anything else."""
    if action in ("%", "%%", "#", "##") and len(value) + len(other) <= _LONGEST:
        whole = range(len(value) + 1)
        for at in whole if action in ("%%", "#") else reversed(whole):
            part, rest = (value[at:], value[:at]) if action[0] == "%" else (value[:at], value[at:])
            if fnmatch.fnmatchcase(part, other):
                return rest
        return value
    if action in ("/", "//") and not re.search(r"[*?\[]", other):
        old, _, new = other.partition("/")
        return value.replace(old, new, 1 if action == "/" else -1) if old else value
    if action in ("^^", ",,"):
        return value.upper() if action == "^^" else value.lower()
    if action == ":" and (cut := re.fullmatch(r"\s*(\d{1,9})\s*(?::\s*(\d{1,9})\s*)?", other)):
        return value[int(cut[1]) :][: int(cut[2]) if cut[2] else None]
    return value if action in (":?", "?") else None
