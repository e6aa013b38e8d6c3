"""What a campaign will cost: how long a run takes, how many runs there are at most, how many fit into its limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.campaign.spec import BASELINE_RUNS, LEAST_BASELINE_RUNS, CampaignSpec
from autoresearch.core.controller.cost import RunCount, run_count
from autoresearch.core.run.ending import Ending
from autoresearch.core.statistics.confirmation import design
from autoresearch.core.text.numbers import counted, span
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.parts import Parts
from autoresearch.records import exit_record
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import RunDir, read_json

FEW_IDEAS = 8  # with fewer, the baseline has fewer runs
BASELINE_SHARE = 5  # and where they would be more than one in so many
_WHOLE = (Ending.FINISHED, Ending.MAX_TIME)  # endings of runs that show how long a run takes


@dataclass(frozen=True, slots=True)
class RunDuration:
    """How long a run takes, in seconds, and how that is known."""

    seconds: float
    source: str  # a clause
    measured: bool  # False: it is the most that a run may take


@dataclass(frozen=True, slots=True)
class CampaignCost:
    """The cost of a campaign, or of what is left of one that ended and goes on."""

    runs: RunCount | None  # None: nothing limits the number of ideas
    attempted: int  # ideas that are over
    duration: RunDuration
    limit_s: float  # of the first run
    slots: int
    limit: str  # what limits the number of runs: the deadline, the GPU hours; "" if neither is set
    capacity: int | None  # runs that this limit allows
    by_agent: bool  # ideas come from an agent, whose turns are not counted
    retests: int  # of one idea, at most
    looks: tuple[int, ...]  # fresh runs of a proof, of the idea and of the baseline, at each look; () without one

    @property
    def proof(self) -> str:
        """The fresh runs of one proof: `8 to 16`; "" if nothing is confirmed."""
        return " to ".join(map(str, dict.fromkeys(self.looks[:1] + self.looks[-1:])))

    @property
    def runs_words(self) -> str:
        """The number of runs at most, and what they are for."""
        runs = self.runs
        if runs is None:
            until = f"ideas until {self.limit} ends it" if self.limit else "nothing limits the number of ideas"
            return f"{until}: most take one run, one that looks better takes more"
        parts = (
            f"{runs.baseline} of the baseline" if runs.baseline else "",
            counted(runs.first, "first run") if runs.first else "",
            f"up to {self.retests} more of an idea that looks better" if runs.retests else "",
            f"{self.proof} to prove the best idea" if self.proof and runs.fresh else "",
        )
        left, so_far = max(0, runs.ideas - self.attempted), f", after the {self.attempted} so far"
        ideas = f"{counted(left, 'further idea')}{so_far}" if self.attempted else counted(left, "idea")
        most = "" if runs.most == runs.least else "at most "
        return f"{ideas}: {most}{counted(runs.most, 'run')} ({', '.join(filter(None, parts))})"

    @property
    def hours_words(self) -> str:
        """How long that takes."""
        if not self.duration.measured:
            return f"unknown until the baseline ran; a run is cut after {span(self.limit_s)}"
        each = f"{span(self.duration.seconds)} a run ({self.duration.source})"
        if self.runs is None:
            return each
        turns = "; the agent's turns are not counted" if self.by_agent else ""
        hours = " to ".join(dict.fromkeys(map(span, self._seconds)))
        return f"{hours}, with {each} on {counted(self.slots, 'slot')}{turns}"

    @property
    def _seconds(self) -> tuple[float, float]:
        """How long the runs take, at least and at most."""
        each, runs = self.duration.seconds / self.slots, self.runs
        return (runs.least * each, runs.most * each) if runs else (0.0, 0.0)

    @property
    def room_words(self) -> str:
        """What its deadline or its GPU hours leave room for; "" without them, or where that is unknown."""
        return "" if self.capacity is None else f"{self.limit} leaves room for {counted(self.capacity, 'run')}"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """A warning if not even the runs that are always made, and the smallest proof, fit."""
        if self.capacity is None or self.runs is None:
            return ()
        needed = self.runs.least + (self.looks[0] if self.looks and self.runs.fresh else 0)
        if needed <= self.capacity:
            return ()
        proof = " and the smallest proof" if needed > self.runs.least else ""
        message = f"{counted(self.runs.ideas, 'idea')}{proof} take {needed} runs or more, and {self.room_words}"
        hint = f"{self.limit} wins; a later one, a shorter --timeout or more --parallel would fit more"
        return (Finding(Severity.WARNING, "may_not_fit", message, hint),)

    def to_json(self) -> dict[str, Any]:
        """The numbers, flat: runs and seconds."""
        runs, known = self.runs, self.runs and self.duration.measured
        least_s, most_s = self._seconds
        return {
            "ideas": runs.ideas if runs else None,
            "runs_at_least": runs.least if runs else None,
            "runs_at_most": runs.most if runs else None,
            "run_s": self.duration.seconds,
            "run_s_from": self.duration.source,
            "run_s_measured": self.duration.measured,
            "seconds_at_least": round(least_s, 1) if known else None,
            "seconds_at_most": round(most_s, 1) if known else None,
            "runs_that_fit": self.capacity,
        }


def priced(campaign_spec: CampaignSpec, max_time_s: float, parts: Parts) -> tuple[CampaignSpec, CampaignCost]:
    """The cost of a campaign, and its spec with as many runs of the baseline as that allows, if nobody said how many.

    max_time_s: of the blueprint, for a campaign whose runs have no limit of their own and were never seen.
    """
    spec = campaign_spec
    duration = run_duration(spec, max_time_s, parts)
    campaign_dir = CampaignDir(Path(spec.directory))
    state = CampaignHistory(campaign_dir).state() if campaign_dir.spec.exists() else None  # one that goes on
    attempted = state.attempted if state else 0
    capacity, limit = _capacity(spec, duration, state.gpu_hours if state else 0.0)
    if state is not None:
        was = {**spec.sources, "baseline": "as the campaign began"}
        spec = replace(spec, replicates=state.spec.replicates, search=state.spec.search, sources=was)
    elif "baseline" not in spec.sources:
        spec = _with_baseline(spec, capacity, limit)
    looks = design(1, 1, spec.rules.confirm_runs) if spec.confirm else None
    return spec, CampaignCost(
        runs=None if spec.rules.count is None else run_count(spec, spec.rules.count, attempted),
        attempted=attempted,
        duration=duration,
        limit_s=most_of_a_run(spec, max_time_s),
        slots=spec.parallel,
        limit=limit,
        capacity=capacity,
        by_agent=spec.proposer.name == AGENT,
        retests=spec.retests,
        looks=tuple(2 * size for size in looks.sizes) if looks else (),
    )


def _with_baseline(campaign_spec: CampaignSpec, capacity: int | None, limit: str) -> CampaignSpec:
    """The spec with the usual runs of the baseline, or fewer where they would be much of a small campaign, and why."""
    count, why = campaign_spec.rules.count, ""
    if count is not None and count < FEW_IDEAS:
        why = f"{BASELINE_RUNS} are for {FEW_IDEAS} ideas or more"
    elif capacity is not None and capacity < BASELINE_SHARE * BASELINE_RUNS:
        why = f"{BASELINE_RUNS} would be more than a fifth of the {capacity} runs for which {limit} leaves room"
    if not why:
        return replace(campaign_spec, replicates=BASELINE_RUNS)
    return replace(campaign_spec, replicates=LEAST_BASELINE_RUNS, sources={**campaign_spec.sources, "baseline": why})


def _capacity(campaign_spec: CampaignSpec, duration: RunDuration, used_hours: float) -> tuple[int | None, str]:
    """The runs that a campaign's deadline or its GPU hours allow, and which of them does; None and "" without both.

    None, too, as long as nobody knows how long a run takes: the most that it may take says nothing about that.
    used_hours: GPU hours that are spent.
    """
    spec, rules = campaign_spec, campaign_spec.rules
    rooms: list[tuple[int, str]] = []
    if not duration.measured:
        return None, "the deadline" if rules.deadline else "the budget of GPU hours" if rules.budget_gpu_hours else ""
    if rules.deadline is not None:
        waves = (rules.deadline - spec.created) / duration.seconds + 0.01  # the clock went on since it was set
        rooms.append((max(0, int(waves)) * spec.parallel, "the deadline"))
    if rules.budget_gpu_hours is not None and spec.gpus_per_run:
        each = duration.seconds / 3600 * spec.gpus_per_run
        rooms.append((max(0, int((rules.budget_gpu_hours - used_hours) / each)), "the budget of GPU hours"))
    return min(rooms, default=(None, ""))


def run_duration(campaign_spec: CampaignSpec, max_time_s: float, parts: Parts) -> RunDuration:
    """How long a run of this campaign takes: as the newest run or campaign of its blueprint took, else at most."""
    limit, blueprint = most_of_a_run(campaign_spec, max_time_s), campaign_spec.blueprint
    known: list[tuple[float, float, str]] = []  # when it began, seconds, which
    for entry in parts.index.by_blueprint(blueprint):
        if seconds := _whole_s(RunDir(Path(entry.run_dir))):
            known.append((entry.created, seconds, f"as the run {entry.run} took"))
            break
    for campaign in campaign_registry.known(parts):
        if spans := _baseline_spans(campaign.campaign_dir, blueprint):
            words = f"as the baseline of the campaign {campaign.name} took on average"
            known.append((campaign.created, math.fsum(spans) / len(spans), words))
            break
    if known:
        _, seconds, words = max(known)
        return RunDuration(min(limit, seconds), words, measured=True)
    return RunDuration(limit, "the most that it may take: no earlier run of this blueprint is known", measured=False)


def most_of_a_run(campaign_spec: CampaignSpec, max_time_s: float) -> float:
    """The limit of the first run, in seconds: that of the campaign or the blueprint, at most what the deadline leaves.
    """
    deadline = campaign_spec.rules.deadline
    left = float("inf") if deadline is None else max(1.0, deadline - campaign_spec.created)
    return min(campaign_spec.timeout_s or max_time_s, left)


def _whole_s(rundir: RunDir) -> float:
    """The seconds of a run that went through, its evaluation included; 0 for any other."""
    try:
        end = exit_record.read(rundir)
    except (OSError, ValueError):
        return 0.0
    if end is None or end.ending not in _WHOLE:
        return 0.0
    return end.duration_s + float((end.evaluation or {}).get("seconds", 0.0))


def _baseline_spans(campaign_dir: CampaignDir, blueprint: str) -> list[float]:
    """The seconds of a few baseline runs of a campaign with this blueprint; [] for another one, and before them."""
    record = read_json(campaign_dir.spec) or {}
    if record.get("blueprint") != blueprint:
        return []
    from autoresearch.records.ledger import Ledger

    rows = (row for row in Ledger(campaign_dir.ledger).rows() if row.index == 1 and row.ending in _WHOLE)
    return [60 * row.elapsed_min for row in islice(rows, BASELINE_RUNS) if row.elapsed_min]
