"""The lines of a Python program that compute or print the objective: what an edit touches there can set it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator


def objective_lines(source: str, named: re.Pattern[str]) -> set[int]:
    """The lines where the metric is printed, where what is printed is assigned, and the functions that this calls.

    `named` finds code that prints or sets the metric. Empty for a text that is no Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    rows = source.splitlines()
    nodes = list(ast.walk(tree))
    simple = [node for node in nodes if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Return)]
    printing = [one for one in simple if any(named.search(rows[line - 1]) for line in _lines(one))]
    names = {name for one in printing for name in _values(one, named)}
    assigning = [one for one in nodes if isinstance(one, ast.stmt) and names & set(_targets(one))]
    called = {_called(node) for one in (*printing, *assigning) for node in ast.walk(one) if isinstance(node, ast.Call)}
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    defined = [node for node in functions if node.name in called]
    return {line for one in (*printing, *assigning, *defined) for line in _lines(one)}


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _values(statement: ast.stmt, named: re.Pattern[str]) -> Iterator[str]:
    """The variables whose value follows the metric's name in a text, a mapping or a list of arguments; else all."""
    found: list[str] = []
    for node in ast.walk(statement):
        parts: list[tuple[ast.AST | None, ast.AST]] = []
        if isinstance(node, ast.JoinedStr):
            parts = list(zip(node.values, node.values[1:], strict=False))
        elif isinstance(node, ast.Dict):
            parts = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, ast.Call):
            parts = list(zip(node.args, node.args[1:], strict=False))
        for before, value in parts:
            text = before.value if isinstance(before, ast.Constant) and isinstance(before.value, str) else ""
            if (words := text.rstrip(" :=").split()) and named.search(f'"{words[-1]}":'):
                found += _read(value)
    yield from found or _read(statement)


def _read(node: ast.AST) -> list[str]:
    functions = {id(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and id(one) not in functions]


def _targets(statement: ast.stmt) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        targets = [statement.target]
    for target in targets:
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
