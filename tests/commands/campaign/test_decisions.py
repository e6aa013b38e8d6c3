"""What is kept, what is discarded, what crashed, what is passed over: decided by code, with a reason each."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system


def test_every_kind_of_idea(camp: Any) -> None:
    """One queue with all that only shows when it is tried: each is recorded, and the campaign goes on."""
    repo = camp.bench.repo
    (repo / "bad.diff").write_text("--- a/train.py\n+++ b/train.py\n@@ -1,1 +1,1 @@\n-nothing like it\n+x\n")
    queue = camp.ideas(
        {"slug": "good", "overrides": {"lr": 0.01}, "sentence": "a lower rate", "expected": "+0.1"},
        {"slug": "dies", "overrides": {"mode": "crash"}},
        {"slug": "blind", "overrides": {"mode": "nan"}},
        {"slug": "mute", "overrides": {"mode": "silent"}},
        {"slug": "twin", "overrides": {"lr": 1e-2}, "parent": "baseline"},
        {"slug": "same", "overrides": {"lr": 0.1}, "parent": "baseline"},
        {"slug": "patched", "patches": ["bad.diff"]},
        {"slug": "worse", "overrides": {"lr": 1.0}, "parent": "baseline"},
    )
    state = camp.run(queue=queue, count=6, confirm=False)
    assert state.reason == "stop condition met: 6/6 ideas attempted"
    assert {idea.slug: [row.status for row in idea.rows] for idea in state.ideas} == {
        "baseline": ["keep"] * 2,
        "good": [*["discard"] * 3, "keep"],
        "dies": ["crash"],
        "blind": ["crash"],
        "mute": ["unmeasured"],
        "worse": ["discard"],
    }
    good = state.by_slug("good")
    assert "being re-tested" in good.rows[0].description
    assert [row.standing for row in good.rows] == [*["pending"] * 3, "keep"]
    assert {row.standing == row.status for idea in state.ideas if idea is not good for row in idea.rows} == {True}
    shown = camp.bench.here("ledger", "show", camp.place.ledger, "--last", "0")[1]
    assert [re.split("  +", line)[2] for line in shown.splitlines() if " good-" in line] == ["keep"] * 4
    first = camp.bench.ask("status", good.rows[0].run_id)
    assert first["verdict"] == "pending" and "being re-tested" in first["verdict_reason"]
    assert "better than the noise allows" in good.rows[-1].description
    assert (good.rows[-1].metric_noise or 0) > 0
    assert [row.seed for row in good.rows] == [7, 8, 9, 10]
    assert state.by_slug("dies").rows[0].ending == "crashed"
    assert [state.by_slug(slug).rows[0].ending for slug in ("blind", "mute")] == ["finished"] * 2
    counts = camp.bench.ask("campaign", "status")
    assert counts["attempted"] == 6 and counts["standings"].items() >= {"crashed": 2, "unmeasured": 1}.items()
    assert "was not read" in state.by_slug("mute").rows[0].description
    assert Path(counts["report"]).read_text().startswith("<!DOCTYPE html>") and Path(counts["picture"]).is_file()
    assert f"report: file://{counts['report']}" in camp.bench.here("campaign", "status")[1], "as the demo prints it"
    reasons = {hypothesis.slug: why for hypothesis, why in state.skipped}
    assert sorted(reasons) == ["patched", "same", "twin"]
    assert "the same as #2 " in reasons["twin"]
    assert "changes nothing" in reasons["same"]
    assert "patch 1 does not apply" in reasons["patched"]
    assert state.best.slug == "good"


@pytest.mark.parametrize("most", ["timeout", "each", "exp_max_time"])
def test_the_limit_that_fired_decides(camp: Any, most: str) -> None:
    """`--timeout` is a failure, and so is `4 seconds each`; `exp_max_time` is how such runs are meant to end."""
    path = camp.bench.repo / "exp.md"
    if most == "exp_max_time":
        path.write_text(path.read_text().replace("10 minutes in all", "4 seconds in all"))
    if most == "each":
        path.write_text(path.read_text().replace("10 minutes in all", "10 minutes in all, 4 seconds each"))
    camp.recipe(noise=0.0)
    queue = camp.ideas({"slug": "long", "overrides": {"mode": "endless"}})
    limit = {"timeout": "4s", "each": None}.get(most, "1m")
    state = camp.run(queue=queue, count=2, retests=0, confirm=False, timeout=limit)
    (row,) = state.by_slug("long").rows
    assert row.ending == "max_time"
    assert row.status == ("keep" if most == "exp_max_time" else "crash"), row.description
    assert row.metric_value == 0.9


def test_a_claim_is_confirmed_and_a_fake_is_demoted(camp: Any) -> None:
    """`fake` is good on the seeds of the search only, `more` on all; both are put to the proof after the end."""
    camp.recipe(noise=0.001)
    queue = camp.ideas(
        {"slug": "fake", "overrides": {"mode": "fake"}, "parent": "baseline"},
        {"slug": "more", "overrides": {"lr": 0.05}, "parent": "fake"},  # it stands on its own feet
    )
    state = camp.run(queue=queue, count=3, retests=1, confirm=False, confirm_runs=6)
    assert [idea.status for idea in state.ideas] == ["keep"] * 3, camp.said()
    assert (state.best.slug, state.best.parent) == ("more", "fake")
    refused = camp.bench.ask("campaign", "confirm", "nobody", check=4)
    assert refused["error"]["message"] == "one has no idea 'nobody'"

    dear = camp.bench.ask("campaign", "confirm", "fake", "more", check=5)["error"]
    assert "nothing can be confirmed: a claim needs 12 fresh runs, and `confirm_runs` allows 6" in dear["message"]
    assert dear["fix"] == "autoresearch campaign set one confirm_runs=12 --json"
    camp.bench.ask(*shlex.split(dear["fix"].replace("=12", "=24"))[1:])
    camp.over()
    assert camp.state().spec.rules.confirm_runs == 24 and not camp.state().rounds
    assert camp.bench.ask("campaign", "confirm", "fake", "more")["campaign"] == "one"
    state = camp.over()
    (plan,) = state.rounds
    assert not state.open_round and plan.candidates == (2, 3)
    assert [state.by_slug(slug).confirmed for slug in ("fake", "more")] == ["demoted", "confirmed"], camp.said()
    fresh = [run for run in state.by_slug("more").runs if run.why == "confirm"]
    assert len(fresh) in plan.sizes and min(run.seed for run in fresh) > 1000
    assert {row.run_id for row in state.by_slug("more").judged}.isdisjoint({run.run for run in fresh})
    assert state.attempted == 3 and state.best.slug == "more"
    assert "demoted" in camp.place.events.read_text()
    assert not camp.place.controlled and camp.place.flag.exists()
