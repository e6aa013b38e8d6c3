"""Download what a run left on a host without shared files: its results and metrics files, with checksums.

It is called repeatedly, one time slice per call, so that other runs are not delayed; files already copied survive a
lost connection, a kill or a reboot. `gathered.json` in the run directory marks it as done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.run.job_launcher import Declined, Reach
from autoresearch.errors import AutoresearchError
from autoresearch.lab.remote_files.remote_host import RemoteHost
from autoresearch.lab.remote_files.translate_paths import Translation, root_of_path
from autoresearch.records import events, journal
from autoresearch.records.hostile import lies_in, open_own
from autoresearch.records.order_file import Order
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import read_json, write_json
from autoresearch.runner.basics import failpoint
from autoresearch.runner.remote_files import sha256

DONE = "gathered.json"
SLICE_S = 20.0
MOST_GB = 5.0
AT_ONCE = 8  # files of which one request fetches a piece each
TRIES = 3  # a file that is still being written is listed again
PARTIAL = ".partial-"
# State to resume from rather than results: it stays on the remote host, and the journal says where.
WEIGHTS = (
    *("checkpoint*", "ckpt*", "global_step_*", "*.safetensors", "*.pt", "*.pth", "*.ckpt", "*.bin", "*.distcp"),
    *("*.gguf", "optimizer*", "__pycache__"),
)
STATES = ("trainer_state.json", "events.out.tfevents*", "*.wandb")  # metrics, wherever they are
OURS = frozenset({journal.NAME, journal.FLAG, "results.md"})


@dataclass(frozen=True, slots=True)
class _File:
    """One remote file. size -1: a link, with its target in `content`; otherwise `content` is its sha256."""

    far: str
    size: int
    content: str
    here: Path

    @property
    def partial(self) -> Path:
        """Its copy while it is made: beside the file, named by content and name, so that a new listing starts anew."""
        words = os.fsencode(f"{self.content} {self.here.name}")  # several files may have the same content
        return self.here.with_name(f"{PARTIAL}{hashlib.sha256(words).hexdigest()[:12]}")

    @property
    def is_here(self) -> bool:
        """Whether the local file is this one."""
        try:
            if self.size < 0 or self.here.is_symlink():
                return self.size < 0 and str(self.here.readlink()) == self.content
            return self.here.stat().st_size == self.size and sha256(str(self.here)) == self.content
        except OSError:
            return False


def gather(
    recorded: RecordedRun,
    order: Order,
    reach: Reach,
    *,
    slice_s: float = SLICE_S,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Whether all wanted files are here and intact; False: not yet, call again. Raises Unreachable.

    If the target refuses (a full disk), this is reported and the download counts as done.
    """
    if reach.shared or not order.directory or (recorded.rundir.path / DONE).exists():
        return True
    try:
        until = clock() + slice_s
        return _Download(recorded, order, RemoteHost(reach, order.place)).go(lambda: clock() >= until)
    except Declined as no:
        _warn(recorded, f"results were not copied: {no.reason}")
        write_json(recorded.rundir.path / DONE, {"failed": no.reason}, durable=False)
        return True
    except OSError as error:  # the local disk: there may be room later, and nothing is lost until then
        _warn(recorded, f"results cannot be written here, and are waited with: {error}")
        return False


