"""`confirm`: what it refuses before anything is asked of a campaign."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.commands.campaign_control import confirm
from autoresearch.errors import ConflictError

pytestmark = pytest.mark.system

WORDS = {
    "baseline": "the baseline is what ideas are measured against: it cannot be confirmed",
    "best": "#9 lr=0.3 (on #2) is confirmed already",
    "": "#9 lr=0.3 (on #2) is confirmed already",  # the default is the best one
    "oom": "#4 Twice the batch (on #2) has no result that could be confirmed (crash)",
}


@pytest.mark.parametrize("slug", WORDS)
def test_what_cannot_be_confirmed(lived: Any, slug: str) -> None:
    with pytest.raises(ConflictError) as caught:
        confirm([slug] if slug else [], campaign=str(lived.place.path))
    assert (caught.value.message, int(caught.value.exit_code)) == (WORDS[slug], 5)
    assert not lived.state().requested


def test_a_discarded_idea_may_be_put_to_the_proof(lived: Any) -> None:
    """Its interval answers a question about one key, where one run of the search could not."""
    from autoresearch.core.controller.confirmation_rounds import plan_round
    from autoresearch.core.controller.standing import standing
    from autoresearch.lab.campaign_report.summary import idea_lines

    state = lived.state()
    down = state.by_slug("lr-down")
    planned, _ = plan_round(state, [down])
    assert planned is not None and planned.candidates == (down.index,)
    numbers = {"gain": -0.08, "gain_low": -0.1, "gain_high": -0.06, "coverage": 0.9}
    numbers |= {"value": 0.42, "n": 4, "n_baseline": 4}
    lived.verdict("unconfirmed", "lr-down", **numbers)
    state = lived.state()
    words = standing(state, state.by_slug("lr-down")).words
    assert words.startswith("unconfirmed, task_pass_rate@1 0.42, -0.08 against the baseline's 0.5 (90 % interval -0.1")
    standings = {line.idea.slug: line.word for line in idea_lines(state)}
    assert standings["lr-down"] == "discarded", "it was never kept, so nothing was demoted"
    lived.verdict("confirmed", "lr-down", **{**numbers, "gain": 0.08, "gain_low": 0.06, "gain_high": 0.1})
    assert {line.idea.slug: line.word for line in idea_lines(lived.state())}["lr-down"] == "confirmed"
