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

from autoresearch.core.campaign.tip import edits_of

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
STILL_WRONG = {"path": "reward.py", "old": "FORMAT = 0.9", "new": "FORMAT = 0.8"}


def answers(lab: Any) -> Callable[[Asked], list[Step]]:
    """What the model says in each kind of turn."""
    known = {"reward.py": ["reward.py"], "files": []}
    ideas = [
        lab.idea("larger-lr", "config", title="Learn twice as fast", overrides={"lr": 0.001}),
        lab.idea(
            "more-updates", title=UPDATES, rationale="The policy moves too little per step.", files=known["reward.py"]
        ),
        lab.idea("pay-format", title=FORMAT, rationale="Most answers earn nothing at all.", files=known["reward.py"]),
    ]

    def answer(asked: Asked) -> list[Step]:
        text = asked.text
        if "# Mend an edit that fails its guard" in text:
            return [{"read": "reward.py"}, {"edit": STILL_WRONG}, {"text": "I lowered it."}]
        if "# Mend a run that failed" in text:
            return [{"read": "reward.py"}, {"edit": FIX}, {"text": "The name was wrong: it is UPDATES."}]
        if "# Change the code" in text:
            edit = BUG if f"- what: {UPDATES}" in text else WRONG
            return [{"read": "reward.py"}, {"edit": edit}, {"text": f"I changed {edit['old']}."}]
        return [{"json": {"hypotheses": ideas, "findings": []}}]

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


@pytest.mark.parametrize("name", ["claude", "acp"])  # codex: below, on the tip
def test_a_whole_campaign(
    name: str, tiny: Any, agent_home: Callable[[str], AgentHome], model_server: ModelServer
) -> None:
    camp = tiny.camp
    agent = agent_home("qwen" if name == "acp" else name)  # it starts in half of OpenCode's time
    camp.bench.env |= {**agent.variables, "PATH": os.environ["PATH"]}
    model_server.answer_with(answers(tiny))
    keys = tiny.keys(
        **{"agent": None, "agent_command": None, "proposer": None, "sandbox": None, "count": 4},
        max_fixes=1,
        guard=[f"{sys.executable} -m pytest -q -p no:cacheprovider tests"],
    )
    started = {"agent_command": [agent.program, "--acp"]} if name == "acp" else {"agent_program": agent.program}
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
    assert len(updates.rows) == 2, seen
    first, second = updates.rows
    assert (first.status, first.failure, second.status, second.fix_of) == (
        *("crash", "program", "keep"),
        first.run_id,
    ), seen
    assert second.metric_value > lr.rows[0].metric_value > state.by_slug("baseline").value, seen
    assert [(row.status, row.failure, row.run_dir) for row in paid.rows] == [("crash", "guard_failed", "")], seen
    assert all(row.agent_tokens for row in (*lr.rows, first, second, *paid.rows)), seen

    # the branches
    def show(idea: Any, path: str) -> str:
        return str(camp.bench.git("show", f"{idea.branch}:{path}"))

    assert "lr: 0.001" in show(lr, "recipe.yaml") and "UPDATES = 2" in show(lr, "reward.py")
    assert "UPDATES = 8" in show(updates, "reward.py") and "FORMAT = 0.8" in show(paid, "reward.py")
    assert updates.branch == first.branch == second.branch and first.commit != second.commit

    # the journal, the log of the experiment
    roles = [turn["role"] for turn in tiny.journal("turn")]
    assert roles[:1] + sorted(roles[1:]) == ["propose", "edit", "edit", "fix", "fix"], seen
    assert not [turn for turn in tiny.journal("turn") if turn.get("fault")], seen
    assert [(line["slug"], line["told"][:16]) for line in tiny.journal("fixed")] == [
        ("more-updates", "fix 1 of 1 by " + name[:2])
    ]
    story = Path(second.result_dir, "experiment_log.md").read_text()
    assert f"fix 1 of 1 by {name}: The name was wrong" in story, story

    # and nothing is left
    def living() -> list[str]:
        told = camp.bench.tmux("list-sessions", "-F", "#{session_name} #{pane_dead}").stdout.splitlines()
        return [line for line in told if not line.endswith(" 1")]

    camp.bench.until(lambda: not living())
    assert not list(Path(state.spec.trees).glob("agent-*")), "its worktrees are gone"
    camp.bench.until(lambda: not camp.bench.carriers())


