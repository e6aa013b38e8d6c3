"""The worktrees, targets and GPU sets that the runs of one campaign share.

A worktree is checked before the trainer starts and after it ends: does it still hold the run's commit?

    worktree.json   in the run directory: tracked files that differed from the commit when the trainer started
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.core.run.targets import LOCAL, Target
from autoresearch.core.text.numbers import listed
from autoresearch.errors import AutoresearchError, ConflictError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.git_repo.worktrees import Slot, slot
from autoresearch.launchers import gpus
from autoresearch.records import campaign_records, order_file
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import read_json, write_json
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.recorded_run import read as read_run
from autoresearch.records.rundir import RunDir

LOOK_AGAIN_S = 1.0  # between checks whether a lease has been released
NOTED = "worktree.json"
MOST_NAMED = 5  # files named in a flag
ATTEMPTS = 3
ASK_AGAIN_S = 10.0  # between checks whether GPU memory has been freed: nvidia-smi may take seconds


@dataclass(frozen=True, slots=True)
class RunSlot:
    """The target of one run, and the GPUs assigned to it; on other targets the launcher assigns GPUs."""

    target: Target
    gpus: tuple[str, ...] = ()


def slots_of(campaign_spec: CampaignSpec, checkout: Checkout) -> list[Slot]:
    """The worktrees of a campaign's runs: one more than runs in parallel, for the run that is being prepared."""
    trees, reason = Path(campaign_spec.trees), f"campaign {campaign_spec.name}"
    return [slot(checkout, trees / f"slot-{n}", reason=reason) for n in range(1, campaign_spec.parallel + 2)]


class SlotPool:
    """`parallel` + 1 worktrees (one for the run that is being prepared), and GPUs in sets of `gpus_per_run`.

    Targets are filled in the order in which they were given.
    """

    def __init__(self, campaign_spec: CampaignSpec, checkout: Checkout, environ: Mapping[str, str]) -> None:
        self.spec, self.environ, self.checkout = campaign_spec, environ, checkout
        self.slots = slots_of(campaign_spec, checkout)
        self.targets = campaign_spec.places or (LOCAL,)
        self.taken: dict[str, Slot] = {}  # by run id
        self._run_slots: dict[str, RunSlot] = {}
        self._ask_again: float | None = None  # when to look again for GPUs that were in use by others

    def spare(self) -> Slot | None:
        """A worktree that no run uses."""
        used = {one.path for one in self.taken.values()}
        return next((one for one in self.slots if one.path not in used), None)

    def take(self, worktree: Slot, run: str, run_slot: RunSlot | None = None) -> None:
        """Assign this worktree to a run; also its target and GPUs, once the run has been started."""
        self.taken[run] = worktree
        if run_slot is not None:
            self._run_slots[run] = run_slot

    def free(self, run: str) -> None:
        """Release the worktree, target and GPUs of a run that is over."""
        self.taken.pop(run, None)
        self._run_slots.pop(run, None)

    def occupied(self, run_dir: Path, run: str) -> None:
        """Register a run that an earlier controller started; its spec and its order name its worktree and target."""
        spec, order = read_run(RunDir(run_dir)), order_file.read(RunDir(run_dir))
        run_slot = RunSlot(order.place) if order else RunSlot(self._here.target, spec.gpus)
        for one in self.slots:
            if one.path == Path(spec.cwd) or one.path in Path(spec.cwd).parents:
                self.take(one, run, run_slot)

    def busy(self, live: Mapping[str, RunDir]) -> dict[str, str]:
        """Output files of live runs -> the run that writes each."""
        found: dict[str, str] = {}
        for run, rundir in live.items():
            with contextlib.suppress(OSError, AutoresearchError):  # a run directory that was removed by hand
                found |= {source.path: run for source in read_run(rundir).sources}
        return found

    @property
    def _here(self) -> RunSlot:
        """On the local target, under whatever name it was declared."""
        return RunSlot(next((target for target in self.targets if target.is_local), LOCAL))

    def _target_of(self, run: str) -> Target:
        return self._run_slots.get(run, self._here).target

    def assign(self, live: Mapping[str, RunDir]) -> RunSlot | None:
        """Where one more run can start now; None if there is no room.

        An unreachable target gets no new runs while it holds some, because their state is unknown.
        """
        for target in self.targets:
            there = {run: live[run] for run in live if self._target_of(run).name == target.name}
            room = target.slots or self.spec.parallel
            if len(there) >= room or any(rundir.state() is RunState.UNREACHABLE for rundir in there.values()):
                continue
            if not target.is_local:
                return RunSlot(target)
            if (free := self.gpus(there)) is not None:
                return RunSlot(target, free)
        return None

    def at(self, target: Target, live: Mapping[str, RunDir]) -> list[RunDir]:
        """The live runs at a target."""
        return [rundir for run, rundir in list(live.items()) if self._target_of(run).name == target.name]

    def gpus(self, live: Collection[str]) -> tuple[str, ...] | None:
        """GPUs for one more run, as many as it needs; None if too few are free.

        A GPU is free if this campaign's runs have not filled it, no one else has leased it, and no process without a
        lease uses its memory.
        """
        count, shares = self.spec.gpus_per_run, self.spec.runs_per_gpu
        if not count:
            return ()
        used = Counter(uuid for run in live if run in self._run_slots for uuid in self._run_slots[run].gpus)
        room = [uuid for uuid in self.spec.gpus if used[uuid] < shares]
        if len(room) < count or not (self._ask_again is None or self.may_ask_again):
            return None
        held = {uuid: gpus.shares_held(uuid, self.environ) for uuid in room}
        room = [uuid for uuid in room if held[uuid] < shares and not gpus.is_held_alone(uuid, self.environ)]
        unleased = {uuid for uuid in room if not (used[uuid] or held[uuid])} if len(room) >= count else set()
        seen = gpus.find() if unleased else ()
        foreign = {gpu.uuid for gpu in seen if gpu.uuid in unleased and not gpu.is_idle(self.spec.gpu_busy_mib)}
        free = sorted((uuid for uuid in room if uuid not in foreign), key=lambda uuid: used[uuid])
        enough = len(free) >= count
        self._ask_again = None if enough else time.monotonic() + (ASK_AGAIN_S if foreign else LOOK_AGAIN_S)
        return tuple(free[:count]) if enough else None

    @property
    def may_ask_again(self) -> bool:
        """Whether a run waits for GPUs that others were using, and it is time to check again."""
        return self._ask_again is not None and time.monotonic() >= self._ask_again

    def remove(self) -> None:
        """Remove the worktrees after the campaign has ended; its branches stay."""
        from autoresearch.lab.ideas.worktree_paths import evaluation_slot
        from autoresearch.lab.launch.run_sandbox import scratch_of

        busy = {one.path for one in self.taken.values()}
        for one in self.slots:
            if one.path not in busy:
                with contextlib.suppress(AutoresearchError, OSError):  # `git worktree list` still shows it
                    evaluation = evaluation_slot(self.checkout, one)
                    one.remove()
                    evaluation.remove()
                    for worktree in (one, evaluation):
                        wipe(scratch_of(worktree.path))
        with contextlib.suppress(OSError):  # not empty
            Path(self.spec.trees).rmdir()


