"""`codebase: remote`: code, recipe and interpreter are the host's own; they are inspected there, and nothing is copied.

The records are local: in the blueprint's repository, else below the working directory. The blueprint's result directory
is on the host; downloaded results get a directory beside the run directory.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.run.spec import SUBMODULE_EDITS, RunSpec
from autoresearch.core.run.targets import Declined, Target, Unreachable
from autoresearch.errors import AutoresearchError, EnvironmentUnusable
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.files import OURS, Files
from autoresearch.lab.settings import Settings
from autoresearch.records import journal

if TYPE_CHECKING:
    from autoresearch.lab.remote_files.remote_host import RemoteHost

SLASH = "/"  # a directory that every host has


def is_remote(target: Target) -> bool:
    """Whether the code is the host's own. Raises EnvironmentUnusable for anything but `remote` and `sent`."""
    said = target.text("codebase", "sent")
    if said not in ("remote", "sent"):
        message = f"launchers.{target.name}.codebase: {said!r} is neither `remote` nor `sent`"
        raise EnvironmentUnusable(message, code="bad_launcher", hint="a path of the host belongs in the blueprint")
    return said == "remote"


def refuse_in_campaign(targets: Iterable[Target]) -> None:
    """Raise EnvironmentUnusable: ideas are created, checked and checked out in worktrees of this machine."""
    if remote := [place for place in targets if not place.is_local and is_remote(place)]:
        raise EnvironmentUnusable(
            f"a campaign makes its ideas in worktrees here, and {remote[0].name} says `codebase: remote`",
            hint="clone the repository here and take that option out: each idea's code is sent to the host; "
            "a lone `autoresearch run` can use the host's own",
            code="remote_codebase",
        )


class HostFiles(Files):
    """The files of a remote host. Caches its answers; call `close` at the end."""

    here = False

    def __init__(self, target: Target, parts: Parts) -> None:
        self.target = target
        self._reach = parts.launcher_for(target, parts.environ).reach
        self._there: RemoteHost | None = None
        self._kinds: dict[str, tuple[str, bool]] = {}
        self._home: str | None = None

    @property
    def there(self) -> RemoteHost:
        """The connection. Raises EnvironmentUnusable if the host does not answer or cannot be queried."""
        if self._there is None:
            from autoresearch.lab.remote_files.remote_host import RemoteHost

            with _unusable():
                self._there = RemoteHost(self._reach, self.target)
        return self._there

    @property
    def python(self) -> str:
        return self.there.python

    def home(self, environ: Mapping[str, str]) -> str:
        if self._home is None:
            with _unusable():
                self._home = str(self.there.ask("look_at", paths=[])["home"])
        return self._home

    def kind(self, path: Path) -> str:
        return self._look(path)[0]

    def executable(self, path: Path) -> bool:
        return self._look(path)[1]

    def _look(self, path: Path) -> tuple[str, bool]:
        name = str(path)
        if name not in self._kinds:
            with _unusable():
                kind, executable = self.there.ask("look_at", paths=[name])["found"][name]
            self._kinds[name] = (str(kind), bool(executable))
        return self._kinds[name]

    def read(self, path: Path, most: int) -> bytes:
        if self.kind(path) != "file":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        data = b""
        with _unusable():
            while len(data) < most and (piece := self.there.pieces(SLASH, {str(path): len(data)}).get(str(path))):
                data += piece
        return data[:most]

    def close(self) -> None:
        """Close the connection."""
        self._reach.close()


@contextlib.contextmanager
def _unusable() -> Iterator[None]:
    """Turn a host's refusal, or its silence, into an error for the person who plans the run."""
    try:
        yield
    except (Unreachable, Declined) as error:
        raise EnvironmentUnusable(error.reason, code=error.code, hint=error.hint) from error


def files_of(blueprint: Blueprint, settings: Settings, parts: Parts) -> Files:
    """The machine that a blueprint's paths refer to: the local one, unless its target has its own code.

    The target is chosen by flags, environment, blueprint and project.
    """
    try:
        targets = settings.targets(blueprint.notes.launcher)
    except AutoresearchError:  # reported where a target is really needed
        return OURS
    remote = [target for target in targets if not target.is_local and is_remote(target)]
    return HostFiles(remote[0], parts) if len(targets) == 1 and remote else OURS


def records_root(blueprint: Path) -> Path:
    """The directory for records when the code is remote."""
    found = repository.find(blueprint.parent)
    return (found.root if found else Path.cwd()) / "reports"


def at_home(spec: RunSpec) -> RunSpec:
    """The run with local paths for what is downloaded: the result directory, and metrics files beside it."""
    theirs = spec.result_dir
    ours = str(Path(spec.ledger).parent / "results" / spec.experiment)
    paths = {ours: theirs}
    sources = []
    for one in spec.sources:
        inside = one.path.startswith(f"{theirs}/")
        here = ours + one.path[len(theirs) :] if inside else f"{ours}/elsewhere{one.path}"
        if not inside:
            paths[here] = one.path
        sources.append(replace(one, path=here))
    return replace(spec, result_dir=ours, sources=tuple(sources), far_paths=paths)


def keep_code_there(spec: RunSpec, host_files: HostFiles, extra: Mapping[str, bytes], message: str) -> RunSpec:
    """Commit the code to the run's branch in the host's own repository; without a repository, record why not."""
    from autoresearch.git_repo.snapshot import MAX_BYTES

    place, theirs = Path(spec.result_dir), spec.far_paths.get(spec.result_dir, "")
    try:
        with _unusable():
            made = host_files.there.ask(
                "keep",
                codebase=spec.cwd,
                branch=spec.branch,
                message=message,
                leave_out=[theirs] if theirs else [],
                max_bytes=MAX_BYTES,
                submodule_edits=SUBMODULE_EDITS,
                extra={name: data.decode("utf-8", "surrogateescape") for name, data in extra.items()},
            )
    finally:
        host_files.close()
    if "none" in made:
        return replace(spec, branch="", no_snapshot=str(made["none"]))
    where = f"{host_files.target.text('host', host_files.target.name)}:{spec.cwd}"
    journal.append(place, f"branch {made['branch']} at {made['commit'][:12]} of {where} holds the code that runs")
    for item in made["left_out"]:
        journal.append(place, f"left out of the snapshot: {item}")
    return replace(
        spec,
        branch=str(made["branch"]),
        commit=str(made["commit"]),
        parent_commit=str(made["parent"]),
        parent_branch=str(made["parent_branch"]),
        left_out=tuple(map(str, made["left_out"])),
    )
