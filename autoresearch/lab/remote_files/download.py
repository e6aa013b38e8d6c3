"""Download what a run left on a host without shared files: its results and metrics files, in one tar archive.

A copy that was cut is made again as a whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from autoresearch.core.run.job_launcher import Declined, Reach, Unreachable
from autoresearch.errors import AutoresearchError
from autoresearch.lab.remote_files.remote_host import RemoteHost
from autoresearch.lab.remote_files.translate_paths import Translation, root_of_path
from autoresearch.records import events, journal
from autoresearch.records.hostile import lies_in, open_own
from autoresearch.records.order_file import Order
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.runner.basics import failpoint
from autoresearch.runner.remote_files import ANSWER

MOST_GB = 5.0
NAMED = 20  # files left there that the journal names
METRICS = ("events.out.tfevents*", "*.wandb")  # however large, in a directory where metrics are read
LARGEST = 100e6  # bytes of a file that comes unless it is named: larger ones are checkpoints and weights
OURS = frozenset({journal.NAME, journal.FLAG, "results.md"})


def gather(recorded: RecordedRun, order: Order, reach: Reach) -> bool:
    """Whether all wanted files are here; False: they cannot be written here now, call again. Raises Unreachable.

    If the target refuses (a full disk), this is reported and the download counts as done.
    """
    if reach.shared or not order.directory:
        return True
    try:
        _Download(recorded, order, RemoteHost(reach, order.place)).go()
    except Declined as no:
        _warn(recorded, f"results were not copied: {no.reason}")
    except OSError as error:  # the local disk: there may be room later, and nothing is lost until then
        _warn(recorded, f"results cannot be written here, and are waited with: {error}")
        return False
    return True


class _Download:
    """The download of one run."""

    def __init__(self, recorded: RecordedRun, order: Order, remote_host: RemoteHost) -> None:
        self.recorded, self.order, self.there = recorded, order, remote_host
        self.place = Path(recorded.spec.result_dir)
        self.far, self.near = Translation(order.paths), Translation({far: here for here, far in order.paths.items()})

    def go(self) -> None:
        """Fetch the archive, and put its files where they belong."""
        archive = self.recorded.rundir.path / "results.tar"
        try:
            self._fetch(archive)
            failpoint("gather.fetched")
            with tarfile.open(archive) as tar:
                answer = json.loads(_content(tar, ANSWER).read())
                self.there.refuse(answer)
                files = [one for one in tar if one.isfile() and one.name != ANSWER and self._put(tar, one)]
                for one in tar:
                    if one.issym():
                        self._link(one)
        except (tarfile.TarError, KeyError) as error:
            why = f"{self.order.place.name}: its results arrived without their end: {error}"
            raise Unreachable(why, code="cut") from error
        finally:
            archive.unlink(missing_ok=True)
        self._finish(files, answer["left"])

    def _fetch(self, archive: Path) -> None:
        spec, only = self.recorded.spec, self.order.place.options.get("collect") or []
        results = self.order.paths.get(spec.result_dir, "")
        request = {
            "places": [results] if results else [],
            "always": [self.far.path(one.path) for one in spec.sources],
            "only": [only] if isinstance(only, str) else [str(one) for one in only],
            "largest": LARGEST,
            "metrics": METRICS,
            "most": int(float(self.order.place.text("collect_max_gb", str(MOST_GB))) * 1e9),
        }
        self.there.fetch(archive, code=self.order.code, directory=self.order.directory, request=request)

    def _here(self, far: str) -> Path | None:
        """The local path of a file or link; None for one that is not copied."""
        unmapped = (one.path for one in self.recorded.spec.sources if self.far.path(one.path) == one.path)
        if root_of_path(far, self.near.roots):
            here = Path(self.near.path(far))
        elif any(far.startswith(re.split(r"[*?\[]", path)[0]) for path in unmapped):
            here = Path(far)
        else:
            return None
        if ".." in here.parts or not self._stays(here.parent) or (here.parent == self.place and here.name in OURS):
            return None
        return here

    def _stays(self, here: Path) -> bool:
        """Whether no link leads a path in the results out of them: the run chose the names."""
        return self.place not in (here, *here.parents) or lies_in(here, self.place)

    def _put(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> bool:
        """Put a file of the archive where it belongs, as a whole; returns whether it belongs anywhere."""
        here = self._here(member.name)
        if here is None or (here.is_dir() and not here.is_symlink()):
            return False
        here.parent.mkdir(parents=True, exist_ok=True)
        partial = here.with_name(f".partial-{self.recorded.spec.run}")
        with os.fdopen(open_own(partial, os.O_WRONLY | os.O_CREAT), "wb") as file:
            file.truncate()
            shutil.copyfileobj(_content(tar, member), file)
        if self.place not in here.parents and member.name not in self.order.watched and here.exists():
            aside = here.with_name(f"{here.name}.before-{self.recorded.spec.run}")
            if not aside.exists():  # else it is this run's, of a download that was killed
                here.replace(aside)
                journal.append(self.place, f"moved aside, from before this run: {aside}")
        partial.replace(here)
        failpoint("gather.put")
        return True

    def _link(self, member: tarfile.TarInfo) -> None:
        """Make a link that stays within the results."""
        here, target = self._here(member.name), member.linkname
        if here is None or os.path.lexists(here) or target.startswith("/"):
            return
        inside = os.path.normpath(here.parent / target)
        if inside.startswith(f"{self.place}/") and inside != str(here) and self._stays(here.parent / target):
            here.parent.mkdir(parents=True, exist_ok=True)
            here.symlink_to(target)

    def _finish(self, files: Sequence[tarfile.TarInfo], left: Sequence[tuple[str, int]]) -> None:
        name, total = self.order.place.name, sum(one.size for one in files)
        journal.append(self.place, f"copied from {name}: {len(files)} files, {total / 1e6:.1f} MB", once=True)
        for far, size in left[:NAMED]:
            journal.append(self.place, f"left on {name}: {far} ({size / 1e6:.1f} MB)", once=True)
        if len(left) > NAMED:
            results = self.order.paths.get(self.recorded.spec.result_dir, "")
            journal.append(self.place, f"left on {name}: {len(left) - NAMED} more files, below {results}", once=True)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo | str) -> IO[bytes]:
    content = tar.extractfile(member)
    assert content is not None  # it is a file
    return content


def _warn(recorded: RecordedRun, text: str) -> None:
    """Warn once, however many retries follow; the journal may be in a directory that cannot be written."""
    if [event.get("text") for event in events.last(recorded.rundir.events, 1)] == [text]:
        return
    events.append(recorded.rundir.events, "warning", text=text)
    with contextlib.suppress(AutoresearchError, OSError):
        journal.append(Path(recorded.spec.result_dir), f"warning: {text}")
