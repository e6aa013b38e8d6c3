"""What a controller does next: the first of its duties for which there is something to do.

The controller carries the actions out and asks again, with the state as it is then, until it is told to sleep or to
finish. Nothing is decided from anything but the two values, so a killed controller goes on as any other does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoresearch.core.agents.turns import AGENT, EDIT, FIX, GUARD, AgentJob
from autoresearch.core.campaign.hypothesis import BASELINE
from autoresearch.core.campaign.spec import CONTINUED, CampaignPhase, Rules
from autoresearch.core.campaign.state import SCREEN, CampaignState, Idea, Round
from autoresearch.core.campaign.tip import needs_merge, proof_due
from autoresearch.core.controller import ablation, agent_schedule, confirmation_rounds, runs_and_retries
from autoresearch.core.controller.actions import (
    BeginAblation,
    ControllerAction,
    Do,
    Finish,
    NewIdea,
    Note,
    PrepareRun,
    RecordRun,
    RepairIdea,
    Say,
    StepAgent,
    StopAgent,
    StopRun,
    WatchRun,
    enter,
    pause,
)
from autoresearch.core.controller.confirmation_rounds import check_due, plan_round, verdicts_without_test
from autoresearch.core.controller.rules import (
    eta,
    may_begin,
    past_deadline,
    reason_to_pause,
    runs_left,
    stand_at,
    waves_left,
)
from autoresearch.core.controller.runs_and_retries import RunRequest
from autoresearch.core.controller.sentences import doubt_words, row_line

# What a controller does about the requests that users make from another terminal.

ASKED = "asked for"  # the reason of a request that gives none


def answer(state: CampaignState, request: Mapping[str, Any], live: Sequence[str]) -> tuple[ControllerAction, ...]:
    """Carry out one request. Unknown ones, of a newer version, are passed over."""
    reason = str(request.get("reason") or ASKED)
    match request.get("do"):
        case "pause":
            return pause(state, reason)
        case "resume":
            running = {"state": CampaignPhase.RUNNING.value, "reason": str(request.get("reason") or "")}
            return (*_baseline_again(state, reason), Note("state", running), *_readmit(state), Say("going on"))
        case "drain" | "stop" as how:
            stopped = [StopRun(run, reason) for run in live] if how == "stop" else []
            return (Note("told", {"how": how, "reason": reason}), Say(f"{how}: {reason}"), *stopped)
        case "skip" if request.get("slug") == BASELINE:
            return (Say("the baseline cannot be skipped"),)
        case "skip":
            return _skip(state, str(request.get("slug")), reason)
        case "set":
            changes: dict[str, Any] = {k: v for k, v in request.items() if k in Rules.__match_args__}
            words = ", ".join(f"{k} {v}" for k, v in changes.items())
            return Note("rules", changes), Say(f"rules changed: {words}")
        case "fix":
            return _fix(state, request)
        case "confirm":
            return _confirm(state, [str(slug) for slug in request.get("slugs", ())])
        case "tell":
            text = str(request.get("text"))
            return Note("told_agent", {"text": text}), Say(f"told the researcher: {text}")
        case "approve":
            slug = str(request.get("slug"))
            return Note("trusted", {"slug": slug}), Say(f"{slug}: approved")
    return ()


def _readmit(state: CampaignState) -> tuple[ControllerAction, ...]:
    """Ask every coding agent again: somebody resumed the campaign."""
    return (Note("readmitted", {}),) if state.research.suspended else ()


def _baseline_again(state: CampaignState, reason: str) -> tuple[ControllerAction, ...]:
    """Make the runs of a baseline anew where none of them was measured: it may be mended."""
    over = runs_and_retries.baseline_over(state)
    if state.baseline is None or state.baseline.values or not over:
        return ()
    return (Note("again", {"reason": reason, "after": over}),)


def _skip(state: CampaignState, slug: str, reason: str) -> tuple[ControllerAction, ...]:
    stopped = [StopRun(run.run, f"skipped: {reason}") for idea, run in state.live if idea.slug == slug]
    return (Note("unwanted", {"slug": slug, "reason": reason}), Say(f"{slug}: to be skipped: {reason}"), *stopped)


def _fix(state: CampaignState, request: Mapping[str, Any]) -> tuple[ControllerAction, ...]:
    """A follow-up fix: a commit on the idea's branch, then the same idea again; it is no new idea."""
    idea = state.by_slug(str(request.get("slug")))
    if idea is None:
        return (Say(f"{request.get('slug')}: there is no such idea"),)
    if why := unrepairable(state, idea):
        return (Say(why[0]),)
    return (RepairIdea(idea.index, request.get("entry"), str(request.get("note") or "repaired")),)


