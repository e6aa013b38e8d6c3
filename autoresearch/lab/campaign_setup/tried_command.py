"""One short run of a command, for the numbers that it prints, where its text does not say which one counts."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from autoresearch.core.text.durations import spoken
from autoresearch.git_repo import checkout, worktrees
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.lab.launch.short_runs import run_to_end
from autoresearch.lab.recipes.printed_names import PrintedName, candidates
from autoresearch.lab.resolve.import_proof import import_environment
from autoresearch.readers.console import find_metrics, tail_lines
from autoresearch.records.rundir import RunDir
from autoresearch.runner.metric_lines import body, is_count, parse

GRACE_S = 5.0  # between TERM and KILL
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "venv", "node_modules", "__pycache__")
_QUIET = {"PYTHONUNBUFFERED": "1", "WANDB_MODE": "disabled", "PYTHONDONTWRITEBYTECODE": "1"}


def tried_command(
    command: str, directory: Path, seconds: float, interpreter: Path, environ: Mapping[str, str]
) -> tuple[list[PrintedName], str]:
    """The numbers of which any may be the objective, as a short run prints them, and in a sentence what there was.

    It runs for at most so many seconds in a worktree of what is on disk, or a copy where there is no repository. Its
    whole process tree is ended, and the worktree removed. Files that git ignores are not there.
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
                slot.switch(snapshot(found, message="autoresearch: a short run").commit)
            below = os.path.relpath(directory.resolve(), found.root.resolve()) if found else "."
            spec = {
                "schema": 1,
                "run": f"try-{uuid.uuid4().hex[:12]}",
                "command": command,
                "cwd": str(place / below),
                "interpreter": str(interpreter),
                "limits": {"max_s": seconds, "grace_s": GRACE_S},
            }
            end = run_to_end(rundir, spec, import_environment({**environ, **_QUIET}, place))
        finally:
            if slot:
                slot.remove()
        code = end.returncode if end and end.ending != "max_time" else None
        how = "ran for" if code is None else f"ended with exit {code} within"
        return _read(rundir.log, f"`{command}` {how} {spoken(seconds)}")


def _read(log: Path, ran: str) -> tuple[list[PrintedName], str]:
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
    if objectives := candidates(found.values()):
        return objectives, f"{ran} and printed {' and '.join(map(str, objectives))}"
    last = (tail_lines(log) or [""])[-1].strip()[:200]
    if not last:
        return [], f"{ran} and printed nothing"
    numbers = f"none of its numbers ({', '.join([*found][:8])}) looks" if found else "nothing that it printed looks"
    return [], f"{ran}: {numbers} like an objective; its last line: {last}"