# -- does a worktree still hold the commit of its run? ----------------------------------------------------------------


def note_worktree(recorded: RecordedRun) -> None:
    """Record which files differ from the commit before training. ConflictError if the worktree is not at that commit.
    """
    spec = recorded.spec
    one = _slot(spec)
    if one is None:
        raise ConflictError(f"the worktree {spec.worktree} is none of its campaign's", code="slot_lost")
    one.check_commit(spec.commit)
    write_json(recorded.rundir.path / NOTED, {"changed": one.changes(untracked=False)}, durable=False)


def check_worktree(recorded: RecordedRun) -> tuple[str, str]:
    """Why the result does not belong to the commit ("" if it does), and a sentence on tracked files that the run
    changed.
    """
    spec = recorded.spec
    noted = read_json(recorded.rundir.path / NOTED)
    if noted is None or not spec.worktree:
        return "", ""  # it never started
    for attempt in range(1, ATTEMPTS + 1):
        try:
            one = _slot(spec)
            if one is None or not one.path.is_dir():  # cannot be checked any more: the measurements are kept elsewhere
                return "", "its worktree was removed while it trained"
            one.check_commit(spec.commit)
            found = one.changes(untracked=False)
            break
        except ConflictError as error:
            return error.message, ""
        except AutoresearchError as error:  # git was killed, or had no memory: that says nothing of the run
            if attempt == ATTEMPTS:
                return "", f"could not be checked: its worktree, after {ATTEMPTS} attempts: {error.message}"
    if not (names := sorted(set(found) - set(noted.get("changed", ())))):
        return "", ""
    return "", f"it changed tracked files: {listed(names, MOST_NAMED)}"


def note_command(rundir: RunDir) -> str:
    """The command by which the Runner calls `note_worktree`, after the blueprint's preparation commands."""
    return shlex.join([sys.executable, "-P", "-m", "autoresearch", "before-training", str(rundir.path)])


def _slot(spec: RunSpec) -> Slot | None:
    campaign = campaign_records.read_spec(CampaignDir(Path(spec.ledger).parent))
    checkout = repository.locate(Path(campaign.repository))
    slots = slots_of(campaign, checkout) if isinstance(checkout, Checkout) else []
    return next((one for one in slots if str(one.path) == spec.worktree), None)
