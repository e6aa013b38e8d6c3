"""`make house`: the numbers of the house that a script can count."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import Counter

from typer.models import OptionInfo

from autoresearch.cli import CALLED_BY_US, COMMANDS, GROUPS
from tests.test_house import (
    PACKAGE,
    ROOT,
    Source,
    no_import_cycle,
    no_vague_names,
    one_class_one_meaning,
    one_parameter_one_class,
    targets,
)


def commands_and_options() -> tuple[int, int]:
    """How many commands the help shows, and how many options they take together; groups are no commands."""
    named = [*COMMANDS.items(), *(entry for _, entries in GROUPS.values() for entry in entries.items())]
    shown = [entry[0] for name, entry in named if name not in CALLED_BY_US]
    options = 0
    for where in shown:
        module, _, function = where.partition(":")
        signature = inspect.signature(
            getattr(importlib.import_module(f"{PACKAGE}.commands.{module}"), function), eval_str=True
        )
        for parameter in signature.parameters.values():
            given = [*getattr(parameter.annotation, "__metadata__", ()), parameter.default]
            options += any(isinstance(one, OptionInfo) for one in given)
    return len(shown), options


def main() -> None:
    """Print them."""
    paths = sorted((ROOT / PACKAGE).rglob("*.py"))
    sources = [Source(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]
    modules = {source.module for source in sources}
    imports = sorted(len({m for m, _ in targets(s, modules)} - {s.module}) for s in sources)
    folders = Counter(source.path.rpartition("/")[0].removeprefix(f"{PACKAGE}/") for source in sources)
    lines = sum(len(source.text.splitlines()) for source in sources)
    classes = sum(isinstance(node, ast.ClassDef) for source in sources for node in ast.walk(source.tree))
    commands, options = commands_and_options()
    print(f"files {len(sources)}, lines {lines}, classes {classes}")
    print(f"import circles, those for type checkers counted: {len(no_import_cycle(sources))}")
    print(f"class names with several meanings: {len(one_class_one_meaning(sources))}")
    print(f"parameters that stand for several classes: {len(one_parameter_one_class(sources))}")
    print(f"parameters, fields and functions with a vague name: {len(no_vague_names(sources))}")
    print(f"imports of a file: 90 % at most {imports[int(0.9 * len(imports))]}, most {imports[-1]}")
    print("largest folders: " + ", ".join(f"{name} {count}" for name, count in folders.most_common(5)))
    print(f"visible commands {commands}, options {options}")


if __name__ == "__main__":
    main()
