"""The sandbox of a run: bubblewrap around every command that runs code which a coding agent may have edited.

The baseline trains in it like the ideas, so that its overhead and caching are the same for all. Inside, the machine is
read-only except for the worktree, the result directory, and what the notes declare with `writable:`; /tmp, /dev/shm and
the caches of compilers are the run's own. The Runner and its records are out of reach: the sandbox has its own process
ids, and no sockets by path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.model import Notes
from autoresearch.core.run.extra_paths import ExtraPath
from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import BlueprintError
from autoresearch.git_repo.extras import as_mount_points
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.lab.agent_work.sandbox import (
    PROGRAM,
    Cell,
    prefixes,
    real_path,
    sandbox,
    socket_directories,
    ways_out,
    why_not,
)
from autoresearch.records.index import state_home

BUBBLEWRAP = PROGRAM
_GONE = ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "XDG_RUNTIME_DIR", "TMUX_TMPDIR", "TMP", "TEMP")
_OWN = {  # caches of compiled code: sharing them would let a run change the code of others
    "TMPDIR": "",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "TORCH_EXTENSIONS_DIR": "torch-extensions",
    "CUDA_CACHE_PATH": "cuda",
    "NUMBA_CACHE_DIR": "numba",
    "VLLM_CACHE_ROOT": "vllm",
    "SGLANG_CACHE_DIR": "sglang",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "TVM_FFI_CACHE_DIR": "tvm-ffi",
    "WANDB_CACHE_DIR": "wandb/cache",
    "WANDB_CONFIG_DIR": "wandb/config",
    "WANDB_DATA_DIR": "wandb/data",
    "MPLCONFIGDIR": "matplotlib",
    "UV_CACHE_DIR": "uv",  # `uv run` writes a lock there, whatever it runs
}
_TMP = "/tmp"


@dataclass(frozen=True, slots=True)
class RunSandbox:
    """What a run and its evaluation may write to. Paths are absolute."""

    worktree: Path
    evaluation: Path | None = None  # the worktree in which the run is evaluated
    writable: tuple[Path, ...] = ()  # declared by the notes
    hidden: tuple[Path, ...] = ()  # from the training, not from the evaluation
    root: Path | None = None  # of the checkout
    shown: tuple[ExtraPath, ...] = ()  # of it, read-only
    tmux_socket: str = ""  # of the campaign, whose server may start after this is made

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The trainer's environment, with private directories for temporary and compiled files."""
        kept = {name: value for name, value in environ.items() if name not in _GONE}
        return kept | {name: f"{_TMP}/{below}".rstrip("/") for name, below in _OWN.items()}

    def before(self, spec: RunSpec, environ: Mapping[str, str]) -> dict[str, list[str]]:
        """The keys of spec.json with each command's prefix; creates their temporary directories anew."""
        found = {"inside": self._prefix(self.worktree, spec, environ, self.writable, self.hidden)}
        if self.evaluation is not None:
            found["evaluate_inside"] = self._prefix(self.evaluation, spec, environ)
        return found

    def writes(self, spec: RunSpec) -> tuple[str, ...]:
        """The real directories in which the run can write, so that its metrics lie in one of them; its log, too."""
        places = (self.worktree, Path(spec.result_dir), Path(spec.run_dir), *self.writable)
        return tuple(os.path.realpath(path) for path in places)

    def _prefix(
        self,
        worktree: Path,
        spec: RunSpec,
        environ: Mapping[str, str],
        writable: tuple[Path, ...] = (),
        hidden: tuple[Path, ...] = (),
    ) -> list[str]:
        scratch = scratch_of(worktree)
        wipe(scratch)
        scratch.mkdir(parents=True, mode=0o700)
        for below in filter(None, _OWN.values()):
            (scratch / "tmp" / below).mkdir(parents=True)
        seen = [Path(spec.interpreter), Path(spec.run_dir), *self._seen(spec)]
        seen += [Path(entry) for entry in environ.get("PYTHONPATH", "").split(":") if entry.startswith("/")]
        cell = Cell(
            cwd=worktree,
            writes=True,
            scratch=scratch,
            home=Path(environ.get("HOME", "/")),
            writable=(Path(spec.result_dir), *writable),
            devices=True,
            readable=(*prefixes(environ.get("PATH", ""), Path(spec.interpreter)), *seen),
            hidden=frozenset([*ways_out(environ), *map(real_path, hidden)]),
            binds=as_mount_points(self.root, real_path(worktree), self.shown) if self.root else {},
            closed=frozenset(socket_directories(environ, self.tmux_socket)),
        )
        return list(sandbox(cell))

    def _seen(self, spec: RunSpec) -> list[Path]:
        """Each other's worktree: the evaluation may read what the training left."""
        return [path for path in (self.worktree, self.evaluation, Path(spec.recipe)) if path and path.is_absolute()]


def scratch_of(worktree: Path) -> Path:
    """The host directory of a worktree's private /tmp, beside it."""
    return worktree.with_name(f"{worktree.name}.tmp")


def why_no_sandbox(notes: Notes, command: str, environ: Mapping[str, str]) -> str:
    """Why these notes and this command cannot train in a sandbox here; "" if they can."""
    if why := why_not():
        return f"bubblewrap does not work here: {why}"
    if notes.swarm is not None:
        return "AgentJet's swarm mode has its server in a tmux session of its own"
    if environ.get("RAY_ADDRESS") or "ray job submit" in command:
        return "training happens in a Ray cluster, outside of what is started here"
    return "the notes say `keep_children`" if notes.keep_children else ""


def writable_paths(paths: tuple[str, ...], codebase: Path, home: str, records: tuple[Path, ...]) -> tuple[Path, ...]:
    """`writable:` of the notes as absolute paths, without relative ones (inside the worktree, writable anyway).

    `records`: directories that the notes must not open, nor any directory that holds them. Raises BlueprintError.
    """
    found = []
    for text in paths:
        path = Path(home, text[2:]) if text.startswith("~/") else Path(text)
        if not path.is_absolute():
            continue
        real = path.resolve()
        for record in (*(one.resolve() for one in records), state_home(), codebase.resolve()):
            if real == record or real in record.parents or record in real.parents:
                raise BlueprintError(
                    f"writable: {text} would let training code write to {record}",
                    hint="name a directory that is no part of the project and of its records, such as a cache",
                    code="bad_writable",
                )
        if not real.exists():
            raise BlueprintError(
                f"writable: {text} does not exist", hint=f"make it: mkdir -p {text}", code="bad_writable"
            )
        found.append(real)
    return tuple(found)
