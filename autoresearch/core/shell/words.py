"""Expands the words of a shell text: quotes, variables, defaults, arrays, sums of known numbers.

A part whose value is unknown stays as it is written, behind a mark (`UNKNOWN`), and so does all that is made of it:
`X=$U/a; bash $X/b` starts `$U/a/b`.
"""

from __future__ import annotations

import ast
import fnmatch
import operator
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_BASH = Language(tree_sitter_bash.language())
UNKNOWN = "\0"
DEEPEST = 100  # nodes of syntax trees in each other, those of nested texts, functions and scripts too
_NO_SPACE, _AS_SPACE = {0x85: 0x1C, 0xA0: 0x1D}, {0x1C: 0x85, 0x1D: 0xA0}  # bytes that would be spaces in Latin-1
_SPACES = {" ": "\1", "\n": "\2", "\t": "\3"}  # inside an unknown part, which is not split into words
_HIDE, _SHOW = str.maketrans(_SPACES), str.maketrans({UNKNOWN: "", **{v: k for k, v in _SPACES.items()}})
_ANSI = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod},
}
_EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")
_LONGEST_CUT = 500  # characters of a value that a pattern is compared with
_TARGETS = ("variable_name", "special_variable_name", "subscript")

Value = str | list[str]  # a list for an array


@dataclass(slots=True)
class Budget:
    """The work of one reading: a text of a few lines can ask for any amount of it."""

    left: int = 2_000_000  # characters that are read and made, and some for each statement; a long recipe takes 35,000

    def spend(self, work: int) -> bool:
        """Take this much; whether all is spent."""
        self.left -= work
        return self.left < 0


@dataclass(slots=True)
class Scope:
    """What a shell knows at one moment."""

    variables: dict[str, Value]
    exported: set[str]
    cwd: str | None = ""  # absolute, or relative to where the text runs; None: unknown
    arguments: list[str] = field(default_factory=list)  # of "$@"
    script: str = ""  # $0, as a path; "" outside of a script
    sources: tuple[str, ...] = ()  # BASH_SOURCE: the file that is read, and those that source it
    pipefail: bool = False
    outputs: tuple[str, ...] = ()  # files that standard output goes to instead of the terminal
    sure: bool = True  # it is certain that this is run
    live: bool = True  # it may be run
    away: bool = False  # on another host
    exited: bool = False
    stack: list[str | None] = field(default_factory=list)  # of pushd
    budget: Budget = field(default_factory=Budget)  # one for all scopes of a reading

    def copy(self, **changes: object) -> Scope:
        """A scope of its own, for a subshell or a branch."""
        self.budget.spend(2 * len(self.variables) + len(self.arguments))
        own = replace(self, variables=dict(self.variables), exported=set(self.exported), stack=list(self.stack))
        for name, value in changes.items():
            setattr(own, name, value)
        return own

    def child(self, **changes: object) -> Scope:
        """The scope of another program: it gets only what is exported."""
        return self.copy(
            variables={key: value for key, value in self.variables.items() if key in self.exported},
            **{"pipefail": False, "stack": [], "exited": False, **changes},
        )

    def merge(self, outcomes: Sequence[Scope]) -> None:
        """Continue behind branches of which nobody knows which one is taken; one that exits does not count."""
        outcomes = [one for one in outcomes if not one.exited] or list(outcomes)[:1]
        self.budget.spend(len(outcomes) * len(self.variables))
        for name in {key: None for one in outcomes for key in one.variables}:
            values = [one.variables.get(name) for one in outcomes]
            self.variables[name] = _merged(name, values)
        self.exported = set().union(*(one.exported for one in outcomes))
        self.cwd = outcomes[0].cwd if len({one.cwd for one in outcomes}) == 1 else None
        self.pipefail = all(one.pipefail for one in outcomes)
        self.arguments = outcomes[0].arguments

    def value(self, name: str) -> Value | None:
        """The value of a variable, or of a parameter such as `@` or `1`; None if it is unset or unknown."""
        if name in ("@", "*"):
            return self.arguments
        if name == "#":
            return str(len(self.arguments))
        if name == "0":
            return self.script or None
        if name == "BASH_SOURCE":
            return list(self.sources)
        if (n := number(name)) is not None:
            return self.arguments[n - 1] if 0 < n <= len(self.arguments) else ""
        if name == "PWD":
            return None if self.cwd is None else self.cwd or "."
        return self.variables.get(name)

    def path(self, word: str, cwd: str | None) -> str:
        """The path of a file that a word names; "" if unknown."""
        if self.away or UNKNOWN in word or re.search(r"[*?\[\]{}]", word) or (cwd is None and word[:1] != "/"):
            return ""
        return posixpath.normpath(posixpath.join(cwd or "", word)) if word else ""

    def below(self, cwd: str | None, word: str) -> str | None:
        """The directory after a change to `word`; None if unknown."""
        if UNKNOWN in word or (cwd is None and not word.startswith("/")):
            return None
        return posixpath.normpath(posixpath.join(cwd or "", word)) if word else cwd


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


