"""The text of a Python program as its syntax tree: nothing of it is run."""

from __future__ import annotations

import ast
import warnings
from _thread import allocate_lock
from functools import lru_cache

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


@lru_cache(maxsize=256)
def syntax_error(text: str) -> tuple[int, str]:
    """The line at which a text is no Python of today, and why; (0, "") for a text that is."""
    try:
        _parsed(text, "exec")
    except SyntaxError as error:
        return error.lineno or 1, error.msg.split(". ")[0]
    except (ValueError, RecursionError, MemoryError):
        pass
    return 0, ""


def called_name(function: ast.AST) -> str:
    """The last part of the name of a function, or of any variable: `write` of `log.write`; "" for an expression."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def as_program(tree: ast.Module) -> set[ast.AST]:
    """What a text does only where it is the program, and no module: `if __name__ == "__main__":`."""
    starts = [one for one in tree.body if isinstance(one, ast.If) and "__name__" in ast.unparse(one.test)]
    return {inner for one in starts for inner in ast.walk(one)}


def definitions(tree: ast.AST) -> dict[ast.AST, str]:
    """The function or class at the top of a text that a node stands in; nothing of those that a decorator may use."""
    tops = [node for node in getattr(tree, "body", ()) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {inner: top.name for top in tops if not top.decorator_list for inner in ast.walk(top)}
