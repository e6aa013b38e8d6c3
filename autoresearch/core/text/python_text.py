"""The text of a Python program as its syntax tree: nothing of it is run."""

from __future__ import annotations

import ast
import warnings


def syntax_tree(text: str) -> ast.Module | None:
    """The tree of a program; None for a text that is no Python of today, or that is nested too deeply."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its escapes are not ours to complain about
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def called_name(function: ast.AST) -> str:
    """The last part of the name of a function, or of any variable: `write` of `log.write`; "" for an expression."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def definitions(tree: ast.AST) -> dict[ast.AST, str]:
    """The function or class at the top of a text that a node stands in; nothing of those that a decorator may use."""
    tops = [node for node in getattr(tree, "body", ()) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {inner: top.name for top in tops if not top.decorator_list for inner in ast.walk(top)}
