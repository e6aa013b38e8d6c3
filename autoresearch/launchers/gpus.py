"""The GPUs of this machine: which exist, which are free, which a run gets.

A GPU is identified by its UUID everywhere, and shown to the trainer by its number. A lease is the `flock` of a file
that the Runner takes and its trainer inherits, so the kernel frees it on any death: there are no stale leases and
nothing to clean up. Several users of one machine share the files.

A run with a GPU of its own holds its file exclusively. If k runs share a GPU, each holds that file shared and one of
`<uuid>.share-1` to `-k` exclusively; so the two modes exclude each other.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.text.regex import later
from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.launchers import program
from autoresearch.runner.basics import is_locked

LEASES_VARIABLE = "AUTORESEARCH_GPU_LEASES"
LEASES = Path("/var/tmp/autoresearch-gpu")  # local on purpose: flock over NFS is unreliable
ANSWER_S = 30.0  # nvidia-smi without a persistence daemon takes seconds on eight GPUs

USE_S = 2.0  # the same, for who only wants to know how busy they are

_QUERY = ("--query-gpu=index,uuid,name,memory.total,memory.used", "--format=csv,noheader,nounits")
_UUID = later(r"(GPU|MIG)-[0-9A-Za-z/-]+\Z")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One line of nvidia-smi. Memory in MiB; None where the driver does not report it (unified memory, MIG)."""

    index: int  # NVML's, which is the order of the PCI bus
    uuid: str
    name: str
    memory_mib: int | None
    used_mib: int | None

    @property
    def idle(self) -> bool:
        """Whether no process outside our leases seems to use it: used memory is below 1 GiB or below 5 %."""
        return self.is_idle()

    def is_idle(self, busy_mib: int = 0) -> bool:
        """The same with another threshold: in use from so many MiB on; 0 is the default."""
        if self.used_mib is None:
            return True
        return self.used_mib < (busy_mib or max(1024, (self.memory_mib or 0) // 20))


def find(timeout_s: float = ANSWER_S) -> tuple[Gpu, ...]:
    """All GPUs of this machine; empty without a driver or a device, or if nvidia-smi does not answer."""
    said = program.output("nvidia-smi", *_QUERY, timeout_s=timeout_s)
    return parse(said or "")  # a lost GPU makes the exit code 15 although the others are listed


def use(uuids: Collection[str]) -> list[dict[str, int | None]]:
    """Index, load in percent and used MiB of these GPUs; None where the driver does not report it."""
    query = ("--query-gpu=uuid,index,utilization.gpu,memory.used", "--format=csv,noheader,nounits")
    said = program.output("nvidia-smi", *query, timeout_s=USE_S) if uuids else None
    rows = [[cell.strip() for cell in line.split(",")] for line in (said or "").splitlines()]
    names = ("index", "load_percent", "used_mib")
    return [dict(zip(names, map(_mib, row[1:]), strict=True)) for row in rows if len(row) == 4 and row[0] in uuids]


def parse(text: str) -> tuple[Gpu, ...]:
    """Read `nvidia-smi --query-gpu=index,uuid,name,memory.total,memory.used --format=csv,noheader,nounits`.

    Lines that are none of its rows (driver errors, warnings) are skipped, wherever they stand.
    """
    rows = (_row(line) for line in text.splitlines())
    return tuple(sorted((gpu for gpu in rows if gpu), key=lambda gpu: gpu.index))


def _row(line: str) -> Gpu | None:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) < 5 or not cells[0].isdecimal() or not _UUID.match(cells[1]):
        return None
    return Gpu(int(cells[0]), cells[1], ", ".join(cells[2:-2]), _mib(cells[-2]), _mib(cells[-1]))


def _mib(cell: str) -> int | None:
    """`[N/A]`, `[Not Supported]`, `[Unknown Error]`, `ERR!` are no numbers."""
    return int(cell) if cell.isdecimal() else None


def visible(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES (a scheduler's allocation) allows, in its order.

    Read as by CUDA: ids or unique prefixes of UUIDs; the first unknown one hides the rest.
    """
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return tuple(gpus)
    chosen: list[Gpu] = []
    for word in wanted.split(","):
        fitting = [g for g in gpus if _answers_to(g, word.strip())]
        if len(fitting) != 1 or fitting[0] in chosen:
            break
        chosen += fitting
    return tuple(chosen)


def _answers_to(gpu: Gpu, word: str) -> bool:
    if word.isdecimal():
        return gpu.index == int(word)
    return len(word) > 4 and gpu.uuid.startswith(word)


def select(spec: str, gpus: Sequence[Gpu], *, taken: Collection[str] = ()) -> tuple[str, ...]:
    """The UUIDs that `--gpus SPEC` selects.

    `none` or `0`: no GPU. `all`. A number N: N free ones. `0,1` or `3,` (a list has a comma): these indices.
    `GPU-...,MIG-...`: these UUIDs, or unique prefixes of them. `taken` are UUIDs that a number must not select; a GPU
    that is named is selected anyway, and its lease decides.
    Raises UsageError (malformed), EnvironmentUnusable (no such GPU), ConflictError (not free).
    """
    words = [word.strip() for word in spec.split(",")]
    if len(words) == 1 and words[0].lower() in ("none", "all", ""):
        return tuple(gpu.uuid for gpu in gpus) if words[0].lower() == "all" else ()
    if len(words) == 1 and words[0].isdecimal():
        return _any(int(words[0]), gpus, taken)
    chosen = [_named(word, gpus) for word in words if word]
    if len(set(chosen)) != len(chosen) or not chosen:
        raise UsageError(f"--gpus {spec}: the same GPU twice, or none", hint=_SPEC_HINT)
    return tuple(chosen)


_SPEC_HINT = "none, all, a number, indices such as 0,1 (one index: `0,`), or UUIDs"


def _any(count: int, gpus: Sequence[Gpu], taken: Collection[str]) -> tuple[str, ...]:
    """All or nothing: a run cannot use fewer than it needs."""
    if count > len(gpus):
        message = f"{_count(count)} wanted, but this machine has {len(gpus)}"
        raise EnvironmentUnusable(message, code="no_gpu", hint="see `autoresearch doctor`")
    free = [gpu.uuid for gpu in gpus if gpu.uuid not in taken]
    if count > len(free):
        message = f"{_count(count)} wanted, but {len(free)} of {len(gpus)} {'is' if len(free) == 1 else 'are'} free"
        fewer = f", or take {len(free)}: --gpus {len(free)}" if free else ""
        raise ConflictError(message, code="gpus_busy", hint=f"`autoresearch status --watch` shows them; wait{fewer}")
    return tuple(free[:count])


def _count(count: int) -> str:
    return "1 GPU is" if count == 1 else f"{count} GPUs are"


def _named(word: str, gpus: Sequence[Gpu]) -> str:
    if not word.isdecimal() and not _UUID.match(word):
        raise UsageError(f"--gpus: {word!r} is no GPU", hint=_SPEC_HINT)
    if word.startswith("MIG-"):  # the query lists whole GPUs only
        return word
    fitting = [gpu.uuid for gpu in gpus if _answers_to(gpu, word)]
    if len(fitting) != 1:
        message = f"GPU {word} is not on this machine" if not fitting else f"{word} fits several GPUs"
        raise EnvironmentUnusable(message, code="no_gpu", hint="see `autoresearch doctor`")
    return fitting[0]


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """The GPUs that a run is leased, by UUID, among all that nvidia-smi lists."""

    uuids: tuple[str, ...]
    there: tuple[Gpu, ...]

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that show a trainer exactly these GPUs (none for an empty list)."""
        shown = self._numbers or self.uuids
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(shown)}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """A warning if the GPUs are shown by UUID."""
        if not self.uuids or self._numbers:
            return ()
        why = "MIG slices have no number" if self.uuids[0].startswith("MIG-") else "their numbers are uncertain"
        message = f"CUDA_VISIBLE_DEVICES will hold UUIDs, as {why}: vLLM reads numbers only, and ends at its start"
        hint = "lease whole GPUs for a trainer that uses vLLM, or use a vLLM that says it reads UUIDs"
        return (Finding(Severity.WARNING, "gpus_by_uuid", message, hint),)

    @property
    def _numbers(self) -> tuple[str, ...]:
        """CUDA's numbers in the order of the PCI bus, which are nvidia-smi's; () where one is not certain.

        A MIG slice has none. Beside a GPU that is lost, and so is not listed, CUDA may count otherwise.
        """
        index = {gpu.uuid: str(gpu.index) for gpu in self.there}
        complete = [gpu.index for gpu in self.there] == list(range(len(self.there)))
        return tuple(index[uuid] for uuid in self.uuids) if complete and index.keys() >= set(self.uuids) else ()


def choose(spec: str, environ: Mapping[str, str]) -> GpuChoice:
    """What `--gpus SPEC` selects of the GPUs that may be used here and are free; see `select`."""
    there = find() if spec.strip().lower() not in ("", "none", "0") else ()
    allowed = visible(there, environ)
    return GpuChoice(select(spec, allowed, taken=taken(allowed, environ)), there)


def lease_path(uuid: str, environ: Mapping[str, str]) -> Path:
    """The file whose flock is the lease of this GPU."""
    place = Path(environ.get(LEASES_VARIABLE) or LEASES)
    return place / (re.sub(r"[^0-9A-Za-z-]", "_", uuid) + ".lock")


def share_path(lease: Path, number: int) -> Path:
    """The file of one share (from 1) of a GPU that several runs use; the Runner derives the same name."""
    return lease.with_suffix(f".share-{number}")


def make_leases(uuids: Sequence[str], environ: Mapping[str, str], shares: int = 1) -> tuple[Path, ...]:
    """Create the lease files, open to every user of this machine, without taking them.

    `shares`: how many runs may share a GPU; their files are created too. Raises EnvironmentUnusable if they cannot be
    created or opened.
    """
    from autoresearch.runner import remote_agent

    paths = tuple(lease_path(uuid, environ) for uuid in uuids)
    numbers = range(1, shares + 1) if shares > 1 else ()
    for path in (*paths, *(share_path(lease, number) for lease in paths for number in numbers)):
        try:
            remote_agent.make_lease(str(path))
        except OSError as error:
            message = f"the lease of a GPU cannot be opened: {path}: {error.strerror}"
            hint = f"{LEASES_VARIABLE} names another place"
            raise EnvironmentUnusable(message, code="no_lease", hint=hint) from error
    return paths


def is_leased(uuid: str, environ: Mapping[str, str]) -> bool:
    """Whether a run holds this GPU now, alone or shared. The check itself holds a shared lock for some microseconds."""
    return is_held_alone(uuid, environ) or shares_held(uuid, environ) > 0


def is_held_alone(uuid: str, environ: Mapping[str, str]) -> bool:
    """Whether a run has this GPU to itself."""
    return is_locked(lease_path(uuid, environ))


def shares_held(uuid: str, environ: Mapping[str, str]) -> int:
    """How many runs share this GPU now."""
    lease = lease_path(uuid, environ)
    return sum(is_locked(path) for path in lease.parent.glob(f"{glob.escape(lease.stem)}.share-*"))


def taken(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> frozenset[str]:
    """The UUIDs that are leased, or whose memory is used by processes without a lease."""
    return frozenset(gpu.uuid for gpu in gpus if not gpu.idle or is_leased(gpu.uuid, environ))
