"""The stop rules of a campaign at a moment: what is met, what may still begin, what is to come, why it pauses."""

from __future__ import annotations

import math
from statistics import median

from autoresearch.core.agents.agent import NotMade
from autoresearch.core.campaign.spec import CampaignPhase, Stand, StopFacts, stand
from autoresearch.core.campaign.state import SCREEN, CampaignState, Idea
from autoresearch.core.controller import confirmation_rounds, runs_and_retries
from autoresearch.core.controller.proof import proof_of
from autoresearch.core.controller.runs_and_retries import RunRequest
from autoresearch.core.controller.sentences import baseline_breach, without_metric
from autoresearch.core.run.ending import BREACHES, NOT_SHOWN, WITHOUT_VALUE, Ending, Verdict, exit_code
from autoresearch.core.statistics.confirmation import design
from autoresearch.core.statistics.noise import mean
from autoresearch.core.text.numbers import span

BREAKER = 3  # ideas in a row that fail with the same signature
TRIPPED = "circuit breaker"
MARGIN = 1.25  # over the longest run so far
LATEST = 12  # runs that tell how long the next one takes
BETWEEN_S = 60.0  # from one run to the next at most: a commit, a worktree, documents
MOST_RESERVED = 1 / 3  # of the time or of the GPU hours, for a proof


def stand_at(state: CampaignState, now: float, *, conceived: bool = False, coming: int = 0) -> Stand:
    """Check the stop rules; `conceived`: also count the ideas that are not started yet, to see if another is needed.

    `coming`: ideas on top of those, which are not committed yet.
    """
    waiting = len(untried(state)) + coming if conceived else 0
    return stand(state.spec.rules, facts(state, now, conceived=waiting), state.spec.objective)


def may_begin(state: CampaignState, now: float, run_request: RunRequest) -> bool:
    """Whether a run may be started now."""
    if state.phase in (CampaignPhase.PAUSED, CampaignPhase.DRAINING) or state.stop_mode:
        return False
    if too_late(state, now):
        return False
    if run_request.why == "proof":  # of the tip: no new idea, and a run all the same
        return stand_at(state, now).runs_go_on
    return run_request.why not in ("first", SCREEN) or run_request.idea.attempted or not stand_at(state, now).met


def too_late(state: CampaignState, now: float) -> bool:
    """Whether one more run would not end before the deadline."""
    deadline = state.spec.rules.deadline
    return deadline is not None and deadline - now < expected_run_s(state)


def spent(state: CampaignState) -> bool:
    """Whether the agents' budget is used up."""
    rules, usage = state.spec.rules, state.research.usage
    money = rules.budget_usd is not None and (usage.usd or 0.0) >= rules.budget_usd
    return money or (rules.budget_tokens is not None and (usage.tokens or 0) >= rules.budget_tokens)


def past_deadline(state: CampaignState, now: float) -> bool:
    """Whether the deadline has passed."""
    deadline = state.spec.rules.deadline
    return deadline is not None and now >= deadline


def reason_to_pause(state: CampaignState, now: float) -> str:
    """Why going on would only waste time; "" if it would not.

    The circuit breaker; a baseline that breaks a constraint, that could not be started or was not shown a path, that
    died alike twice, or none of whose runs has the metric.
    """
    resumed = max((line["t"] for line in state.timeline if line.get("do") == "state"), default=0.0)
    if not stand_at(state, now).met and (why := tripped(state, resumed)):
        return f"{TRIPPED}: {why}"
    return baseline_breach(state, resumed) or _dead_baseline(state, resumed)


def _dead_baseline(state: CampaignState, since: float) -> str:
    """How a baseline died that was never measured, by its runs that ended since then; "" if more of it may come."""
    baseline = state.baseline
    if baseline is None or baseline.values:
        return ""
    died = [row for row in baseline.judged if (row.ended or 0.0) > since]
    if not (state.spec.objective.metric or runs_and_retries.baseline_done(state)):  # unmeasured yet: it did not die
        died = [row for row in died if row.status != Verdict.UNMEASURED]
    again = any(row.ending == Ending.LAUNCH_FAILED or row.failure == NOT_SHOWN for row in died[-1:])  # surely
    alike = len({(row.ending, row.failure, row.returncode) for row in died[-2:]}) == 1 < len(died)
    if not (again or alike or runs_and_retries.baseline_failed(state)):
        return ""
    return baseline_breach(state) or without_metric(state, baseline, "the baseline")