def unrepairable(state: CampaignState, idea: Idea) -> tuple[str, str] | None:
    """Why an idea cannot be repaired now, and a hint what to do instead; None if it can."""
    if idea.hypothesis.is_baseline:
        hint = f"repair it in your checkout, and begin another campaign: --set prefix={state.spec.prefix}-2"
        return "the baseline cannot be repaired: it is what all else is measured against", hint
    if idea.live:
        return f"{idea.name} runs now: it can be repaired when that run is over", "wait for it, or campaign skip IDEA"
    if idea.slug in state.unwanted:
        return f"{idea.name} was skipped, so that it would not run again", "campaign add makes it another idea"
    return None


def _confirm(state: CampaignState, slugs: Sequence[str]) -> tuple[ControllerAction, ...]:
    named = [idea for slug in slugs if (idea := state.by_slug(slug))]
    if state.open_round:
        return (Say("a confirmation is under way"),)
    planned, why = plan_round(state, named)
    if planned is None:
        return verdicts_without_test(state, named) or (Say(f"no confirmation: {why}"),)
    return (*verdicts_without_test(state, named), *begin_round(planned), Say(f"confirming: {why}"))


def begin_round(planned: Round) -> tuple[ControllerAction, ...]:
    """Record what a round of confirmation will be, before its first run."""
    fields = {"round": planned.number, "candidates": list(planned.candidates), "sizes": list(planned.sizes)}
    return Do.WITHDRAW_RUN, Note("confirming", fields)


