"""What the report shows beyond journal and ledger: the curves of the runs, the diffs of what was kept.

Both may be gone (a run directory removed, a branch deleted): what cannot be read is left out, and named.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.standing import KEPT, Word
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.git import GitFailed
from autoresearch.git_repo.history import shown_diff
from autoresearch.lab.campaign_report import formatting
from autoresearch.lab.campaign_report.summary import IdeaLine
from autoresearch.lab.results.measure import POINTS, Measurement, RunFiles, Series, drawn, thinned
from autoresearch.records.files import read_json
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir

MOST_RUNS = 2000
MOST_POINTS = 120_000  # of the objective, of all runs together
MOST_WHOLE = 40  # runs whose other metrics are shown as well
MOST_METRICS = 16
MOST_DIFFS = 40
DIFF_LINES = 160
BLUEPRINT = ".autoresearch/blueprint.md"  # what we commit beside the code, and differs always


@dataclass(frozen=True, slots=True)
class RunCurves:
    """The metrics of one run over its steps, the objective first."""

    run: str
    index: int
    name: str  # of its idea
    seed: int | None
    standing: Word
    series: Mapping[str, Series]


@dataclass(frozen=True, slots=True)
class Diff:
    """How an idea's commit differs from its parent's; `lines` are (CSS class, text)."""

    stat: str
    lines: tuple[tuple[str, str], ...]
    missing: str = ""  # why there is none


@dataclass(frozen=True, slots=True)
class CampaignCurves:
    """The curves of a campaign's runs; how many measured runs have none, and how many were not read yet."""

    runs: tuple[RunCurves, ...]
    missing: int
    unread: int


class CurveReader:
    """Reads the curves of runs, those of a run that is over once.

    `most_s`: after so many seconds of reading, the remaining runs are left to the next call. None: all are read.
    """

    def __init__(self, most_s: float | None = None) -> None:
        self._most_s = most_s
        self._known: dict[tuple[str, str, str, bool], Mapping[str, Series]] = {}  # by run, directory and objective

    def read(self, state: CampaignState, idea_lines: Sequence[IdeaLine]) -> CampaignCurves:
        """The curves of all runs, in the order of the ideas; the runs that have other metrics are read first.

        Every run has its objective; the baseline's first run, those of kept ideas and those under way have other
        metrics as well.
        """
        rows = [(line, row) for line in idea_lines for row in line.idea.rows]
        missing, rows = max(0, len(rows) - MOST_RUNS), rows[:MOST_RUNS]
        whole = {row.run_id for line, row in rows if line.word in KEPT or (row.index, row.replicate) == (1, 1)}
        whole = set(sorted(whole)[:MOST_WHOLE])
        objective = state.spec.objective.metric  # it may be chosen while the page is served
        unread = self._read_ended([row for _, row in rows if row.run_dir], objective, whole)
        most = _most_points(len(rows))
        found = []
        for line, row in rows:
            key = (row.run_id, row.run_dir, objective, row.run_id in whole)
            series = {metric: thinned(points, most) for metric, points in self._known.get(key, {}).items()}
            if series:
                found.append(RunCurves(row.run_id, line.idea.index, line.idea.name, row.seed, line.word, series))
            elif row.metric_value is not None and (key in self._known or not row.run_dir):
                missing += 1
        for idea, run in state.live[:MOST_WHOLE]:
            if series := _series(read_again(run.run_dir), objective):
                found.append(RunCurves(run.run, idea.index, idea.name, run.seed, Word.RUNNING, series))
        return CampaignCurves(tuple(found), missing, unread)

    def _read_ended(self, rows: Sequence[LedgerRow], metric: str, whole: Collection[str]) -> int:
        """Read the runs that are not known yet: those in `whole`, then the newest; how many are left."""
        new = [row for row in rows if (row.run_id, row.run_dir, metric, row.run_id in whole) not in self._known]
        new.sort(key=lambda row: (row.run_id in whole, row.ended or 0.0), reverse=True)
        began = time.monotonic()
        for n, row in enumerate(new):
            if n and self._most_s is not None and time.monotonic() - began >= self._most_s:
                return len(new) - n
            all_metrics = row.run_id in whole
            series = _series(measured_again(row), metric) if all_metrics else _recorded(row, metric)
            self._known[row.run_id, row.run_dir, metric, all_metrics] = series
        return 0


def _most_points(runs: int) -> int:
    """Points of each curve; a number that seldom changes while runs are added."""
    most = POINTS
    while most > 40 and most * runs > MOST_POINTS:
        most //= 2
    return most


def _series(measurement: Measurement, metric: str) -> dict[str, Series]:
    """The points of the objective and of the other metrics that have most values, each by its name."""
    readings = measurement.readings
    found = {metric: measurement.curve}
    counts = Counter(key for reading in readings for key in reading.metrics if key not in (metric, "step"))
    for key, count in counts.most_common(MOST_METRICS):
        if count > 1:
            found[key] = drawn(sorted((r.step, r.metrics[key]) for r in readings if key in r.metrics))
    return {key: points for key, points in found.items() if points}


def _recorded(row: LedgerRow, metric: str) -> dict[str, Series]:
    """The objective's curve as it was measured; read again where no whole one is recorded."""
    record = read_json(RunDir(Path(row.run_dir)).collected) or {}
    try:
        points = tuple((int(step), float(value)) for step, value in record["curve"])
    except (KeyError, TypeError, ValueError):
        points = measured_again(row).curve
    return {metric: points} if points else {}


def measured_again(row: LedgerRow) -> Measurement:
    """What a run left, read again; nothing where that is gone."""
    return read_again(row.run_dir, ended=row.returncode == 0)


def read_again(run_dir: str, *, ended: bool = False) -> Measurement:
    """The metrics in a run directory; nothing where it cannot be read."""
    try:
        return RunFiles.of(RecordedRun.read(RunDir(Path(run_dir))), ended=ended).measure()
    except (OSError, ValueError, AutoresearchError):
        return Measurement(())


def diffs_of(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> list[tuple[IdeaLine, Diff]]:
    """What each kept idea changed, the best last; at most 40 ideas, 160 lines each."""
    kept, repository = [line for line in idea_lines if line.word in KEPT], Path(state.spec.repository)
    return [(line, diff_of(repository, line.idea.parent_commit, line.commit)) for line in kept[-MOST_DIFFS:]]


@functools.lru_cache(maxsize=4 * MOST_DIFFS)  # a commit never changes
def diff_of(repository: Path, before: str, after: str) -> Diff:
    """The bounded diff of two commits, without each one's blueprint; `missing` where git cannot give one.

    The arguments that an idea adds to a command, and the recipe of one that lies elsewhere, are files of ours in it.
    """
    if not (before and after and repository.is_dir()):
        return Diff("", (), "its commits are not recorded")
    try:
        stat, text = shown_diff(repository, before, after, without=(BLUEPRINT,))
    except GitFailed as failure:
        return Diff("", (), formatting.plain(failure.message))
    lines = tuple((_kind(line), line) for line in formatting.block(text.rstrip("\n"), DIFF_LINES).split("\n") if text)
    return Diff(formatting.block(stat.rstrip("\n"), 40), lines, "" if text.strip() else "no file differs")


def _kind(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ", "new file", "deleted file", "rename ", "similarity")):
        return "head"
    return {"+": "plus", "-": "minus", "@": "at"}.get(line[:1], "same")
