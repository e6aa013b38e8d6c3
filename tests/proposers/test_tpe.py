"""TPE with the real Optuna: it learns, it never repeats itself, and all that it knows is what the attempts say."""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.overrides import fingerprint
from autoresearch.core.campaign.proposer import Attempt, ProposerInputs
from autoresearch.core.campaign.space import Space, read_space
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.proposers.tpe import Tpe

UP = Objective("pass@1")
BASE = {"lr": 1e-3, "g": 8, "agg": "token", "steps": 80, "t": 1.0}
SPACE = read_space(
    {
        "lr": {"low": 1e-4, "high": 1e-1, "log": True},
        "g": [16, 4, 8],
        "agg": ["token", "seq"],
        "steps": [80],
        "t": {"low": 0.5, "high": 1.5, "step": 0.25},
    }
)


def score(recipe: dict[str, Any]) -> float:
    return -((math.log10(recipe["lr"]) + 2) ** 2) - (recipe["g"] - 16) ** 2 / 144 - abs(recipe["t"] - 1.25)


@pytest.fixture
def tpe() -> Callable[..., Tpe]:
    def make(space: Space = SPACE, objective: Objective = UP, **more: Any) -> Tpe:
        return Tpe(ProposerInputs(objective, lambda data, name: None, space=space, **{"baseline": BASE, **more}))

    return make


def learnt(proposer: Tpe, attempts: list[Attempt]) -> list[tuple[str, float | None]]:
    return [(trial.state.name, trial.value) for trial in proposer.study(attempts).get_trials()]


def test_an_idea_says_every_key_in_tidy_numbers(tpe: Any, campaign: Any) -> None:
    for idea in campaign(score, BASE).run(tpe(), 12):
        assert list(idea.overrides) == ["lr", "g", "agg", "steps", "t"]
        assert SPACE.point_in(idea.overrides) == idea.overrides
        assert idea.overrides["lr"] == float(f"{idea.overrides['lr']:.3g}")
        assert isinstance(idea.overrides["g"], int)
        assert (idea.parent, idea.proposer) == (BASELINE, "tpe")
        json.dumps(idea.to_json())


@pytest.mark.parametrize("direction", list(Direction))
def test_it_learns_in_either_direction(tpe: Any, campaign: Any, direction: Direction) -> None:
    sign = 1 if direction is Direction.MAXIMIZE else -1
    running = campaign(lambda recipe: sign * score(recipe), BASE)
    ideas = running.run(tpe(objective=Objective("x", direction), seed=1), 30)
    late = [score(dict(idea.overrides)) for idea in ideas[-10:]]
    early = [score(dict(idea.overrides)) for idea in ideas[:5]]
    assert sum(late) / len(late) > sum(early) / len(early) + 0.3


def test_the_ideas_of_others_are_learnt_from_where_they_are_points(tpe: Any, campaign: Any) -> None:
    running, mine = campaign(score, BASE), {"parent": BASELINE, "proposer": "queue"}
    whole = {"lr": 0.02, "g": 4, "agg": "seq", "steps": 80, "t": 0.5}
    for number, idea in enumerate(
        (
            Hypothesis("part", "", overrides={"lr": "1e-2"}, **mine),
            Hypothesis("on-part", "", overrides={"g": 16}, proposer="queue", parent="part"),
            Hypothesis("on-best", "", overrides=whole, proposer="queue"),
            Hypothesis("unclear", "", overrides={"lr": 0.03}, proposer="queue"),  # on top of which best?
            Hypothesis("code", "", overrides={"lr": 0.04}, files={"a": "b"}, **mine),
            Hypothesis("outside", "", overrides={"lr": 1.0}, **mine),
        ),
        2,
    ):
        running.attempts.append(Attempt(number, idea, "keep", number / 10, 1))
    trials = tpe().study(running.attempts).get_trials()
    assert [trial.value for trial in trials] == [score(BASE), 0.2, 0.3, 0.4]
    assert [trial.params["lr"] for trial in trials] == [1e-3, 0.01, 0.01, 0.02]
    assert [trial.params["g"] for trial in trials] == [1, 1, 2, 0], "the rank among 4, 8, 16"
    narrow = read_space({"lr": {"low": 1e-4, "high": 1e-1, "log": True}})
    assert [value for _, value in learnt(tpe(narrow), running.attempts[:4])] == [score(BASE), 0.2]
    far = {**BASE, "lr": 1.0}
    assert learnt(tpe(baseline=far), campaign(score, far).attempts) == []


def test_what_it_learns_of_each_status(tpe: Any, campaign: Any) -> None:
    running, proposer = campaign(None, BASE), tpe()
    ideas = running.run(proposer, 7)
    results = [("keep", 0.5), ("discard", 0.25), ("crash", None), ("skipped", None), ("discard", math.nan)]
    results += [("screened", 0.125), ("", None)]
    attempts = [Attempt(n, idea, *result) for n, (idea, result) in enumerate(zip(ideas, results, strict=True), 2)]
    states = [("COMPLETE", 0.5), ("COMPLETE", 0.25), ("PRUNED", None), ("PRUNED", None), ("PRUNED", None)]
    assert learnt(tpe(), attempts) == [*states, ("RUNNING", None)]
    # of the ideas that it asked for itself, those that are in no attempt yet are on their way
    assert learnt(proposer, attempts[:2]) == [*states[:2], *[("RUNNING", None)] * 5]


@pytest.mark.parametrize("seed", range(3))
def test_a_small_space_is_tried_to_its_end_and_then_it_is_dry(tpe: Any, campaign: Any, seed: int) -> None:
    space = read_space({"g": [4, 8, 16], "agg": ["token", "seq"], "t": [1.0, 2.0]})
    running = campaign(lambda recipe: float(recipe["g"]), BASE)
    ideas = running.run(tpe(space, seed=seed), 50)
    assert len(ideas) == 11, "all twelve but the baseline's own"
    assert len({fingerprint(idea.overrides, BASE) for idea in ideas}) == 11
    assert tpe(space, seed=seed).ask(running.attempts) is None


def test_a_restart_before_every_ask_changes_nothing(tpe: Any, campaign: Any) -> None:
    whole, torn = campaign(score, BASE), campaign(score, BASE)
    whole.run(tpe(seed=5), 12)
    for _ in range(12):
        assert tpe(seed=5).ask(torn.attempts), "lost in a crash: it is proposed again"
        torn.step(tpe(seed=5))
    assert [(i.overrides, i.token) for i in torn.ideas] == [(i.overrides, i.token) for i in whole.ideas]


def test_optuna_is_quiet(tpe: Any, campaign: Any, capfd: pytest.CaptureFixture[str]) -> None:
    campaign(score, BASE).run(tpe(), 2)
    logging.getLogger("optuna").info("not shown")
    assert capfd.readouterr() == ("", "")


@pytest.mark.system
def test_optuna_is_not_imported_before_the_first_ask() -> None:
    text = (
        "import sys; from autoresearch.proposers.registry import *\n"
        "from autoresearch.core.campaign.space import read_space\n"
        "inputs = ProposerInputs(None, None, space=read_space({'a': [1, 2]}))\n"
        "proposer('tpe', inputs); print('optuna' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout.split() == ["False"]