SPOTS = (
    "".join(f"{name} = 0.0\n" + "#\n" * 9 for name in "ABCDE")
    + """

def score(lr):
    return 0.3 + A + B + C + D + E
"""
)
GUARDED = "import knobs\n\nassert knobs.D <= 0.5 and knobs.A + knobs.B <= 0.5\n"
EDITS = {  # of each idea: its title, and what it puts in the place of a line
    "raise-a": ("Raise A a little", "A = 0.0", "A = 0.06"),
    "raise-b": ("Raise B a little", "B = 0.0", "B = 0.05"),
    "lower-c": ("Lower C a little", "C = 0.0", "C = -0.02"),
    "other-a": ("Another A from the baseline", "A = 0.0", "A = 0.02"),
    "no-number": ("Let E be computed later", "E = 0.0", "E = None"),
    "far-d": ("Raise D beyond its bound", "D = 0.0", "D = 0.9"),
    "remark": ("Say what D is", "D = 0.0", "D = 0.0  # a bonus"),
    "raise-c": ("Raise C a little", "C = 0.0", "C = 0.05"),
}


def of_the_edits(lab: Any) -> Callable[[Asked], list[Step]]:
    """What the model says: all ideas when it is asked for some, and the edit that the prompt is about."""
    ideas = [
        lab.idea(slug, title=title, rationale=f"{title}: it counts.")
        | ({"parent": "baseline"} if slug == "other-a" else {})
        for slug, (title, _, _) in EDITS.items()
    ]

    def answer(asked: Asked) -> list[Step]:
        if "# Change the code" not in asked.text:
            return [{"json": {"hypotheses": ideas, "findings": []}}]
        (mine,) = [edit for edit in EDITS.values() if f"- what: {edit[0]}" in asked.text]
        return [{"read": "knobs.py"}, {"edit": {"path": "knobs.py", "old": mine[1], "new": mine[2]}}, {"text": "Done."}]

    return answer


def test_a_campaign_on_the_tip_is_killed_in_a_merge_a_guard_and_a_proof(
    lab: Any, agent_home: Callable[[str], AgentHome], model_server: ModelServer
) -> None:
    camp, bench = lab.camp, lab.camp.bench
    agent = agent_home("codex")
    bench.env |= {**agent.variables, "PATH": os.environ["PATH"]}
    trainer = bench.repo / "train.py"
    noise = '__import__("random").Random(seed).gauss(0, 0.01)'
    trainer.write_text(trainer.read_text().replace("0.0001 * (seed % 3)", noise))
    (bench.repo / "knobs.py").write_text(SPOTS)
    (bench.repo / "tests" / "test_knobs.py").write_text(GUARDED)
    bench.git("commit", "-qam", "five places that an idea may change")
    model_server.answer_with(of_the_edits(lab))
    keys = lab.keys(
        **{"agent": None, "agent_command": None, "search": None, "sandbox": None, "retests": None, "baseline": 4},
        **{"count": 1 + len(EDITS), "ideas_per_turn": len(EDITS), "max_fixes": 0},
        guard=[f"{sys.executable} tests/test_knobs.py"],
        agent_model=agent.model,
        agent_program=str(agent.program),
    )

    bench.env["AUTORESEARCH_FAILPOINT"] = "campaign.drafted:kill:3"  # after the baseline and one idea: a merge
    camp.start("--proposer", "agent", "--agent", "codex", **keys)
    bench.until(lambda: not camp.place.controlled)
    assert camp.state().spec.search == "tip" and camp.state().draft.hypothesis.merges
    for point in ("research.guarding:kill:1", "campaign.gone:kill:7"):  # six first runs, and then a proof
        bench.env["AUTORESEARCH_FAILPOINT"] = point
        bench.ask("campaign", "resume", "--detach")
        bench.until(lambda: not camp.place.controlled)
    assert lab.journal("prepared")[-1]["why"] == "proof"
    del bench.env["AUTORESEARCH_FAILPOINT"]
    bench.ask("campaign", "resume", "--detach")
    camp.until(lambda: camp.state().phase in ("ended", "paused") and not camp.place.controlled)
    state, seen = camp.state(), camp.said()
    assert state.attempted == 1 + len(EDITS), seen
    good = {state.ideas[index - 1].slug for index in edits_of(state, state.best)}
    assert good - {"remark"} == {"raise-a", "raise-b", "raise-c"}, seen  # whether it seems good is noise
    assert state.best.status == "keep" and len(state.best.values) >= 4, seen
    text = bench.git("show", f"{state.best.branch}:knobs.py")
    assert "A = 0.06" in text and "B = 0.05" in text and "C = 0.05" in text, text
    first = {slug: [(row.status, row.failure) for row in state.by_slug(slug).rows] for slug in EDITS}
    assert first["far-d"] == [("crash", "guard_failed")] and first["no-number"][0][0] == "crash", first
    assert all(len(rows) == 1 for slug, rows in first.items() if slug != state.best.slug), first
    merges = [idea for idea in state.ideas if idea.hypothesis.merges]
    assert len({idea.hypothesis.merges for idea in merges}) == len(merges), "none was made twice"
    assert len(lab.journal("guarded")) == len(merges), "none was guarded twice"
    assert not list(Path(state.spec.trees).glob("*"))


