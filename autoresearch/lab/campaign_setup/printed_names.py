"""The numbers that a Python text prints, by the names under which a run's log is read.

The text is parsed, not run: each call that prints is filled with numbers, and the line goes to the reader of logs.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.text.regex import later
from autoresearch.runner.metric_lines import body, parse, step_rank


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PRINTS = _set_of("print info warning debug error log write echo rprint tqdm_write log_metrics")
_MEASURES = (
    _set_of("val valid validation eval test"),
    _set_of("reward rewards return returns score scores acc accuracy success pass win fitness f1 auc bleu"),
    _set_of("loss bpb ppl perplexity error mse mae rmse nll"),
)
"""Words of a name that make it worth optimising, the best first."""
_PERCENT = later(r"%(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?([diouxXeEfFgGs])")
_BRACES = later(r"\{[^{}:]*(?::([^{}]*))?\}")
_NUMBER, _COUNT = "0.1234", "7"


def printed_names(path: Path) -> list[str]:
    """The names of the metrics that the Python file prints, in the order of its text; [] for one that nobody can read.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) in _PRINTS]
    names: dict[str, None] = {}
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        for text in _lines(call):
            pairs = parse(body(text))
            for name in (name for name in (pairs.metrics if pairs else ()) if step_rank(name) is None):
                names.pop(name, None)  # the last that is printed comes last
                names[name] = None
    return list(names)


def best_name(names: list[str]) -> str:
    """The name that is most worth optimising, the last of several; "" without one."""
    for words in _MEASURES:
        if fit := [name for name in names if words & set(re.split(r"[^a-z0-9]+", name.lower()))]:
            return fit[-1]
    return ""


def _lines(call: ast.Call) -> Iterator[str]:
    """The lines that a call prints, with numbers for its values."""
    arguments = list(call.args)
    first = arguments[0] if arguments else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str) and _PERCENT.search(first.value):
        yield from _with_numbers(first.value).splitlines()  # logging takes the values as arguments
    else:
        yield from " ".join(_shown(one) for one in arguments if not isinstance(one, ast.Starred)).splitlines()


def _shown(node: ast.expr) -> str:
    """How a value looks when it is printed."""
    match node:
        case ast.Constant():
            return str(node.value)
        case ast.JoinedStr():
            return "".join(map(_shown, node.values))
        case ast.FormattedValue():
            spec = _shown(node.format_spec) if node.format_spec else ""
            return _COUNT if spec.endswith("d") else _shown(node.value)
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mod()):
            return _with_numbers(text)
        case ast.BinOp(op=ast.Add()) if _is_text(node.left) or _is_text(node.right):
            return _shown(node.left) + _shown(node.right)
        case ast.BinOp(op=ast.Add(), left=left):
            return _shown(left)  # `epoch + 1`
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format")):
            return _BRACES.sub(lambda spec: _COUNT if (spec[1] or "").endswith("d") else _NUMBER, text)
        case ast.Call(func=function, args=[ast.Dict() as first, *_]) if _name(function) == "dumps":
            return json.dumps(_pairs(first))
        case ast.Call(func=function, args=[first, *_]) if _name(function) in ("str", "repr", "round", "float"):
            return _shown(first)
        case ast.Dict():
            return str(_pairs(node))
        case ast.Name(id=name) | ast.Attribute(attr=name) if step_rank(name) is not None:
            return _COUNT
    return _NUMBER


def _pairs(node: ast.Dict) -> dict[str, float | int]:
    shown = {key.value: _shown(value) for key, value in zip(node.keys, node.values, strict=True)
             if isinstance(key, ast.Constant) and isinstance(key.value, str)}  # fmt: skip
    return {key: int(text) if text == _COUNT else float(text) for key, text in shown.items()
            if text in (_NUMBER, _COUNT)}  # fmt: skip


def _with_numbers(text: str) -> str:
    return _PERCENT.sub(lambda spec: _COUNT if spec[1] in "diouxX" else _NUMBER, text)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
