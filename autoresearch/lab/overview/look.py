"""Look at every living run of this account repeatedly, as cheaply as possible."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.metrics.objective import Direction
from autoresearch.core.run.overview import CampaignLine, GpuUse, Overview, PlaceLine, RunLine, label, place_lines
from autoresearch.core.run.spec import RunState
from autoresearch.core.run.targets import LOCAL, Kind, Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.overview.campaigns import RunningCampaigns, directories
from autoresearch.lab.overview.run import WatchedRun
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs import outcome
from autoresearch.lab.runs.outcome import Outcome
from autoresearch.lab.runs.run_status import ReadBudget
from autoresearch.launchers import gpus
from autoresearch.launchers.gpus import Gpu
from autoresearch.records import order_file
from autoresearch.records.index import IndexEntry
from autoresearch.records.order_file import TROUBLE, Order
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
        self._gone = 0
        self._files_at = float("-inf")  # when metrics files may be read again
        self._live: tuple[int, list[IndexEntry]] = (-1, [])
        self._campaigns = RunningCampaigns(parts)
        self._ended = EndedRuns(parts)
        self._gpus = gpu_watch or GpuWatch()

    def look(self, *, ended: int = 0) -> Overview:
        """The present state of everything, with `ended` finished runs. Raises EnvironmentUnusable without an index."""
        now = self.parts.clock()
        self._meet(self._entries(now), now)
        budget = ReadBudget(once=True) if self.once else ReadBudget(BYTES, files=now >= self._files_at)
        gpus = self._gpu_uses()
        # runs that had to wait the last time are read first
        order = sorted(self._runs.values(), key=lambda run: not run.behind)
        began = time.monotonic()
        lines = {run.entry.run: run.line(now, budget, gpus) for run in order}
        if now >= self._files_at and not budget.files:
            self._files_at = now + FILES_SHARE * (time.monotonic() - began)
        runs = tuple(lines[name] for name in self._runs)
        campaigns, remarks = self._campaign_lines(runs, now)
        over = self._ended.last(ended, frozenset(lines))
        return Overview(
            now=now,
            runs=self._named(runs),
            over=self._named(over),
            places=place_lines(runs, self._known_places()),
            campaigns=tuple(campaigns),
            remarks=tuple(remarks),
        )

    def _named(self, run_lines: Iterable[RunLine]) -> tuple[RunLine, ...]:
        return tuple(replace(line, name=self._campaigns.name_of(line)) for line in run_lines)

    def unattended(self) -> list[RunDir]:
        """One run of each target whose Follower is missing."""
        found: dict[str, RunDir] = {}
        for run in self._runs.values():
            order = run.order
            if order and order.follower not in found and order.unattended() and not run.rundir.exit_record.exists():
                found[order.follower] = run.rundir
        return list(found.values())

    def unsettled(self) -> int:
        """How many runs are over without finished records, or lost their directory: `status` records them."""
        return self._gone + sum(run.there and not run.rundir.state().lives for run in self._runs.values())

    def _entries(self, now: float) -> list[IndexEntry]:
        """The living runs; read again only when one was added or removed."""
        stamp, known = self._live
        newest = self.parts.index.live_stamp()
        if newest != stamp or now - newest / 1e9 < 1.0:  # a time stamp does not show changes within one tick
            known = self.parts.index.live()
            self._live = newest, known
        return known

    def _meet(self, entries: list[IndexEntry], now: float) -> None:
        runs = {entry.run: self._runs.get(entry.run) or WatchedRun(entry) for entry in entries}
        # without a spec, a run never began, its directory was removed, or it is about to begin
        self._runs = {name: run for name, run in runs.items() if run.there or now - run.entry.created < STARTING_S}
        self._gone = len(runs) - len(self._runs)

    def _gpu_uses(self) -> dict[str, GpuUse]:
        if not any(run.leases for run in self._runs.values()):
            return {}
        return self._gpus.look(wait_s=GPU_WAIT_S if self.once else 0.0)

    def _known_places(self) -> list[PlaceLine]:
        """This machine, the named targets and those of runs, with whether they are followed."""
        total, leased = self._gpus.leased(self.parts.environ)
        slots = next((place.slots for place in self._places if place.is_local), 0)
        found = {"local": PlaceLine("local", Kind.LOCAL.value, slots, gpus=total, gpus_leased=leased)}
        orders = [order for run in self._runs.values() if (order := run.order)]
        one_each = {order.follower: order for order in orders}.values()
        followed = {order.follower: not order.unattended() for order in one_each}
        troubles = {order.follower: _trouble(order) for order in one_each if not followed[order.follower]}
        for place in (*self._places, *(order.place for order in orders)):
            name = label(place)
            line = found.get(name) or PlaceLine(name, str(place.kind))
            found[name] = replace(line, slots=max(line.slots, place.slots))
        for order in orders:
            line, follows = found[label(order.place)], followed[order.follower]
            trouble = line.trouble or troubles.get(order.follower, "")
            found[line.place] = replace(line, followed=follows and line.followed is not False, trouble=trouble)
        return list(found.values())

    def _campaign_lines(self, run_lines: tuple[RunLine, ...], now: float) -> tuple[list[CampaignLine], list[str]]:
        try:
            return self._campaigns.lines(directories([run.run_dir for run in run_lines if run.member]), now), []
        except (AutoresearchError, OSError) as error:
            return [], [f"the campaigns cannot be looked at: {error}"]


def _trouble(order: Order) -> str:
    """Why the last Follower of its target could not start."""
    return str((read_json(Path(order.follower) / TROUBLE) or {}).get("reason") or "")


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
    return _ended_line(entry, found)


def _ended_line(entry: IndexEntry, outcome: Outcome) -> RunLine:
    spec, end, order = outcome.spec, outcome.exit, order_file.read(outcome.rundir)
    place = order.place if order else LOCAL
    return RunLine(
        run=entry.run,
        state=RunState.ENDED,
        reason=clean_line(end.reason),
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
