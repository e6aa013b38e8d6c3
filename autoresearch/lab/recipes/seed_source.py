"""What the text of a training program tells of its randomness: it seeds with a constant, or it seeds nothing."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Sequence

from autoresearch.core.statistics.seeding import Randomness

_SEEDS = re.compile(
    r"(?:manual_seed(?:_all)?|(?:\w+_)?seed(?:_\w+)?|default_rng|RandomState|Random|SeedSequence|PRNGKey|"
    r"enable_full_determinism)\Z"
)
"""Calls that make or seed a generator; without an argument, or with None, from fresh randomness."""
_DRAWS = re.compile(r"(?:random|rand|randn|randint|uniform|normal|gauss|choices?|shuffle|sample|permutation)\Z")
_CLOCKS = frozenset({"time", "time_ns", "urandom", "getpid", "token_bytes", "randbits", "uuid4", "perf_counter_ns"})
_PLAIN = {*sys.stdlib_module_names, "numpy", "torch", "scipy", "sklearn", "pandas", "tqdm", "yaml", "matplotlib"}
"""Modules that seed nothing by themselves; of others, such as transformers, that is not known."""


def randomness_of(sources: Mapping[str, str]) -> tuple[Randomness, str]:
    """Where the randomness of these Python texts (path -> text) comes from, and the line that tells; UNKNOWN and "".

    A seed that comes from elsewhere, such as a flag or a variable, tells nothing: that is tried out.
    """
    constant = unseeded = drawn = ""
    imported: set[str] = set()
    for path, text in sources.items():
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return Randomness.UNKNOWN, ""
        imported |= _imports(tree)
        numbers = _numbers(tree)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name, where = _name(call.func), f"{path}:{call.lineno}"
            if any(keyword.arg in ("seed", "random_state") for keyword in call.keywords):
                return Randomness.UNKNOWN, ""
            if not _SEEDS.match(name):
                drawn = drawn or (where if _DRAWS.match(name) else "")
                continue
            seed = call.args[0] if call.args else ast.Constant(None)
            seed = numbers.get(seed.id, seed) if isinstance(seed, ast.Name) else seed
            if any(isinstance(one, ast.Call) and _name(one.func) in _CLOCKS for one in ast.walk(seed)):
                unseeded = unseeded or where
            elif not isinstance(seed, ast.Constant):
                return Randomness.UNKNOWN, ""
            elif seed.value is None:
                unseeded = unseeded or where
            else:
                constant = constant or where
    own = {path.removesuffix(".py").rpartition("/")[2] for path in sources}
    if constant:
        return (Randomness.UNKNOWN, "") if unseeded else (Randomness.FIXED, f"{constant} seeds with a constant")
    if imported - _PLAIN - own or not (unseeded or drawn or "torch" in imported):
        return Randomness.UNKNOWN, ""
    where = unseeded or drawn or next(iter(sources))
    return Randomness.RANDOM, f"{where} draws anew" if ":" in where else f"{where} seeds nothing"


def _imports(tree: ast.Module) -> set[str]:
    """The top-level modules that a program imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("" if node.level else (node.module or "").partition(".")[0])
    return found


def _numbers(tree: ast.Module) -> dict[str, ast.expr]:
    """What the names at the top of a program are set to, of those that are set once."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        targets: Sequence[ast.expr] = node.targets if isinstance(node, ast.Assign) else ()
        for name in (one.id for one in targets if isinstance(one, ast.Name)):
            found.setdefault(name, []).append(node.value)  # type: ignore[attr-defined]
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
