"""Runs that ended recently, from their records; each is read once."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from autoresearch.core.metrics.objective import Direction
from autoresearch.core.run.overview import GpuUse, RunLine, label
from autoresearch.core.run.spec import RunState
from autoresearch.core.run.targets import LOCAL
from autoresearch.core.text.lines import plain
from autoresearch.errors import AutoresearchError
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs import outcome
from autoresearch.lab.runs.outcome import Outcome
from autoresearch.records import order_file
from autoresearch.records.index import IndexEntry
from autoresearch.records.rundir import RunDir


class EndedRuns:
    """The finished runs of an account, newest first."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lines: dict[str, RunLine] = {}

    def last(self, count: int, living: Collection[str]) -> list[RunLine]:
        """The `count` finished runs started last; missing or damaged records are shown as trouble."""
        entries = self._parts.index.recent(count + len(living)) if count > 0 else []
        shown = [entry for entry in entries if entry.run not in living][:count]
        lines = {entry.run: self._lines.get(entry.run) or _line(entry) for entry in shown}
        self._lines = {run: line for run, line in lines.items() if not line.trouble}
        return sorted(lines.values(), key=lambda line: -(line.ended or line.created))


def _line(entry: IndexEntry) -> RunLine:
    rundir = RunDir(Path(entry.run_dir))
    try:
        found, trouble = outcome.load(rundir), "it has no finished records"
    except (AutoresearchError, OSError, ValueError, KeyError, TypeError) as damaged:
        found, trouble = None, f"its records cannot be read: {damaged}"
    if found is None:
        return RunLine(
            entry.run, RunState.ENDED, slug=entry.slug, created=entry.created, run_dir=entry.run_dir, trouble=trouble
        )
    return _ended_line(entry, rundir, found)


def _ended_line(entry: IndexEntry, rundir: RunDir, outcome: Outcome) -> RunLine:
    spec, end, order = outcome.spec, outcome.exit, order_file.read(rundir)
    place = order.place if order else LOCAL
    return RunLine(
        run=entry.run,
        state=RunState.ENDED,
        reason=plain(end.reason),
        campaign=spec.campaign,
        member=bool(spec.why),
        slug=spec.slug,
        index=spec.index,
        replicate=spec.replicate,
        why=spec.why,
        step=outcome.metric_step if outcome.metric_step is not None else end.last_step,
        metric_name=spec.objective.metric if spec.objective else "",
        metric_value=outcome.metric_value,
        upwards=spec.objective is None or spec.objective.direction is Direction.MAXIMIZE,
        gpus=tuple(map(GpuUse, spec.gpus)),
        gpu_count=len(spec.gpus) or (order.gpus if order else 0),
        elapsed_s=end.duration_s,
        created=entry.created,
        session=spec.session,
        branch=spec.branch,
        run_dir=entry.run_dir,
        result_dir=spec.result_dir,
        ending=end.ending.value,
        verdict=outcome.standing,
        ended=end.ended or None,
        place=label(place),
        kind=str(place.kind),
    )
