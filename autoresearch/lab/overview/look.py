"""Look at every living run of this account repeatedly, as cheaply as possible: of its files only changes are read."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.metrics.objective import Direction
from autoresearch.core.run.overview import CampaignLine, GpuUse, Overview, PlaceLine, RunLine, place_lines
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.core.run.targets import LOCAL, Kind, Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.overview.campaigns import RunningCampaigns, directories
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.run_status import Kept, ReadBudget, RunStatus, RunWatch
from autoresearch.launchers import gpus
from autoresearch.launchers.gpus import Gpu
from autoresearch.records import order_file, recorded_run
from autoresearch.records.index import IndexEntry
from autoresearch.records.order_file import TROUBLE, Observed, Order
from autoresearch.records.recorded_run import Outcome, RecordedRun
from autoresearch.records.rundir import STARTING_S, RunDir, read_json
from autoresearch.runner.text import clean_line

ASK_S = 15.0
BYTES = 4 << 20  # of logs parsed per look; the rest follows at later looks
FILES_SHARE = 50.0  # metrics files are read again after so many times the duration of reading them
GPU_WAIT_S = 5.0  # if there is only one look


class Looker:
    """Looks at all runs; its caches make the next look cheap.

    `targets`: those to show even without runs. `once`: there is only one look, so everything is read.
    """

    def __init__(
        self, parts: Parts, *, targets: tuple[Target, ...] = (), once: bool = False, gpu_watch: GpuWatch | None = None
    ) -> None:
        self.parts, self.once = parts, once
        self._places = targets
        self._runs: dict[str, WatchedRun] = {}
        self._files_at = float("-inf")  # when metrics files may be read again
        self._live: tuple[int, list[IndexEntry]] = (-1, [])
        self._campaigns = RunningCampaigns(parts)
        self._ended: dict[str, RunLine] = {}
        self._gpus = gpu_watch or GpuWatch()

    def look(self, *, ended: int = 0) -> Overview:
        """The present state of everything, with `ended` finished runs. Raises EnvironmentUnusable without an index."""
        now = self.parts.clock()
        entries = self._entries(now)
        runs = {entry.run: self._runs.get(entry.run) or WatchedRun(entry) for entry in entries}
        # without a spec, a run never began, its directory was removed, or it is about to begin
        self._runs = {name: run for name, run in runs.items() if run.there or now - run.entry.created < STARTING_S}
        budget = ReadBudget(once=True) if self.once else ReadBudget(BYTES, now >= self._files_at, at=now)
        leased = any(run.leases for run in self._runs.values())
        gpu_use = self._gpus.look(wait_s=GPU_WAIT_S if self.once else 0.0) if leased else {}
        # runs that had to wait the last time are read first
        order = sorted(self._runs.values(), key=lambda run: not run.behind)
        began = time.monotonic()
        lines = {run.entry.run: run.line(now, budget, gpu_use) for run in order}
        if now >= self._files_at and not budget.files:
            self._files_at = now + FILES_SHARE * (time.monotonic() - began)
        living = [lines[name] for name in self._runs]
        campaigns: list[CampaignLine] = []
        remarks = []
        try:
            members = [line.run_dir for line in living if line.member]
            campaigns = self._campaigns.lines(directories(members), now)
        except (AutoresearchError, OSError) as error:
            remarks.append(f"the campaigns cannot be looked at: {error}")
        return Overview(
            now=now,
            runs=self._named(living),
            over=self._named(self._last(ended, lines.keys())),
            places=place_lines(living, self._known_places()),
            campaigns=tuple(campaigns),
            remarks=tuple(remarks),
        )

    def _named(self, run_lines: Iterable[RunLine]) -> tuple[RunLine, ...]:
        return tuple(replace(line, name=self._campaigns.name_of(line)) for line in run_lines)

    def _entries(self, now: float) -> list[IndexEntry]:
        """The living runs; read again only when one was added or removed."""
        stamp, known = self._live
        newest = self.parts.index.live_stamp()
        if newest != stamp or now - newest / 1e9 < 1.0:  # a time stamp does not show changes within one tick
            known = self.parts.index.live()
            self._live = newest, known
        return known

    def _last(self, count: int, living: Collection[str]) -> list[RunLine]:
        """The `count` finished runs started last, newest end first; damaged records are shown as trouble."""
        entries = self.parts.index.recent(count + len(living)) if count > 0 else []
        shown = [entry for entry in entries if entry.run not in living][:count]
        lines = {entry.run: self._ended.get(entry.run) or _ended_line(entry) for entry in shown}
        self._ended = {run: line for run, line in lines.items() if not line.trouble}
        return sorted(lines.values(), key=lambda line: -(line.ended or line.created))

    def _known_places(self) -> list[PlaceLine]:
        """This machine, the named targets and those of runs, with whether they are followed."""
        total, leased = self._gpus.leased(self.parts.environ)
        slots = next((place.slots for place in self._places if place.is_local), 0)
        found = {"local": PlaceLine("local", Kind.LOCAL.value, slots, gpus=total, gpus_leased=leased)}
        orders = [order for run in self._runs.values() if (order := run.order)]
        followed: dict[str, tuple[bool, str]] = {}  # whether, and why the last Follower could not start
        for order in {one.follower: one for one in orders}.values():
            alone = order.unattended()
            record = read_json(Path(order.follower) / TROUBLE) if alone else None
            followed[order.follower] = not alone, str((record or {}).get("reason") or "")
        for place in (*self._places, *(order.place for order in orders)):
            name = place.shown
            line = found.get(name) or PlaceLine(name, str(place.kind))
            found[name] = replace(line, slots=max(line.slots, place.slots))
        for order in orders:
            line, (follows, trouble) = found[order.place.shown], followed[order.follower]
            follows = follows and line.followed is not False
            found[line.place] = replace(line, followed=follows, trouble=line.trouble or trouble)
        return list(found.values())


class GpuWatch:
    """The last answer of nvidia-smi."""

    def __init__(self, find: Callable[[], tuple[Gpu, ...]] = gpus.find) -> None:
        self._find = find
        self._found: tuple[Gpu, ...] = ()
        self._asked = float("-inf")
        self._thread: threading.Thread | None = None

    def look(self, *, wait_s: float = 0.0) -> dict[str, GpuUse]:
        """GPU use by UUID; queried again if the answer is old. `wait_s`: how long to wait for an answer."""
        if self._thread is None and time.monotonic() - self._asked >= ASK_S:
            self._asked = time.monotonic()
            self._thread = threading.Thread(target=self._ask, daemon=True)
            self._thread.start()
        if self._thread is not None and wait_s:
            self._thread.join(wait_s)
        return {gpu.uuid: GpuUse(gpu.uuid, gpu.index, gpu.used_mib) for gpu in self._found}

    def _ask(self) -> None:
        self._found = self._find()
        self._thread = None

    def leased(self, environ: Mapping[str, str]) -> tuple[int, int]:
        """(number of GPUs, number of leased GPUs)."""
        found = self._found
        return len(found), sum(gpus.is_leased(gpu.uuid, environ) for gpu in found)


class WatchedRun:
    """The cached state of one run between two looks."""

    def __init__(self, entry: IndexEntry) -> None:
        self.entry, self.rundir = entry, RunDir(Path(entry.run_dir))
        rundir = self.rundir
        self._spec = Kept(rundir.spec, lambda: recorded_run.read(rundir))
        self._order = Kept(rundir.order, lambda: order_file.read(rundir))
        self._observed = Kept(rundir.observed, lambda: order_file.observed(rundir))
        self._runner = Kept(rundir.runner, lambda: read_json(rundir.runner))
        self._exit = Kept(rundir.exit_record, lambda: read_json(rundir.exit_record))
        self._watch: RunWatch | None = None  # once its spec is there

    @property
    def order(self) -> Order | None:
        """Its order; None for a local run."""
        return self._order.get()

    @property
    def there(self) -> bool:
        """Whether it can be read: a run directory may be removed by hand."""
        return os.path.exists(self.rundir.spec)  # noqa: PTH110 - pathlib costs five times the call

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
        state = self.rundir.state(now=now) if self.there else RunState.STARTING
        bare = _bare_line(self.entry, state)
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
        if not os.path.exists(self.rundir.order):  # noqa: PTH110 - as above
            return {"reason": self._reason(run_state, None)}
        order = self.order
        if order is None:
            return {"place": "unknown", "kind": "unknown", "trouble": f"{self.rundir.order} is damaged"}
        seen = self._observed.get()
        started = (self._runner.get() or {}).get("started")  # of its Runner, by the wall clock
        began = started if isinstance(started, int | float) else now
        since = None if seen else float(order.ordered)  # the start of its state, as the Follower recorded it
        return {
            "place": order.place.shown,
            "kind": str(order.place.kind),
            "job": str(order.handle.native) if order.handle else "",
            "node": clean_line(str(seen.node)) if seen else "",
            "reason": self._reason(run_state, seen),
            "since": float(seen.since) if seen and seen.state == run_state.value else since,
            "gpu_count": int(order.gpus),
            "queue_s": max(0.0, began - (order.submitted or order.ordered)),
        }

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
        status = self._watch.status(budget, run_state)
        elapsed_s, left_s, limit = self._clocks(spec, status, now)
        return {
            **_declared(spec),
            "step": status.step,
            "metric_value": self._watch.objective(status, budget),
            "gpus": tuple(gpu_use.get(uuid) or GpuUse(uuid) for uuid in spec.gpus),
            "elapsed_s": elapsed_s,
            "left_s": left_s,
            "limit": limit,
            "newest_output": status.newest_output[:200],
        }

    def _clocks(self, spec: RunSpec, run_status: RunStatus, now: float) -> tuple[float | None, float | None, str]:
        """Seconds since its Runner started, seconds until the nearest limit, and the name of that limit."""
        state, elapsed, left = run_status.state, run_status.elapsed_s, run_status.left_s
        if self._runner.get() is None or state in (RunState.PENDING, RunState.STARTING):
            return None, None, ""
        if state is RunState.EVALUATING:
            ends = run_status.evaluation_ends
            return elapsed, None if ends is None else max(0.0, ends - now), "evaluation"
        if not state.lives or state is RunState.STOPPING:
            return elapsed, None, ""
        first = run_status.first_step_left_s
        if first is not None and first < left:
            return elapsed, first, "output" if spec.limits.first_step_since_output else "first_step"
        return elapsed, left, "max_time"


def _bare_line(entry: IndexEntry, run_state: RunState) -> RunLine:
    """What the index knows of a run."""
    return RunLine(
        run=entry.run,
        state=run_state,
        created=entry.created,
        slug=entry.slug,
        session=entry.session,
        run_dir=entry.run_dir,
        result_dir=entry.result_dir,
    )


def _declared(spec: RunSpec) -> dict[str, Any]:
    """What its spec says of a run."""
    return {
        "campaign": spec.campaign,
        "member": bool(spec.why),
        "index": spec.index,
        "replicate": spec.replicate,
        "why": spec.why,
        "metric_name": spec.objective.metric if spec.objective else "",
        "upwards": spec.objective is None or spec.objective.direction is Direction.MAXIMIZE,
        "branch": spec.branch,
        **({"gpu_count": len(spec.gpus)} if spec.gpus else {}),
    }


def _ended_line(entry: IndexEntry) -> RunLine:
    """A finished run; missing or damaged records are shown as trouble."""
    bare = _bare_line(entry, RunState.ENDED)
    try:
        found, trouble = Outcome.load(RunDir(Path(entry.run_dir))), "it has no finished records"
    except (AutoresearchError, OSError, ValueError, KeyError, TypeError) as damaged:
        found, trouble = None, f"its records cannot be read: {damaged}"
    if found is None:
        return replace(bare, trouble=trouble)
    end, order = found.exit, order_file.read(found.rundir)
    place = order.place if order else LOCAL
    known = {"gpu_count": order.gpus if order else 0, **_declared(found.spec)}
    return replace(
        bare,
        **known,
        reason=clean_line(end.reason),
        step=found.metric_step if found.metric_step is not None else end.last_step,
        metric_value=found.metric_value,
        gpus=tuple(map(GpuUse, found.spec.gpus)),
        elapsed_s=end.duration_s,
        ending=end.ending.value,
        verdict=found.standing,
        ended=end.ended or None,
        place=place.shown,
        kind=str(place.kind),
    )
