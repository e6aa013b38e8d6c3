"""Pool: the worktrees and the GPU sets that the runs of one campaign share out among them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from autoresearch.core.campaign import CampaignSpec
from autoresearch.errors import AutoresearchError
from autoresearch.records.rundir import RunDir
from autoresearch.records.spec_file import read as read_run
from autoresearch.repository.checkout import Checkout
from autoresearch.repository.worktrees import Slot, slot


class Pool:
    """`parallel` + 1 worktrees, the one more for the run that is being prepared; GPUs in sets of `gpus_per_run`."""

    def __init__(self, spec: CampaignSpec, checkout: Checkout) -> None:
        self.spec = spec
        trees = Path(spec.trees)
        self.slots = [
            slot(checkout, trees / f"slot-{n}", reason=f"campaign {spec.name}") for n in range(1, spec.parallel + 2)
        ]
        self._taken: dict[str, Slot] = {}  # by run
        self._gpus: dict[str, tuple[str, ...]] = {}

    def spare(self) -> Slot | None:
        """A worktree that no run uses."""
        used = {one.path for one in self._taken.values()}
        return next((one for one in self.slots if one.path not in used), None)

    def take(self, one: Slot, run: str, gpus: tuple[str, ...]) -> None:
        """This run is in this worktree now, on these GPUs."""
        self._taken[run], self._gpus[run] = one, gpus

    def free(self, run: str) -> None:
        """It is over."""
        self._taken.pop(run, None)
        self._gpus.pop(run, None)

    def occupied(self, run_dir: Path, run: str) -> None:
        """A run that lives since before: where it is stands in its spec."""
        spec = read_run(RunDir(run_dir))
        for one in self.slots:
            if one.path == Path(spec.cwd) or one.path in Path(spec.cwd).parents:
                self.take(one, run, spec.gpus)

    def busy(self, live: Mapping[str, RunDir]) -> dict[str, str]:
        """Files that live runs write -> the run that does."""
        found: dict[str, str] = {}
        for run, rundir in live.items():
            with contextlib.suppress(OSError, AutoresearchError):  # a run directory that was removed by hand
                found |= {source.path: run for source in read_run(rundir).sources}
        return found

    def gpus(self, live: Collection[str]) -> tuple[str, ...] | None:
        """GPUs for one more run, all or none of what it needs; None while too few are free."""
        wanted = self.spec.gpus_per_run
        if not wanted:
            return ()
        used = Counter(uuid for run in live for uuid in self._gpus.get(run, ()))
        free = [uuid for uuid in self.spec.gpus if used[uuid] < self.spec.runs_per_gpu]
        free.sort(key=lambda uuid: used[uuid])
        return tuple(free[:wanted]) if len(free) >= wanted else None

    def remove(self) -> None:
        """The campaign is over: its worktrees go, its branches stay."""
        for one in self.slots:
            if one.path not in {busy.path for busy in self._taken.values()}:
                with contextlib.suppress(AutoresearchError, OSError):  # `git worktree list` still knows it
                    one.remove()
