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
from autoresearch.lab.remote_files import rsync
from autoresearch.lab.remote_files.remote_host import RemoteHost
from autoresearch.records import events, finish_flag, journal
from autoresearch.records.failpoint import failpoint
from autoresearch.records.hostile import lies_in, open_own
from autoresearch.records.order_file import Order
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import read_json, write_json
from autoresearch.runner.remote_files import sha256

DONE = "gathered.json"
SLICE_S = 20.0
MOST_GB = 5.0
AT_ONCE = 8  # files fetched piece by piece in one request
BY_RSYNC = 4 << 20  # above this, rsync is used if both sides have it
TRIES = 3  # a file that is still being written is listed again
PARTIAL = ".partial-"
# State to resume from rather than results: it stays on the remote host, and the journal says where.
WEIGHTS = (
    *("checkpoint*", "ckpt*", "global_step_*", "*.safetensors", "*.pt", "*.pth", "*.ckpt", "*.bin", "*.distcp"),
    *("*.gguf", "optimizer*", "__pycache__"),
)
STATES = ("trainer_state.json", "events.out.tfevents*", "*.wandb")  # metrics, wherever they are
OURS = frozenset({journal.NAME, finish_flag.NAME, "results.md"})


@dataclass(frozen=True, slots=True)
class _File:
    """One remote file. size -1: a link, with its target in `content`; otherwise `content` is its sha256."""

    far: str
    size: int
    content: str
    here: Path

    @property
    def root(self) -> str:
        return self.far.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.far.rpartition("/")[2]


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
        return _Download(recorded, order, RemoteHost(reach, order.place), clock() + slice_s, clock).go()
    except Declined as no:
        _warn(recorded, f"results were not copied: {no.reason}")
        write_json(recorded.rundir.path / DONE, {"failed": no.reason}, durable=False)
        return True
    except OSError as error:  # the local disk: there may be room later, and nothing is lost until then
        _warn(recorded, f"results cannot be written here, and are waited with: {error}")
        return False


