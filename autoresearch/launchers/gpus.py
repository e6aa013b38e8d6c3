"""The GPUs of this machine: which exist, which are free, which a run may be leased."""

from __future__ import annotations

import glob
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.launchers import program
from autoresearch.runner.basics import LaunchError, is_locked
from autoresearch.runner.gpu_lease import QUESTION, UUID, Gpu, lease_path, mib, named, parse, too_few, visible

ANSWER_S = 30.0  # nvidia-smi without a persistence daemon takes seconds on eight GPUs
USE_S = 2.0  # the same, for who only wants to know how busy they are


def find(timeout_s: float = ANSWER_S) -> list[Gpu]:
    """All GPUs of this machine; empty without a driver or a device, or if nvidia-smi does not answer."""
    said = program.output(*QUESTION, timeout_s=timeout_s)
    return parse(said or "")  # a lost GPU makes the exit code 15 although the others are listed


def use(uuids: Collection[str]) -> list[dict[str, int | None]]:
    """Index, load in percent and used MiB of these GPUs; None where the driver does not report it."""
    query = ("--query-gpu=uuid,index,utilization.gpu,memory.used", "--format=csv,noheader,nounits")
    said = program.output("nvidia-smi", *query, timeout_s=USE_S) if uuids else None
    rows = [[cell.strip() for cell in line.split(",")] for line in (said or "").splitlines()]
    names = ("index", "load_percent", "used_mib")
    return [dict(zip(names, map(mib, row[1:]), strict=True)) for row in rows if len(row) == 4 and row[0] in uuids]


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """The GPUs that a run may be leased, by UUID, the free ones first, and how many of them; 0: all."""

    uuids: tuple[str, ...] = ()
    count: int = 0

    @property
    def number(self) -> int:
        """How many it will be."""
        return self.count or len(self.uuids)


def words_of(text: str) -> tuple[list[str], int]:
    """What `--gpus TEXT` names, and a number of them that is enough.

    `none` or `0`: no GPU. `all`. A number N: N free ones. `0,1` or `3,` (a list has a comma): these indices.
    `GPU-...,MIG-...`: these UUIDs, or unique prefixes of them. Raises UsageError.
    """
    words = [word.strip() for word in text.split(",")]
    if len(words) == 1 and words[0].lower() in ("none", "0", ""):
        return [], 0
    if len(words) == 1 and (words[0].isdecimal() or words[0].lower() == "all"):
        return ["all"], int(words[0]) if words[0].isdecimal() else 0
    listed = [word for word in words if word]
    wrong = next((word for word in listed if not re.match(rf"[0-9]+\Z|{UUID}", word)), None)
    if wrong is not None or not listed:
        hint = "none, all, a number, indices such as 0,1 (one index: `0,`), or UUIDs"
        raise UsageError(f"--gpus: {wrong or text!r} is no GPU", hint=hint)
    return listed, 0


def request(text: str, environ: Mapping[str, str]) -> GpuRequest:
    """What `--gpus TEXT` selects of the GPUs that these variables show; the lease itself decides in the Runner.

    Raises UsageError (malformed), EnvironmentUnusable (no such GPU), ConflictError (too few are free).
    """
    words, count = words_of(text)
    if not words:
        return GpuRequest()
    there = visible(every := find(), environ)
    try:
        uuids = named(words, there, every)
        busy = taken(there, environ) if count else frozenset()
        if count > (free := len(set(uuids) - busy)):
            raise too_few(count, free, len(uuids))
    except LaunchError as error:
        code, reason = error.args
        if code == "no_gpu":
            raise EnvironmentUnusable(reason, code=code, hint="see `autoresearch doctor`") from None
        fewer = f", or take {free}: --gpus {free}" if free else ""
        raise ConflictError(reason, code="gpus_busy", hint=f"`autoresearch status` shows them; wait{fewer}") from None
    return GpuRequest(tuple(sorted(uuids, key=lambda uuid: uuid in busy)), count)


def is_leased(uuid: str, environ: Mapping[str, str]) -> bool:
    """Whether a run holds this GPU now, alone or shared. The check itself holds a shared lock for some microseconds."""
    return is_held_alone(uuid, environ) or shares_held(uuid, environ) > 0


def is_held_alone(uuid: str, environ: Mapping[str, str]) -> bool:
    """Whether a run has this GPU to itself."""
    return is_locked(lease_path(uuid, environ))


def shares_held(uuid: str, environ: Mapping[str, str]) -> int:
    """How many runs share this GPU now."""
    lease = Path(lease_path(uuid, environ))
    return sum(is_locked(path) for path in lease.parent.glob(f"{glob.escape(lease.stem)}.share-*"))


def taken(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> frozenset[str]:
    """The UUIDs that are leased, or whose memory is used by processes without a lease."""
    return frozenset(gpu.uuid for gpu in gpus if not gpu.is_idle() or is_leased(gpu.uuid, environ))
