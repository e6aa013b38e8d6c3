"""What a controller does next, from the state of a campaign and of its machine alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.core.agents.turns import AgentJob
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import ProposerSpec, Rules
from autoresearch.core.controller.actions import (
    ControllerAction,
    Do,
    Finish,
    NewIdea,
    Note,
    PrepareRun,
    RecordRun,
    Say,
    StepAgent,
    StopRun,
    WatchRun,
)
from autoresearch.core.controller.next_actions import Machine, ReadyRun, next_actions, report, resume_actions, waits_for
from autoresearch.core.controller.rules import exit_code_of
from autoresearch.core.controller.runs_and_retries import RunRequest

Make = Callable[..., Any]
LOOKED = frozenset[ControllerAction]({Do.CHECK_QUEUES, Do.CHECK_SEEDS})  # nothing new, the seeds need more runs
AGENT = AgentSpec(agent="claude", editors=1)
DEADLINE_MET = "stop condition met: the deadline has passed"


def machine(made: Any, **facts: Any) -> Machine:
    """A machine that watches the live runs of the records, at their clock."""
    live = tuple(run.run for _, run in made.state().live)
    return Machine(**{"now": made.clock, "live": live, "tried": LOOKED, **facts})


def due(made: Any, **facts: Any) -> tuple[ControllerAction, ...]:
    return next_actions(made.state(), machine(made, **facts))


def ready(made: Any, slug: str, why: str = "") -> ReadyRun:
    """Prepare a run; what the machine then holds."""
    run = made.prepare(slug, why)
    idea = made.state().by_slug(slug)
    return ReadyRun(run, RunRequest(idea, idea.runs[-1].replicate, idea.runs[-1].why))


def requested(actions: tuple[ControllerAction, ...]) -> tuple[str, int, str]:
    """The run that is to be prepared."""
    (action,) = actions
    assert isinstance(action, PrepareRun), action
    return action.request.idea.slug, action.request.replicate, action.request.why


def searching(records: Make, **changes: Any) -> Any:
    """A campaign whose baseline is measured and whose seeds are checked."""
    made = records(**changes)
    made.checked()
    return made


# -- the next run ----------------------------------------------------------------------------------------------------


def test_the_baseline_is_committed_first_then_prepared_then_launched(records: Make) -> None:
    made = records(empty=True)
    assert due(made) == (NewIdea(baseline=True),)
    made.idea("baseline")
    assert requested(due(made)) == ("baseline", 1, "baseline")
    held = ready(made, "baseline")
    assert due(made, ready=held) == (Do.LAUNCH_RUN,)
    made.note("started", run=held.run)
    assert requested(due(made)) == ("baseline", 2, "baseline")  # prepared while the first one trains


def test_ideas_take_the_slots_that_the_last_runs_of_the_baseline_leave(records: Make) -> None:
    made = records(empty=True, replicates=2)
    made.idea("baseline")
    first = made.start("baseline")
    made.start("baseline")
    assert due(made) == (Do.SLEEP,), "nobody knows yet whether it has its metric"
    made.end(first, 0.5)
    assert due(made) == (NewIdea(),)


def test_what_is_prepared_waits_for_room(records: Make) -> None:
    made = searching(records)
    made.idea("live")
    made.start("live")
    made.idea("next")
    held = ready(made, "next")
    assert due(made, ready=held) == (Do.SLEEP,)
    assert due(made, ready=held, tried=LOOKED | {Do.LAUNCH_RUN}) == (Do.SLEEP,)
    made.spec = replace(made.spec, parallel=2)
    assert due(made, ready=held) == (Do.LAUNCH_RUN,)
    assert due(made, ready=held, tried=LOOKED | {Do.LAUNCH_RUN}) == (Do.SLEEP,)  # no target has room: not at once again
    made.note("state", state="waiting", reason="proposer exhausted")  # before somebody added it
    assert due(made, ready=held) == (Note("state", {"state": "running", "reason": ""}), Do.LAUNCH_RUN)


def test_a_new_idea_comes_when_nothing_is_owed(records: Make) -> None:
    made = searching(records)
    assert due(made) == (NewIdea(),)
    assert due(made, tried=LOOKED | {NewIdea()}, dry=False) == (Do.SLEEP,)
    made.idea("one")
    assert requested(due(made)) == ("one", 1, "first")


def test_an_idea_that_an_agent_could_not_make_needs_no_worktree(records: Make) -> None:
    made = searching(records)
    made.idea("broken", unmade="researcher", why_unmade="its edit failed")
    (action,) = due(made, spare_worktree=False)
    assert isinstance(action, PrepareRun) and action.request.idea.slug == "broken"
    other = searching(records)
    other.idea("whole")
    assert due(other, spare_worktree=False) == (Do.SLEEP,)


def test_a_run_that_would_write_a_live_runs_file_waits_for_its_end(records: Make) -> None:
    made = searching(records)
    made.idea("live")
    run = made.start("live")
    assert due(made, conflicting=frozenset({run})) == (Do.SLEEP,)
    assert due(made, conflicting=frozenset({"another"})) == (NewIdea(),)


def test_a_skipped_idea_or_a_pointless_retest_is_withdrawn(records: Make) -> None:
    made = searching(records)
    made.idea("one")
    held = ready(made, "one")
    made.note("unwanted", slug="one")
    assert due(made, ready=held) == (Do.WITHDRAW_RUN,)
    again = searching(records)
    again.idea("good")
    again.run("good", 0.7, "discard")
    retest = ready(again, "good")
    assert due(again, ready=retest) == (Do.LAUNCH_RUN,)
    again.idea("better")
    again.run("better", 0.9)  # meanwhile: what was good is far below the best
    assert due(again, ready=retest) == (Do.WITHDRAW_RUN,)


def test_what_a_rule_rules_out_is_withdrawn(records: Make) -> None:
    made = searching(records, parallel=2)
    made.idea("live")
    made.start("live")
    made.idea("next")
    held = ready(made, "next")
    made.note("rules", count=2)
    assert due(made, ready=held) == (Do.WITHDRAW_RUN,)


def test_queues_are_checked_before_a_run_is_prepared(records: Make) -> None:
    made = searching(records)
    made.idea("one")
    assert due(made, tried=frozenset({Do.CHECK_SEEDS})) == (Do.CHECK_QUEUES,)


# -- runs that are over ----------------------------------------------------------------------------------------------


def test_what_ended_is_recorded_and_reported_and_then_the_next_run_starts(records: Make) -> None:
    made = searching(records, parallel=2)
    made.idea("one")
    run = made.start("one")
    made.idea("other")
    other = made.start("other")
    assert due(made, over=(other, run)) == (RecordRun(other), RecordRun(run))
    assert due(made, over=(other, run), tried=LOOKED | {RecordRun(other)}) == (RecordRun(run),)  # its disk is full
    made.end(run, 0.4, "discard")
    made.end(other, 0.41, "discard")
    made.idea("next")
    held = ready(made, "next")
    assert due(made, ready=held) == (Do.LAUNCH_RUN,)
    (said,) = report(made.state(), run, made.clock)
    assert isinstance(said, Say) and said.text.startswith("[3/12] #2 Try one, run 1: discard, pass@1 0.4;")
    assert "; branch autoresearch/" in said.text
    assert "; stop rule not met, " in said.text and "remaining" in said.text


def test_a_run_that_ended_keeps_its_slot_until_it_is_recorded(records: Make) -> None:
    made = searching(records)
    made.idea("one")
    run = made.start("one")
    made.idea("next")
    held = ready(made, "next")
    assert due(made, ready=held, over=(run,)) == (RecordRun(run),)
    made.spec = replace(made.spec, parallel=2)
    assert due(made, ready=held, over=(run,)) == (Do.LAUNCH_RUN,)


def test_a_row_that_was_taken_out_of_the_ledger_is_written_again(records: Make) -> None:
    made = searching(records)
    made.idea("one")
    run = made.start("one")
    assert due(made, live=()) == (WatchRun(run, f"/reports/{run}"),)


def dead_baseline(records: Make, *rows: dict[str, object]) -> Any:
    """A campaign whose baseline has crashed so many times."""
    made = records(empty=True)
    made.idea("baseline")
    for row in rows:
        made.run("baseline", None, "crash", **row)
    return made


NO_METRIC: dict[str, object] = {"failure": "no_metric", "log_path": "/r/run.log", "returncode": 0}
UNEVALUATED: dict[str, object] = {**NO_METRIC, "failure": "evaluation_failed"}
OTHER: dict[str, object] = {"failure": "cuda_oom", "log_path": "/r/other.log", "returncode": 1}


@pytest.mark.parametrize(
    ("rows", "how"),
    [
        ((NO_METRIC, NO_METRIC), "crashed (no_metric); see /r/run.log"),
        ((NO_METRIC, OTHER, NO_METRIC), "crashed (cuda_oom), crashed (no_metric); see /r/run.log"),
        ((UNEVALUATED, UNEVALUATED), "crashed (evaluation_failed); see /r/evaluation.log"),
    ],
)
def test_a_baseline_that_dies_alike_twice_pauses_and_begins_anew(
    records: Make, rows: tuple[dict[str, object], ...], how: str
) -> None:
    for count in range(1, len(rows)):
        assert requested(due(dead_baseline(records, *rows[:count]))) == ("baseline", count + 1, "baseline")
    made = dead_baseline(records, *rows)
    held = ready(made, "baseline")
    state, words = due(made, ready=held)  # nothing more is launched
    why = f"no run of the baseline printed pass@1: {how}"
    assert state == Note("state", {"state": "paused", "reason": why}) and isinstance(words, Say)
    made.note("withdrawn", run=held.run)
    made.apply((state,))
    assert due(made) == (Do.LEAVE,) and exit_code_of(made.state()) == 10
    made.apply(due(made, requests=({"do": "resume", "seq": 1},)))
    for count in range(3):
        assert requested(due(made))[:2] == ("baseline", len(rows) + count + 1), "all of its runs, mended"
        made.run("baseline", 0.5 + count / 100)
    assert due(made, tried=LOOKED) == (NewIdea(),)


def test_what_runs_without_a_run_says_what_it_waits_for_and_pauses_where_there_is_nothing(records: Make) -> None:
    made = searching(records)
    tried = LOOKED | {NewIdea()}

    def words(**facts: Any) -> str:
        assert due(made, tried=tried, **facts) == (Do.SLEEP,)
        return waits_for(made.state(), machine(made, tried=tried, **facts))

    both = "waits for claude, codex: edit lower, propose codex (a usage limit, or an outage)"
    jobs = AgentJob("edit", "lower", "claude"), AgentJob("propose", agent="codex", editor=2)
    for job in jobs:
        made.begin(job)
    made.note("waits", job=jobs[1].name, role="propose", fault="quota", said="", until=made.clock + 99, tries=1)
    assert words() == both
    for job in jobs:
        made.note("job_over", ends=job.name)
    assert words() == "waits for an idea that can be tried: the last ones could not"
    made.idea("one")
    assert words(spare_worktree=False).startswith("waits for a worktree: ")
    held = ready(made, "one")
    tried |= {Do.LAUNCH_RUN}
    assert words(ready=held) == "waits for room: #2 Try one, run 1, has neither slot nor GPU"
    made.start("one")
    assert words() == "", "a run of it lives"
    silent = searching(records)
    with mock.patch("autoresearch.core.controller.next_actions._DUTIES", ()):
        state, _ = due(silent)
    assert state.fields["state"] == "paused" and "nothing of it runs" in state.fields["reason"]


def test_seeds_are_checked_between_the_runs_of_the_baseline(records: Make) -> None:
    made = records(empty=True, replicates=5)
    made.idea("baseline")
    for value in (0.5, 0.5, 0.6):
        made.run("baseline", value)
    assert due(made, tried=frozenset({Do.CHECK_QUEUES})) == (Do.CHECK_SEEDS,)
    assert requested(due(made)) == ("baseline", 4, "baseline")  # it could not tell yet
    made.start("baseline")
    assert due(made, tried=frozenset({Do.CHECK_QUEUES})) == (Do.SLEEP,)  # first the live one: it may be a copy


# -- requests --------------------------------------------------------------------------------------------------------


def test_requests_come_first_one_by_one(records: Make) -> None:
    made = searching(records)
    made.idea("one")
    run = made.start("one")
    requests = ({"do": "stop", "seq": 4}, {"do": "pause", "seq": 5})
    actions = due(made, over=(run,), requests=requests)
    told = Note("told", {"how": "stop", "reason": "asked for"})
    assert actions == (told, Say("stop: asked for"), StopRun(run, "asked for"), Note("request", {"upto": 4}))
    made.apply(actions)
    assert made.state().requests == 4 and made.state().stop_mode == "stop"


def test_a_paused_campaign_starts_nothing_keeps_no_process_and_ends_at_its_deadline(records: Make) -> None:
    made = searching(records)
    made.idea("live")
    run = made.start("live")
    made.idea("one")
    held = ready(made, "one")
    made.note("state", state="paused", reason="lunch")
    assert due(made, ready=held) == (Do.SLEEP,)
    made.end(run, 0.4, "discard")
    job = AgentJob("propose", agent="claude")
    made.begin(job)
    assert due(made, ready=held) == (Do.SLEEP,)
    made.note("waits", job=job.name, role="propose", fault="quota", said="", until=made.clock + 99, tries=1)
    assert due(made, ready=held) == (Do.LEAVE,)
    made.note("job_over", ends=job.name)
    assert due(made, ready=held) == (Do.LEAVE,)
    assert due(made, ready=held, now=made.spec.rules.deadline) == (Finish(DEADLINE_MET),)


def test_after_a_kill_stops_are_repeated_and_it_goes_on(records: Make) -> None:
    made = searching(records, parallel=2)
    made.note("state", state="waiting", reason="proposer exhausted")
    for slug in ("kept", "skipped"):
        made.idea(slug)
        made.start(slug)
    made.note("unwanted", slug="skipped")
    running = Note("state", {"state": "running", "reason": ""})
    stop = StopRun("skipped-000001", "asked for", again=True)
    assert resume_actions(made.state(), machine(made)) == (stop, running)
    made.note("state", state="paused", reason="lunch")
    assert resume_actions(made.state(), machine(made)) == (stop,)
    made.note("told", how="stop")
    assert len(resume_actions(made.state(), machine(made))) == 2


# -- the end, and confirmation ---------------------------------------------------------------------------------------


def test_too_near_a_deadline_it_ends_whatever_is_owed(records: Make) -> None:
    made = searching(records, confirm=False)
    made.idea("good")
    made.run("good", 0.7, "discard")
    now = made.spec.rules.deadline - 60
    (end,) = due(made, now=now)
    assert isinstance(end, Finish) and "too short for another run" in end.reason


def test_nothing_to_confirm_is_said_once(records: Make) -> None:
    made = searching(records, rules=Rules(count=1))
    words = Say("no confirmation: no idea was kept")
    assert due(made) == (words, Finish("stop condition met: 1/1 ideas attempted"))
    made.note("confirming", round=1, candidates=[], each=0, baseline=0)
    made.note("confirmed_round", round=1)
    assert due(made) == (Finish("stop condition met: 1/1 ideas attempted"),)


def confirming(records: Make) -> Any:
    """A campaign that has reached its count with an improvement."""
    made = searching(records, rules=Rules(count=2, deadline=1_790_000_000.0 + 90_000))
    made.idea("good")
    for value in (0.9, 0.91, 0.92, 0.9):
        made.run("good", value)
    return made


def test_a_proof_needs_time(records: Make) -> None:
    made = confirming(records)
    late = made.spec.rules.deadline - 60
    said, end = due(made, now=late)
    assert said == Say("not confirmed: too little time is left") and isinstance(end, Finish)
    made.apply(due(made))  # the round begins in time, but its runs take too long
    said, end = due(made, now=late)
    assert said == Say("not confirmed: too little time is left") and isinstance(end, Finish)
    for n in range(5):
        for slug in ("baseline", "good"):
            made.run(slug, 0.5 + n / 10, why="confirm", round_number=1)
    assert requested(due(made))[2] == "confirm", "the look after 4 runs decided nothing"
    cut, _ = due(made, now=late)
    assert cut == Note("cut_round", {"size": 5})
    made.apply((cut,))
    assert due(made, now=late) == (Do.JUDGE_ROUND,) and made.state().open_round.sizes == (4, 5)


def test_no_round_after_the_last_one(records: Make) -> None:
    made = confirming(records)
    for number in (1, 2):
        made.note("confirming", round=number, candidates=[], each=0, baseline=0)
        made.note("confirmed_round", round=number)
    assert due(made) == (Finish("stop condition met: 2/2 ideas attempted"),)
    made.note("state", state="ended", reason="")
    made.note("state", state="running", reason="continued")
    assert any(isinstance(action, Note) and action.do == "confirming" for action in due(made)), "it has them again"


# -- the coding agent ------------------------------------------------------------------------------------------------


def with_agent(records: Make, **changes: Any) -> Any:
    return searching(records, research=AGENT, proposer=ProposerSpec("agent"), **changes)


def job_of(begin: Any) -> tuple[str, str]:
    assert begin.do == "job"
    return begin.fields["kind"], begin.fields["slug"]


def test_the_agent_is_asked_for_ideas_once_the_baseline_is_measured(records: Make) -> None:
    made = records(empty=True, research=AGENT, proposer=ProposerSpec("agent"))
    made.idea("baseline")
    assert requested(due(made)) == ("baseline", 1, "baseline")
    start, words = due(with_agent(records))
    assert job_of(start) == ("propose", "") and words == Say("claude is asked for ideas")


def test_while_the_agent_is_busy_nobody_waits_for_anything_else(records: Make) -> None:
    made = with_agent(records)
    busy = {"dry": True, "tried": LOOKED | {NewIdea()}}
    made.begin(AgentJob("propose", agent="claude"))
    assert due(made, **busy) == (Do.SLEEP,)
    assert due(made, agent_due=("propose claude",), **busy) == (StepAgent("propose claude"),)


def proposed(slug: str, *, made: bool) -> dict[str, Any]:
    kind = "config" if made else "code"
    idea = Hypothesis(slug, "an idea", proposer="agent", token=slug, kind=kind)
    return {"hypothesis": idea.to_json(), "made": made}


def test_a_proposal_that_needs_an_edit_is_edited_and_one_that_needs_none_is_run(records: Make) -> None:
    made = with_agent(records)
    made.note("proposed", **proposed("code", made=False))
    start, words = due(made)
    assert job_of(start) == ("edit", "code") and words == Say("code: claude edits the code of #1 baseline")
    made.note("proposed", **proposed("config", made=True))
    assert due(made) == (NewIdea(),)


def test_a_new_idea_starts_before_the_agent_goes_on(records: Make) -> None:
    made = with_agent(records)
    made.idea("config", proposer="agent")
    assert requested(due(made)) == ("config", 1, "first")
    held = ready(made, "config")
    assert due(made, ready=held) == (Do.LAUNCH_RUN,)
    assert due(made, ready=held, tried=LOOKED | {Do.LAUNCH_RUN}) == (Do.SLEEP,)  # there is no room: one idea is ahead
    made.note("started", run=held.run)
    assert job_of(due(made)[0]) == ("propose", "")


def test_a_crashed_idea_is_fixed_before_the_end(records: Make) -> None:
    made = with_agent(records, rules=Rules(count=2))
    made.idea("broken")
    run = made.run("broken", None, "crash", failure="import_error")
    fixing, words, start = due(made)
    assert fixing == Note("fixing", {"index": 2, "run": run})
    assert words == Say("#2 Try broken: claude is asked to mend it")
    assert job_of(start) == ("fix", "broken")
    made.apply((fixing, start))
    assert due(made, tried=LOOKED | {NewIdea()}) == (Do.SLEEP,)
    made.note("fix_failed", index=2, turns=[], ends="fix broken")
    made.note("fixing", index=2, run=run)
    made.note("fix_failed", index=2, turns=[])
    assert isinstance(due(made)[-1], Finish)  # it was tried often enough


def test_an_agent_whose_ideas_come_to_nothing_is_suspended(records: Make) -> None:
    made = with_agent(records)
    for _ in range(3):
        made.note("asked", ideas=1)
    why = "claude had no idea that could be tried 3 times in a row: none was tried"
    suspended, state, _ = due(made)
    assert suspended == Note("suspended", {"agent": "claude", "reason": why})
    assert state == Note("state", {"state": "paused", "reason": why})
    mixed = searching(records, research=AGENT, proposer=ProposerSpec("hybrid"))
    for _ in range(3):
        mixed.note("asked", ideas=1)
    assert due(mixed) == (suspended, Say(f"{why}; going on without it until `campaign resume`"))
    mixed.apply((suspended,))
    assert due(mixed) == (NewIdea(),)