class _Download:
    """One time slice of a download."""

    def __init__(
        self,
        recorded: RecordedRun,
        order: Order,
        remote_host: RemoteHost,
        until: float,
        clock: Callable[[], float],
    ) -> None:
        self.recorded, self.order, self.there = recorded, order, remote_host
        self.rundir, self.spec = recorded.rundir, recorded.spec
        self.until, self.clock = until, clock
        self.results = order.paths.get(recorded.spec.result_dir, "")
        self.notes = recorded.rundir.path / "gathering.json"

    def go(self) -> bool:
        listed = read_json(self.notes) or self._list(tries=0)
        files = [found for one in listed["files"] if (found := self._file(one))]
        wanted = [one for one in files if not self._is_here(one)]
        try:
            self._fetch(wanted)
        except _NotYet:
            return False
        wrong = [one for one in wanted if one.size >= 0 and not self._is_here(one)]
        if wrong and listed["tries"] < TRIES:
            _warn(self.recorded, f"{wrong[0].far} changed while it was copied; it is copied again")
            self._list(tries=listed["tries"] + 1)
            return False
        for one in wrong:
            _warn(self.recorded, f"{one.far} is still being written: it was not copied")
        self._finish(files, listed, len(wrong))
        return True

    def _list(self, *, tries: int) -> dict[str, Any]:
        """List the remote files with checksums; the list is kept, so that an interruption does not compute them
        again.
        """
        options = self.order.place.options
        only = options.get("collect") or []
        answer = f"{self.order.directory}/results.json"
        asked = self.there.ask(
            "results",
            timeout_s=600.0,
            places=[self.results] if self.results else [],
            always=self._sources(),
            only=[only] if isinstance(only, str) else [str(one) for one in only],
            leave=WEIGHTS,
            keep=STATES,
            most=int(float(self.order.place.text("collect_max_gb", str(MOST_GB))) * 1e9),
            answer=answer,
            since=f"{self.order.directory}/began" if self.spec.far_paths else "",  # others write there, too
        )
        data = self.there.read(self.order.directory, answer, asked["size"])
        listed = {**json.loads(data), "tries": tries}
        write_json(self.notes, listed, durable=False)
        return listed

    def _sources(self) -> list[str]:
        """Files, directories and patterns of metrics, as remote paths."""
        return [_mapped(one.path, self.order.paths) for one in self.spec.sources]

    def _file(self, one: Sequence[Any]) -> _File | None:
        """A listed file with its local path; None for one that is not copied."""
        far, size, content = str(one[0]), int(one[1]), str(one[2])
        here = self._place_of(far)
        if here is None or ".." in far.split("/") or not self._stays(here.parent):
            return None
        if here.parent == Path(self.spec.result_dir) and here.name in OURS:
            return None
        if size < 0 and (content.startswith("/") or os.path.normpath(f"{far}/../{content}") == far):
            return None
        return _File(far, size, content, here)

    def _stays(self, here: Path) -> bool:
        """Whether no link leads a path in the results out of them: the run chose the names."""
        place = Path(self.spec.result_dir)
        return place not in (here, *here.parents) or lies_in(here, place)

    def _place_of(self, far: str) -> Path | None:
        back = {there: here for here, there in self.order.paths.items()}
        holding = max((root for root in back if far == root or far.startswith(root + "/")), key=len, default="")
        if holding:
            return Path(back[holding] + far[len(holding) :])
        unmapped = (one.path for one in self.spec.sources if _mapped(one.path, self.order.paths) == one.path)
        return Path(far) if any(far.startswith(re.split(r"[*?\[]", path)[0]) for path in unmapped) else None

    def _is_here(self, remote_file: _File) -> bool:
        if remote_file.size < 0:
            return remote_file.here.is_symlink() and str(remote_file.here.readlink()) == remote_file.content
        try:
            return (
                not remote_file.here.is_symlink()
                and remote_file.here.stat().st_size == remote_file.size
                and self._sum(remote_file) == remote_file.content
            )
        except OSError:
            return False

    def _sum(self, remote_file: _File) -> str:
        return sha256(str(remote_file.here))

    # -- copying ------------------------------------------------------------------------------------------------

    def _fetch(self, to_fetch: Sequence[_File]) -> None:
        plain = [one for one in to_fetch if one.size >= 0]
        self._clear_stale(plain)
        way = rsync.words(self.there.reach) if sum(one.size for one in plain) > BY_RSYNC else None
        if way:
            self._by_rsync(way, plain)
        else:
            self._in_pieces(plain)
        for one in to_fetch:
            if one.size < 0:
                self._link(one)

    def _by_rsync(self, way: tuple[str, str], remote_files: Sequence[_File]) -> None:
        """Into a directory beside the results, which the next slice continues; then checked and moved one by one."""
        beside = Path(self.spec.result_dir) / f"{PARTIAL}{self.spec.run}"
        for root in {one.root for one in remote_files}:
            names = [one.name for one in remote_files if one.root == root]
            place = beside / hashlib.sha256(root.encode()).hexdigest()[:12]
            try:
                rsync.pull(way, root, names, place, max(5.0, self.until - self.clock()))
            except rsync.RsyncFailed:
                self._in_pieces(remote_files)
                return
            except rsync.Slow:
                raise _NotYet from None
            for one in remote_files:
                if one.root == root:
                    self._settle(one, place / one.name)
        with contextlib.suppress(OSError):
            for folder in beside.iterdir():
                folder.rmdir()
            beside.rmdir()

    def _in_pieces(self, remote_files: Sequence[_File]) -> None:
        """Fetch one piece each of a few files per request, until they are complete."""
        waiting = list(remote_files)
        while waiting:
            if self.clock() >= self.until:
                raise _NotYet
            group = waiting[:AT_ONCE]
            had = {one.far: _size(self._partial(one)) for one in group}
            pieces = self.there.pieces(self.order.directory, had)
            for one in group:
                partial = self._partial(one)
                piece = pieces.get(one.far, b"")
                _append(partial, piece[: one.size - had[one.far]])
                if _size(partial) >= one.size or not piece:  # it may have become shorter: the checksum decides
                    self._settle(one, partial)
                    waiting.remove(one)
            failpoint("gather.piece")

    def _settle(self, remote_file: _File, partial: Path) -> None:
        """Move a file with the right checksum to its name; delete any other, so that it is copied again."""
        try:
            right = sha256(str(partial)) == remote_file.content
        except OSError:
            return
        if not right:
            partial.unlink()
            return
        if remote_file.here.is_dir() and not remote_file.here.is_symlink():
            return
        inside = str(remote_file.here).startswith(f"{self.spec.result_dir}/")
        if (
            not inside and remote_file.far not in self.order.watched and remote_file.here.exists()
        ):  # a file from before this run
            aside = remote_file.here.with_name(f"{remote_file.here.name}.before-{self.spec.run}")
            remote_file.here.replace(aside)
            journal.append(Path(self.spec.result_dir), f"moved aside, from before this run: {aside}")
        partial.replace(remote_file.here)

    def _partial(self, remote_file: _File) -> Path:
        """Beside the file, named by content and name, so that a new listing starts a new copy."""
        words = os.fsencode(f"{remote_file.content} {remote_file.name}")  # several files may have the same content
        return remote_file.here.with_name(f"{PARTIAL}{hashlib.sha256(words).hexdigest()[:12]}")

    def _clear_stale(self, remote_files: Sequence[_File]) -> None:
        wanted = {self._partial(one) for one in remote_files}
        for folder in {one.here.parent for one in remote_files}:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.glob(f"{PARTIAL}*"):
                if path not in wanted and path.is_file():
                    path.unlink()

    def _link(self, remote_file: _File) -> None:
        inside = os.path.normpath(remote_file.here.parent / remote_file.content)
        if os.path.lexists(remote_file.here) or not inside.startswith(f"{self.spec.result_dir}/"):
            return
        if not self._stays(remote_file.here.parent / remote_file.content):
            return
        remote_file.here.parent.mkdir(parents=True, exist_ok=True)
        remote_file.here.symlink_to(remote_file.content)

    def _finish(self, remote_files: Sequence[_File], listed: Mapping[str, Any], wrong: int) -> None:
        total = sum(max(one.size, 0) for one in remote_files)
        place, name = Path(self.spec.result_dir), self.order.place.name
        journal.append(
            place, f"copied from {name}: {len(remote_files) - wrong} files, {total / 1e6:.1f} MB, checksums agree"
        )
        for far, size in listed["left"][:20]:
            journal.append(place, f"left on {name}: {far} ({size / 1e6:.1f} MB)")
        if (more := listed["count"] - 20) > 0:
            journal.append(place, f"left on {name}: {more} more files, below {self.results}")
        self.there.ask("release", code=self.order.code, directory=self.order.directory, over=True)
        manifest = [[str(one.here), one.size, one.content] for one in remote_files]
        write_json(self.rundir.path / DONE, {"files": manifest, "left": listed["left"]}, durable=False)
        self.notes.unlink(missing_ok=True)


class _NotYet(Exception):  # noqa: N818 - nothing is wrong
    """The time slice is over."""


def _mapped(path: str, paths: Mapping[str, str]) -> str:
    """The remote path of a local one; unchanged if no mapped directory holds it."""
    root = max((one for one in paths if path == one or path.startswith(one + "/")), key=len, default="")
    return paths[root] + path[len(root) :] if root else path


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
