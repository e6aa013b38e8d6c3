"""The index of runs: finds any run by its full id or directory, and the runs of a project by other names.

    runs.jsonl     every run ever started from this account, one object per line, append-only
    live/<run>     the same object for each run without finished records
    locks/<hash>   held by flock while a command launches from one blueprint

It lies in `$XDG_STATE_HOME/autoresearch`. It is only a hint: the run directories are authoritative.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from autoresearch.core.run.json_record import from_record
from autoresearch.core.text.session_and_branch_names import RUN_ID
from autoresearch.errors import EnvironmentUnusable
from autoresearch.records.files import FULL, append_line, locked
from autoresearch.records.hostile import write_atomically

NAME_MAX = 4096  # no path is longer
FOUND_MAX = 20


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The paths of one run, and the names by which it can be found."""

    run: str
    slug: str
    session: str
    run_dir: str
    result_dir: str
    blueprint: str = ""
    blueprint_sha: str = ""
    created: float = 0.0  # wall clock, seconds
    project: str = ""  # of the codebase (`git_repo.checkout.project_of`); "" in entries of old versions
    started_in: str = ""  # the project in which the command was run


def state_home(environ: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_STATE_HOME/autoresearch`, by default `~/.local/state/autoresearch`.

    A relative value is ignored, as the XDG specification demands.
    """
    base = environ.get("XDG_STATE_HOME", "")
    if base.startswith("/"):
        return Path(base) / "autoresearch"
    home = environ.get("HOME", "")
    return (Path(home) if home.startswith("/") else _home()) / ".local/state/autoresearch"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise EnvironmentUnusable(
            "this account has no home directory",
            hint="set HOME, or XDG_STATE_HOME, to a directory that it may write",
        ) from error


@contextlib.contextmanager
def state_usable(directory: Path) -> Iterator[None]:
    """Raise EnvironmentUnusable where the state directory, or a directory in it, cannot be read or written."""
    try:
        yield
    except OSError as error:
        room = "free some space, or " if error.errno in FULL else ""
        raise EnvironmentUnusable(
            f"the state directory {directory} cannot be used: {error.strerror}",
            hint=f"{room}set XDG_STATE_HOME to a directory that this user (or sandbox) may write",
            fix='export XDG_STATE_HOME="$PWD/.state"',
            code="state_unusable",
        ) from error


class Index:
    """The runs of this account. Raises EnvironmentUnusable if the directory cannot be read or written."""

    def __init__(self, directory: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> None:
        self.directory = directory or state_home(environ)

    @property
    def runs(self) -> Path:
        """Path of the file with all entries."""
        return self.directory / "runs.jsonl"

    def add(self, entry: IndexEntry) -> None:
        """Add a run as live, first to `live/`, so that a kill in between loses nothing."""
        if not RUN_ID.match(entry.run):
            raise ValueError(f"not a run id: {entry.run[:80]!r}")
        data = json.dumps(asdict(entry), ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
        with self._usable():
            live = self._made("live")
            write_atomically(live / entry.run, data, durable=False)
        append_line(self.runs, data, durable=False)

    def discard_live(self, run: str) -> None:
        """Remove a run with finished records from `live/`; does nothing for unknown runs."""
        if RUN_ID.match(run):
            with self._usable():
                (self.directory / "live" / run).unlink(missing_ok=True)

    def live(self) -> list[IndexEntry]:
        """Every run without finished records, oldest first."""
        found = list[IndexEntry]()
        with self._usable(), contextlib.suppress(FileNotFoundError):
            for path in (self.directory / "live").iterdir():
                with contextlib.suppress(FileNotFoundError):  # collected meanwhile
                    if RUN_ID.match(path.name) and (entry := _parse(path.read_bytes())):
                        found.append(entry)
        return sorted(found, key=lambda e: (e.created, e.run))

    def find_live_by_blueprint(self, path: str, sha: str) -> list[IndexEntry]:
        """The live runs of exactly this blueprint (path and hash), newest first."""
        return [e for e in reversed(self.live()) if (e.blueprint, e.blueprint_sha) == (path, sha)]

    def by_id(self, name: str) -> IndexEntry | None:
        """The run with this full run id or session name, of any project."""
        if RUN_ID.match(name):
            with self._usable(), contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if entry := _parse((self.directory / "live" / name).read_bytes()):
                    return entry
        found = self._matching(("run", "session"), name, 1)
        return found[0] if found else None

    def by_slug(self, slug: str, project: str = "") -> list[IndexEntry]:
        """The runs with this slug, of one project or of all, newest first."""
        return self._matching(("slug",), slug, FOUND_MAX, project)

    def by_directory(self, name: str) -> list[IndexEntry]:
        """The runs with this result directory, or else with this run directory, newest first."""
        for place in _spellings(name):
            for kind in ("result_dir", "run_dir"):
                if found := self._matching((kind,), place, FOUND_MAX):
                    return found
        return []

    def by_blueprint(self, path: str) -> list[IndexEntry]:
        """The newest runs of the blueprint at this path, newest first."""
        return self._matching(("blueprint",), path, FOUND_MAX)

    def recent(self, count: int, project: str = "") -> list[IndexEntry]:
        """The `count` newest runs of a project, or of all, newest first."""
        return self._newest(count, lambda entry: _is_of(entry, project))

    def _matching(self, kinds: Collection[str], value: str, limit: int, project: str = "") -> list[IndexEntry]:
        """The newest runs of which one of these fields is `value`. Names are only compared, never used in a path."""
        if not value or len(value) > NAME_MAX or "\0" in value:
            return []
        spelt = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")  # as `add` writes it
        return self._newest(
            limit, lambda one: any(getattr(one, kind) == value for kind in kinds) and _is_of(one, project), spelt
        )

    def _newest(self, count: int, matches: Callable[[IndexEntry], bool], spelt: bytes = b"") -> list[IndexEntry]:
        """The newest entries that match; `spelt`: bytes that stand in each of their lines."""
        found: dict[str, IndexEntry] = {}
        with self._usable():
            try:
                data = self.runs.read_bytes()
            except FileNotFoundError:
                data = b""
        for line in _lines_with(spelt, data):
            if len(found) >= count:
                break
            if (entry := _parse(line)) and matches(entry):
                found.setdefault(entry.run, entry)
        return list(found.values())

    @contextlib.contextmanager
    def launch_lock(self, key: str) -> Iterator[None]:
        """Hold the lock of a blueprint, so that two commands do not launch from it at the same time.

        There are 4096 of them; should two blueprints ever share one, the second waits for the launch of the first.
        """
        path = self.directory / "locks" / sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:3]
        with self._usable():
            self._made("locks")
            path.touch()
        with locked(path):
            yield

    def _made(self, name: str) -> Path:
        directory = self.directory / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def _usable(self) -> contextlib.AbstractContextManager[None]:
        return state_usable(self.directory)


def _lines_with(spelt: bytes, data: bytes) -> Iterator[bytes]:
    """Yield the lines that hold these bytes, the last one first: of 100,000 lines only these are made."""
    end = len(data)
    while end > 0 and (at := data.rfind(spelt, 0, end)) >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        stop = data.find(b"\n", at, end)
        yield data[start : stop if stop >= 0 else end]
        end = start - 1


def _is_of(entry: IndexEntry, project: str) -> bool:
    """Whether a run belongs to a project, by its codebase or because it was started there; "" is every project."""
    return not project or project in (entry.project, entry.started_in)


def _spellings(name: str) -> list[str]:
    """A directory as an absolute path, and with symbolic links resolved; [] for an impossible name."""
    if not name or len(name) > NAME_MAX or "\0" in name:
        return []
    try:
        absolute = os.path.normpath(Path(name).absolute())
        return list(dict.fromkeys((absolute, os.path.realpath(absolute))))
    except OSError:  # the working directory is gone
        return []


def _parse(line: bytes) -> IndexEntry | None:
    """Parse an entry; None for an incomplete or invalid line."""
    try:
        entry = from_record(IndexEntry, json.loads(line))
    except (ValueError, TypeError):
        return None
    return entry if isinstance(entry.created, (int, float)) and isinstance(entry.run_dir, str) else None
