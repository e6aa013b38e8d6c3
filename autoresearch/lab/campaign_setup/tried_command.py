"""One short run of a command, for the numbers that it prints or writes, where its text does not say which one counts.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.metrics.objective import steadier
from autoresearch.core.run.trainer import SUFFIXES, Source, SourceFormat
from autoresearch.core.text.durations import spoken
from autoresearch.git_repo import checkout, worktrees
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.git_repo.trees import lines_of
from autoresearch.lab.launch.short_runs import run_to_end
from autoresearch.lab.recipes.printed_names import PrintedName, candidates
from autoresearch.lab.resolve.import_proof import import_environment
from autoresearch.lab.resolve.shown_paths import ShowRules, named_paths, paths_to_show
from autoresearch.readers.console import find_metrics, tail_lines
from autoresearch.readers.read import read_source
from autoresearch.records.rundir import RunDir
from autoresearch.runner.metric_lines import body, is_count, parse
from autoresearch.trainers.generic import Generic

GRACE_S = 5.0  # between TERM and KILL
_DATE = 4  # digits that make a name one of a date, a time, a process
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "venv", "node_modules", "__pycache__")
_QUIET = {"PYTHONUNBUFFERED": "1", "WANDB_MODE": "disabled", "PYTHONDONTWRITEBYTECODE": "1"}


def tried_command(
    command: str, directory: Path, seconds: float, interpreter: Path, environ: Mapping[str, str]
) -> tuple[list[PrintedName], str]:
    """The numbers of which any may be the objective, as a short run has them, and in a sentence what there was.

    It runs for at most so many seconds in a worktree of what is on disk, or a copy where there is no repository. Its
    whole process tree is ended, and the worktree removed.
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
            written = [name for path in fresh for name in _in_file(path, place / below, before)]
        finally:
            if slot:
                slot.remove()
        code = end.returncode if end and end.ending != "max_time" else None
        how = "ran for" if code is None else f"ended with exit {code} within"
        return _read(rundir.log, f"`{command}` {how} {spoken(seconds)}", written)


def _times(root: Path) -> dict[Path, int]:
    """When what is below a directory was last changed."""
    return {path: path.lstat().st_mtime_ns for path in sorted(root.rglob("*"))}


def _in_file(path: Path, cwd: Path, before: Mapping[Path, int]) -> list[PrintedName]:
    """The numbers in a file of metrics that the run has written, which is named as another run would name it.

    [] for any other file. before: what was there without the run.
    """
    events = ".tfevents." in path.name
    if not (path.is_file() and path.is_relative_to(cwd) and (events or path.suffix in SUFFIXES)):
        return []
    kind = SourceFormat.TENSORBOARD if events else SourceFormat(SUFFIXES[path.suffix])
    readings = read_source(Source(kind, str(path)), Path(), 0, Generic(), ended=True).readings
    made = path.parent if events else path
    ways = [made, *made.parents][: len(made.relative_to(cwd).parts)]
    pattern = "/".join(way.name if way in before else _varying(way.name) for way in reversed(ways)) or "."
    names = dict.fromkeys(
        name for reading in readings for name, value in reading.metrics.items() if not is_count(value)
    )
    return [PrintedName(steadier(name, readings) or name, Source(kind, pattern), "the short run") for name in names]


def _varying(part: str) -> str:
    """A part of a path with `*` for what another run would have otherwise: dates, times, numbers."""
    stem, dot, suffix = part.rpartition(".")
    if sum(map(str.isdigit, stem or part)) >= _DATE:
        return f"*{dot}{suffix}" if stem and not suffix.isdigit() else "*"
    return re.sub(r"\d+", "*", part)


def _read(log: Path, ran: str, written: list[PrintedName]) -> tuple[list[PrintedName], str]:
    readings, _ = find_metrics(log, (), ended=True)
    names = {name: None for reading in readings for name, value in reading.metrics.items() if not is_count(value)}
    shown: dict[str, tuple[int, str]] = {}  # the first line with this name
    n, line = 0, ""
    with log.open(encoding="utf-8", errors="replace") if names else io.StringIO() as file:
        for n, line in enumerate(file, 1):
            pairs = parse(body(line))
            for name in pairs.metrics if pairs else ():
                shown.setdefault(name, (n, line.strip()[:100]))
    found = {name: PrintedName(name, None, "its output", *shown.get(name, (n, line.strip()[:100]))) for name in names}
    if objectives := candidates([*found.values(), *written]):
        better = {name: steadier(name, readings) or name for name in names}
        objectives = [one if one.file else replace(one, name=better[one.name]) for one in objectives]
        return objectives, f"{ran} and has {' and '.join(map(str, objectives))}"
    last = (tail_lines(log) or [""])[-1].strip()[:200]
    if written:
        files = " and ".join(dict.fromkeys(source.path for one in written for source in one.sources))
        told = ", ".join(one.name for one in written[:8])
        return [], f"{ran}: none of the numbers in {files} ({told}) looks like an objective"
    if not last:
        return [], f"{ran} and printed nothing, and wrote no file of metrics"
    numbers = f"none of its numbers ({', '.join([*found][:8])}) looks" if found else "nothing that it printed looks"
    return [], f"{ran}: {numbers} like an objective; its last line: {last}"
