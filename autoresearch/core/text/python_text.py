"""The text of a Python program as its syntax tree: nothing of it is run."""

from __future__ import annotations

import ast
import warnings
from _thread import allocate_lock

_ONE = allocate_lock()


def _parsed(text: str, mode: str) -> ast.AST:
    """One thread at a time: CPython 3.11 counts the depth of all trees in one place, and raises SystemError."""
    with _ONE, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes, which are not ours to complain about
        return ast.parse(text, mode=mode)


def expression(text: str) -> ast.expr:
    """The tree of one expression; raises what `ast.parse` raises."""
    tree = _parsed(text, "eval")
    assert isinstance(tree, ast.Expression)
    return tree.body


def syntax_tree(text: str) -> ast.Module | None:
    """The tree of a program; None for a text that is no Python of today, or that is nested too deeply."""
    try:
        tree = _parsed(text, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, ast.Module) else None


def called_name(function: ast.AST) -> str:
    """The last part of the name of a function, or of any variable: `write` of `log.write`; "" for an expression."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
