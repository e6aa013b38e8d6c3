"""Which proposer a campaign gets, with which space or queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from autoresearch.core.campaign.usual_space import usual_space
from autoresearch.errors import InputMissing, UsageError
from autoresearch.lab.campaign_setup.proposer_spec import resolve_proposer, space_line
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.trainers import registry

SPACE = {"lr": [0.1, 0.2]}
GENERIC, TINY = registry.by_name("generic"), registry.by_name("tinygrpo")
COMMAND = "python train.py"


@pytest.mark.parametrize(
    ("keys", "name", "space", "sources"),
    [
        ({"space": SPACE, "proposer": "grid"}, "grid", SPACE, {}),
        ({"space": SPACE, "proposer": "random", "seed": 7}, "random", SPACE, {}),
        ({"proposer": "agent", "space": SPACE}, "agent", {}, {}),
        ({"proposer": "agent"}, "agent", {}, {"space": "the trainer's own, low-risk"}),
        ({"queue": "/"}, "queue", {}, {"proposer": "a queue is named"}),
        ({"queue": "/", "space": SPACE, "proposer": "random"}, "random", SPACE, {}),
    ],
)
def test_what_is_named_decides(
    keys: dict[str, Any], name: str, space: Any, sources: dict[str, str], campaign_file: Any
) -> None:
    proposer = resolve_proposer(campaign_file(**keys), LaunchSettings(GENERIC, None, COMMAND), {})
    assert (proposer.spec.name, proposer.spec.space, proposer.spec.seed) == (name, space, keys.get("seed", 0))
    assert proposer.sources == sources


def test_a_trainer_may_bring_its_own_space(campaign_file: Any) -> None:
    own = resolve_proposer(campaign_file(proposer="random"), LaunchSettings(TINY, {}, COMMAND), {})
    assert own.spec.space, "tinygrpo has one"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"proposer": "queue"}, "the proposer is a queue, and none is named"),
        ({"queue": "/nowhere/at/all"}, "the queue /nowhere/at/all is not there"),
        ({"proposer": "random"}, "the trainer generic has none of its own"),
        ({"proposer": "grid", "space": {"lr": {"low": 0.1, "high": 1.0}}}, "a grid cannot cover a continuous range"),
    ],
)
def test_what_leaves_nothing_to_try(
    keys: dict[str, Any], words: str, campaign_file: Any
) -> None:
    with pytest.raises(UsageError) as refused:
        resolve_proposer(campaign_file(**keys), LaunchSettings(GENERIC, None, COMMAND), {})
    assert words in refused.value.message


def test_the_path_of_a_queue_is_kept(tmp_path: Path, campaign_file: Any) -> None:
    found = resolve_proposer(campaign_file(queue=str(tmp_path)), LaunchSettings(GENERIC, None, COMMAND), {})
    assert found.spec.queue == str(tmp_path)


def test_without_a_space_it_says_what_could_be_varied_and_the_line_to_paste(campaign_file: Any) -> None:
    launch = LaunchSettings(GENERIC, None, "python train.py --lr 0.3 --seed 1 --epochs 9", flags={"--batch-size": 32})
    with pytest.raises(UsageError) as refused:
        resolve_proposer(campaign_file(proposer="random"), launch, {})
    assert refused.value.message.endswith("; this launch has batch-size (32), lr (0.3)")
    line = "space: {batch-size: [16, 32, 64], lr: {low: 0.1, high: 0.9, log: true}}"
    assert line in refused.value.hint and "--queue FILE" in refused.value.hint
    assert isinstance(refused.value, InputMissing)
    assert (refused.value.missing, refused.value.add) == (["space"], [line])
    setting = f"space={line.removeprefix('space: ')}"
    assert refused.value.setting == setting and refused.value.fix.endswith(f" --set '{setting}'")
    space = yaml.safe_load(line)["space"]
    assert resolve_proposer(campaign_file(proposer="random", space=space), launch, {}).spec.space == space


def test_what_is_offered_is_what_init_would_write_and_yaml_reads_its_numbers(campaign_file: Any) -> None:
    launch = LaunchSettings(GENERIC, None, "python train.py --lr 3e-5 --gamma 0.99")
    offered = yaml.safe_load(space_line(launch))
    assert offered == usual_space({"lr": 3e-5, "gamma": 0.99}) and offered["gamma"] == {"low": 0.97, "high": 0.997}
    assert resolve_proposer(campaign_file(proposer="random", space=offered), launch, {}).spec.space == offered


def test_a_key_of_the_space_is_spelled_as_the_flag_is(campaign_file: Any) -> None:
    launch = LaunchSettings(GENERIC, None, "python train.py --learning-rate 0.3", flags={"--weight-decay": 0.1})
    keys = {"learning_rate": [0.1, 0.2], "--weight_decay": [0.0, 0.1], "$LR": [1, 2]}
    found = resolve_proposer(campaign_file(proposer="grid", space=keys), launch, {}).spec.space
    assert list(found) == ["learning-rate", "weight-decay", "$LR"]
