"""What each trainer knows besides its lines: its command, recipe, sources, seed; and which one is chosen."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.scaffold import HasScaffold
from autoresearch.core.run.server import HasPrograms, HasServer
from autoresearch.core.run.trainer import Source, SourceFormat, Trainer
from autoresearch.errors import UsageError
from autoresearch.trainers import registry

VERL, TINY, GENERIC = (registry.by_name(name) for name in ("verl", "tinygrpo", "generic"))


@pytest.mark.system
def test_a_command_that_names_no_framework_imports_none() -> None:
    code = (
        "import sys\n"
        "from autoresearch.trainers import registry\n"
        "assert registry.choose('', 'python main.py --lr 1').name == 'generic'\n"
        "print(*(name for name in registry.NAMES if f'autoresearch.trainers.{name}' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["generic"]


def test_a_name_wins_over_the_command() -> None:
    assert registry.choose("generic", "python -m autoresearch.tinygrpo").name == "generic"
    assert registry.choose(" VERL ", "").name == "verl"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        registry.by_name("verrl")
    assert "verrl" in caught.value.message
    assert "verl" in caught.value.hint
    assert "generic" in caught.value.hint


@pytest.mark.parametrize("trainer", registry.every(), ids=lambda t: t.name)
@pytest.mark.parametrize("protocol", [HasServer, HasPrograms, HasScaffold])
def test_every_trainer_has_the_methods_of_its_protocols(trainer: Trainer, protocol: Any) -> None:
    """The registry names classes by strings, so that no type checker compares these with the protocols."""
    if not isinstance(trainer, protocol):
        return
    for name, member in vars(protocol).items():
        if name.startswith("_"):
            continue
        own = getattr(type(trainer), name)
        if inspect.isfunction(member):
            declared, given = inspect.signature(member), inspect.signature(own)
            more = list(given.parameters.values())[len(declared.parameters) :]
            assert all(one.default is not one.empty for one in more), f"{trainer.name}.{name}: {given}"
            same = [one for one in given.parameters.values() if one not in more]
            assert given.replace(parameters=same) == declared, f"{trainer.name}.{name}"


@pytest.mark.parametrize("trainer", registry.every(), ids=lambda t: t.name)
def test_an_unnamed_trainer_never_holds_the_clock(trainer: Trainer) -> None:
    holds = any(signal.kind is SignalKind.PROGRESS for signal in trainer.signals())
    assert holds == trainer.named


def test_tinygrpo_recipe() -> None:
    recipe = {
        "seed": 3,
        "val_print_to_markdown_file_path": "val.md",
        "train_print_to_markdown_file_path": "",
        "metrics_jsonl_path": "m.jsonl",
    }
    assert TINY.sources(recipe) == (
        Source(SourceFormat.JSONL, "m.jsonl", 0),
        Source(SourceFormat.DICT_LINES, "val.md", 1),
    )
    assert TINY.seed(recipe) == 3
    assert TINY.seed({}) == 0
    assert TINY.seed({"seed": "three"}) is None
    assert TINY.objective(recipe) == Objective("task_pass_rate@1", Direction.MAXIMIZE)
