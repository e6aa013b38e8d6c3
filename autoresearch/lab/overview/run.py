"""One living run, looked at repeatedly: of its files only changes are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.metrics.objective import Direction
from autoresearch.core.run.overview import GpuUse, RunLine, label
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.errors import AutoresearchError
from autoresearch.lab.runs.run_status import Kept, ReadBudget, RunStatus, RunWatch
from autoresearch.records import order_file, spec_file
from autoresearch.records.index import IndexEntry
from autoresearch.records.order_file import Observed, Order
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir, read_json
from autoresearch.runner.text import clean_line

FILES_S = 60.0  # between two reads of metrics files, if the log lacks the metric


class WatchedRun:
    """The cached state of one run between two looks."""

    def __init__(self, entry: IndexEntry) -> None:
        self.entry, self.rundir = entry, RunDir(Path(entry.run_dir))
        rundir = self.rundir
        self._spec = Kept(rundir.spec, lambda: spec_file.read(rundir))
        self._order = Kept(rundir.order, lambda: order_file.read(rundir))
        self._observed = Kept(rundir.observed, lambda: order_file.observed(rundir))
        self._runner = Kept(rundir.runner, lambda: read_json(rundir.runner))
        self._exit = Kept(rundir.exit_record, lambda: read_json(rundir.exit_record))
        self._watch: RunWatch | None = None  # once its spec is there
        self._from_files: float | None = None
        self._files_at = float("-inf")

    @property
    def order(self) -> Order | None:
        """Its order; None for a local run."""
        return self._order.get()

    @property
    def there(self) -> bool:
        """Whether it can be read: a run directory may be removed by hand."""
        return os.path.exists(self.rundir.spec)  # noqa: PTH110 - as in `kept`

    @property
    def leases(self) -> bool:
        """Whether it leases local GPUs."""
        try:
            spec = self._spec.get()
        except (AutoresearchError, OSError):
            return False
        return spec is not None and bool(spec.gpus) and not os.path.exists(self.rundir.order)  # noqa: PTH110

    @property
    def behind(self) -> bool:
        """Whether its log has more than there was time to read."""
        return self._watch is not None and self._watch.readings.behind

    def line(self, now: float, budget: ReadBudget, gpu_use: Mapping[str, GpuUse]) -> RunLine:
        """The present state of the run; damage is reported in it, and never hides other runs."""
        entry = self.entry
        state = self.rundir.state(now=now) if self.there else RunState.STARTING
        bare = RunLine(
            run=entry.run,
            state=state,
            created=entry.created,
            slug=entry.slug,
            session=entry.session,
            run_dir=entry.run_dir,
            result_dir=entry.result_dir,
        )
        try:
            placed = replace(bare, **self._placed(state, now))
            spec = self._spec.get()
            known = self._known(spec, state, now, budget, gpu_use) if spec else {}
        except (AutoresearchError, OSError, ValueError, TypeError, KeyError, AttributeError) as damaged:
            return replace(bare, trouble=clean_line(str(damaged)) or type(damaged).__name__)
        if not known.get("gpus"):
            known["gpu_count"] = placed.gpu_count
        return replace(placed, **known)

    def _placed(self, run_state: RunState, now: float) -> dict[str, Any]:
        """Its target and what was last observed there."""
        if not os.path.exists(self.rundir.order):  # noqa: PTH110 - as in `kept`
            return {"reason": self._reason(run_state, None)}
        order = self.order
        if order is None:
            return {"place": "unknown", "kind": "unknown", "trouble": f"{self.rundir.order} is damaged"}
        seen = self._observed.get()
        return {
            "place": label(order.place),
            "kind": str(order.place.kind),
            "job": str(order.handle.native) if order.handle else "",
            "node": clean_line(str(seen.node)) if seen else "",
            "reason": self._reason(run_state, seen),
            "since": _since(order, seen, run_state),
            "gpu_count": int(order.gpus),
            "queue_s": max(0.0, self._began(now) - (order.submitted or order.ordered)),
        }

    def _began(self, now: float) -> float:
        """When its Runner began, by the wall clock; now, if it has not yet."""
        started = (self._runner.get() or {}).get("started")
        return started if isinstance(started, int | float) else now

    def _reason(self, run_state: RunState, observed: Observed | None) -> str:
        if run_state is RunState.ENDED:
            return f"{(self._exit.get() or {}).get('ending', 'over')}; its records are being written"
        if run_state is RunState.DEAD:
            return "its Runner is gone; it is about to be recorded as lost"
        if observed is None:
            return ""
        hint = observed.more.get("hint") if run_state is RunState.UNREACHABLE else ""
        return clean_line(f"{observed.reason} ({hint})" if hint else str(observed.reason))

    def _known(
        self, spec: RunSpec, run_state: RunState, now: float, budget: ReadBudget, gpu_use: Mapping[str, GpuUse]
    ) -> dict[str, Any]:
        """The fields that need a readable spec."""
        if self._watch is None or self._watch.recorded.spec is not spec:
            self._watch = RunWatch(RecordedRun(self.rundir, spec))
        status, objective = self._watch.status(budget, run_state), spec.objective
        elapsed_s, left_s, limit = self._clocks(status, now)
        return {
            "campaign": spec.campaign,
            "member": bool(spec.why),
            "index": spec.index,
            "replicate": spec.replicate,
            "why": spec.why,
            "step": status.step,
            "metric_name": objective.metric if objective else "",
            "metric_value": self._metric(spec, status, now, budget),
            "upwards": objective is None or objective.direction is Direction.MAXIMIZE,
            "gpus": tuple(gpu_use.get(uuid) or GpuUse(uuid) for uuid in spec.gpus),
            **({"gpu_count": len(spec.gpus)} if spec.gpus else {}),
            "elapsed_s": elapsed_s,
            "left_s": left_s,
            "limit": limit,
            "newest_output": status.newest_output[:200],
            "branch": spec.branch,
        }

    def _metric(self, spec: RunSpec, run_status: RunStatus, now: float, budget: ReadBudget) -> float | None:
        """The objective as last printed; if no line has it, read from metrics files now and then."""
        if spec.objective is None:
            return None
        readings = [reading for reading in (run_status.last_validation, run_status.last_step) if reading]
        for reading in readings:
            if spec.objective.metric in reading.metrics:
                return reading.metrics[spec.objective.metric]
        if readings and (budget.once or (budget.files and now - self._files_at >= FILES_S)):
            from autoresearch.lab.results.measure import RunFiles

            self._files_at, budget.files = now, False
            self._from_files = RunFiles.of(RecordedRun(self.rundir, spec)).so_far()
        return self._from_files

    def _clocks(self, run_status: RunStatus, now: float) -> tuple[float | None, float | None, str]:
        """Seconds since its Runner started, seconds until the nearest limit, and the name of that limit."""
        state, elapsed, left = run_status.state, run_status.elapsed_s, run_status.left_s
        if self._runner.get() is None or state in (RunState.PENDING, RunState.STARTING):
            return None, None, ""
        if state is RunState.EVALUATING:
            ends = run_status.evaluation_ends
            return elapsed, None if ends is None else max(0.0, ends - now), "evaluation"
        if not state.lives or state is RunState.STOPPING:
            return elapsed, None, ""
        first, spec = run_status.first_step_left_s, self._spec.get()
        if first is not None and first < left and spec is not None:
            return elapsed, first, "output" if spec.limits.first_step_since_output else "first_step"
        return elapsed, left, "max_time"


def _since(order: Order | None, observed: Observed | None, run_state: RunState) -> float | None:
    """Start of the present state, as the Follower recorded it; before any record, the time of the order."""
    if observed and observed.state == run_state.value:
        return float(observed.since)
    return float(order.ordered) if order and not observed else None
