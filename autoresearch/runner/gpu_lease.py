"""Which GPUs a machine has, which of them a run may get, their leases, and how a trainer is shown those that it got.

A GPU is identified by its UUID everywhere, and shown to the trainer by its number. A lease is the `flock` of a file
that the Runner takes and its trainer inherits, so the kernel frees it on any death: there are no stale leases and
nothing to clean up. Several users of one machine share the files.

A run with a GPU of its own holds its file exclusively. If k runs share a GPU, each holds that file shared and one of
`<uuid>.share-1` to `-k` exclusively; so the two modes exclude each other.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time

from .basics import LaunchError, clock, take_lock
from .text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .spec import Spec

LEASES_VARIABLE = "AUTORESEARCH_GPU_LEASES"
LEASES = "/var/tmp/autoresearch-gpu"  # local on purpose: flock over NFS is unreliable
VISIBLE = "CUDA_VISIBLE_DEVICES"
QUESTION = (
    *("nvidia-smi", "--query-gpu=index,uuid,name,memory.total,memory.used"),
    "--format=csv,noheader,nounits",
)
LEASE_WAIT_S = 1.0  # the previous run may be about to release it
UUID = r"(?:GPU|MIG)-[0-9A-Za-z/-]+\Z"


class Gpu:
    """One line of nvidia-smi. Memory in MiB; None where the driver does not report it (unified memory, MIG)."""

    def __init__(self, index: int, uuid: str, name: str, memory_mib: int | None, used_mib: int | None) -> None:
        self.index = index  # NVML's, which is the order of the PCI bus
        self.uuid = uuid
        self.name = name
        self.memory_mib = memory_mib
        self.used_mib = used_mib

    def is_idle(self, busy_mib: int = 0) -> bool:
        """Whether no process outside our leases seems to use it: it has less than this, by default 1 GiB or 5 %."""
        if self.used_mib is None:
            return True
        return self.used_mib < (busy_mib or max(1024, (self.memory_mib or 0) // 20))


def parse(text: str) -> list[Gpu]:
    """Read the answer to QUESTION: lines that are none of its rows (driver errors, warnings) are skipped."""
    rows = (_row(line) for line in text.splitlines())
    return sorted((gpu for gpu in rows if gpu), key=lambda gpu: gpu.index)


def _row(line: str) -> Gpu | None:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) < 5 or not cells[0].isdecimal() or not re.match(UUID, cells[1]):
        return None
    return Gpu(int(cells[0]), cells[1], ", ".join(cells[2:-2]), mib(cells[-2]), mib(cells[-1]))


def mib(cell: str) -> int | None:
    """`[N/A]`, `[Not Supported]`, `[Unknown Error]`, `ERR!` are no numbers."""
    return int(cell) if cell.isdecimal() else None


def visible(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES allows, whoever set it (a scheduler, a shell, a blueprint), in its order.

    Read as by CUDA: ids or unique prefixes of UUIDs; the first unknown one hides the rest.
    """
    wanted = environ.get(VISIBLE)
    if wanted is None:
        return list(gpus)
    chosen: list[Gpu] = []
    for word in wanted.split(","):
        fitting = [gpu for gpu in gpus if _answers_to(gpu, word.strip())]
        if len(fitting) != 1 or fitting[0] in chosen:
            break
        chosen += fitting
    return chosen


def _answers_to(gpu: Gpu, word: str) -> bool:
    if word.isdecimal():
        return gpu.index == int(word)
    return len(word) > 4 and gpu.uuid.startswith(word)


def named(words: Iterable[str], gpus: Sequence[Gpu], there: Sequence[Gpu]) -> list[str]:
    """The UUIDs of `all` of these GPUs, or of those that words name: by index, UUID, or a unique prefix of it.

    there: all that nvidia-smi lists. A whole UUID is taken at its word where that is none, and that of a MIG slice
    always: only whole GPUs are listed. Raises LaunchError.
    """
    found: list[str] = []
    for word in words:
        fitting = [gpu.uuid for gpu in gpus if word == "all" or _answers_to(gpu, word)]
        if word.startswith("MIG-") or (not there and re.match(UUID, word)):
            fitting = [word]
        if word != "all" and len(fitting) != 1:
            none = f"GPU {word} is not on this machine, or {VISIBLE} hides it"
            raise LaunchError("no_gpu", f"{word} fits several GPUs" if fitting else none)
        if set(fitting) & set(found):
            raise LaunchError("no_gpu", f"GPU {word} is named twice")
        found += fitting
    return found


def too_few(count: int, free: int, there: int) -> LaunchError:
    """The error where a run cannot have as many as it needs: all or nothing."""
    wanted = "1 GPU is wanted" if count == 1 else f"{count} GPUs are wanted"
    if count > there:
        return LaunchError("no_gpu", f"{wanted}, and the run may see {there} here")
    return LaunchError("lease_busy", f"{wanted}, but {free} of {there} {'is' if free == 1 else 'are'} free")


