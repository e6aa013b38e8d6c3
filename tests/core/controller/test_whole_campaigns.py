"""Whole campaigns, simulated: what state, scheduler, decisions and rounds come to together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import pytest

from autoresearch.core.campaign.fold import Fold, fold
from autoresearch.core.campaign.judgement import best_fallen, noise_without, resolution_of, search_values, usual_sd
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller import runs_and_retries
from autoresearch.core.controller.rules import facts
from autoresearch.core.statistics.noise import survivors
from tests.bench import simulated
from tests.bench.simulated import Simulation, World, campaign

WORTHLESS = {
    "normal": World(share=0.0),
    "three times as noisy as the baseline": World(share=0.0, spread=3.0),
    "collapsing": World(share=0.0, noise="collapsing"),
    "losing the worst fifth of their runs": World(share=0.0, diverging=0.2),
    "accuracy near 1": World(share=0.0, noise="accuracy"),
}


@pytest.mark.parametrize("name", WORTHLESS)
def test_of_worthless_ideas_nothing_is_claimed_in_19_of_20_campaigns(name: str) -> None:
    """6 campaigns of 24 ideas: if 5 % claim something, 3 or more do so once in 450 times."""
    assert sum(campaign(WORTHLESS[name], seed).false_claim for seed in range(6)) < 3


def test_minimise_is_the_mirror() -> None:
    """In every world the same runs are made, and the same ideas are kept and claimed."""
    for fields in ({}, {"noise": "collapsing"}, {"failing": 0.2}):
        up, down = (asdict(campaign(World(minimise=minimise, **fields), 0)) for minimise in (False, True))
        assert {name: up[name] for name in up} == {
            name: pytest.approx(down[name], abs=1e-6) if isinstance(up[name], float | list) else down[name]
            for name in up
        }, fields


def test_most_ideas_that_are_far_better_are_found_and_claimed() -> None:
    """6 campaigns; the best idea kept is far better than the noise in all of them in which any idea works."""
    played = [campaign(World(effect=4.0), seed) for seed in range(6)]
    assert sum(bool(one.claimed) for one in played) >= 4
    assert all(level > 0 for one in played for level in one.claimed)


def test_where_most_ideas_are_better_the_baseline_has_not_collapsed() -> None:
    """Four of five ideas are better by 8 sd. Where they are says nothing of the baseline's runs, nor of the noise."""
    for seed in range(3):
        played = Simulation(World(share=0.8, effect=8.0, apart=True, ideas=20), seed)
        row, counted = played.row, list[bool]()

        def seen(*args: Any, row: Any = row, counted: Any = counted, state: Any = played.state, **more: Any) -> None:
            counted.append(search_values(state, state.baseline) == state.baseline.values)
            row(*args, **more)

        played.row = seen  # type: ignore[method-assign]
        assert played.run().claimed and all(counted)


class _Watched(Fold):
    """After each line, what is kept of the state says what reading all lines anew would say."""

    def __init__(self, spec: CampaignSpec) -> None:
        super().__init__(spec)
        self.read: list[Any] = []

    def add(self, events: Iterable[Any]) -> CampaignState:
        self.read += (added := list(events))
        state = super().add(added)
        anew = fold(state.spec, self.read)
        assert _answers(state) == _answers(anew)
        objective, sd = state.spec.objective, usual_sd(anew)
        left = [survivors(objective, idea.values, sd) for idea in anew.ideas]
        assert [search_values(state, idea) for idea in state.ideas] == left
        for _, run in state.live:
            other = runs_and_retries.without(state, run.run)
            assert _answers(other) == _answers(replace(other)), "nothing is kept for a copy"
        return state


def _answers(state: CampaignState) -> list[object]:
    owed = runs_and_retries.owed(state)
    return [
        [idea.slug for idea in state.keeps],
        state.best and state.best.slug,
        [(idea.slug, run.run) for idea, run in state.live],
        [(idea.attempted, idea.waits, runs_and_retries.decided(state, idea)) for idea in state.ideas],
        [noise_without(state, idea) for idea in state.ideas],
        (usual_sd(state), best_fallen(state), resolution_of(state), facts(state, 0.0)),
        owed and (owed.idea.slug, owed.replicate, owed.why),
    ]


@pytest.mark.parametrize("fields", [{}, {"noise": "collapsing"}, {"lost": 0.2, "failing": 0.2}])
def test_what_is_kept_of_a_state_is_what_all_lines_say(fields: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "Fold", _Watched)
    for seed in range(2):
        simulation = Simulation(World(ideas=8, share=0.4, minimise=seed == 1, **fields), seed)
        simulation.run()
        assert isinstance(simulation.fold, _Watched) and simulation.fold.read
