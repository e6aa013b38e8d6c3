"""Gather: everything that an agent is told about a campaign, read from its records, its runs and git.

What cannot be read (a run directory that was removed, a branch that is gone) is left out: a briefing is made of what
there is. `propose_prompt.brief` makes a text of it, without another look at anything.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.core.agents.proposals import EXTRA, MOST_ASKED
from autoresearch.core.agents.protection import Protection
from autoresearch.core.campaign.hypothesis import BEST, Hypothesis
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.spec import Stand
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import edits_of
from autoresearch.core.controller.runs_and_retries import decided
from autoresearch.core.metrics.objective import Point
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.text.regex import later
from autoresearch.errors import AutoresearchError
from autoresearch.lab.agent_work.artifacts import artifacts, data_files, gpus_here, last_measured, telling_run
from autoresearch.lab.campaign_report.curves_and_diffs import Diff, diff_of, read_again
from autoresearch.lab.campaign_report.summary import IdeaLine, idea_lines
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.records.recorded_run import Outcome
from autoresearch.records.rundir import RunDir
from autoresearch.runner.masking import mask_text

MOST_DIFFS = 12
_RULERS = ("=", "_")  # begin the lines that pytest prints around what it tells
_OF_REWARDS = later(r"reward|(?:^|[/_])kl(?:_loss|_penalty)?$")

Curves = Mapping[str, Sequence[Point]]  # metric -> its values by step


@dataclass(frozen=True, slots=True)
class ProposeContext:
    """What a briefing is made of."""

    state: CampaignState
    stand: Stand
    lines: tuple[IdeaLine, ...]
    trainer: str = ""
    purpose: str = ""
    command: str = ""
    recipe: Mapping[str, object] = field(default_factory=dict)  # of the best idea, flat
    baseline: Mapping[str, object] = field(default_factory=dict)  # of the baseline, flat
    protection: Protection = field(default_factory=Protection)
    fits: Callable[[Mapping[str, object], str], str] = lambda overrides, parent: ""  # why they cannot be set on it
    waiting: Sequence[Hypothesis] = ()  # proposed or queued, and not begun
    refused: Sequence[tuple[Hypothesis, str]] = ()
    notes: Sequence[str] = ()  # from people
    unwanted: Sequence[str] = ()  # ideas that a person skipped
    diffs: Mapping[str, Diff] = field(default_factory=dict)  # by slug, of the changes that new ideas build on
    artifacts: Sequence[str] = ()  # the beginnings of what the best run and the last failed one wrote for this
    gpus: str = ""  # of this machine, where runs use some
    data: str = ""  # the files of data that can be seen, with their sizes
    seen: Sequence[tuple[str, Curves]] = ()  # run id, and its metrics
    newly_decided: Mapping[str, Curves] = field(default_factory=dict)  # by slug: no finding tells of them yet

    @property
    def metrics(self) -> frozenset[str]:
        """The names that some run recorded."""
        return frozenset(key for _, series in self.seen for key in series)

    @property
    def by_reward(self) -> bool:
        """Whether its runs learn by reinforcement, as what they recorded tells."""
        return any(map(_OF_REWARDS.search, self.metrics))

    @property
    def compared(self) -> list[tuple[str, Curves]]:
        """The metrics of the baseline, of the idea to beat and of the tip, each by its slug."""
        known = dict(self.seen)
        ideas = (self.state.baseline, self.state.best, self.state.tip)
        runs = {idea.slug: telling_run(self.state, idea) for idea in ideas if idea}
        return [(slug, known[run.run_id]) for slug, run in runs.items() if run and known.get(run.run_id)]


def gather(
    state: CampaignState, stand: Stand, builder: CommitBuilder, protection: Protection | None = None
) -> ProposeContext:
    """Read what there is."""
    best = state.base
    lines = tuple(idea_lines(state))
    return ProposeContext(
        state=state,
        stand=stand,
        lines=lines,
        trainer=builder.trainer.name,
        purpose=builder.blueprint.purpose,
        command=builder.blueprint.launch_command,
        recipe=_recipe(builder, best.commit if best else state.spec.base_commit),
        baseline=_recipe(builder, state.spec.base_commit),
        protection=protection or Protection(),
        fits=lambda overrides, parent: _misfit(state, builder, overrides, parent),
        waiting=[one.hypothesis for one in state.research.proposed.values()],
        refused=_refused(state),
        notes=[*state.spec.research.notes, *state.research.notes],
        unwanted=sorted(state.unwanted),
        diffs=_diffs(state),
        artifacts=artifacts(state, builder),
        gpus=gpus_here() if state.spec.gpus_per_run else "",
        data=data_files(builder),
        seen=_seen(state),
        newly_decided={idea.slug: _metrics_of(idea) for idea in _unfound(state)},
    )


def _refused(state: CampaignState) -> list[tuple[Hypothesis, str]]:
    """The ideas that were refused, each once for a reason, the newest last."""
    every = [*state.skipped, *state.research.refused]
    return list({(one.slug, why): (one, why) for one, why in every if why != EXTRA}.values())


def _misfit(state: CampaignState, builder: CommitBuilder, overrides: Mapping[str, object], parent: str) -> str:
    """Why these keys cannot be set on a parent, in words; "" where they can, as far as is known."""
    idea = state.base if parent in (BEST, "") else state.by_slug(parent)
    try:
        if idea is not None and idea.commit:
            builder.changed(idea.commit, overrides, builder.arguments(idea.commit))
    except AutoresearchError as error:
        return f"{error.message} ({error.hint})" if error.hint else error.message
    except OSError:
        pass
    return ""


def _recipe(builder: CommitBuilder, commit: str) -> Mapping[str, object]:
    try:
        return flatten(builder.whole(commit))
    except (AutoresearchError, OSError):
        return {}


def _diffs(state: CampaignState) -> dict[str, Diff]:
    """Of the code ideas in the best and in the tip, the newest; what a config idea changed is said by its settings."""
    inside = {index for idea in (state.best, state.base) if idea for index in edits_of(state, idea)}
    code = [idea for idea in state.ideas if idea.index in inside and idea.hypothesis.changes_code]
    repository = Path(state.spec.repository)
    return {idea.slug: diff_of(repository, idea.parent_commit, idea.commit) for idea in code[-MOST_DIFFS:]}


def _metrics_of(idea: Idea) -> Curves:
    run = last_measured(idea)
    return _series(run.run_dir) if run else {}


def _unfound(state: CampaignState) -> list[Idea]:
    """The decided ideas of which nothing was found yet, oldest first; the newest if there are many."""
    known = {one.idea for one in state.research.findings}
    ideas = [idea for idea in state.ideas if not idea.hypothesis.is_baseline]
    told = [idea for idea in ideas if not idea.hypothesis.merges]
    return [idea for idea in told if idea.slug not in known and decided(state, idea)][-MOST_ASKED:]


def _seen(state: CampaignState) -> list[tuple[str, Curves]]:
    """The metrics of the last run, and of the last of the tip, the best and the baseline, each once."""
    return [(row.run_id, series) for row in _telling(state) if (series := _series(row.run_dir))]


def _telling(state: CampaignState) -> list[LedgerRow]:
    last = max(state.rows, key=lambda row: row.ended or 0.0, default=None)
    rows = [last, *(telling_run(state, idea) for idea in (state.tip, state.best, state.baseline) if idea)]
    return list({row.run_id: row for row in rows if row is not None}.values())


def _series(run_dir: str) -> dict[str, list[Point]]:
    """Every metric of a run, by name."""
    found: dict[str, list[Point]] = {}
    for reading in read_again(run_dir).readings if run_dir else ():
        for key, value in reading.metrics.items():
            found.setdefault(key, []).append((reading.step, value if math.isfinite(value) else math.nan))
    return found


def failure_of(idea: Idea) -> str:
    """Why it never ran, or the kind of failure of its last run with the line that proves it."""
    if unmade := idea.hypothesis.unmade:
        told = [line for line in idea.hypothesis.why_unmade.splitlines() if not line.startswith(_RULERS)] or [unmade]
        return " ".join(["never ran:", told[0], *told[1:][-2:]])
    row = next((row for row in reversed(idea.rows) if row.failure), None)
    if row is None:
        return ""
    with contextlib.suppress(OSError, ValueError, KeyError, AutoresearchError):
        outcome = Outcome.load(RunDir(Path(row.run_dir))) if row.run_dir else None
        if outcome and outcome.failure_line:
            return f"{row.failure}: {mask_text(outcome.failure_line)}"
    return row.failure
