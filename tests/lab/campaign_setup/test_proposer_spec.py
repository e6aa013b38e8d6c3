"""Which proposer a campaign gets, with which space or queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoresearch.errors import UsageError
from autoresearch.lab.campaign_setup.proposer_spec import resolve_proposer

SPACE = {"lr": [0.1, 0.2]}


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
    keys: dict[str, Any], name: str, space: Any, sources: dict[str, str], campaign_file: Any, trainer_settings: Any
) -> None:
    proposer = resolve_proposer(campaign_file(**keys), trainer_settings())
    assert (proposer.spec.name, proposer.spec.space, proposer.spec.seed) == (name, space, keys.get("seed", 0))
    assert proposer.sources == sources


def test_a_trainer_may_bring_its_own_space(campaign_file: Any, trainer_settings: Any) -> None:
    own = resolve_proposer(campaign_file(proposer="random"), trainer_settings("tinygrpo"))
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
    keys: dict[str, Any], words: str, campaign_file: Any, trainer_settings: Any
) -> None:
    with pytest.raises(UsageError) as refused:
        resolve_proposer(campaign_file(**keys), trainer_settings())
    assert words in refused.value.message


def test_the_path_of_a_queue_is_kept(tmp_path: Path, campaign_file: Any, trainer_settings: Any) -> None:
    assert resolve_proposer(campaign_file(queue=str(tmp_path)), trainer_settings()).spec.queue == str(tmp_path)
