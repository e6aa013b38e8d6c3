"""What each trainer knows besides its lines: its command, recipe, sources, seed; and which one is chosen."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.hooks import HasPrograms, HasScaffold, HasServer
from autoresearch.core.run.trainer import Recipe, Source, SourceFormat, Trainer
from autoresearch.core.shell import read_shell
from autoresearch.errors import UsageError
from autoresearch.trainers import registry

VERL, TINY, NEMO, GENERIC = (registry.by_name(name) for name in ("verl", "tinygrpo", "nemo_rl", "generic"))


def test_a_name_wins_over_the_command() -> None:
    assert registry.choose("generic", read_shell("python -m autoresearch.tinygrpo")).name == "generic"
    assert registry.choose(" VERL ", read_shell("")).name == "verl"


def test_an_unknown_name_lists_the_known_ones() -> None:
    for name, hint in (("verrl", "did you mean verl?"), ("zzz", "generic")):
        with pytest.raises(UsageError) as caught:
            registry.by_name(name)
        assert name in caught.value.message and hint in caught.value.hint


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


def test_those_who_do_not_know() -> None:
    recipe: Recipe = {"seed": 3}
    assert TINY.settings(recipe, "x a.b=c") is recipe
    assert TINY.lint(recipe, "", "") == ()
    assert (TINY.seed_key_in(recipe), TINY.resumes(recipe), TINY.gpus(recipe)) == ("seed", (), None)
    assert TINY.arguments({"a": 1}) == ()


def test_those_who_do() -> None:
    whole = VERL.settings({}, "python -m verl.trainer.main_ppo trainer.nnodes=2 trainer.default_local_dir=/c")
    assert VERL.gpus(whole) == 16
    assert VERL.resumes(whole) == ("/c/latest_checkpointed_iteration.txt",)
    assert VERL.arguments({"trainer.nnodes": 2}) == ("++trainer.nnodes=2",)
    assert NEMO.seed_key_in({"sft": {"seed": 1}}) == "sft.seed"
