"""The commands that a Python file starts, as far as they stand in it: `subprocess.run("...")`, `os.system`, lists."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Iterator

_STARTS = re.compile(r"(?i).*(?:exec|run|system|shell|cmd|command|popen|spawn|output).*|call|check_call")


def commands(text: str) -> Iterator[tuple[int, str]]:
    """(line, shell text) of each command that is written out in a call; nothing for a file that cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its escapes are not ours to complain about
            nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    named = [(one.targets[0], one.value) for one in nodes if isinstance(one, ast.Assign)]
    constants = {target.id: value for target, value in named if isinstance(target, ast.Name)}
    for node in nodes:
        if not isinstance(node, ast.Call) or not node.args:
            continue
        first, name = node.args[0], getattr(node.func, "attr", getattr(node.func, "id", ""))
        if _STARTS.fullmatch(name):
            first = constants.get(first.id, first) if isinstance(first, ast.Name) else first
            try:
                command = _command(first)
            except RecursionError:  # a sum of thousands of texts
                continue
            if command:
                yield node.lineno, command


def _command(node: ast.expr) -> str:
    """A shell text, or a list of words as one, with `$UNKNOWN` for what only the run knows; "" for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return " ".join("$UNKNOWN" if not (word := _command(item)) else shlex.quote(word) for item in items)
        case ast.JoinedStr(values=parts):
            return "".join(_command(part) or "$UNKNOWN" for part in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            texts = (_command(left), _command(right))
            return "".join(text or "$UNKNOWN" for text in texts) if any(texts) else ""
        case ast.Call(func=ast.Attribute(attr="format" | "split", value=text)):
            return _command(text)
    return ""
