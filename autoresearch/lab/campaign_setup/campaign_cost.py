"""What a campaign will cost: how many runs there are at most, what they are for, and how long one took before."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.campaign.spec import BASELINE_RUNS, LEAST_BASELINE_RUNS, CampaignSpec
from autoresearch.core.controller.cost import RunCount, run_count
from autoresearch.core.run.ending import Ending
from autoresearch.core.statistics.confirmation import design
from autoresearch.core.text.numbers import counted, span
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.parts import Parts
from autoresearch.records import exit_record
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import RunDir

FEW_IDEAS = 8  # with fewer, the baseline has fewer runs
_WHOLE = (Ending.FINISHED, Ending.MAX_TIME)  # endings of runs that show how long a run takes


@dataclass(frozen=True, slots=True)
class CampaignCost:
    """The cost of a campaign, or of what is left of one that ended and goes on."""

    runs: RunCount | None  # None: nothing limits the number of ideas
    attempted: int  # ideas that are over
    run_s: float | None  # as the newest run of the blueprint took that went through; None: there is none
    run_s_from: str  # which one
    limit_s: float  # of the first run
    slots: int
    by_agent: bool  # ideas come from an agent, whose turns are not counted
    proof: str  # the fresh runs of one, of the idea and of the baseline: `8 to 16`; "" if nothing is confirmed

    @property
    def runs_words(self) -> str:
        """The number of runs at most, and what they are for."""
        runs = self.runs
        if runs is None:
            return "ideas until another rule ends it: most take one run, one that looks better takes more"
        parts = (
            f"{runs.baseline} of the baseline" if runs.baseline else "",
            counted(runs.first, "first run") if runs.first else "",
            f"up to {counted(runs.retests, 're-test')} of what looks better" if runs.retests else "",
            f"up to {runs.fresh} fresh ones to prove the best" if runs.fresh else "",
            f"up to {runs.edits} to measure what its edits are worth" if runs.edits else "",
        )
        left, so_far = max(0, runs.ideas - self.attempted), f", after the {self.attempted} so far"
        ideas = f"{counted(left, 'further idea')}{so_far}" if self.attempted else counted(left, "idea")
        most = "" if runs.most == runs.least else "at most "
        return f"{ideas}: {most}{counted(runs.most, 'run')} ({', '.join(filter(None, parts))})"

    @property
    def hours_words(self) -> str:
        """How long that takes."""
        if self.run_s is None:
            return f"unknown until the baseline ran; a run is cut after {span(self.limit_s)}"
        each = f"{span(self.run_s)} a run (as the run {self.run_s_from} took)"
        if self.runs is None:
            return each
        hours = dict.fromkeys(span(runs * self.run_s / self.slots) for runs in (self.runs.least, self.runs.most))
        turns = "; the agent's turns are not counted" if self.by_agent else ""
        return f"{' to '.join(hours)}, with {each} on {counted(self.slots, 'slot')}{turns}"

    def to_json(self) -> dict[str, Any]:
        """The numbers, flat."""
        runs = self.runs
        return {
            "ideas": runs.ideas if runs else None,
            "runs_at_least": runs.least if runs else None,
            "runs_at_most": runs.most if runs else None,
            "run_s": self.run_s,
        }


def priced(campaign_spec: CampaignSpec, max_time_s: float, parts: Parts) -> tuple[CampaignSpec, CampaignCost]:
    """The cost of a campaign, and its spec with fewer runs of the baseline if it is small and nobody said how many.

    max_time_s: of the blueprint, for a campaign whose runs have no limit of their own.
    """
    spec, campaign_dir = campaign_spec, CampaignDir(Path(campaign_spec.directory))
    state = CampaignHistory(campaign_dir).state() if campaign_dir.spec.exists() else None  # one that goes on
    if state is not None:
        was = {**spec.sources, "baseline": "as the campaign began"}
        spec = replace(spec, replicates=state.spec.replicates, search=state.spec.search, sources=was)
    elif "baseline" not in spec.sources and spec.rules.count is not None and spec.rules.count < FEW_IDEAS:
        why = {**spec.sources, "baseline": f"{BASELINE_RUNS} are for {FEW_IDEAS} ideas or more"}
        spec = replace(spec, replicates=LEAST_BASELINE_RUNS, sources=why)
    attempted = state.attempted if state else 0
    looks = design(1, 1, spec.rules.confirm_runs) if spec.confirm else None
    sizes = looks.sizes if looks else ()
    left_s = math.inf if spec.rules.deadline is None else max(1.0, spec.rules.deadline - spec.created)
    limit_s = min(spec.timeout_s or max_time_s, left_s)
    run_s, run = _newest_whole_run(spec.blueprint, parts)
    return spec, CampaignCost(
        runs=None if spec.rules.count is None else run_count(spec, spec.rules.count, attempted),
        attempted=attempted,
        run_s=None if run_s is None else min(limit_s, run_s),
        run_s_from=run,
        limit_s=limit_s,
        slots=spec.parallel,
        by_agent=spec.proposer.name == AGENT,
        proof=" to ".join(str(2 * size) for size in dict.fromkeys(sizes[:1] + sizes[-1:])),
    )


def _newest_whole_run(blueprint: str, parts: Parts) -> tuple[float | None, str]:
    """The seconds of the newest run that went through, its evaluation included, and its name; None and "" without one.
    """
    for entry in parts.index.by_blueprint(blueprint):
        try:
            end = exit_record.read(RunDir(Path(entry.run_dir)))
        except (OSError, ValueError):
            continue
        if end is not None and end.ending in _WHOLE:
            return end.duration_s + float((end.evaluation or {}).get("seconds", 0.0)), entry.run
    return None, ""
