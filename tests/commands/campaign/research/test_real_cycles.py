"""Real agents at a scripted model drive whole campaigns on a trainer that truly learns.

Propose (a number, and two changes of code), edit, guard, run, a crash that the edit caused, fix, run again, keep, and
sum up. The controller is a process of its own, in tmux, as a user has it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.agents.homes import AgentHome
    from tests.agents.model_server import ModelServer
    from tests.agents.script import Asked, Step

pytestmark = pytest.mark.real

FILES = {
    "train.py": """import sys

import reward
from autoresearch.tinygrpo.__main__ import main

sys.exit(main([*sys.argv[1:], "--set", *reward.settings()]))
""",
    "reward.py": """FORMAT = 0.1
UPDATES = 2


def settings():
    return [f"format_reward={FORMAT}", f"mini_batches={UPDATES}"]
""",
    "tests/test_reward.py": """import reward


def test_a_wrong_answer_earns_little():
    assert 0.0 <= reward.FORMAT <= 0.5
""",
    "recipe.yaml": "task: sort\nseed: 0\ntotal_steps: 16\ntest_freq: 8\nval_tasks: 64\nval_pass_n: 4\n"
    "sft_steps: 200\nlr: 0.0005\n",
}
UPDATES = "Update eight times per batch"
FORMAT = "Pay for the right digits in the wrong order"
BUG = {"path": "reward.py", "old": "UPDATES = 2", "new": "BATCHES = 8"}
FIX = {"path": "reward.py", "old": "BATCHES = 8", "new": "UPDATES = 8"}
WRONG = {"path": "reward.py", "old": "FORMAT = 0.1", "new": "FORMAT = 0.9"}
SUMMARY = {
    "headline": "A larger learning rate and more updates helped.",
    "what_helped": ["larger-lr: it was far too low."],
    "what_did_not": ["pay-format: its guard failed."],
    "surprising": [],
    "next_ideas": [],
}


def answers(lab: Any) -> Callable[[Asked], list[Step]]:
    """What the model says in each kind of turn."""
    known = {"reward.py": ["reward.py"], "files": []}
    ideas = [
        lab.idea("larger-lr", "config", title="Learn twice as fast", overrides=[{"key": "lr", "value": "0.001"}]),
        lab.idea(
            "more-updates", title=UPDATES, rationale="The policy moves too little per step.", files=known["reward.py"]
        ),
        lab.idea("pay-format", title=FORMAT, rationale="Most answers earn nothing at all.", files=known["reward.py"]),
    ]

    def answer(asked: Asked) -> list[Step]:
        text = asked.text
        if "# Mend a run that failed" in text:
            return [{"read": "reward.py"}, {"edit": FIX}, {"text": "The name was wrong: it is UPDATES."}]
        if "# Change the code" in text:
            edit = BUG if UPDATES in text else WRONG
            return [{"read": "reward.py"}, {"edit": edit}, {"text": f"I changed {edit['old']}."}]
        if "You are asked to sum up" in text:
            return [{"json": SUMMARY}]
        return [{"json": {"hypotheses": ideas}}]

    return answer


@pytest.fixture
def tiny(lab: Any) -> Any:
    """The repository of `lab`, with the embedded trainer in place of the small one."""
    repo = lab.camp.bench.repo
    for name in ("knobs.py", "tests/test_knobs.py"):
        (repo / name).unlink()
    for name, text in FILES.items():
        (repo / name).write_text(text)
    path = lab.camp.bench.blueprint(
        "ok", command="python train.py --conf recipe.yaml", trainer="tinygrpo", title="Sort", purpose="Learn to sort."
    )
    path.write_text(path.read_text().replace("- path: NA", "- path: recipe.yaml"))
    lab.camp.bench.git("add", "-A")
    lab.camp.bench.git("commit", "-qm", "the embedded trainer")
    return lab


@pytest.mark.parametrize("name", ["claude", "codex", "acp"])
def test_a_whole_campaign(
    name: str, tiny: Any, agent_home: Callable[[str], AgentHome], model_server: ModelServer
) -> None:
    camp = tiny.camp
    agent = agent_home("opencode" if name == "acp" else name)
    camp.bench.env |= {**agent.variables, "PATH": os.environ["PATH"]}
    model_server.answer_with(answers(tiny))
    keys = tiny.keys(
        **{"agent": None, "agent_command": None, "proposer": None, "sandbox": None, "count": 4, "summarise": True},
        guard=[f"{sys.executable} -m pytest -q -p no:cacheprovider tests"],
    )
    started = {"agent_command": [agent.program, "acp"]} if name == "acp" else {"agent_program": agent.program}
    keys |= {"agent_model": agent.model, **started}
    camp.file(**keys)
    before = camp.checkout()
    flags = ("--proposer", "agent", "--agent", name)
    camp.start(*flags, **keys)
    camp.until(lambda: camp.state().phase in ("ended", "paused") and not camp.place.controlled)
    state = camp.state()
    seen = f"{camp.said()}\n{[(one.rule, one.step, one.said[:80]) for one in model_server.asked]}"
    assert camp.checkout() == before, seen

    # the ledger
    lr, updates, paid = (state.by_slug(slug) for slug in ("larger-lr", "more-updates", "pay-format"))
    assert state.attempted == 4 and [row.status for row in state.by_slug("baseline").rows] == ["keep", "keep"], seen
    assert lr and updates and paid, seen
    assert [(row.status, row.failure) for row in lr.rows] == [("keep", "")], seen
    first, second = updates.rows
    assert (first.status, first.failure, second.status, second.fix_of) == (
        *("crash", "code", "keep"),
        first.run_id,
    ), seen
    assert second.metric_value > lr.rows[0].metric_value > state.by_slug("baseline").value, seen
    assert [(row.status, row.failure, row.run_dir) for row in paid.rows] == [("crash", "guard_failed", "")], seen
    assert all(row.agent_tokens for row in (*lr.rows, first, second, *paid.rows)), seen

    # the branches
    def show(idea: Any, path: str) -> str:
        return str(camp.bench.git("show", f"{idea.branch}:{path}"))

    assert "lr: 0.001" in show(lr, "recipe.yaml") and "UPDATES = 2" in show(lr, "reward.py")
    assert "UPDATES = 8" in show(updates, "reward.py") and "FORMAT = 0.9" in show(paid, "reward.py")
    assert updates.branch == first.branch == second.branch and first.commit != second.commit

    # the journal, the log of the experiment, the summary
    roles = [turn["role"] for turn in tiny.journal("turn")]
    assert roles[:1] + sorted(roles[1:-1]) + roles[-1:] == ["propose", "edit", "edit", "fix", "summarise"], seen
    assert not [turn for turn in tiny.journal("turn") if turn.get("fault")], seen
    assert [(line["slug"], line["told"][:16]) for line in tiny.journal("fixed")] == [
        ("more-updates", "fix 1 of 2 by " + name[:2])
    ]
    story = Path(second.result_dir, "experiment_log.md").read_text()
    assert f"fix 1 of 2 by {name}: The name was wrong" in story, story
    assert SUMMARY["headline"] in (camp.place.path / "agent_summary.md").read_text(), seen

    # and nothing is left
    def living() -> list[str]:
        told = camp.bench.tmux("list-sessions", "-F", "#{session_name} #{pane_dead}").stdout.splitlines()
        return [line for line in told if not line.endswith(" 1")]

    camp.bench.until(lambda: not living())
    assert not list(Path(state.spec.trees).glob("agent-*")), "its worktrees are gone"
    camp.bench.until(lambda: not camp.bench.carriers())
