"""`make house`: the numbers of the house that a script can count."""

from __future__ import annotations

import importlib
from collections import Counter

from autoresearch.cli import COMMANDS
from autoresearch.commands import Option
from autoresearch.commands.options import parameters_of
from tests.test_house import (
    PACKAGE,
    Source,
    lines_of_rooms,
    no_import_cycle,
    no_vague_names,
    one_class_one_meaning,
    one_parameter_one_class,
    read_budgets,
    read_sources,
    targets,
)


def commands_and_options() -> tuple[int, int]:
    """How many commands the help shows, and how many options they take together; groups are no commands."""
    shown = [command.function for command in COMMANDS.values() if command.function and command.section]
    options = 0
    for where in shown:
        module, _, function = where.partition(":")
        command = getattr(importlib.import_module(f"{PACKAGE}.commands.{module}"), function)
        for parameter in parameters_of(command):
            given = [*getattr(parameter.annotation, "__metadata__", ()), parameter.default]
            options += any(type(one) is Option and not one.shown.get("hidden") for one in given)
    return len(shown), options


def print_budgets(sources: list[Source]) -> None:
    """A table of rooms: files, lines, the budget of today, the goal."""
    budgets = read_budgets()
    rooms = lines_of_rooms(sources + read_sources("tests"), budgets)
    print(f"{'room':<40}{'files':>6}{'lines':>8}{'budget':>8}{'goal':>8}")
    for budget in budgets:
        files, lines = rooms[budget["room"]]
        print(f"{budget['room']:<40}{files:>6}{lines:>8}{budget['lines']:>8}{budget['goal']:>8}")


def main() -> None:
    """Print them."""
    sources = read_sources(PACKAGE)
    print_budgets(sources)
    modules = {source.module for source in sources}
    imports = sorted(len({m for m, _ in targets(s, modules)} - {s.module}) for s in sources)
    folders = Counter(source.path.rpartition("/")[0].removeprefix(f"{PACKAGE}/") for source in sources)
    lines = sum(len(source.text.splitlines()) for source in sources)
    classes = sum(len(source.nodes.classes) for source in sources)
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
