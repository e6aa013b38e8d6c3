"""Objective and stop rules: who decides, with which source, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.campaign.spec import Rules
from autoresearch.errors import UsageError
from autoresearch.lab.campaign_setup.campaign_goal import UNRULED_IDEAS, resolve_goal
from autoresearch.records.index import Index

NOW = 1_800_000_000.0
NO_RUNS = Index(Path("/nonexistent/autoresearch"))
NOTES = {"metric": "val/acc", "direction": "maximize"}


@pytest.mark.parametrize(
    ("trainer", "notes", "keys", "metric", "direction", "sources"),
    [
        ("generic", {}, {"metric": "reward"}, "reward", "maximize", {"direction": "the metric's name"}),
        ("generic", {"metric": "loss"}, {}, "loss", "minimize",
         {"metric": "blueprint", "direction": "the metric's name"}),
        ("generic", NOTES, {}, "val/acc", "maximize", {"metric": "blueprint", "direction": "blueprint"}),
        ("generic", NOTES, {"direction": "minimize"}, "val/acc", "minimize", {"metric": "blueprint"}),
        ("generic", NOTES, {"metric": "loss"}, "loss", "minimize", {"direction": "the metric's name"}),
        ("generic", NOTES, {"metric": "x", "direction": "minimize"}, "x", "minimize", {}),
        ("tinygrpo", {}, {}, "task_pass_rate@1", "maximize",
         {"metric": "trainer tinygrpo", "direction": "trainer tinygrpo"}),
    ],
)  # fmt: skip
def test_campaign_file_over_blueprint_over_trainer(
    trainer: str, notes: dict[str, str], keys: dict[str, str], metric: str, direction: str, sources: dict[str, str],
    campaign_file: Any, trainer_settings: Any,
) -> None:  # fmt: skip
    goal = resolve_goal(campaign_file(count=3, **keys), trainer_settings(trainer, **notes), NOW, NO_RUNS)
    assert (goal.objective.metric, goal.objective.direction.value, goal.sources) == (metric, direction, sources)


@pytest.mark.parametrize(
    ("keys", "code", "words"),
    [
        ({}, "no_metric", "the trainer generic has no usual metric"),
        ({"metric": "max(a"}, "bad_metric", "the metric"),
        ({"metric": "last(a) - last(b)"}, "no_direction", "no direction is known for last(a) - last(b)"),
        ({"metric": "reward", "target": "loss < 1"}, "bad_target", "the target is about 'loss'"),
    ],
)
def test_what_cannot_be_pursued(keys: Any, code: str, words: str, campaign_file: Any, trainer_settings: Any) -> None:
    with pytest.raises(UsageError) as refused:
        resolve_goal(campaign_file(**keys), trainer_settings(), NOW, NO_RUNS)
    assert refused.value.code == code and words in refused.value.message


def test_without_a_stop_rule_a_few_ideas_are_tried(campaign_file: Any, trainer_settings: Any) -> None:
    goal = resolve_goal(campaign_file(metric="reward"), trainer_settings(), NOW, NO_RUNS)
    assert goal.rules == Rules(count=UNRULED_IDEAS) and goal.sources["count"].startswith("no stop rule was given")
    goal = resolve_goal(campaign_file(metric="reward", budget_usd=3.0), trainer_settings(), NOW, NO_RUNS)
    assert goal.rules == Rules(budget_usd=3.0) and "count" not in goal.sources


def test_the_blueprints_time_for_the_campaign_is_its_deadline(campaign_file: Any, trainer_settings: Any) -> None:
    goal = resolve_goal(campaign_file(metric="reward"), trainer_settings(campaign_s=36000.0), NOW, NO_RUNS)
    assert (goal.rules, goal.sources["deadline"]) == (Rules(deadline=NOW + 36000.0), "blueprint")
    file = campaign_file(metric="reward", deadline=NOW + 60)
    own = resolve_goal(file, trainer_settings(campaign_s=36000.0), NOW, NO_RUNS)
    assert own.rules.deadline == NOW + 60
