"""What a campaign will cost: how many runs there are at most, what they are for, and how long one took before.

Runs that the machine ends and that are tried again are not in any number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoresearch.core.agents.turns import AGENT, HYBRID
from autoresearch.core.campaign.spec import (
    BASELINE_RUNS,
    CHECKED,
    LEAST_BASELINE_RUNS,
    MOST_REPEATS,
    MOST_ROUNDS,
    REFRESH,
    CampaignSpec,
)
from autoresearch.core.campaign.tip import most_proofs
from autoresearch.core.run.ending import Ending
from autoresearch.core.statistics.confirmation import design
from autoresearch.core.statistics.screening import LEAST
from autoresearch.core.text.numbers import counted, span
from autoresearch.lab.parts import Parts
from autoresearch.records import exit_record
from autoresearch.records.rundir import RunDir

FEW_IDEAS = 8  # with fewer, the baseline has fewer runs
_WHOLE = (Ending.FINISHED, Ending.MAX_TIME)  # endings of runs that show how long a run takes


@dataclass(frozen=True, slots=True)
class RunCount:
    """The runs of a campaign that attempts so many ideas, the baseline included."""

    ideas: int
    baseline: int
    first: int  # one of each idea that is tried
    retests: int  # at most, proofs of the tip and further runs of kept ideas among them
    fresh: int  # of all rounds of confirmation, at most
    edits: int = 0  # with and without each edit of what is confirmed, at most
    screens: int = 0  # cheap ones, with the settings of `screen`, before them

    @property
    def least(self) -> int:
        """The runs that are made whatever they show."""
        return self.baseline + self.first

    @property
    def most(self) -> int:
        """All runs, at most."""
        return self.least + self.retests + self.fresh + self.edits + self.screens


def run_count(campaign_spec: CampaignSpec, ideas: int) -> RunCount:
    """The runs that a campaign of `ideas` ideas takes, its baseline among them."""
    spec, first = campaign_spec, max(0, ideas - 1)
    refreshed = REFRESH if spec.replicates >= BASELINE_RUNS else math.inf
    baseline = spec.replicates + int(max(0, ideas - 2) // refreshed)  # none after the last idea
    once = _share_that_runs_once(spec)
    retests = math.ceil((1 - once) * first) * spec.retests + (most_proofs(first) * (1 + spec.retests) if once else 0)
    if ideas < 2:
        return RunCount(ideas, baseline, first, retests, 0)
    repeats = MOST_REPEATS if spec.retests else 0
    edits = spec.rules.confirm_runs if spec.confirm and once else 0
    screens = first + LEAST if spec.screen_overrides else 0
    return RunCount(ideas, baseline, first, retests + repeats, _fresh_at_most(spec), edits, screens)


def _share_that_runs_once(campaign_spec: CampaignSpec) -> float:
    """Of the ideas of a campaign: those of an optimiser are re-tested in any search."""
    if campaign_spec.search != "tip":
        return 0.0
    return {AGENT: 1.0, "queue": 1.0, HYBRID: campaign_spec.research.share}.get(campaign_spec.proposer.name, 0.0)


def _fresh_at_most(campaign_spec: CampaignSpec) -> int:
    """The runs of all rounds of confirmation, with those of the baseline that show whether seeds do anything."""
    spec = campaign_spec
    if not spec.confirm:
        return 0
    rounds = (design(n, 1, spec.rules.confirm_runs) for n in range(1, (1 if spec.prove else MOST_ROUNDS) + 1))
    return max(0, CHECKED - spec.replicates) + sum(2 * looks.sizes[-1] for looks in rounds if looks)


@dataclass(frozen=True, slots=True)
class CampaignCost:
    """The cost of a campaign."""

    runs: RunCount | None  # None: nothing limits the number of ideas
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
            f"{runs.screens} cheap ones before them" if runs.screens else "",
            f"up to {counted(runs.retests, 're-test')} of what looks better" if runs.retests else "",
            f"up to {runs.fresh} fresh ones to prove the best" if runs.fresh else "",
            f"up to {runs.edits} to measure what its edits are worth" if runs.edits else "",
        )
        most = "" if runs.most == runs.least else "at most "
        return f"{counted(runs.ideas, 'idea')}: {most}{counted(runs.most, 'run')} ({', '.join(filter(None, parts))})"

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
    spec = campaign_spec
    if "baseline" not in spec.sources and spec.rules.count is not None and spec.rules.count < FEW_IDEAS:
        why = {**spec.sources, "baseline": f"{BASELINE_RUNS} are for {FEW_IDEAS} ideas or more"}
        spec = replace(spec, replicates=LEAST_BASELINE_RUNS, sources=why)
    looks = design(1, 1, spec.rules.confirm_runs) if spec.confirm else None
    sizes = looks.sizes if looks else ()
    left_s = math.inf if spec.rules.deadline is None else max(1.0, spec.rules.deadline - spec.created)
    limit_s = min(spec.timeout_s or max_time_s, left_s)
    run_s, run = _newest_whole_run(spec.blueprint, parts)
    return spec, CampaignCost(
        runs=None if spec.rules.count is None else run_count(spec, spec.rules.count),
        run_s=None if run_s is None else min(limit_s, run_s),
        run_s_from=run,
        limit_s=limit_s,
        slots=spec.parallel,
        by_agent=spec.proposer.name == AGENT,
        proof=" to ".join(str(2 * size) for size in dict.fromkeys(sizes[:1] + sizes[-1:])),
    )


def _newest_whole_run(blueprint: str, parts: Parts) -> tuple[float | None, str]:
    """The seconds of the newest run that went through, with its evaluation, and its name; None and "" without one."""
    for entry in parts.index.by_blueprint(blueprint):
        try:
            end = exit_record.read(RunDir(Path(entry.run_dir)))
        except (OSError, ValueError):
            continue
        if end is not None and end.ending in _WHOLE:
            return end.duration_s + float((end.evaluation or {}).get("seconds", 0.0)), entry.run
    return None, ""
