"""Grid and random: everything once, equal seeds alike, and nothing remembered but the attempts."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.overrides import fingerprint
from autoresearch.core.campaign.proposer import Attempt, ProposerInputs
from autoresearch.core.campaign.space import Space, read_space
from autoresearch.core.metrics.objective import Objective
from autoresearch.proposers.tpe import GridSweep, RandomSweep

BASE = {"lr": 0.001, "g": 8, "agg": "token"}
SMALL = read_space({"lr": [0.001, 0.01, 0.1], "g": {"low": 4, "high": 8, "step": 4}, "agg": ["token", "seq"]})
WIDE = read_space({"lr": {"low": 1e-4, "high": 1e-1, "log": True}, "g": [4, 8]})


def inputs(space: Space = SMALL, seed: int = 3) -> ProposerInputs:
    return ProposerInputs(Objective("x"), lambda data, name: None, space=space, baseline=BASE, seed=seed)


def points(ideas: list[Hypothesis]) -> list[tuple[object, ...]]:
    return [tuple(idea.overrides.values()) for idea in ideas]


def test_a_grid_tries_every_point_but_the_baseline_once(campaign: Any) -> None:
    running = campaign()
    ideas = running.run(GridSweep(inputs()), 100)
    assert len(ideas) == 11
    assert len({fingerprint(idea.overrides, BASE) for idea in ideas}) == 11
    assert points(ideas)[:3] == [(0.001, 4, "token"), (0.001, 4, "seq"), (0.001, 8, "seq")]
    assert ideas[0].sentence == "g 8 -> 4"
    assert ideas[0].slug == "g-4"
    assert {idea.parent for idea in ideas} == {BASELINE}


def test_what_a_person_tried_is_no_longer_in_the_grid(campaign: Any) -> None:
    running = campaign()
    running.attempts.append(Attempt(2, Hypothesis("mine", "x", parent=BASELINE, overrides={"lr": "1e-2"}), "keep", 1.0))
    ideas = running.run(GridSweep(inputs()), 100)
    assert (0.01, 8, "token") not in points(ideas)
    assert len(ideas) == 11


@pytest.mark.parametrize("seed", range(3))
def test_random_tries_a_finite_space_to_its_end(campaign: Any, seed: int) -> None:
    ideas = campaign().run(RandomSweep(inputs(seed=seed)), 100)
    assert len(ideas) == 11
    assert len({fingerprint(idea.overrides, BASE) for idea in ideas}) == 11


def test_equal_seeds_draw_alike_and_others_do_not(campaign: Any) -> None:
    drawn = [points(campaign().run(RandomSweep(inputs(WIDE, seed)), 10)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert not set(drawn[0]) & set(drawn[2])


@pytest.mark.parametrize("space", [SMALL, WIDE], ids=["small", "wide"])
def test_a_restart_after_every_idea_changes_nothing(campaign: Any, space: Space) -> None:
    for sweep in (lambda: RandomSweep(inputs(space)), lambda: GridSweep(inputs())):
        whole, torn = campaign(), campaign()
        whole.run(sweep(), 9)
        for _ in range(9):
            torn.step(sweep())
        assert points(torn.ideas) == points(whole.ideas)


def test_two_that_are_asked_for_at_once_differ() -> None:
    for sweep in (RandomSweep(inputs()), GridSweep(inputs())):
        asked = [idea for _ in range(20) if (idea := sweep.ask([])) is not None]
        assert len({fingerprint(idea.overrides, BASE) for idea in asked}) == 11
        assert len({idea.slug for idea in asked}) == 11
        assert len({idea.token for idea in asked}) == 11