def parsed(text: str) -> Node:
    """The root of the syntax tree of a text."""
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


def text_of(node: Node) -> str:
    """The source of a node."""
    return decoded(node.text or b"")


def offsets_of(text: str) -> Sequence[int]:
    """The offset in a text of each byte that its syntax tree counts."""
    if text.isascii():
        return range(len(text) + 1)
    return [*(n for n, char in enumerate(text) for _ in _encoded(char)), len(text)]


def brackets(text: str) -> int:
    """How many brackets are open at once, at most; of thousands the parser takes minutes."""
    depth = deepest = 0
    for bracket in re.findall(r"[][(){}]", text):
        depth = max(depth + (1 if bracket in "([{" else -1), 0)
        deepest = max(deepest, depth)
    return deepest


def depth_of(node: Node, most: int) -> int:
    """How deep a syntax tree is below a node, counted no further than `most` + 1."""
    cursor, depth, deepest = node.walk(), 0, 0
    while deepest <= most:
        if cursor.goto_first_child():
            depth += 1
            deepest = max(deepest, depth)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return deepest
            depth -= 1
    return deepest


@dataclass(frozen=True, slots=True)
class WordExpander:
    """Expands words in a scope. `output`: what a command substitution prints, with `UNKNOWN` if unknown."""

    scope: Scope
    output: Callable[[Node, Scope], str]

    def all_of(self, nodes: Sequence[Node]) -> list[str]:
        """The words that these nodes become."""
        return [word for node in nodes for word in self.of(node)]

    def one(self, node: Node | None) -> str:
        """The text that a node becomes in an assignment or a redirection, where nothing is split."""
        return "" if node is None else " ".join(self.of(node, split=False))

    def of(self, node: Node, *, split: bool = True) -> list[str]:
        """The words that a node becomes: none for an empty array, several for `$@`."""
        source = text_of(node)
        if self.scope.budget.spend(20 + len(source)):
            return [unknown(source)]
        match node.type:
            case "raw_string":
                return [source[1:-1]]
            case "ansi_c_string":
                return [re.sub(r"\\(.)", lambda m: _ANSI.get(m[1], m[0]), source[2:-1])]
            case "string" | "translated_string":
                return self._inside(node)
            case "concatenation":
                found: list[str] = []
                for child in node.children:
                    found = self._joined(found, self.of(child, split=split))
                return found
            case kind if kind in _EXPANSIONS:
                values = self._expanded(node)
                return [word for value in values for word in value.split()] if split else values
            case "process_substitution":
                self.output(node, self.scope)
                return [unknown(source)]
            case _:
                home = self.scope.value("HOME")
                if (source == "~" or source.startswith("~/")) and isinstance(home, str):
                    return [home + source[1:]]
                return [re.sub(r"\\(.|\n)", lambda m: "" if m[1] == "\n" else m[1], source)]

    def _inside(self, node: Node) -> list[str]:
        """The words of quoted text."""
        data = node.text or b""
        start = at = data.index(b'"') + 1
        stop, found, literal = len(data) - data.endswith(b'"'), list[str](), False
        for child in node.children:
            if child.type not in _EXPANSIONS:
                continue
            text = _unescaped(data[at : child.start_byte - node.start_byte])
            literal = literal or bool(text)
            found = self._joined(self._joined(found, [text] if text else []), self._expanded(child))
            at = child.end_byte - node.start_byte
        rest = _unescaped(data[at:stop])
        if rest or not found:
            empty = not literal and at > start and not rest  # `"${A[@]}"` of an empty array is no word
            found = self._joined(found, [] if empty else [rest])
        return found

    def _joined(self, before: list[str], after: list[str]) -> list[str]:
        """Two parts of one word, each of which may be several words."""
        self.scope.budget.spend(len(before) + len(before[-1] if before else ""))
        return [*before[:-1], before[-1] + after[0], *after[1:]] if before and after else before or after

    def arithmetic(self, source: str) -> str | None:
        """The value of a sum or product of known whole numbers; None for anything else.

        Public recipes of verl and slime set lengths and numbers of GPUs so: `max_response_length=$((1024 * 8))`.
        """

        def known(match: re.Match[str]) -> str:
            value = self.scope.value(match[1])
            return value if isinstance(value, str) and number(value) is not None else "?"

        bare = re.sub(r"\$?\{?([A-Za-z_]\w*|(?<=[${])\d+)\}?", known, source[:500])
        if len(source) > 500 or not re.fullmatch(r"[\d\s()+*/%-]+", bare) or re.search(r"\*\s*\*|/\s*/", bare):
            return None
        try:
            return str(_evaluated(ast.parse(bare.strip().replace("/", "//"), mode="eval").body))
        except (SyntaxError, ValueError, ArithmeticError, MemoryError):
            return None

    def _expanded(self, node: Node) -> list[str]:
        """The values of an expansion."""
        values = self._values(node)
        return [unknown(text_of(node))] if self.scope.budget.spend(sum(map(len, values)) + len(values)) else values

    def _values(self, node: Node) -> list[str]:
        source = text_of(node)
        if node.type == "arithmetic_expansion" or source.startswith("$(("):  # the parser takes some for subshells
            value = self.arithmetic(source.removeprefix("$((").removesuffix("))"))
            return [unknown(source) if value is None else value]
        if node.type == "command_substitution":
            return [self.output(node, self.scope)]
        if node.type == "simple_expansion":
            value_or_none = self.scope.value(source[1:])
            return [unknown(source)] if value_or_none is None else _words_of(value_or_none, every=source[1:] in "@*")
        return self._braced(node, source)

    def _braced(self, node: Node, source: str) -> list[str]:
        """`${NAME}` with its operators."""
        at = next((n for n, child in enumerate(node.children) if child.type in _TARGETS), None)
        if at is None or node.children[1].type == "!":
            return [unknown(source)]
        name, _, index = text_of(node.children[at]).partition("[")
        value, every = self.scope.value(name), index in ("@]", "*]") or name in ("@", "*")
        if index and not every and isinstance(value, list):
            n = number(self.arithmetic(index[:-1]) or "")
            value = value[n] if n is not None and n < len(value) else None
        if node.children[1].type == "#":
            return [unknown(source) if value is None else str(len(value))]
        rest = [child for child in node.children[at + 1 :] if child.type != "}"]
        if not rest:
            return [unknown(source)] if value is None else _words_of(value, every=every)
        action, other = text_of(rest[0]), self._other(node, rest)
        empty = value is None or (action.startswith(":") and not value)
        if action in (":-", "-", ":=", "="):
            if empty and action.endswith("="):
                self.scope.variables[name] = other
            return [other] if empty else _words_of(value or "", every=every)
        if action in (":+", "+"):
            return [] if empty else [other]
        if value is None or isinstance(value, list) or UNKNOWN in value:
            cut = other.strip()
            if isinstance(value, list) and action == ":" and (n := number(cut)) is not None:
                return value[max(n - (name in "@*"), 0) :]
            return [unknown(source)] if value is None or isinstance(value, list) else [UNKNOWN + value]
        changed = _changed(value, action, other)
        return [unknown(source) if changed is None else changed]

    def _other(self, node: Node, rest: Sequence[Node]) -> str:
        """The text behind the operator of an expansion."""
        data, at, text = node.text or b"", rest[0].end_byte - node.start_byte, ""
        for child in rest[1:]:
            text += decoded(data[at : child.start_byte - node.start_byte])
            text += " ".join(self.of(child, split=False))
            at = child.end_byte - node.start_byte
        return text + decoded(data[at : len(data) - 1])


