"""What small commands come to where all values are known: the outcome of `[ ... ]`, the output of `$(dirname X)`."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Sequence

from tree_sitter import Node

from autoresearch.core.shell.commands import SimpleCommand
from autoresearch.core.shell.programs import base
from autoresearch.core.shell.words import UNKNOWN, WordExpander, text_of

_SWAP = re.compile(r"s([#|/,])(.{1,100}?)\1([\w./-]*)\1(g?)")  # of sed, without groups in the replacement


def is_test(node: Node) -> bool:
    """Whether a statement only tests something."""
    if node.type in ("list", "negated_command"):
        node = node.children[-1]
    return node.type == "test_command" or text_of(node).split(None, 1)[:1] == ["test"]


def substitutions(node: Node) -> list[Node]:
    """The command substitutions of a test."""
    found: list[Node] = []
    for child in node.children:
        if child.type in ("command_substitution", "string", "concatenation"):
            found.append(child)
        else:
            found += substitutions(child)
    return found


def holds(node: Node, expander: WordExpander) -> bool | None:
    """The outcome of the expression of a test; an unset variable is empty. None if unknown."""
    if node.type == "parenthesized_expression":
        return holds(node.children[1], expander)
    if node.type == "unary_expression":
        operator = text_of(node.children[0])
        if operator == "!":
            inner = holds(node.children[-1], expander)
            return None if inner is None else not inner
        value = _operand(node.children[-1], expander) if operator in ("-z", "-n") else None
        return None if value is None else (value == "") == (operator == "-z")
    if node.type != "binary_expression" or len(node.children) < 3:
        return None
    operator = text_of(node.children[1])
    if operator in ("&&", "||", "-a", "-o"):
        both = [holds(node.children[0], expander), holds(node.children[-1], expander)]
        if (operator in ("||", "-o")) in both:
            return operator in ("||", "-o")
        return None if None in both else bool(both[0])
    left, right = _operand(node.children[0], expander), _operand(node.children[-1], expander)
    if left is None or right is None:
        return None
    if operator in ("==", "=", "!="):
        return fnmatch.fnmatchcase(left, right) == (operator != "!=")
    numbers = [int(text) if re.fullmatch(r"-?\d+", text) else None for text in (left, right)]
    if numbers[0] is None or numbers[1] is None:
        return None
    a, b = numbers[0], numbers[1]
    outcomes = {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}
    return outcomes.get(operator)


def _operand(node: Node, expander: WordExpander) -> str | None:
    value = expander.one(node)
    if UNKNOWN not in value:
        return value
    bare = re.fullmatch(r"\"?\$\{?(\w+)\}?\"?", text_of(node))
    return "" if bare and bare[1] not in expander.scope.variables and not bare[1].isdecimal() else None


def printed(commands: Sequence[SimpleCommand], inside: str | None, cwd: str | None) -> str | None:
    """What a command substitution prints, if it is about paths: `pwd`, `dirname X`, `echo X`; None if unknown.

    inside: the directory behind its commands. cwd: that around it.
    """
    if not commands:
        return None
    last = commands[-1]
    if last.name == "pwd" and all(one.name in ("cd", "pushd", "set") for one in commands[:-1]):
        return inside if inside is None else inside or "."
    if [one.name for one in commands] == ["echo", "sed"] and (swap := _SWAP.fullmatch(last.argv[-1])):
        text = " ".join(commands[0].argv[1:])
        return None if "$" in text else _swapped(text, swap, extended=bool({"-E", "-r"} & set(last.argv)))
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


def _swapped(text: str, swap: re.Match[str], *, extended: bool) -> str | None:
    """What `sed s/A/B/` makes of a text; None for a basic regular expression, whose syntax is another."""
    pattern = swap[2] if extended else re.escape(swap[2])
    if len(text) > 500 or (not extended and not re.fullmatch(r"[\w./-]+", swap[2])):
        return None
    try:
        return re.sub(pattern, lambda _: swap[3], text, count=0 if swap[4] else 1)
    except re.error:
        return None
