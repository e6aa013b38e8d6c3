"""CampaignSpec: what was decided is read back as it was written; targets in every way people write them."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, fields, replace

import pytest

from autoresearch.core.campaign.spec import CampaignSpec, ProposerSpec, Rules, parse_target
from autoresearch.core.metrics.objective import Direction, Objective
from tests.specs import campaign_spec

UP = Objective("pass@1", Direction.MAXIMIZE)
DOWN = Objective("loss", Direction.MINIMIZE)


def spec() -> CampaignSpec:
    texts = {one.name: f"a {one.name}" for one in fields(CampaignSpec) if one.type == "str" and one.default is MISSING}
    return campaign_spec(
        **texts,
        proposer=ProposerSpec("tpe", space={"lr": {"low": 1e-4, "high": 1e-2}}),
        rules=Rules(count=24, target=0.8),
        created=5.0,
        gpus=("GPU-a", "GPU-b"),
        include=("data",),
        sources={"count": "flag --count"},
    )


def test_what_was_written_is_read_back_and_a_newer_key_is_passed_over() -> None:
    text = json.dumps({**asdict(spec()), "of_a_newer_version": 1})
    assert CampaignSpec.from_json(json.loads(text)) == spec()
    of_before = {"lr": {"choices": [1, 2]}, "steps": {"value": 80}, "wd": {"low": 0, "high": 1}}
    older = replace(spec(), proposer=replace(spec().proposer, space=of_before))
    space = CampaignSpec.from_json(json.loads(json.dumps(asdict(older)))).proposer.space
    assert space == {"lr": [1, 2], "steps": [80], "wd": {"low": 0, "high": 1}}
    with pytest.raises(ValueError, match="it has no `slug`"):
        CampaignSpec.from_json({"name": "x"})


def test_rules_change_and_nothing_else() -> None:
    changed = spec().with_rules({"count": 30, "do": "rules", "t": 9.0, "name": "other"})
    assert (changed.rules, changed.name) == (Rules(count=30, target=0.8), spec().name)
    assert changed.with_rules({"confirm_runs": 24}).rules.confirm_runs == 24
    assert not Rules(confirm_runs=8).any_set
    assert not Rules().any_set and Rules(target=0.0).any_set
    assert spec().branch("x") == "a prefix/x"


@pytest.mark.parametrize(
    ("text", "objective", "wanted"),
    [
        ("0.8", UP, 0.8),
        (">=0.8", UP, 0.8),
        ("pass@1>=0.8", UP, 0.8),
        (" pass@1 > 8e-1 ", UP, 0.8),
        ("-3", UP, -3.0),
        ("max( val/pass@1 )>=0.8", Objective("max(val/pass@1)"), 0.8),
        ("mean(reward, last 5) > 0.25", Objective("mean(reward,last 5)"), 0.25),
        ("loss<=0.1", DOWN, 0.1),
        ("< .1", DOWN, 0.1),
    ],
)
def test_a_target(text: str, objective: Objective, wanted: float) -> None:
    assert parse_target(text, objective) == wanted


@pytest.mark.parametrize(
    ("text", "objective", "said"),
    [
        ("pass@1<=0.8", UP, "contradicts the direction: pass@1 is to be maximized"),
        (">=0.8", DOWN, "contradicts the direction: loss is to be minimized"),
        ("reward>=0.8", UP, "about 'reward', and the objective"),
        ("soon", UP, "is no target: write it like"),
        ("pass@1=0.8", UP, "is no target"),
        ("max(pass@1)>=0.8", UP, r"about 'max\(pass@1\)'"),
        ("max(pass@1>=0.8", UP, "not understood"),
        ("nan", UP, "is no target"),
        (">=1e999", UP, "no number that can be reached"),
        ("", UP, "is no target"),
    ],
)
def test_no_target(text: str, objective: Objective, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_target(text, objective)
