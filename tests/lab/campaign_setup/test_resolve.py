"""What a campaign becomes, with which sources, and what is refused: objective, rules, proposer, GPUs, repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from autoresearch.core.campaign.spec import CampaignSpec, Rules
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.targets import Target, parse_pool
from autoresearch.errors import EnvironmentUnusable, InputMissing, UsageError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import NoCheckout
from autoresearch.lab.campaign_setup.campaign_checks import check_gpus
from autoresearch.lab.campaign_setup.campaign_goal import UNRULED_IDEAS, objective_of, rules_of
from autoresearch.lab.campaign_setup.proof import Side, proof_file
from autoresearch.lab.campaign_setup.proposer_spec import resolve_proposer
from autoresearch.lab.campaign_setup.read_setup import campaign_checkout
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.trainers import registry

NOW = 1_800_000_000.0
NOTES = {"metric": "val/acc", "direction": "maximize"}
REWARD = Objective("reward", Direction.MAXIMIZE)
SPACE = {"lr": [0.1, 0.2]}
GENERIC, TINY = registry.by_name("generic"), registry.by_name("tinygrpo")
LAUNCH = LaunchSettings(GENERIC, None, "python train.py")


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
        ("generic", NOTES, {"metric": "last(x) min"}, "last(x)", "minimize", {}),
        ("tinygrpo", {}, {}, "task_pass_rate@1", "maximize",
         {"metric": "trainer tinygrpo", "direction": "trainer tinygrpo"}),
    ],
)  # fmt: skip
def test_campaign_file_over_blueprint_over_trainer(
    trainer: str, notes: Any, keys: Any, metric: str, direction: str, sources: dict[str, str], setup: Any
) -> None:
    made = setup(trainer, notes=notes, **keys)
    assert objective_of(made) == Objective(metric, Direction(direction)) and made.sources == sources


@pytest.mark.parametrize(
    ("keys", "code", "words"),
    [
        ({"target": "0.5"}, "no_metric", "none is named; no run of this blueprint has printed one yet"),
        ({"metric": "max(a"}, "bad_metric", "the metric"),
        ({"metric": "last(a)"}, "no_direction", "are higher or lower values of last(a) better?"),
        ({"metric": "foldedness"}, "no_direction", "are higher or lower values of foldedness better?"),
        ({"metric": "reward", "target": "loss < 1"}, "bad_target", "the target is about 'loss'"),
    ],
)
def test_what_cannot_be_pursued(keys: Any, code: str, words: str, setup: Any) -> None:
    with pytest.raises(UsageError) as refused:
        rules_of(setup(**keys), objective_of(setup(**keys)))
    assert refused.value.code == code and words in refused.value.message


def test_what_no_run_has_printed_yet_is_chosen_later(setup: Any) -> None:
    made = setup()
    assert objective_of(made) == Objective("", Direction.UNKNOWN) and "metric" not in made.sources


@pytest.mark.parametrize(
    ("keys", "rules", "sources"),
    [
        ({}, Rules(count=UNRULED_IDEAS), {"count": "no stop rule was given: the baseline and three ideas, then a"}),
        ({"budget_usd": 3.0}, Rules(budget_usd=3.0), {}),
        ({"campaign_s": 36000.0}, Rules(deadline=NOW + 36000.0), {"deadline": "blueprint"}),
        ({"campaign_count": 50}, Rules(count=50), {"count": "blueprint"}),
        ({"campaign_count": 50, "count": 3}, Rules(count=3), {}),
        ({"campaign_s": 36000.0, "deadline": NOW + 60}, Rules(deadline=NOW + 60), {}),
        ({"target": "reward>=0.5", "confirm_runs": 24}, Rules(target=0.5, confirm_runs=24), {}),
    ],
)
def test_stop_rules(keys: Any, rules: Rules, sources: dict[str, str], setup: Any) -> None:
    made = setup(**keys)
    assert rules_of(made, REWARD) == rules and made.sources.keys() == sources.keys()
    assert all(made.sources[key].startswith(words) for key, words in sources.items())


@pytest.mark.parametrize(
    ("keys", "name", "space", "sources"),
    [
        ({"space": SPACE, "proposer": "grid"}, "grid", SPACE, {}),
        ({"space": SPACE, "proposer": "random", "seed": 7}, "random", SPACE, {}),
        ({"proposer": "agent", "space": SPACE}, "agent", {}, {}),
        ({"proposer": "agent"}, "agent", {}, {"space": "the trainer's own, low-risk"}),
        ({"proposer": "agent", "queue": "/"}, "agent", {}, {}),
        ({"queue": "/"}, "queue", {}, {"proposer": "a queue is named"}),
        ({"queue": "/", "space": SPACE, "proposer": "random"}, "random", SPACE, {}),
    ],
)
def test_what_is_named_decides_the_proposer(keys: Any, name: str, space: Any, sources: Any, setup: Any) -> None:
    made = setup(**keys)
    proposer = resolve_proposer(made, LAUNCH)
    queue = "" if name == "agent" else keys.get("queue", "")
    assert (proposer.name, proposer.space, proposer.seed) == (name, space, keys.get("seed", 0))
    assert proposer.queue == queue and made.sources == sources
    assert resolve_proposer(setup(proposer="random"), LaunchSettings(TINY, {}, "")).space, "tinygrpo has its own"


def test_without_a_space_it_says_what_could_be_varied(setup: Any) -> None:
    launch = LaunchSettings(GENERIC, None, "python train.py --lr 0.3 --seed 1 --epochs 9", flags={"--batch-size": 32})
    with pytest.raises(InputMissing) as refused:
        resolve_proposer(setup(proposer="random"), launch)
    error = refused.value
    assert error.message.endswith("; this launch has batch-size (32), lr (0.3)")
    assert "`space: {batch-size: [VALUE, VALUE]}`" in error.hint and error.missing == ["space"]


def test_a_key_of_the_space_is_spelled_as_the_flag_is(setup: Any) -> None:
    launch = LaunchSettings(GENERIC, None, "python train.py --learning-rate 0.3", flags={"--weight-decay": 0.1})
    keys = {"learning_rate": [0.1, 0.2], "--weight_decay": [0.0, 0.1], "$LR": [1, 2]}
    found = resolve_proposer(setup(proposer="grid", space=keys), launch).space
    assert list(found) == ["learning-rate", "weight-decay", "$LR"]


@pytest.mark.parametrize(
    ("keys", "options", "needed", "per_run"),
    [
        ({}, {}, 0, 0),
        ({}, {}, 4, 4),  # what the recipe asks for
        ({}, {"gpus_per_run": 8}, 4, 8),
        ({"gpus_per_run": 2}, {"gpus_per_run": 8}, 4, 2),
        ({}, {"gpus_per_run": 3}, 4, 3),  # too few
    ],
)
def test_remote_runs_get_what_is_given_or_needed(
    keys: Any, options: Any, needed: int, per_run: int, setup: Any
) -> None:
    (target,) = parse_pool("slurm:2", {"slurm": {"kind": "slurm", **options}} if options else {})
    made = setup(targets=(Target("slurm", target.kind, options=options),), needed=needed, **keys)
    assert check_gpus(made) == ((), per_run)
    asked = [one.message for one in made.findings]
    assert asked == (["the run asks for 4 GPUs, and slurm is asked for 3"] if per_run == 3 else [])


@pytest.mark.parametrize("asked", [campaign_checkout, lambda path: proof_file(Side("a"), Side("b"), path)])
@pytest.mark.parametrize(
    ("missing", "hint"),
    [
        (NoCheckout("/x is ignored", "`git init` there"), "`git init` there, or run single blueprints with"),
        (NoCheckout("it is another user's", "trust it", "git config ..."), "trust it, or run single blueprints with"),
        (NoCheckout("git is not installed"), "run single blueprints with"),
    ],
)
def test_each_lack_of_a_repository_has_its_own_remedy(missing: NoCheckout, hint: str, asked: Any) -> None:
    with mock.patch.object(repository, "locate", lambda path: missing), pytest.raises(EnvironmentUnusable) as refused:
        asked(Path("/x"))
    assert refused.value.message == f"a campaign, and a proof, keeps every idea on a branch, and {missing.reason}"
    assert refused.value.hint.startswith(hint) and refused.value.fix == missing.fix


@pytest.mark.parametrize(
    ("rules", "changes"),
    [
        ({"count": 20}, {"count": 20}),
        ({"count": 10, "deadline": 7.0}, {"deadline": 7.0}),
        ({"target": 0.5, "budget_usd": 3.0}, {"target": 0.5, "budget_usd": 3.0}),
        ({"confirm_runs": 8, "count": 10}, {"confirm_runs": 8}),
        ({}, "nothing would change"),
        ({"count": 10}, "nothing would change"),
        ({"confirm_runs": 16}, "nothing would change"),
        ({"confirm_runs": 7}, "confirm_runs: 7 are too few: a proof takes four fresh runs of the idea"),
    ],
)
def test_campaign_set_changes_only_what_differs(rules: Any, changes: Any, spec: CampaignSpec) -> None:
    spec = replace(spec, rules=Rules(count=10))
    if isinstance(changes, str):
        with pytest.raises(UsageError, match=changes):
            spec.changed_rules(rules)
    else:
        assert spec.changed_rules(rules) == changes
    assert replace(spec, confirm=False).changed_rules({"confirm_runs": 7}) == {"confirm_runs": 7}