def variables(uuids: Sequence[str], there: Sequence[Gpu]) -> dict[str, str]:
    """The environment variables that show a trainer exactly these GPUs, of all that nvidia-smi lists.

    By number, as vLLM reads no UUID: those of CUDA in the order of the PCI bus are nvidia-smi's. By UUID where one is
    not certain: a MIG slice has no number, and beside a GPU that is lost, and so is not listed, CUDA may count
    otherwise.
    """
    index = {gpu.uuid: str(gpu.index) for gpu in there}
    complete = [gpu.index for gpu in there] == list(range(len(there)))
    numbers = [index[uuid] for uuid in uuids] if complete and set(uuids) <= index.keys() else uuids
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", VISIBLE: ",".join(numbers)}


def lease_path(uuid: str, environ: Mapping[str, str]) -> str:
    """The file whose flock is the lease of this GPU."""
    return f"{environ.get(LEASES_VARIABLE) or LEASES}/{re.sub('[^0-9A-Za-z-]', '_', uuid)}.lock"


def share_path(lease: str, number: int) -> str:
    """The file of one share (from 1) of a GPU that several runs use."""
    return f"{lease[: -len('.lock')]}.share-{number}"


def open_lease(path: str) -> int:
    """Open the file of a lease, which is made for every user of the machine if need be, without taking it.

    Never O_CREAT on an existing file: in a sticky directory the kernel forbids that even to root if the file is another
    user's (fs.protected_regular). Raises OSError.
    """
    folder = os.path.dirname(path)
    if not os.path.exists(folder):
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o1777)  # past the umask
    if not os.path.exists(path):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            os.chmod(path, 0o666)
        except FileExistsError:
            pass
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


class Leases:
    """One flock per GPU, or two if runs share it (see above).

    The trainer inherits the descriptors, so a lease outlives a killed Runner.
    """

    def __init__(self, run: str, shares: int = 1) -> None:
        self.run = run
        self.shares = shares  # how many runs may share a GPU
        self.uuids: list[str] = []
        self.fds: list[int] = []
        self._holder = ""  # of the last one that could not be had

    def lease(self, runner_spec: Spec, listed: str, environ: Mapping[str, str]) -> dict[str, str]:
        """Lease GPUs as the spec asks for them; returns the variables that show them. Raises LaunchError.

        A number takes free ones of those that the run may see; what is named is taken, whoever uses its memory.
        `listed`: the answer to QUESTION.
        """
        there = parse(listed)
        uuids = named(runner_spec.gpus, visible(there, environ), there)[: runner_spec.gpu_most or None]
        if not uuids:
            none = "nvidia-smi shows no GPU here that the run may see" if listed else "nvidia-smi gave no answer here"
            raise LaunchError("no_gpu", none)
        busy = {gpu.uuid for gpu in there if runner_spec.gpu_count and not gpu.is_idle()}
        free = [uuid for uuid in uuids if uuid not in busy]
        count, until = runner_spec.gpu_count or len(uuids), clock() + LEASE_WAIT_S
        while len(taken := self._take(free, count, environ)) < count:
            self.release()
            if clock() >= until or count > len(free):
                cause, reason = too_few(count, len(taken), len(uuids)).args
                raise LaunchError(cause, f"{reason}{self._holder}")
            time.sleep(0.02)
        self.uuids = taken
        return variables(taken, there)

    def _take(self, uuids: Sequence[str], count: int, environ: Mapping[str, str]) -> list[str]:
        """Lease as many as can be had at this moment; who takes several meets nobody else who does."""
        taken = list[str]()
        try:
            gate = open_lease(lease_path("choosing", environ))
            try:
                take_lock(gate, fcntl.LOCK_EX, LEASE_WAIT_S)
                for uuid in uuids:
                    if len(taken) < count and self._has(lease_path(uuid, environ)):
                        taken.append(uuid)
            finally:
                os.close(gate)
        except OSError as error:
            hint = f"{LEASES_VARIABLE} names another place"
            why = f"the lease of a GPU cannot be opened: {error.filename}: {error.strerror}; {hint}"
            raise LaunchError("lease_failed", why) from None
        return taken

    def _has(self, lease: str) -> bool:
        """Lock a lease, or hold it shared and lock one of its shares."""
        fd = open_lease(lease)
        self.fds.append(fd)
        if not take_lock(fd, fcntl.LOCK_EX if self.shares == 1 else fcntl.LOCK_SH, 0.0):
            self._holder = f"; {lease} is held by {plain(os.pread(fd, 400, 0)) or 'somebody'}"
            os.close(self.fds.pop())
            return False
        if self.shares > 1 and not self._has_share(lease):
            self._holder = f"; all {self.shares} shares of {lease} are held"
            os.close(self.fds.pop())
            return False
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps({"run": self.run, "pid": os.getpid()}).encode(), 0)
        return True

    def _has_share(self, lease: str) -> bool:
        for number in range(1, self.shares + 1):
            fd = open_lease(share_path(lease, number))
            if take_lock(fd, fcntl.LOCK_EX, 0.0):
                self.fds.append(fd)
                return True
            os.close(fd)
        return False

    def release(self) -> None:
        """Close the descriptors; processes that the trainer left alive on purpose still hold the leases."""
        while self.fds:
            os.close(self.fds.pop())