# What a controller observes outside of the campaign's records, as a value.


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """A run that is prepared, but not started yet."""

    run: str
    request: RunRequest


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine at one moment: the runs, the worktrees, the requests, the proposers and the coding agents."""

    now: float  # wall clock, seconds since the epoch
    live: tuple[str, ...] = ()  # started runs that are watched
    over: tuple[str, ...] = ()  # of these, the ones that ended, in the order of their ends
    requests: tuple[Mapping[str, Any], ...] = ()  # made by users, and not carried out yet
    ready: ReadyRun | None = None  # prepared, but not started yet
    spare_worktree: bool = True
    conflicting: frozenset[str] = frozenset()  # live runs, one of which writes a file that the next run writes as well
    dry: bool = False  # the proposers had no idea when they were last asked
    agent_due: tuple[str, ...] = ()  # the coding agents' jobs, by their names, that wait for nothing
    # What was tried since something last happened, and came to nothing: it is not tried again now.
    tried: frozenset[ControllerAction] = frozenset()


SWEEPS = ("grid", "random", "tpe")  # proposers that have no more ideas where all points of the space are tried
TOO_LATE = "not confirmed: too little time is left"


def next_actions(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    """The actions that are due now, in their order; the next ones depend on what they bring about."""
    for duty in _DUTIES:
        if actions := duty(state, machine):
            return actions
    if state.phase is CampaignPhase.RUNNING and not (machine.live or waits_for(state, machine)):
        return pause(state, "nothing of it runs, and nothing that it could wait for is known")
    return (Do.SLEEP,)


def waits_for(state: CampaignState, machine: Machine) -> str:
    """What a campaign that runs waits for while no run of it lives, in words; "" if there is nothing."""
    if machine.live:
        return ""
    if jobs := state.research.jobs.values():
        named = (f"{job.name}{' (a usage limit, or an outage)' if job.waits else ''}" for job in jobs)
        return f"waits for {', '.join(dict.fromkeys(job.agent or 'the guard' for job in jobs))}: {', '.join(named)}"
    if machine.ready is not None:
        request = machine.ready.request
        return f"waits for room: {request.idea.name}, run {request.replicate}, has neither slot nor GPU"
    if not machine.spare_worktree:
        return "waits for a worktree: what is in those that it has cannot be taken away"
    return "waits for an idea that can be tried: the last ones could not" if NewIdea() in machine.tried else ""


def resume_actions(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    """After recovery: repeat the stop requests that a kill may have cut off, and go on.

    In a campaign that had ended, a baseline without its metric is made again.
    """
    stopped: list[ControllerAction] = [
        StopRun(run.run, "asked for", again=True)
        for idea, run in state.live
        if run.run in machine.live and (state.stop_mode == "stop" or idea.slug in state.unwanted)
    ]
    if state.phase is CampaignPhase.PAUSED:
        return tuple(stopped)
    stopped += _readmit(state)
    again = _baseline_again(state, CONTINUED) if state.reason == CONTINUED else ()
    return (*stopped, *again, *enter(state, CampaignPhase.RUNNING))


# -- runs that are over ----------------------------------------------------------------------------------------------


def _answer_request(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    if not machine.requests:
        return ()
    request = machine.requests[0]
    return (*answer(state, request, machine.live), Note("request", {"upto": request["seq"]}))


def _watch_unwatched(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    """A run whose row somebody took out of the ledger gets it again."""
    return tuple(WatchRun(run.run, run.run_dir) for _, run in state.live if run.run not in machine.live)


def _record_ended(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    return tuple(action for run in machine.over if (action := RecordRun(run)) not in machine.tried)


def _launch_ready(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    """Start the prepared run if it may start and there is room; withdraw it if a run that ended makes it pointless."""
    ready = machine.ready
    if ready is None or len(machine.live) >= state.spec.parallel or Do.LAUNCH_RUN in machine.tried:
        return ()
    if not may_begin(state, machine.now, ready.request) or reason_to_pause(state, machine.now):
        return ()
    awake = enter(state, CampaignPhase.RUNNING) if state.phase is CampaignPhase.WAITING else ()
    return (Do.WITHDRAW_RUN,) if _stale(state, ready) else (*awake, Do.LAUNCH_RUN)


def _stale(state: CampaignState, ready: ReadyRun) -> bool:
    request = ready.request
    if request.why in ("retest", "repeat"):
        owed = runs_and_retries.owed(runs_and_retries.without(state, ready.run))
        return owed is None or owed.idea.index != request.idea.index
    return request.idea.slug in state.unwanted


def report(state: CampaignState, run: str, now: float) -> tuple[ControllerAction, ...]:
    """What there is to say of a run that has its row."""
    idea = next(i for i in state.ideas if run in {r.run for r in i.runs})
    line = row_line(state, idea, run)
    if not (state.open_round or state.spec.prove):  # the rules stand as they stood before the last proof
        found = stand_at(state, now)  # the line begins with what was attempted
        left = f", {found.beside_count}" if found.beside_count else ""
        rule = f"met: {found.met}" if found.met else f"not met{left}"
        line += f"; branch {idea.branch}; stop rule {rule}"
    doubts = [Say(doubt_words(state, idea))] if idea in state.doubtful and runs_and_retries.decided(state, idea) else []
    return (Say(line + eta(state)), *doubts)


def _pause_if_useless(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    if state.spec.prove or state.stop_mode or state.phase is CampaignPhase.PAUSED:
        return ()
    return pause(state, why) if (why := reason_to_pause(state, machine.now)) else ()


def _check_seeds(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    return (Do.CHECK_SEEDS,) if check_due(state) and Do.CHECK_SEEDS not in machine.tried else ()


# -- the coding agent ------------------------------------------------------------------------------------------------


def _attend_agent(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    """Go on with the agents' jobs, end those that nobody wants any more, and begin the next one."""
    if machine.agent_due:
        return (StepAgent(machine.agent_due[0]),)
    ends = (StopAgent(name) for name in agent_schedule.unwanted_jobs(state))
    if ending := tuple(end for end in ends if end not in machine.tried):
        return ending
    if found := agent_schedule.fruitless(state):
        return suspend_agent(state, *found)
    job = agent_schedule.next_job(state, machine.now)
    return () if job is None or _new_idea_comes_next(state, machine) else _begin_job(state, job)


def _begin_job(state: CampaignState, agent_job: AgentJob) -> tuple[ControllerAction, ...]:
    """Record a job, which is then due, and say so; an idea without a parent is refused instead."""
    names = ("kind", "slug", "agent", "usd", "editor", "parent")
    begin = Note("job", {name: getattr(agent_job, name) for name in names})
    if agent_job.kind == GUARD:
        return (begin,)
    if agent_job.kind == EDIT:
        hypothesis = agent_schedule.proposal(state, agent_job.slug)
        if (parent := agent_schedule.parent_of(state, hypothesis)) is None:
            refused = {"hypothesis": hypothesis.to_json(), "reason": f"its parent {hypothesis.parent!r} is gone"}
            return Note("refused", refused), Say(f"{agent_job.slug}: refused: its parent is gone")
        return begin, Say(f"{agent_job.slug}: {agent_job.agent} edits the code of {parent.name}")
    idea = state.by_slug(agent_job.slug) if agent_job.kind == FIX else None
    if idea is None:
        return begin, Say(f"{agent_job.agent} is asked for ideas")
    if idea.index in state.research.fixing:  # it was asked before, and ended without an outcome
        return (begin,)
    fixing = Note("fixing", {"index": idea.index, "run": idea.rows[-1].run_id if idea.rows else ""})
    return fixing, Say(f"{idea.name}: {agent_job.agent} is asked to mend it"), begin


