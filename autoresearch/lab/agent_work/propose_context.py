"""Gather: everything that an agent is told about a campaign, read from its records, its runs and git.

What cannot be read (a run directory that was removed, a branch that is gone) is left out: a briefing is made of what
there is. `propose_prompt.brief` makes a text of it, without another look at anything.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from autoresearch.core.campaign.duplicates import is_code, resolved
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.judgement import search_mean
from autoresearch.core.campaign.overrides import canonical, flatten
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.stop_rules import Stand
from autoresearch.core.diagnosis.symptoms import SymptomEvidence
from autoresearch.core.metrics.expression import Point
from autoresearch.core.run.ending import EXCUSED
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.comparable import NO_SIGNAL
from autoresearch.core.statistics.pruning import PRUNED
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_report.curves_and_diffs import Diff, diff_of
from autoresearch.lab.campaign_report.summary import IdeaLine, IdeaStatus, idea_lines
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.lab.results.measure import RunFiles
from autoresearch.records.recorded_run import Outcome, RecordedRun
from autoresearch.records.rundir import RunDir

# Landscape: what the objective did where each recipe key was varied, as far as a campaign has gone.

MOST_VALUES = 8  # of one key; more are put into ranges


@dataclass(frozen=True, slots=True)
class Spot:
    """A value of a key, or a range of values, and the mean of the objective over so many ideas."""

    text: str
    mean: float
    ideas: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One key that was varied."""

    key: str
    spots: tuple[Spot, ...]  # by value
    best: Spot


def landscape(state: CampaignState, baseline: Mapping[str, object]) -> list[Axis]:
    """Every key that some measured idea set, the most tried first; other keys differ too, so it is marginal."""
    means = ((idea, search_mean(state, idea)) for idea in state.ideas)
    measured = [(effective(state, idea), value) for idea, value in means if value is not None]
    axes = []
    for key in dict.fromkeys(key for settings, _ in measured for key in settings):
        points: list[tuple[object, float]] = [(s[key], value) for s, value in measured if key in s]
        as_before = [(baseline[key], value) for s, value in measured if key not in s] if key in baseline else []
        if axis := _axis(state, key, points, as_before):
            axes.append(axis)
    return sorted(axes, key=lambda axis: (-sum(spot.ideas for spot in axis.spots), axis.key))


def untried(state: CampaignState, baseline: Mapping[str, object]) -> list[str]:
    """Numeric keys of the recipe that no idea has set."""
    set_ = {key for idea in state.ideas for key in _own(idea)}
    numbers = [key for key, value in baseline.items() if _is_number(value)]
    return [key for key in numbers if key not in set_]


def effective(state: CampaignState, idea: Idea) -> dict[str, object]:
    """What differs from the baseline's recipe: an idea's overrides over those of all that it was built on."""
    chain = [idea]
    while (above := state.by_slug(chain[-1].parent)) is not None and above not in chain and len(chain) < 1000:
        chain.append(above)
    settings: dict[str, object] = {}
    for one in reversed(chain):
        settings |= _own(one)
    return settings


def _own(idea: Idea) -> dict[str, object]:
    return {key.removeprefix("+"): value for key, value in flatten(idea.hypothesis.overrides).items()}


def _axis(
    state: CampaignState, key: str, points: Sequence[tuple[object, float]], as_before: list[tuple[object, float]]
) -> Axis | None:
    """The points of the ideas that set a key, and of those that left it as the baseline has it."""
    by_value = {canonical(as_before[0][0]): as_before} if as_before else {}
    for value, mean in points:
        by_value.setdefault(canonical(value), []).append((value, mean))
    if len(by_value) < 2:
        return None
    groups = list(by_value.values())
    numbers = all(_is_number(value) for value, _ in (*points, *as_before[:1]))
    groups.sort(key=(lambda g: float(str(g[0][0]))) if numbers else (lambda g: canonical(g[0][0])))
    if numbers and len(groups) > MOST_VALUES:
        groups = _ranges(groups)
    spots = [_spot(group) for group in groups]
    best = spots[0]
    for spot in spots[1:]:
        if state.spec.objective.better(spot.mean, best.mean):
            best = spot
    return Axis(key, tuple(spots), best)


