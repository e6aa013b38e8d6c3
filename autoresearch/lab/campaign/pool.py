"""Pool: the worktrees and the GPU sets that the runs of one campaign share out among them."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from autoresearch.core.campaign import CampaignSpec
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign.evaluating import evaluation_slot
from autoresearch.launchers import gpus
from autoresearch.records.rundir import RunDir
from autoresearch.records.spec_file import read as read_run
from autoresearch.repository.checkout import Checkout
from autoresearch.repository.worktrees import Slot, slot

LOOK_AGAIN_S = 1.0  # whether a lease came free
ASK_AGAIN_S = 10.0  # whether memory did: nvidia-smi may take seconds


class Pool:
    """`parallel` + 1 worktrees, the one more for the run that is being prepared; GPUs in sets of `gpus_per_run`."""

    def __init__(self, spec: CampaignSpec, checkout: Checkout, environ: Mapping[str, str]) -> None:
        self.spec, self.environ, self.checkout = spec, environ, checkout
        trees = Path(spec.trees)
        self.slots = [
            slot(checkout, trees / f"slot-{n}", reason=f"campaign {spec.name}") for n in range(1, spec.parallel + 2)
        ]
        self._taken: dict[str, Slot] = {}  # by run
        self._gpus: dict[str, tuple[str, ...]] = {}
        self._ask_again: float | None = None  # when others may have let go of a GPU

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
        """GPUs for one more run, all or none of what it needs; None while too few are free.

        Free is what our own runs have not filled, nobody else has leased, and whose memory nobody outside uses.
        """
        wanted = self.spec.gpus_per_run
        if not wanted:
            return ()
        used = Counter(uuid for run in live for uuid in self._gpus.get(run, ()))
        room = [uuid for uuid in self.spec.gpus if used[uuid] < self.spec.runs_per_gpu]
        if len(room) < wanted or not (self._ask_again is None or self.may_ask_again):
            return None
        open_ones = [uuid for uuid in room if self._has_share(uuid)]
        foreign = self._in_use([uuid for uuid in open_ones if not used[uuid]]) if len(open_ones) >= wanted else set()
        free = sorted((uuid for uuid in open_ones if uuid not in foreign), key=lambda uuid: used[uuid])
        if len(free) < wanted:
            self._ask_again = time.monotonic() + (ASK_AGAIN_S if foreign else LOOK_AGAIN_S)
            return None
        self._ask_again = None
        return tuple(free[:wanted])

    @property
    def may_ask_again(self) -> bool:
        """Whether a run waits for GPUs that others had, and it is time to look again."""
        return self._ask_again is not None and time.monotonic() >= self._ask_again

    def _has_share(self, uuid: str) -> bool:
        """Whether its lease can be had: nobody has it alone, and so many runs that there is room do not share it."""
        if gpus.is_held_alone(uuid, self.environ):
            return False
        return gpus.shares_held(uuid, self.environ) < self.spec.runs_per_gpu

    def _in_use(self, unused: Sequence[str]) -> set[str]:
        """Those of the GPUs without a run of ours whose memory somebody uses who holds no lease."""
        suspects = {uuid for uuid in unused if not gpus.shares_held(uuid, self.environ)}
        found = gpus.find() if suspects else ()
        return {g.uuid for g in found if g.uuid in suspects and not g.is_idle(self.spec.gpu_busy_mib)}

    def remove(self) -> None:
        """The campaign is over: its worktrees go, its branches stay."""
        for one in self.slots:
            if one.path not in {busy.path for busy in self._taken.values()}:
                with contextlib.suppress(AutoresearchError, OSError):  # `git worktree list` still knows it
                    one.remove()
                    evaluation_slot(self.checkout, one).remove()
