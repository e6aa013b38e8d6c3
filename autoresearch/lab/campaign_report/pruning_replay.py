"""Replay: what early stopping would have done to the runs of a campaign that are over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.statistics.pruning import PRUNED, Curve, Stop, replay
from autoresearch.errors import NotFoundError
from autoresearch.lab.campaigns.pruner import RULES, may_end, past, read_curve, rule_named
from autoresearch.records.rundir import RunDir

MOST_WARMUPS = 5


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run that is over, with its curve."""

    run: str
    index: int
    slug: str
    name: str
    curve: Curve
    seconds: float
    judged: bool  # a rule may end it; else it is only compared with
    was_pruned: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that the rule would have ended."""

    run: str
    index: int
    slug: str
    name: str
    step: int
    why: str
    saved_s: float  # by its share of steps


@dataclass(frozen=True, slots=True)
class Replayed:
    """One rule with one warm-up, applied to a campaign."""

    rule: str
    warmup: int
    runs: int  # that it judged
    ended: tuple[Ended, ...]
    saved_s: float
    saved_share: float  # of the time of all runs it looked at, the baseline's too
    winner: str | None  # the idea that the campaign ended with; None where that is its baseline
    kills_winner: bool
    best_run: str | None  # the run with the best last value among all
    kills_best_run: bool
    loss: float | None  # how much worse the best of the runs that were left is

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def past_runs(state: CampaignState) -> list[PastRun]:
    """The runs of a campaign that a rule would have looked at, oldest first. NotFoundError where there is none."""
    rows = {row.run_id: row for row in state.rows}
    ideas = {run.run: (idea, run) for idea in state.ideas for run in idea.runs}
    found = []
    for run, run_dir in past(state).items():
        curve = read_curve(RunDir(Path(run_dir)))
        idea, one = ideas[run]
        seconds = 60 * (rows[run].elapsed_min or 0.0)
        judged, was = may_end(idea, one), rows[run].failure == PRUNED
        if curve:
            found.append(PastRun(run, idea.index, idea.slug, idea.name, curve, seconds, judged, was))
    if not any(one.judged for one in found):
        raise NotFoundError(
            f"{state.spec.name} has no idea whose first run is over and was validated",
            hint="early stopping looks at validations of the objective; a metric of training has none",
            code="nothing_to_replay",
        )
    return found


def warmups_of(past_runs: Sequence[PastRun]) -> list[int]:
    """Some warm-ups to choose from: none, and the steps at which validations came, but the last."""
    steps = sorted({step for one in past_runs for step, _ in one.curve[:-1] if step > 0})
    stride = max(1, -(-len(steps) // (MOST_WARMUPS - 1)))
    return [0, *steps[::stride]]


def replays(state: CampaignState, rules: Sequence[str] = RULES, warmup: int | None = None) -> list[Replayed]:
    """Each rule with each warm-up; without one, with some that fit the curves."""
    runs = past_runs(state)
    warmups = warmups_of(runs) if warmup is None else [warmup]
    return [_replayed(state, runs, name, n) for name in rules for n in warmups]


def _replayed(state: CampaignState, past_runs: Sequence[PastRun], name: str, warmup: int) -> Replayed:
    spared = {n for n, one in enumerate(past_runs) if not one.judged}
    found = replay(rule_named(name, warmup), [one.curve for one in past_runs], state.spec.objective, spared=spared)
    ended = tuple(_ended(past_runs[n], stop) for n, stop in found.stopped.items())
    saved, spent = sum(one.saved_s for one in ended), sum(one.seconds for one in past_runs)
    best = state.best
    winner = best.slug if best and best.kept and not best.hypothesis.is_baseline else None
    return Replayed(
        rule=name,
        warmup=warmup,
        runs=len(past_runs) - len(spared),
        ended=ended,
        saved_s=saved,
        saved_share=saved / spent if spent else found.saved,
        winner=winner,
        kills_winner=any(one.slug == winner for one in ended),
        best_run=None if found.winner is None else past_runs[found.winner].run,
        kills_best_run=found.kills_winner,
        loss=found.lost if found.lost == found.lost else None,
    )


def _ended(past_run: PastRun, stopped: Stop) -> Ended:
    left = 1 - stopped.step / past_run.curve[-1][0] if past_run.curve[-1][0] else 0.0
    seconds = past_run.seconds * left
    return Ended(past_run.run, past_run.index, past_run.slug, past_run.name, stopped.step, str(stopped), seconds)
