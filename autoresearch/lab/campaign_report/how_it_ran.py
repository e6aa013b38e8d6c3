"""What the runs of a campaign ran on, for whoever reads its report in a year or wants to repeat it."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.targets import Kind
from autoresearch.core.text.numbers import counted
from autoresearch.lab.runs.processes import memory_gb
from autoresearch.records.files import read_json
from autoresearch.records.hostile import write_atomically
from autoresearch.records.rundir import RunDir

MOST_RUNS = 200  # of which the machine is looked up
MOST_PACKAGES = 20
PACKAGES = "packages.txt"  # in the directory of a campaign


def how_it_ran(state: CampaignState) -> list[tuple[str, str]]:
    """What and how it was: the command, the commit, the machines, the python and its packages; what is unknown is not
    there.
    """
    spec, rows = state.spec, [row for row in state.rows if row.run_dir]
    here = not any(target.kind == Kind.SSH for target in spec.places)  # a host has an environment of its own
    first = next((row for row in rows if row.index == 1), None)
    known = {
        "command": first.command if first else "",
        "code": f"{spec.base_commit[:12]} ({spec.base})" if spec.base else spec.base_commit[:12],
        "machines": ", ".join(_machines(rows[:MOST_RUNS])),
        "GPUs": f"{spec.gpus_per_run} of each run" if spec.gpus_per_run else "",
        "python": f"{spec.interpreter_words}{_version(Path(spec.interpreter))}" if here else "",
        "packages": _packages(Path(spec.directory)) if here else "",
    }
    return [(what, words) for what, words in known.items() if words]


def _machines(rows: list[LedgerRow]) -> Iterator[str]:
    """`gpu1 (12 runs; 16 CPUs, 128 GB of memory)`, by the names under which the Runners knew themselves."""
    hosts = Counter(str((read_json(RunDir(Path(row.run_dir)).runner) or {}).get("host") or "") for row in rows)
    for host, runs in hosts.most_common():
        if host:
            here = f"; {os.cpu_count()} CPUs, {memory_gb():.0f} GB of memory" if host == os.uname().nodename else ""
            yield f"{host} ({counted(runs, 'run')}{here})"


def _version(interpreter: Path) -> str:
    """`, version 3.11.7`, as its virtual environment says."""
    try:
        told = (interpreter.parents[1] / "pyvenv.cfg").read_text("utf-8", "replace")
    except (OSError, IndexError):
        return ""
    found = re.search(r"(?m)^version(?:_info)?\s*=\s*(\d[\w.]*)", told)
    return f", version {found[1]}" if found else ""


def keep_packages(directory: Path, interpreter: Path) -> None:
    """Write down, once, what is installed beside the python of a campaign, the largest first, by the lists of files."""
    if (directory / PACKAGES).exists():
        return
    found = list[tuple[int, str]]()
    for files in interpreter.parent.parent.glob("lib/python3*/site-packages/*.dist-info/RECORD"):
        name, _, version = files.parent.name.removesuffix(".dist-info").rpartition("-")
        found.append((files.stat().st_size, f"{name.replace('_', '-')}=={version}\n"))
    with contextlib.suppress(OSError):  # a full disk: the controller waits for room
        write_atomically(directory / PACKAGES, "".join(line for _, line in sorted(found, reverse=True)).encode())


def _packages(directory: Path) -> str:
    """`numpy 2.4.1, torch 2.13.0 and 60 smaller ones`, as they were when the campaign began."""
    try:
        known = (directory / PACKAGES).read_text("utf-8", "replace").replace("==", " ").splitlines()
    except OSError:
        return ""
    more = f" and {counted(rest, 'smaller one')}" if (rest := len(known) - MOST_PACKAGES) > 0 else ""
    return f"{', '.join(sorted(known[:MOST_PACKAGES], key=str.lower))}{more}"