def exit_code_of(state: CampaignState) -> int:
    """Of a command that waited for a campaign: 0, or as a run ends that has no metric if that kept it from its answer.

    A proof that is not decided has none; of other campaigns, those without a baseline and those whose ideas die alike.
    """
    paused = state.phase is CampaignPhase.PAUSED and state.reason.startswith(TRIPPED)
    failed = _dead_baseline(state, 0.0) or state.reason == baseline_breach(state) != ""
    unanswered = proof_of(state).proved is None if state.spec.prove else paused or failed
    if not unanswered:
        return 0
    valueless = (row for row in state.rows if row.status in WITHOUT_VALUE)
    last = max(valueless, key=lambda row: row.ended or 0.0, default=None)
    if last is None or last.status == Verdict.UNMEASURED:
        return exit_code(Ending.FINISHED, measured=False)
    return exit_code(Ending(last.ending), measured=False, crashed=True)


def facts(state: CampaignState, now: float, *, conceived: int = 0) -> StopFacts:
    """The inputs of the stop rules."""
    best = state.best
    run_s = expected_run_s(state)
    run_gpu_hours = run_s / 3600 * state.spec.gpus_per_run
    proof_gpu_hours, budget = reserved_runs(state) * run_gpu_hours, state.spec.rules.budget_gpu_hours
    spent = state.research.usage
    return StopFacts(
        attempted=state.attempted + conceived,
        best=best.value if best and best.kept else None,
        gpu_hours=state.gpu_hours,
        now=now,
        run_s=run_s,
        reserve_s=reserve_s(state, run_s),
        run_gpu_hours=run_gpu_hours,
        reserve_gpu_hours=0.0 if budget and proof_gpu_hours > MOST_RESERVED * budget else proof_gpu_hours,
        usd=spent.usd or 0.0,
        tokens=spent.tokens or 0,
    )


def expected_run_s(state: CampaignState) -> float:
    """Expected duration of one more run, in seconds: the longest so far times MARGIN, at most the run's time limit.

    0 before the first run has ended, as a limit is no expectation.
    """
    limit = state.spec.timeout_s
    longest = MARGIN * (60 * state.memo("longest", lambda: max([idea.longest for idea in state.ideas], default=0.0)))
    return min(limit, longest) if limit else longest


def reserved_runs(state: CampaignState) -> int:
    """The fresh runs that the smallest proof of the best idea takes; 0 while nothing is kept that could be claimed."""
    return smallest_round(state) if confirmation_rounds.to_be_proved(state) else 0


def reserve_s(state: CampaignState, run_s: float) -> float:
    """Seconds to reserve before the deadline for the smallest proof, so that the search leaves room for it.

    None where that is more than a third of the campaign's time: it searches as long as it can. A larger round is begun
    where more time is left (`plan_in_time`).
    """
    seconds = run_s * math.ceil(reserved_runs(state) / state.spec.parallel)
    deadline = state.spec.rules.deadline
    return 0.0 if deadline is not None and seconds > (deadline - state.spec.created) * MOST_RESERVED else seconds


def waves_left(state: CampaignState, now: float) -> float:
    """How many runs one after the other still fit before the deadline; infinite without one."""
    deadline, run_s = state.spec.rules.deadline, expected_run_s(state)
    return math.inf if deadline is None or not run_s else (deadline - now) // run_s


def runs_left(state: CampaignState, now: float) -> float:
    """How many runs still fit before the deadline and into the GPU hours; infinite without either."""
    hours, budget = expected_run_s(state) / 3600 * state.spec.gpus_per_run, state.spec.rules.budget_gpu_hours
    paid = math.inf if budget is None or not hours else (budget - state.gpu_hours) // hours
    return min(waves_left(state, now) * state.spec.parallel, paid)


