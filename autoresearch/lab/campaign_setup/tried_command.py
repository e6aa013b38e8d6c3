"""One short run of a command, for the numbers that it prints or writes."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.metrics.signal import Reading
from autoresearch.core.run.trainer import SUFFIXES, Source, SourceFormat
from autoresearch.core.text.durations import spoken
from autoresearch.git_repo import checkout, worktrees
from autoresearch.git_repo.commits import lines_of
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.lab.launch.runner_session import run_to_end
from autoresearch.lab.recipes.likely_objective import PrintedNumber, candidates, with_proposal
from autoresearch.lab.resolve.import_proof import import_environment
from autoresearch.lab.resolve.shown_paths import ShowRules, named_paths, paths_to_show
from autoresearch.lab.results.measure import numbers_in
from autoresearch.readers.console import tail_lines
from autoresearch.readers.read import read_source
from autoresearch.records.rundir import RunDir
from autoresearch.trainers.generic import Generic

GRACE_S = 5.0  # between TERM and KILL
_DATE = 4  # digits that make a name one of a date, a time, a process
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "venv", "node_modules", "__pycache__")
_QUIET = {"PYTHONUNBUFFERED": "1", "WANDB_MODE": "disabled", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True)
class Trial:
    """What a short run printed and wrote: its numbers, the proposed one first, and sentences on how it went."""

    numbers: tuple[PrintedNumber, ...]
    words: tuple[str, ...]
    sure: bool  # the name of the proposed one says that it is what counts, and no other name does


def tried_command(
    command: str, directory: Path, seconds: float, interpreter: Path, environ: Mapping[str, str]
) -> Trial:
    """Run a command for at most so many seconds, in a worktree of what is on disk, or a copy without a repository.

    Its whole process tree is ended, and the worktree removed.
    """
    with tempfile.TemporaryDirectory(prefix="autoresearch-try-") as folder:
        rundir, found = RunDir(Path(folder).resolve() / "run"), checkout.find(directory)
        rundir.path.mkdir()
        slot, place = None, rundir.path.with_name("tree")
        if found is None:
            shutil.copytree(directory, place, symlinks=True, ignore=_NOT_COPIED)
        else:
            slot = worktrees.slot(found, place, reason="a short run")
        try:
            if slot and found:
                commit = snapshot(found, message="autoresearch: a short run").commit
                named = named_paths(found.root, directory.resolve(), [command])
                shown = paths_to_show(found, lines_of(found, commit), ShowRules(named=named))
                slot.switch(commit, shown)
            below = os.path.relpath(directory.resolve(), found.root.resolve()) if found else "."
            spec = {
                "schema": 1,
                "run": f"try-{uuid.uuid4().hex[:12]}",
                "command": command,
                "cwd": str(place / below),
                "interpreter": str(interpreter),
                "limits": {"max_s": seconds, "grace_s": GRACE_S},
            }
            before = _times(place)
            end = run_to_end(rundir, spec, import_environment({**environ, **_QUIET}, place))
            fresh = [path for path, time in _times(place).items() if before.get(path) != time]
            written = [one for path in fresh if (one := _read_file(path, place / below, before))]
        finally:
            if slot:
                slot.remove()
        how = f"ran for {spoken(seconds)}"
        if end and end.ending != "max_time":
            how = f"ended with exit {end.returncode} within {spoken(seconds)}"
        return _trial(rundir.log, f"`{command}` {how}", written)


def _times(root: Path) -> dict[Path, int]:
    """When what is below a directory was last changed."""
    return {path: path.lstat().st_mtime_ns for path in sorted(root.rglob("*"))}


def _read_file(path: Path, cwd: Path, before: Mapping[Path, int]) -> tuple[Source, Sequence[Reading]] | None:
    """A file of metrics that the run has written, named as another run would name it, and its readings.

    None for any other file. before: what was there without the run.
    """
    events = ".tfevents." in path.name
    if not (path.is_file() and path.is_relative_to(cwd) and (events or path.suffix in SUFFIXES)):
        return None
    kind = SourceFormat.TENSORBOARD if events else SourceFormat(SUFFIXES[path.suffix])
    readings = read_source(Source(kind, str(path)), Path(), 0, Generic(), ended=True).readings
    made = path.parent if events else path
    ways = [made, *made.parents][: len(made.relative_to(cwd).parts)]
    pattern = "/".join(way.name if way in before else _varying(way.name) for way in reversed(ways)) or "."
    return Source(kind, pattern), readings


def _varying(part: str) -> str:
    """A part of a path with `*` for what another run would have otherwise: dates, times, numbers."""
    stem, dot, suffix = part.rpartition(".")
    if sum(map(str.isdigit, stem or part)) >= _DATE:
        return f"*{dot}{suffix}" if stem and not suffix.isdigit() else "*"
    return re.sub(r"\d+", "*", part)


def _trial(log: Path, ran: str, written: Iterable[tuple[Source, Sequence[Reading]]]) -> Trial:
    printed = read_source(Source(SourceFormat.CONSOLE, str(log)), Path(), 0, Generic(), ended=True)
    readings: dict[Source | None, Sequence[Reading]] = {None: printed.readings}
    lines = tail_lines(log)
    numbers = {one.name: one for one in numbers_in(printed.readings, lines, Generic())}
    for file, rows in written:
        readings[file] = rows
        for one in numbers_in(rows, (), Generic()):
            numbers.setdefault(one.name, replace(one, file=file))
    last = (lines or [""])[-1].strip()[:200]
    ran += f"; its last line: {last}" if last else ", and printed nothing"
    likely = candidates(numbers.values())
    shown = with_proposal(numbers.values(), readings[likely[0].file] if likely else ())
    sure = len(likely) == 1 and likely[0].objective is not None
    return Trial(tuple(shown), (ran, printed.summary) if printed.summary else (ran,), sure)