def _new_idea_comes_next(state: CampaignState, machine: Machine) -> bool:
    """Whether a new idea is prepared first: then the agent works beside its run, and not beside its preparation."""
    due = _prepare_next(state, machine)
    return any(isinstance(action, PrepareRun) and action.request.why in ("first", SCREEN) for action in due)


def suspend_agent(state: CampaignState, agent: str, why: str) -> tuple[ControllerAction, ...]:
    """Ask this agent for nothing more: pause if there is neither another proposer nor agent, else go on without it."""
    suspend = Note("suspended", {"agent": agent, "reason": why})
    if state.spec.proposer.name == AGENT and not {*state.spec.research.agents} - {agent, *state.research.suspended}:
        return (suspend, *pause(state, why))
    return suspend, Say(f"{why}; going on without it until `campaign resume`")


# -- the end ---------------------------------------------------------------------------------------------------------


def _end(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    """Finish when nothing is left to do, confirmation included; before that, confirm, or wait for ideas."""
    if machine.live:
        return ()
    if state.stop_mode:
        how = "stopped on request" if state.stop_mode == "stop" else "drained on request"
        why = next((str(line.get("reason") or "") for line in reversed(state.timeline) if line.get("do") == "told"), "")
        return (Finish(how if why in ("", ASKED) else f"{how}: {why}"),)
    if state.phase is CampaignPhase.PAUSED:
        if past_deadline(state, machine.now):
            return _finish(state, machine)
        return () if agent_schedule.at_work(state) else (Do.LEAVE,)
    if state.spec.prove and (why := reason_to_pause(state, machine.now)):
        return (Finish(why),)  # who mends it asks again
    if (ongoing := state.open_round) and ongoing.of:
        next_run = ablation.owed(state, ongoing)
        return () if next_run and may_begin(state, machine.now, next_run) else ablation.settle(state, ongoing)
    if confirmation_rounds.round_is_over(state):
        return (Do.JUDGE_ROUND,)
    if state.open_round:
        owed = confirmation_rounds.owed_to_round(state)
        if owed is None or may_begin(state, machine.now, owed):
            return ()
        return confirmation_rounds.cut_round(state) or (Say(TOO_LATE), *_finish(state, machine))
    if not stand_at(state, machine.now).met:
        return _wait_if_dry(state, machine)
    owed = runs_and_retries.owed(state)
    if owed is not None and may_begin(state, machine.now, owed):
        return ()
    if agent_schedule.fix_expected(state, machine.now):
        return ()
    if agent_schedule.unguarded(state):
        return ()
    if (proof := next_request(state, last=_no_more_ideas(state, machine))) and may_begin(state, machine.now, proof):
        return ()
    return _confirm_or_finish(state, machine)


def _confirm_or_finish(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    """Begin a round of confirmation if an improvement can be claimed and there is time, or an ablation of what was
    confirmed; else finish.
    """
    if (found := ablation.due(state, runs_left(state, machine.now))) is not None:
        tip, edits = found
        begin = BeginAblation(tip.index, tuple(edit.index for edit in edits))
        if begin not in machine.tried:
            return Do.WITHDRAW_RUN, begin
    if not state.spec.confirm or confirmation_rounds.rounds_left(state) <= 0 or state.spec.rules.count == 0:
        return _finish(state, machine)
    planned, why = confirmation_rounds.plan_in_time(state, waves_left(state, machine.now))
    if planned is None and confirmation_rounds.plan_round(state)[0] is not None:
        return (Say(TOO_LATE), *_finish(state, machine))
    if planned is None:
        said = () if state.rounds else (Say(f"no confirmation: {why}"),)
        return (*(verdicts_without_test(state) or said), *_finish(state, machine))
    return (*begin_round(planned), Say(f"confirming: {why}"))


def _wait_if_dry(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    """Wait for ideas if the proposers have none, and go on when there is something to do again; end where all points
    of the space are tried, as nobody but a person has more."""
    if runs_and_retries.unbegun(state) is not None:
        return ()  # it is about to be prepared
    idle = machine.dry and machine.ready is None and runs_and_retries.owed(state) is None
    idle = idle and not agent_schedule.idea_expected(state, machine.now)
    if not idle or next_request(state, last=True):
        return enter(state, CampaignPhase.RUNNING) if state.phase is CampaignPhase.WAITING else ()
    if state.spec.proposer.name in SWEEPS and not state.queue_faults:
        return _confirm_or_finish(state, machine)
    why = agent_schedule.why_dry(state)
    if (state.phase, state.reason) == (CampaignPhase.WAITING, why):
        return ()
    add = f"autoresearch campaign add {state.spec.name} --set KEY=VALUE"
    text = f"{stand_at(state, machine.now).sentence}, {why}; add ideas: {add}"
    return (*enter(state, CampaignPhase.WAITING, why), Say(text))


def _finish(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    found = stand_at(state, machine.now)
    return (Finish(found.sentence if found.met else f"every point of the space is tried: {found.sentence}"),)


# -- the next run ----------------------------------------------------------------------------------------------------


def _merge_tip(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    """Before the next idea is edited, and before a proof; an idea that is being edited keeps its parent."""
    if Do.MERGE_TIP in machine.tried or state.stop_mode or state.phase is CampaignPhase.PAUSED:
        return ()
    if any(job.kind == GUARD for job in state.research.jobs.values()):
        return ()  # the last merge is being looked at
    return (Do.MERGE_TIP,) if _search_goes_on(state) and needs_merge(state) else ()


def _check_queues(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    return () if Do.CHECK_QUEUES in machine.tried else (Do.CHECK_QUEUES,)


def _prepare_next(state: CampaignState, machine: Machine) -> tuple[ControllerAction, ...]:
    """Have the next run ready while the others train."""
    if (ready := machine.ready) is not None:
        # a rule was met meanwhile: a run that is owed must not wait behind it
        refused = state.phase is CampaignPhase.RUNNING and not may_begin(state, machine.now, ready.request)
        return (Do.WITHDRAW_RUN,) if refused else ()
    if machine.conflicting and machine.conflicting == frozenset(machine.live):
        return ()  # its turn comes when one of these runs is over
    if state.baseline is None:
        return _new_idea(machine, baseline=True)
    request = next_request(state, last=_no_more_ideas(state, machine))
    if request is None:
        due = _search_goes_on(state) and not stand_at(state, machine.now, conceived=True).met
        return _new_idea(machine) if due else ()
    if not may_begin(state, machine.now, request):
        return ()
    return (PrepareRun(request),) if machine.spare_worktree or request.idea.hypothesis.unmade else ()


def next_request(state: CampaignState, *, last: bool = False) -> RunRequest | None:
    """The run of an existing idea that comes next: what is owed, a confirmation, a proof of the tip, a new idea's.

    `last`: no idea comes any more.
    """
    if owed := runs_and_retries.owed(state) or confirmation_rounds.owed_to_round(state):
        return owed
    if not _search_goes_on(state):
        return None
    due = None if needs_merge(state) else proof_due(state, last=last)
    return RunRequest(due, runs_and_retries.next_replicate(due), "proof") if due else runs_and_retries.unbegun(state)


def _no_more_ideas(state: CampaignState, machine: Machine) -> bool:
    """Whether all ideas have run, and runs may go on."""
    found = stand_at(state, machine.now)
    dry = machine.dry and not agent_schedule.idea_expected(state, machine.now)
    return (bool(found.met) or dry) and found.runs_go_on and not machine.live


def _search_goes_on(state: CampaignState) -> bool:
    return not state.open_round and runs_and_retries.baseline_measured(state)


def _new_idea(machine: Machine, *, baseline: bool = False) -> tuple[ControllerAction, ...]:
    action = NewIdea(baseline)
    return () if action in machine.tried else (action,)


# In this order: a prepared run starts as soon as a slot is free, before anything that can wait. A run that ended frees
# its slot when it is recorded.
_DUTIES: tuple[Callable[[CampaignState, Machine], tuple[ControllerAction, ...]], ...] = (
    _answer_request,
    _watch_unwatched,
    _launch_ready,
    _record_ended,
    _pause_if_useless,
    _check_seeds,
    _merge_tip,
    _attend_agent,
    _end,
    _check_queues,
    _prepare_next,
)