def _words_of(value: Value, *, every: bool) -> list[str]:
    if isinstance(value, str):
        return [value]
    return list(value) if every else value[:1]


def _changed(value: str, action: str, other: str) -> str | None:
    """The value after `%`, `#`, `/`, `:`, `^^` or `,,` of an expansion; None for anything else."""
    if action in ("%", "%%", "#", "##"):
        if len(value) + len(other) > _LONGEST_CUT:
            return None
        cuts = range(len(value) + 1) if action in ("%%", "#") else range(len(value), -1, -1)
        for at in cuts:
            part = value[at:] if action[0] == "%" else value[:at]
            if fnmatch.fnmatchcase(part, other):
                return value[:at] if action[0] == "%" else value[at:]
        return value
    if action in ("/", "//") and not re.search(r"[*?\[]", other):
        old, _, new = other.partition("/")
        return value.replace(old, new, 1 if action == "/" else -1) if old else value
    if action in ("^^", ",,"):
        return value.upper() if action == "^^" else value.lower()
    if action == ":" and (cut := re.fullmatch(r"\s*(\d{1,9})\s*(?::\s*(\d{1,9})\s*)?", other)):
        return value[int(cut[1]) :][: int(cut[2]) if cut[2] else None]
    return value if action in (":?", "?") else None


def _unescaped(data: bytes) -> str:
    text = decoded(data)
    return re.sub(r"\\([\"\\$`\n])", lambda m: "" if m[1] == "\n" else m[1], text)


def _evaluated(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluated(node.left), _evaluated(node.right))
    raise ValueError(ast.dump(node))
