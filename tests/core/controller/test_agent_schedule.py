"""What coding agents are asked next, beside what is under way: tables of a campaign's records and its jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.core.agents.turns import AgentJob
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import ProposerSpec, Rules
from autoresearch.core.controller.agent_schedule import fruitless, next_agent, next_job, unwanted_jobs

Make = Callable[..., Any]
CLAUDE = AgentSpec(agent="claude")
BOTH = AgentSpec(agent="claude,codex")


def proposal(slug: str, **fields: Any) -> Hypothesis:
    return Hypothesis(slug, "an idea", proposer="agent", token=slug, kind="code", **fields)


def turn(made: Any, role: str, name: str, *, agent: str = "claude", seconds: float = 1.0, **fields: Any) -> str:
    made.note("turn", name=name, role=role, agent=agent, seconds=seconds, **fields)
    return name


def campaign(records: Make, agents: AgentSpec = CLAUDE, *, unedited: int = 0, made: int = 0, **changes: Any) -> Any:
    """A campaign on four slots with so many proposals; none of its edits was timed yet."""
    rules = changes.pop("rules", Rules(count=30))
    found = records(research=agents, proposer=ProposerSpec("agent"), parallel=4, rules=rules, **changes)
    found.checked()
    for number in range(unedited + made):
        hypothesis = proposal(f"idea-{number}")
        found.note("proposed", hypothesis=hypothesis.to_json(), made=False)
        if number < made:
            found.note("made", hypothesis=hypothesis.to_json())
    return found


def begun(made: Any, *jobs: AgentJob, waits: bool = False) -> list[AgentJob]:
    """The jobs that are begun beside these, one after the other, until nothing more is. The record stays as it is."""
    before = list(made.journal)
    for job in jobs:
        made.begin(job)
        if waits:
            made.note("waits", job=job.name, role="edit", fault="quota", said="", until=made.clock + 9, tries=1)
    found: list[AgentJob] = []
    while (job := next_job(made.state(), made.clock)) is not None:
        assert job.name not in made.state().research.jobs and len(found) < 40, found
        made.begin(job)
        found.append(job)
    made.journal[:] = before
    return found


def names(made: Any, *jobs: AgentJob, waits: bool = False) -> list[str]:
    return [job.name for job in begun(made, *jobs, waits=waits)]


def edits(*numbers: int) -> list[str]:
    return [f"edit idea-{number}" for number in numbers]


def test_as_many_ideas_wait_for_their_run_as_there_are_slots(records: Make) -> None:
    assert names(campaign(records)) == ["propose claude"], "there is nothing to edit"
    assert names(campaign(records, unedited=3)) == [*edits(0, 1, 2), "propose claude"]
    assert names(campaign(records, unedited=6)) == edits(0, 1, 2, 3), "ideas are asked for when they are needed"
    assert names(campaign(records, unedited=6, made=2)) == edits(2, 3), "what is edited is as good as a run"
    busy = campaign(records, unedited=6)
    for number in range(4):
        busy.idea(f"live-{number}")
        busy.start(f"live-{number}")
    assert names(busy) == edits(0, 1, 2, 3), "what runs waits no more"
    busy.idea("next")
    assert names(busy) == edits(0, 1, 2)


def test_three_wait_where_there_is_one_slot_or_as_many_as_editors_says(records: Make) -> None:
    made = campaign(records, unedited=6)
    made.spec = replace(made.spec, parallel=1)
    assert names(made) == edits(0, 1, 2)
    made.spec = replace(made.spec, research=replace(CLAUDE, editors=2))
    assert names(made) == edits(0, 1)


def test_no_more_ideas_than_the_count_allows(records: Make) -> None:
    assert names(campaign(records, unedited=5, rules=Rules(count=3))) == edits(0, 1)
    assert names(campaign(records, unedited=5, made=1, rules=Rules(count=3))) == edits(1)
    assert names(campaign(records, unedited=1, rules=Rules(count=3))) == [*edits(0), "propose claude"]
    assert names(campaign(records, made=2, rules=Rules(count=3))) == []


def test_a_fix_and_a_guard_go_on_beside_edits(records: Make) -> None:
    made = campaign(records, unedited=2)
    made.idea("broken")
    made.run("broken", None, "crash", failure="import_error")
    assert names(made) == ["fix broken", *edits(0, 1), "propose claude"]
    made.note("fixing", index=2, run="broken-000001")
    assert names(made, AgentJob("fix", "broken", "claude"))[0] == "edit idea-0"


def test_pause_stop_and_a_skipped_idea(records: Make) -> None:
    made = campaign(records, unedited=3)
    for number in range(2):
        made.begin(AgentJob("edit", f"idea-{number}", "claude", editor=number + 1))
    made.note("unwanted", slug="idea-1", reason="no")
    assert unwanted_jobs(made.state()) == ["edit idea-1"]
    assert names(made) == [*edits(2), "propose claude"], "it is not edited again"
    made.note("state", state="paused", reason="lunch")
    assert names(made) == [] and unwanted_jobs(made.state()) == ["edit idea-1"]
    made.note("state", state="running", reason="")
    made.note("told", how="drain", reason="enough")
    assert names(made) == [] and unwanted_jobs(made.state()) == ["edit idea-0", "edit idea-1"]


def test_money_that_is_promised_counts_as_spent(records: Make) -> None:
    rules = Rules(count=30, budget_usd=10.0)

    def money(spec: AgentSpec, spent: float, jobs: int = 0, turns: int = 1) -> list[float | None]:
        made = campaign(records, spec, unedited=9, rules=rules)
        for number in range(turns):
            turn(made, "propose", f"{number:04}-propose", usd=spent / turns)
        under_way = [AgentJob("edit", f"x-{n}", "claude", 2.0, editor=n + 1) for n in range(jobs)]
        return [job.usd for job in begun(made, *under_way)]

    assert money(CLAUDE, 0.5) == [1.0] * 4, "a tenth of the budget is usual"
    two = replace(CLAUDE, turn_usd=2.0)
    assert money(two, 3.0) == [2.0] * 3, "a fourth might not be paid for"
    assert money(two, 9.5) == [0.5], "the last one gets what is left"
    assert money(two, 5.0, jobs=2) == [], "what is left is promised; what they really cost may leave more"
    reviewed = replace(two, review=True)
    assert money(reviewed, 3.0) == [2.0], "its review costs as much again"
    assert money(reviewed, 3.0, turns=10) == [2.0] * 3, "a tenth of that, as turns did so far"
    mended = replace(reviewed, guard=("true",), max_fixes=2)
    assert money(mended, 3.0, turns=10) == [2.0] * 2, "and its fixes"
    assert money(two, 10.0) == [], "it is spent"


def test_tokens_that_jobs_under_way_will_take_count_too(records: Make) -> None:
    made = campaign(records, unedited=9, rules=Rules(count=30, budget_tokens=1000))
    turn(made, "propose", "0001-propose", tokens_in=200, tokens_out=100)
    assert names(made) == edits(0, 1, 2), "300 each"


def test_an_agent_at_its_limit_holds_up_nobody_else(records: Make) -> None:
    made = campaign(records, BOTH, unedited=4)
    limited, asking = AgentJob("edit", "idea-0", "claude"), AgentJob("propose", agent="claude")
    jobs = begun(made, limited, waits=True)
    assert [job.name for job in jobs] == [*edits(1, 2, 3), "propose codex"]
    assert {job.agent for job in jobs} == {"codex"}
    assert names(campaign(records, unedited=4), limited, waits=True) == []
    assert names(campaign(records, BOTH), asking, waits=True) == ["propose codex"]


def test_fixes_and_edits_go_to_the_agent_that_knows_the_idea(records: Make) -> None:
    made = campaign(records, BOTH)
    turns = (turn(made, "propose", "0001-propose", agent="codex"), turn(made, "edit", "0002-edit", agent="codex"))
    made.idea("broken", proposer="agent", kind="code", turns=turns)
    made.run("broken", None, "crash", failure="import_error")
    (fix, *_) = begun(made)
    assert (fix.name, fix.agent) == ("fix broken", "codex")
    made.note("suspended", agent="codex", reason="not logged in")
    (fix, *_) = begun(made)
    assert (fix.name, fix.agent) == ("fix broken", "claude"), "somebody has to"
    made.note("readmitted")
    made.note("proposed", hypothesis=proposal("next", turns=("0001-propose",)).to_json(), made=False)
    (edit, *_) = begun(made, fix)
    assert (edit.name, edit.agent) == ("edit next", "codex")
    for agent in ("codex", "claude"):
        made.note("suspended", agent=agent, reason="gone")
    assert names(made) == []


def test_the_agent_whose_ideas_come_to_nothing_is_suspended_alone(records: Make) -> None:
    made = campaign(records, BOTH)
    for number in range(3):
        name = turn(made, "propose", f"000{number}-propose", agent="codex")
        made.note("asked", ideas=1, turns=[name])
    found = fruitless(made.state())
    assert found is not None and found[0] == "codex" and "codex had no idea that could be tried 3 times" in found[1]
    made.note("suspended", agent="codex", reason=found[1])
    assert fruitless(made.state()) is None
    made.note("readmitted")
    made.note("proposed", hypothesis=proposal("late", turns=["0000-propose"]).to_json(), made=False)
    assert fruitless(made.state()) is None, "one of them may still come to something"
    made.note("skipped", hypothesis=proposal("late").to_json(), reason="a duplicate")
    made.idea("good", proposer="agent", kind="code", turns=["0001-propose"])
    assert fruitless(made.state()) is None, "only the last of them came after the one of a good idea"


def test_agents_take_turns(records: Make) -> None:
    made = campaign(records, BOTH)

    def ask(*able: str) -> str:
        agent = next_agent(made.state(), able or BOTH.agents)
        turn(made, "propose", f"{len(made.state().research.turns):04}-propose", agent=agent)
        turn(made, "edit", f"{len(made.state().research.turns):04}-edit", agent="claude")
        return agent

    assert [ask() for _ in range(4)] == ["claude", "codex", "claude", "codex"], "what they edit is no request"
    assert [ask("codex"), ask("codex"), ask(), ask()] == ["codex", "codex", "claude", "codex"]