def tripped(state: CampaignState, since: float) -> str:
    """Why the circuit breaker trips: the last ideas failed quickly and with the same signature; "" if it does not.

    since: when the campaign last went on after a pause; earlier failures do not count.
    """
    refused = {idea.index for idea in state.ideas if idea.hypothesis.unmade not in ("", NotMade.RESEARCHER)}
    counted = (r for r in state.rows if r.index > 1 and r.index not in refused and (r.ended or 0.0) > since)
    by_idea = {row.index: row for row in sorted(counted, key=lambda r: r.ended or 0.0)}  # a cheap run comes before
    last = list(by_idea.values())[-BREAKER:]
    good = [r.elapsed_min for r in state.rows if r.status not in WITHOUT_VALUE and r.elapsed_min]
    fast = 0.5 * median(good) if good else 10.0
    fallen = [row for row in last if row.status in WITHOUT_VALUE and row.failure not in ("", *BREACHES)]  # those ran
    died = [row for row in fallen if (row.elapsed_min or 0.0) <= fast]
    if len({row.index for row in died}) < BREAKER or len({row.failure for row in died}) > 1:
        return ""
    how = "died" if died[0].status == Verdict.CRASH else "had no value"
    return f"the last {BREAKER} ideas {how} alike within {fast:.1f} min: {died[0].failure}"


def eta(state: CampaignState) -> str:
    """When the count is reached and the best idea proved, as runs ended so far; "" without a count, and of a proof."""
    every_s, runs = seconds_a_run(state), runs_to_come(state)
    if not state.spec.rules.count or not every_s or state.spec.prove or not runs:
        return ""
    proof = ", a proof included" if smallest_round(state) and not state.open_round else ""
    return f"; about {span(runs * every_s)} to go{proof}"


def smallest_round(state: CampaignState) -> int:
    """The fresh runs of both sides that decide the next round of confirmation at its first look; 0 if none may come."""
    if not state.spec.confirm or state.unseeded or confirmation_rounds.rounds_left(state) <= 0:
        return 0
    looks = design(confirmation_rounds.next_round(state), 1, state.spec.rules.confirm_runs)
    return 2 * looks.sizes[0] if looks else 0


def runs_to_come(state: CampaignState) -> float:
    """The runs until the count is reached and the best idea is proved, by what ideas took so far.

    Of a proof, as many as its first look takes.
    """
    if ongoing := state.open_round:  # until its next look
        done = sum(len(idea.fresh_values(ongoing.number)) for idea in state.ideas)
        looks = ((len(ongoing.candidates) + 1) * size - done for size in ongoing.sizes)
        left = next((look for look in looks if look > 0), 0)
        return left if confirmation_rounds.owed_to_round(state) else len(state.live)
    over = [idea for idea in state.ideas if idea.index > 1 and runs_and_retries.decided(state, idea)]
    searching = sum(run.why != "confirm" for idea in over for run in idea.runs)
    ideas = 1 + sum(not idea.hypothesis.merges for idea in over)  # one took a single run: the first ones may take many
    runs = (1 + searching) / ideas * max(0, (state.spec.rules.count or 0) - ideas)
    if state.baseline is not None:
        due = runs_and_retries.replicates(state) + runs_and_retries.refreshes(state)
        runs += max(0, due - len(state.baseline.judged))
    return runs + (smallest_round(state) if runs or confirmation_rounds.to_be_proved(state) else 0)


def seconds_a_run(state: CampaignState) -> float | None:
    """From the end of a run to that of the next one, unless the campaign stood still in between; None: none ended."""
    gaps, before = list[float](), 0.0
    for ended, took in sorted((row.ended, 60 * row.elapsed_min) for row in state.rows if row.ended and row.elapsed_min):
        gaps.append(min(ended - before, took + BETWEEN_S) if before else took)
        before = ended
    return mean(gaps[-LATEST:]) if gaps else None


def untried(state: CampaignState) -> list[Idea]:
    """The ideas that wait for their first run."""
    ideas = (idea for idea in state.ideas if not (idea.attempted or idea.hypothesis.merges))
    return [idea for idea in ideas if idea.slug not in state.unwanted]
