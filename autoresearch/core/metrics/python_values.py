"""Values: parses numbers and dicts as Python and numpy print them, without evaluating code."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from autoresearch.core.text.regex import later

if TYPE_CHECKING:
    import ast

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI]nf(?:inity)?)"
"""A number in a trainer's output; `[\\d.]+` would read 1.5e-05 as 1.5."""

GROUPED = r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?!\d)(?:\.\d*)?"
"""The same with thousands separators, `1,200.25`; not `0,123`, where the comma is a decimal point."""

_YES, _NO = frozenset({"true", "yes", "on", "y", "1"}), frozenset({"false", "no", "off", "n", "0"})

_SCALAR = later(rf"(?:(?:np|numpy|torch)\.\w{{1,12}}\(|tensor\()?({NUMBER})(?:, [^()]{{0,60}})?\)?")
_GROUPED = later(GROUPED)
_WRAPPED = later(r"(?<=: )np\.float(?:32|64)\(([-+.\de]{1,32})\)(?=[,}])")
_NO_JSON = ('"', "\\", "true", "false", "null")  # double quotes, escapes, and JSON literals that Python does not have
_MAX_CHARS = 1 << 20  # a longer line is not a line of metrics


def number(text: str) -> float | None:
    """A number as Python, numpy or torch print it: `1e-06`, `1,000`, `nan`, `np.float64(0.5)`, `tensor(0.5, ...)`."""
    if "_" not in text:  # float() accepts 1_000, which no trainer prints
        try:
            return float(text)
        except ValueError:
            pass
    if "," in text and _GROUPED.fullmatch(text.strip()):
        return float(text.replace(",", ""))
    match = _SCALAR.fullmatch(text.strip())
    return float(match[1]) if match else None


def truth(value: object) -> bool | None:
    """Parse a boolean, or a word for one as in YAML 1.1 (yes, on, y, 1 ...); None for anything else."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in _YES else False if word in _NO else None


def python_dict(text: str) -> dict[str, object] | None:
    """Parse a dict as `repr` prints it; None if it is truncated or contains an unknown expression.

    `np.float64(x)` and `tensor(x)` become x, `nan` and `inf` are numbers. The text is parsed, never
    evaluated: any other call makes the whole text unreadable.
    """
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")) or len(text) > _MAX_CHARS:
        return None
    if not any(mark in text for mark in _NO_JSON):
        try:  # most are JSON except for the quotes, and json is fifty times as fast
            plain = _WRAPPED.sub(r"\1", text) if "np.float" in text else text
            value = json.loads(plain.replace("'", '"'))
        except (ValueError, RecursionError):
            pass
        else:
            return value if isinstance(value, dict) else None
    try:
        from autoresearch.core.text.python_text import expression  # `ast` takes milliseconds to import

        value = _value(expression(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None


def numbers(mapping: Mapping[str, object], *, strings: bool = False) -> dict[str, float]:
    """The numeric entries of a mapping; None becomes NaN, as in verl's file logger and pandas.

    `strings`: numbers in quotes count too (transformers 5 prints them so). Booleans are never numbers.
    """
    floats: dict[str, float] = {}
    for key, value in mapping.items():
        if type(value) is float:  # nearly all are
            floats[key] = value
        elif value is None:
            floats[key] = math.nan
        elif isinstance(value, str):
            read = number(value) if strings else None
            if read is not None:
                floats[key] = read
        elif isinstance(value, int | float) and not isinstance(value, bool):
            floats[key] = _as_float(value)
    return floats


def _as_float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond 1e308
        return math.inf if value > 0 else -math.inf


def _value(node: ast.expr) -> object:
    import ast

    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name.lower() in ("nan", "inf", "infinity"):
            return float(name)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            return _signed(sign, _value(operand))
        case ast.Call(func=function, args=[argument, *_]) if _wraps(function):
            return _value(argument)
        case ast.Dict(keys=keys, values=values):
            return {str(_value(k)): _value(v) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_value(item) for item in items]
    raise ValueError("not a literal")


def _signed(sign: ast.unaryop, value: object) -> float:
    import ast

    if not isinstance(value, int | float):
        raise ValueError("a sign before something that is no number")
    return -value if isinstance(sign, ast.USub) else value


def _wraps(function: ast.expr) -> bool:
    """Whether this is a numpy or torch type around a number: `np.float64`, `tensor`, `array`."""
    import ast

    match function:
        case ast.Name(id="tensor" | "array"):
            return True
        case ast.Attribute(value=ast.Name(id="np" | "numpy" | "torch")):
            return True
    return False
