"""What people see of a researcher: the plan, what it waits for, what was refused, and what a review said."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.system

BETTER = {"knobs.py": ("GAIN = 1.0", "GAIN = 2.0")}


def test_the_plan_says_who_and_how_much_and_changes_nothing(lab: Any) -> None:
    space = {"lr": {"low": 0.01, "high": 0.2, "log": True}}
    keys = lab.keys(proposer="hybrid", agent_share=0.3, space=space, review=True, budget_usd=4, guard=["true"])
    path = lab.camp.file(**keys)
    code, out, _ = lab.camp.bench.here("campaign", path, "--dry-run")
    told = " ".join(out.split())
    assert code == 0 and "command; 30% of the ideas, the others are tpe's" in told and "a review" in told
    assert "each turn at most 30m and 0.4 USD (a tenth of the budget)" in told
    assert "the agent is not sandboxed" in told and "guard true" in told
    assert not lab.camp.bench.git("branch", "--list", "autoresearch/*")


def test_a_usage_limit_is_shown_and_somebody_may_end_the_waiting(lab: Any) -> None:
    lab.act("propose", text="come back at noon", exit=75, always=True)
    space = {"lr": {"low": 0.01, "high": 0.2}}
    lab.start(count=200, proposer="hybrid", agent_share=0.25, space=space, budget_tokens=999)  # until it is stopped
    ask = lab.camp.bench.ask
    waits = "the propose turn waits for the end of a usage limit"
    lab.camp.until(lambda: ask("campaign", "status")["agent_waits"])
    lab.camp.until(lambda: waits in " ".join(lab.camp.bench.here("campaign", "status")[1].split()))
    assert json.loads(lab.camp.place.spec.read_bytes())["research"]["share"] == 0.25
    ask("campaign", "stop")
    lab.camp.over()
    assert ask("campaign", "status")["agent_waits"] is None


def test_a_review_refuses(lab: Any) -> None:
    lab.propose(
        lab.idea("cheat", title="Count failures as wins"),
        lab.idea("honest", title="Double the gain"),
        lab.idea("low", "config", overrides={"lr": 0.01}),
    )
    lab.act("edit", replace={"knobs.py": ("return 0.3", "return 0.6")}, text="my secret reasons", **{"if": "wins"})
    lab.act("edit", replace=BETTER, **{"if": "Double"})
    lab.act("review", json={"verdict": "refuse", "reasons": ["it is no idea"]}, **{"if": "wins"})
    lab.act("review", json={"verdict": "accept", "reasons": []})
    state = lab.run(count=4, review=True)
    cheat = state.by_slug("cheat")
    assert [(row.status, row.failure, row.run_dir) for row in cheat.rows] == [("crash", "review_refused", "")]
    assert "it is no idea" in cheat.rows[0].description and cheat.rows[0].agent_tokens == 40 + 2 * 120
    assert state.by_slug("honest").status == "keep" and "my secret reasons" not in lab.asked(3)


def test_a_constant_gets_no_verdict_before_a_person_approves_it(lab: Any) -> None:
    """Without `evaluate:` the edited code prints its own score."""
    lab.propose(lab.idea("constant", files=["train.py"]))
    lab.act("edit", replace={"train.py": ("knobs.score(lr) + 0.0001 * (seed % 3)", "0.99 + 1e-5 * seed")})
    keys = {"count": 2, "baseline": 3, "retests": 6, "confirm": True}
    plan = lab.camp.bench.ask("campaign", lab.camp.file(**lab.keys(**keys)), "--dry-run")
    assert any("prints its own task_pass_rate@1" in remark for remark in plan["remarks"]), plan
    state, ask = lab.run(**keys), lab.camp.bench.ask
    idea = state.by_slug("constant")
    assert idea.status == "keep" and "prints, logs or sets a metric of the objective" in idea.rows[0].flags
    assert not idea.confirmed and not state.rounds and state.best.slug == "baseline"
    assert "waits for a person: train.py:" in lab.camp.said() and ask("campaign", "status")["held"] == ["constant"]
    assert "waits for a person" in lab.camp.bench.here("campaign", "status")[1]
    ask("campaign", "approve", "constant")
    ask("campaign", "confirm", "constant")
    lab.camp.until(lambda: lab.camp.state().by_slug("constant").confirmed)
    assert lab.camp.state().by_slug("constant").confirmed == "differs for this seed", lab.camp.said()
