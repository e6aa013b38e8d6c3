"""One short run of a command, for the numbers that it prints where its text does not show them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from autoresearch.lab.recipes.printed_names import PrintedName, candidates
from autoresearch.readers.console import find_metrics
from autoresearch.runner.metric_lines import body, is_count, parse

END_S = 5.0  # from TERM to KILL


def shown_objectives(command: str, directory: Path, seconds: float, environ: Mapping[str, str]) -> list[PrintedName]:
    """The numbers of which any may be the objective, as a run that is ended after so many seconds prints them."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        _run(command, directory, seconds, environ, log)
        readings = find_metrics(log, (), ended=True).readings
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    found: dict[str, PrintedName] = {}
    for name in {name: None for reading in readings for name, value in reading.metrics.items() if not is_count(value)}:
        own = ((n, line) for n, line in enumerate(lines, 1) if (pairs := parse(body(line))) and name in pairs.metrics)
        n, line = next(own, (0, ""))
        found[name] = PrintedName(name, "", f"what {seconds:g} s of it printed", n, line.strip()[:100])
    return candidates(found.values())


def _run(command: str, directory: Path, seconds: float, environ: Mapping[str, str], log: Path) -> None:
    quiet = {**environ, "PYTHONUNBUFFERED": "1", "WANDB_MODE": "disabled"}
    with log.open("wb") as file, subprocess.Popen(
        ["bash", "-c", command],
        cwd=directory,
        env=quiet,
        stdin=subprocess.DEVNULL,
        stdout=file,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        for number, wait_s in ((signal.SIGTERM, seconds), (signal.SIGKILL, END_S)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(wait_s)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)  # it began a session: the group is its own
