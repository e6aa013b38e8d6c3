"""Look at every living run of this account repeatedly, as cheaply as possible."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from autoresearch.core.run.overview import CampaignLine, GpuUse, Overview, PlaceLine, RunLine, label, place_lines
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.overview.campaigns import RunningCampaigns, directories
from autoresearch.lab.overview.ended import EndedRuns
from autoresearch.lab.overview.gpus import GpuWatch
from autoresearch.lab.overview.readings import ReadBudget
from autoresearch.lab.overview.run import WatchedRun
from autoresearch.lab.parts import Parts
from autoresearch.records.index import IndexEntry
from autoresearch.records.order_file import TROUBLE, Order
from autoresearch.records.rundir import STARTING_S, RunDir, read_json

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
        budget = ReadBudget(math.inf, once=True) if self.once else ReadBudget(BYTES, files=now >= self._files_at)
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
