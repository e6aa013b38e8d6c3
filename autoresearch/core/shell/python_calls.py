"""The commands that a Python file starts, as far as they stand in it: `subprocess.run("...")`, `os.system`, lists."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Iterator

_STARTS = re.compile(
    r"run|call|check_call|check_output|Popen|system|popen|getoutput|getstatusoutput|exec[vl]p?e?|spawn\w*"
)
_LIKELY = re.compile(r"(?i)exec|run|system|shell|cmd|command|popen|spawn")


def commands(text: str) -> Iterator[tuple[int, str]]:
    """(line, shell text) of each command that is written out in a call; nothing for a file that cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its escapes are not ours to complain about
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    constants = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0]
        first = constants.get(first.id, first) if isinstance(first, ast.Name) else first
        starts, literal = _STARTS.fullmatch(name), isinstance(first, ast.Constant | ast.JoinedStr)
        try:
            found = _command(first) if starts or (literal and _LIKELY.search(name)) else ""
        except RecursionError:  # a sum of thousands of texts
            continue
        if found and (starts or " " in found):
            yield node.lineno, found


def _command(node: ast.expr) -> str:
    """A shell text, or a list of words as one; "" for anything else."""
    if isinstance(node, ast.List | ast.Tuple):
        words = [_text(item) for item in node.elts]
        return " ".join("$UNKNOWN" if word is None else shlex.quote(word) for word in words)
    return _text(node) or ""


def _text(node: ast.expr) -> str | None:
    """The text of a literal; a part that only the run knows is `$UNKNOWN`. None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "$UNKNOWN" for part in node.values]
        return "".join(map(str, parts))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None and right is None else f"{left or '$UNKNOWN'}{right or '$UNKNOWN'}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "split"):
        return _text(node.func.value)
    return None
