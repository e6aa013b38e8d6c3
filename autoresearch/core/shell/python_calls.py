"""What Python files say of commands: those that one starts (`subprocess.run("...")`, `os.system`, lists), and the file
of a program that the project's own package installs.
"""

from __future__ import annotations

import ast
import contextlib
import posixpath
import shlex
from collections.abc import Iterator
from functools import lru_cache

from autoresearch.core.shell.commands import OpenText
from autoresearch.core.text.python_text import called_name, syntax_tree
from autoresearch.core.text.regex import later

_PACKAGED = ("pyproject.toml", "setup.cfg", "setup.py")  # they name the programs of a package
_ENTRY = later(r"""(?<![\w.-])([A-Za-z][\w.-]*)["']?\s*=\s*["']?([\w.]+):\w+""")
_STARTS = later(r"(?i).*(?:exec|run|system|shell|cmd|command|popen|spawn|output).*|call|check_call")


@lru_cache(maxsize=64)
def commands(text: str) -> tuple[tuple[int, str], ...]:
    """(line, shell text) of each command that is written out in a call; nothing for a file that cannot be parsed."""
    return tuple(_commands(text))


def _commands(text: str) -> Iterator[tuple[int, str]]:
    tree = syntax_tree(text)
    nodes = list(ast.walk(tree)) if tree else []
    named = [(one.targets[0], one.value) for one in nodes if isinstance(one, ast.Assign)]
    constants = {target.id: value for target, value in named if isinstance(target, ast.Name)}
    for node in nodes:
        if not isinstance(node, ast.Call) or not node.args:
            continue
        first = node.args[0]
        if _STARTS.fullmatch(called_name(node.func)):
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


def entry_points(base: str, open_text: OpenText) -> dict[str, str]:
    """Name of a program -> the file behind it, by `[project.scripts]` of the package in `base`."""
    found: dict[str, str] = {}
    for file in _PACKAGED:
        with contextlib.suppress(OSError, ValueError):
            for name, module in _ENTRY.findall(open_text(posixpath.join(base, file))):
                found.setdefault(name, f"{module.replace('.', '/')}.py")
    return found