RUIN = """A = 0.0
#
B = 0.0
#
C = 0.0
#
D = 0.0


def score(lr):
    return 0.1 if sum(part > 0 for part in (A, B, C)) > 1 else 0.3 + A + B + C
"""
GAINS = {"raise-a": ("Raise A", "A = 0.0", "A = 0.44"), "raise-b": ("Raise B", "B = 0.0", "B = 0.44")}
GAINS |= {"raise-c": ("Raise C", "C = 0.0", "C = 0.42")}
IDLE = {f"remark-{n}": (f"Say thing {n} of D", "D = 0.0", f"D = 0.0  # {n}") for n in range(1, 7)}


def test_a_night_in_which_three_gains_ruin_each_other(
    lab: Any, agent_home: Callable[[str], AgentHome], model_server: ModelServer
) -> None:
    """Two agents in turn: the best one is confirmed, `apply` brings it home, and the next campaign knows of it."""
    camp, bench = lab.camp, lab.camp.bench
    agents = {name: agent_home(name) for name in ("claude", "codex")}
    for agent in agents.values():
        bench.env |= agent.variables
    bench.env["PATH"] = os.environ["PATH"]
    trainer = bench.repo / "train.py"
    noise = '__import__("random").Random(seed).gauss(0, 0.01)'
    trainer.write_text(trainer.read_text().replace("0.0001 * (seed % 3)", noise))
    (bench.repo / "knobs.py").write_text(RUIN)
    bench.git("commit", "-qam", "three gains that do not go together")
    edits, prompts = GAINS | IDLE, list[str]()
    ideas = [
        lab.idea(slug, title=title, rationale=f"{title}: it counts.")
        | {"parent": "baseline" if slug in GAINS else "best"}
        for slug, (title, _, _) in edits.items()
    ]

    def answer(asked: Asked) -> list[Step]:
        prompts.append(asked.text)
        if "# Change the code" not in asked.text:
            told, ideas[:3] = ideas[:3], []
            return [{"json": {"hypotheses": told, "findings": []}}]
        (mine,) = [edit for edit in edits.values() if f"- what: {edit[0]}\n" in asked.text]
        return [{"read": "knobs.py"}, {"edit": {"path": "knobs.py", "old": mine[1], "new": mine[2]}}, {"text": "Done."}]

    model_server.answer_with(answer)
    keys = lab.keys(
        **{"agent": None, "agent_command": None, "search": None, "sandbox": None, "retests": None, "baseline": 4},
        **{"confirm": None, "count": 1 + len(edits), "ideas_per_turn": 3, "max_fixes": 0},
        agent_model={name: agent.model for name, agent in agents.items()},
        agent_program={name: str(agent.program) for name, agent in agents.items()},
    )
    flags = ("--proposer", "agent", "--agent", "claude,codex")
    camp.start(*flags, **keys)
    camp.until(lambda: camp.state().phase in ("ended", "paused") and not camp.place.controlled)
    state, seen = camp.state(), camp.said()
    best = state.best
    assert state.attempted == 1 + len(edits) and best.confirmed == "confirmed", seen
    gains = [slug for slug in GAINS if state.by_slug(slug).index in edits_of(state, best)]
    assert len(gains) == 1 and best.value > 0.6, seen
    assert "does not go with #" in (camp.place.path / "report.md").read_text()
    assert {row.agent for row in state.rows if row.agent} == {*agents}

    branch = bench.ask("apply", state.spec.name)["branch"]
    bench.git("merge", "-q", branch)
    assert bench.ask("run", bench.repo / "exp.md")["metrics"]["task_pass_rate@1"] > 0.6

    before = len(prompts)
    ideas.append(lab.idea("remark-7", title=IDLE["remark-1"][0], rationale="It counts."))
    camp.start(*flags, **keys | {"count": 2, "prefix": "autoresearch/second"})
    camp.until(lambda: camp.state().phase in ("ended", "paused") and not camp.place.controlled)
    assert camp.state().baseline.value > 0.6, "it begins where the first one ended"
    told = next(prompt for prompt in prompts[before:] if "# Earlier campaigns" in prompt)
    assert f"- confirmed: {best.name}" in told and "does not go with #" in told, told
    assert not [slug for slug in gains if f"given up: {state.by_slug(slug).name}" in told]