def _ranges(groups: list[list[tuple[object, float]]]) -> list[list[tuple[object, float]]]:
    """As many ranges as may be shown, with about as many values each."""
    size = -(-len(groups) // MOST_VALUES)
    return [[point for group in groups[at : at + size] for point in group] for at in range(0, len(groups), size)]


def _spot(points: Sequence[tuple[object, float]]) -> Spot:
    first, last = points[0][0], points[-1][0]
    text = shown(first) if canonical(first) == canonical(last) else f"{shown(first)} to {shown(last)}"
    return Spot(text, fmean(mean for _, mean in points), len(points))


def shown(value: object) -> str:
    """A value of a recipe, short."""
    text = f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) else canonical(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


MOST_DIFFS = 12
MOST_LOGS = 20  # runs whose failure's line is looked up
DEAD = (IdeaStatus.DISCARDED, IdeaStatus.OUT, IdeaStatus.DEMOTED, IdeaStatus.CRASHED)
_SAYS_NOTHING = EXCUSED | {PRUNED, NO_SIGNAL}


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Runs that failed alike: the class, the slugs of their ideas, and the line that proves the last one."""

    kind: str
    slugs: tuple[str, ...]
    line: str = ""


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
    protected: Callable[[str], str] = lambda key: ""  # why a recipe key may not be changed, "" if it may
    closed: Callable[[str], str] = lambda path: ""  # the same of a path
    fits: Callable[[Mapping[str, object], str], str] = lambda overrides, parent: ""  # why they cannot be set on it
    waiting: Sequence[Hypothesis] = ()  # proposed or queued, and not begun
    refused: Sequence[tuple[Hypothesis, str]] = ()
    notes: Sequence[str] = ()  # from people
    vetoes: Sequence[str] = ()
    diffs: Mapping[str, Diff] = field(default_factory=dict)  # by slug
    failures: Sequence[FailureGroup] = ()
    seen: Sequence[tuple[str, SymptomEvidence]] = ()  # run id, and its metrics

    @property
    def metrics(self) -> frozenset[str]:
        """The names that some run recorded."""
        return frozenset(key for _, evidence in self.seen for key in evidence.series)


def gather(
    state: CampaignState,
    stand: Stand,
    builder: CommitBuilder,
    protected: Callable[[str], str] = lambda key: "",
    closed: Callable[[str], str] = lambda path: "",
) -> ProposeContext:
    """Read what there is. `protected`, `closed`: `Protection.why_key`, `Protection.why`."""
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
        protected=protected,
        closed=closed,
        fits=lambda overrides, parent: _misfit(state, builder, overrides, parent),
        waiting=[one.hypothesis for one in state.research.proposed.values()],
        refused=[*state.skipped, *state.research.refused],
        notes=[*state.spec.research.notes, *state.research.notes],
        vetoes=sorted({*state.unwanted, *state.research.vetoes}),
        diffs=_diffs(state, lines),
        failures=_failures(state),
        seen=_seen(state),
    )


def _misfit(state: CampaignState, builder: CommitBuilder, overrides: Mapping[str, object], parent: str) -> str:
    """Why these keys cannot be set on a parent, in words; "" where they can, as far as is known."""
    idea = state.by_slug(resolved(state, parent))
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


def _diffs(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> dict[str, Diff]:
    """Of the newest dead ends that changed code; what a config idea changed is in the ledger."""
    ideas = {idea.index: idea for idea in state.ideas}
    dead = [ideas[line.index] for line in idea_lines if line.standing in DEAD]
    code = [idea for idea in dead if is_code(idea.hypothesis)]
    repository = Path(state.spec.repository)
    return {idea.slug: diff_of(repository, idea.parent_commit, idea.commit) for idea in code[-MOST_DIFFS:]}


def _failures(state: CampaignState) -> list[FailureGroup]:
    """By class, the most frequent first."""
    found: dict[str, list[tuple[Idea, LedgerRow]]] = {}
    for idea in state.ideas:
        for row in idea.rows:
            if row.failure and row.failure not in _SAYS_NOTHING:
                found.setdefault(row.failure, []).append((idea, row))
    budget = MOST_LOGS
    told = []
    for kind, cases in sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        line = ""
        for _, row in reversed(cases[-3:]):
            budget -= 1
            if budget >= 0 and not line:
                line = _proof(row)
        told.append(FailureGroup(kind, tuple(dict.fromkeys(idea.slug for idea, _ in cases)), line))
    return told


def _proof(row: LedgerRow) -> str:
    """The line of the log that proves the failure of a run."""
    if not row.run_dir:
        return ""
    try:
        done = Outcome.load(RunDir(Path(row.run_dir)))
    except (OSError, ValueError, KeyError, AutoresearchError):
        return ""
    return done.failure_line if done else ""


def _seen(state: CampaignState) -> list[tuple[str, SymptomEvidence]]:
    """The metrics of the last run, of the best idea's and of the baseline's, each once; failures with the first."""
    kinds = Counter(row.failure for row in state.rows if row.failure and row.failure not in _SAYS_NOTHING)
    found: list[tuple[str, SymptomEvidence]] = []
    for row in _telling(state):
        if series := _series(row.run_dir):
            found.append((row.run_id, SymptomEvidence(state.spec.objective, series)))
    if kinds:
        found.append(("", SymptomEvidence(state.spec.objective, {}, dict(kinds))))
    return found


def _telling(state: CampaignState) -> list[LedgerRow]:
    last = max(state.rows, key=lambda row: row.ended or 0.0, default=None)
    rows = [last] if last else []
    for idea in (state.best, state.baseline):
        measured = [row for row in idea.rows if row.metric_value is not None] if idea else []
        rows += measured[-1:]
    return list({row.run_id: row for row in rows}.values())


def _series(run_dir: str) -> dict[str, list[Point]]:
    """Every metric of a run, by name."""
    if not run_dir:
        return {}
    try:
        readings = RunFiles.of(RecordedRun.read(RunDir(Path(run_dir)))).measure().readings
    except (OSError, ValueError, AutoresearchError):
        return {}
    found: dict[str, list[Point]] = {}
    for reading in readings:
        for key, value in reading.metrics.items():
            found.setdefault(key, []).append((reading.step, value if math.isfinite(value) else math.nan))
    return found