class _Download:
    """The download of one run."""

    def __init__(self, recorded: RecordedRun, order: Order, remote_host: RemoteHost) -> None:
        self.recorded, self.order, self.there = recorded, order, remote_host
        self.place = Path(recorded.spec.result_dir)
        self.far, self.near = Translation(order.paths), Translation({far: here for here, far in order.paths.items()})
        self.notes = recorded.rundir.path / "gathering.json"
        self.wrong: list[_File] = []  # they arrived with another checksum, or a directory is in their way

    def go(self, time_is_up: Callable[[], bool]) -> bool:
        """One time slice; returns whether it is done."""
        listed = read_json(self.notes) or self._list(tries=0)
        files = [found for one in listed["files"] if (found := self._file(one))]
        wanted = [one for one in files if one.size >= 0 and not one.is_here]
        self._clear_stale(wanted)
        if not self._fetch(wanted, time_is_up):
            return False
        for one in files:
            if one.size < 0:
                self._link(one)
        if self.wrong and listed["tries"] < TRIES:
            _warn(self.recorded, f"{self.wrong[0].far} changed while it was copied; it is copied again")
            self._list(tries=listed["tries"] + 1)
            return False
        for one in self.wrong:
            _warn(self.recorded, f"{one.far} is still being written: it was not copied")
        self._finish(files, listed)
        return True

    def _list(self, *, tries: int) -> dict[str, Any]:
        """List the remote files with checksums; the list is kept, so that an interruption computes them only once."""
        spec, only = self.recorded.spec, self.order.place.options.get("collect") or []
        results = self.order.paths.get(spec.result_dir, "")
        answer = f"{self.order.directory}/results.json"
        asked = self.there.ask(
            "results",
            timeout_s=600.0,
            places=[results] if results else [],
            always=[self.far.path(one.path) for one in spec.sources],
            only=[only] if isinstance(only, str) else [str(one) for one in only],
            leave=WEIGHTS,
            keep=STATES,
            most=int(float(self.order.place.text("collect_max_gb", str(MOST_GB))) * 1e9),
            answer=answer,
        )
        data = self.there.read(self.order.directory, answer, asked["size"])
        listed = {**json.loads(data), "tries": tries}
        write_json(self.notes, listed, durable=False)
        return listed

    def _file(self, one: Sequence[Any]) -> _File | None:
        """A listed file with its local path; None for one that is not copied."""
        far, size, content = str(one[0]), int(one[1]), str(one[2])
        here = self._here(far)
        if here is None or ".." in far.split("/") or not self._stays(here.parent):
            return None
        if here.parent == self.place and here.name in OURS:
            return None
        if size < 0 and (content.startswith("/") or os.path.normpath(f"{far}/../{content}") == far):
            return None
        return _File(far, size, content, here)

    def _stays(self, here: Path) -> bool:
        """Whether no link leads a path in the results out of them: the run chose the names."""
        return self.place not in (here, *here.parents) or lies_in(here, self.place)

    def _here(self, far: str) -> Path | None:
        if root_of_path(far, self.near.roots):
            return Path(self.near.path(far))
        unmapped = (one.path for one in self.recorded.spec.sources if self.far.path(one.path) == one.path)
        return Path(far) if any(far.startswith(re.split(r"[*?\[]", path)[0]) for path in unmapped) else None

    def _clear_stale(self, remote_files: Sequence[_File]) -> None:
        wanted = {one.partial for one in remote_files}
        for folder in {one.here.parent for one in remote_files}:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.glob(f"{PARTIAL}*"):
                if path not in wanted and path.is_file():
                    path.unlink()

    def _fetch(self, remote_files: Sequence[_File], time_is_up: Callable[[], bool]) -> bool:
        """Fetch a piece each of a few files per request; returns whether all are complete."""
        waiting = list(remote_files)
        while waiting:
            if time_is_up():
                return False
            group = waiting[:AT_ONCE]
            had = {one.far: _size(one.partial) for one in group}
            pieces = self.there.pieces(self.order.directory, had)
            for one in group:
                piece = pieces.get(one.far, b"")
                _append(one.partial, piece[: one.size - had[one.far]])
                if _size(one.partial) >= one.size or not piece:  # it may have become shorter: the checksum decides
                    self._settle(one)
                    waiting.remove(one)
            failpoint("gather.piece")
        return True

    def _settle(self, remote_file: _File) -> None:
        """Move a file with the right checksum to its name; delete any other, so that it is copied again."""
        partial, here = remote_file.partial, remote_file.here
        if sha256(str(partial)) != remote_file.content or (here.is_dir() and not here.is_symlink()):
            partial.unlink()
            self.wrong.append(remote_file)
            return
        inside = str(here).startswith(f"{self.place}/")
        if not inside and remote_file.far not in self.order.watched and here.exists():  # a file from before this run
            aside = here.with_name(f"{here.name}.before-{self.recorded.spec.run}")
            here.replace(aside)
            journal.append(self.place, f"moved aside, from before this run: {aside}")
        partial.replace(here)

    def _link(self, remote_file: _File) -> None:
        here = remote_file.here
        inside = os.path.normpath(here.parent / remote_file.content)
        if os.path.lexists(here) or not inside.startswith(f"{self.place}/"):
            return
        if self._stays(here.parent / remote_file.content):
            here.parent.mkdir(parents=True, exist_ok=True)
            here.symlink_to(remote_file.content)

    def _finish(self, remote_files: Sequence[_File], listed: Mapping[str, Any]) -> None:
        total = sum(max(one.size, 0) for one in remote_files)
        name = self.order.place.name
        count = len(remote_files) - len(self.wrong)
        journal.append(self.place, f"copied from {name}: {count} files, {total / 1e6:.1f} MB, checksums agree")
        for far, size in listed["left"][:20]:
            journal.append(self.place, f"left on {name}: {far} ({size / 1e6:.1f} MB)")
        if (more := listed["count"] - 20) > 0:
            results = self.order.paths.get(self.recorded.spec.result_dir, "")
            journal.append(self.place, f"left on {name}: {more} more files, below {results}")
        self.there.ask("release", code=self.order.code, directory=self.order.directory, over=True)
        manifest = [[str(one.here), one.size, one.content] for one in remote_files]
        write_json(self.recorded.rundir.path / DONE, {"files": manifest, "left": listed["left"]}, durable=False)
        self.notes.unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _append(path: Path, data: bytes) -> None:
    with os.fdopen(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as file:
        file.write(data)


def _warn(recorded: RecordedRun, text: str) -> None:
    """Warn once, however many retries follow; the journal may be in a directory that cannot be written."""
    if [event.get("text") for event in events.last(recorded.rundir.events, 1)] == [text]:
        return
    events.append(recorded.rundir.events, "warning", text=text)
    with contextlib.suppress(AutoresearchError, OSError):
        journal.append(Path(recorded.spec.result_dir), f"warning: {text}")
