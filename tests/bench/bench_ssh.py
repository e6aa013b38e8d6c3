"""What asking a host costs, against `ssh` by a shared connection: submit, poll and stop."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import autoresearch.runner
from autoresearch.core.run.job_launcher import Handle, Job
from autoresearch.launchers.ssh import SshLauncher
from tests.bench.result import Result
from tests.engines.ssh import make, missing

GOAL = 1.2
RUNNER = str(Path(autoresearch.runner.__file__).parent)


def run(repeats: int) -> list[Result]:
    """A real sshd on this machine; `ssh` goes by the connection that our own calls keep open."""
    if why := missing():
        print(f"ssh is not measured: {why}")
        return []
    with tempfile.TemporaryDirectory(prefix="ar-") as folder:
        home = Path(folder)
        sshd = make(home / "sshd")
        sshd.environment["HOME"] = folder
        try:
            sshd.start()
            launcher = sshd.launcher({**os.environ, "XDG_RUNTIME_DIR": folder})
            return _real(launcher, home, 3 * repeats)
        finally:
            sshd.end()


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _real(launcher: SshLauncher, home: Path, pairs: int) -> list[Result]:
    """The same Runner either way, started and seen to be up."""
    launcher.reach.run(["true"])
    ours: dict[str, list[float]] = {"submit": [], "poll": [], "stop": []}
    theirs: dict[str, list[float]] = {"submit": [], "poll": [], "stop": []}

    def bare(command: str) -> str:
        shared = ["-oControlMaster=auto", f"-oControlPath={home}/ssh", "-oControlPersist=60"]
        words = ["ssh", *launcher.reach.words.options, *shared, "-T", "far", command]
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout

    for number in range(pairs):
        job, other = _job(home / f"ours-{number}"), _job(home / f"theirs-{number}")
        made: list[Handle] = []
        pids: list[str] = []
        up = f"until [ -e {other.directory}/runner.json ]; do sleep 0.01; done"
        start = f"setsid {shlex.join(other.argv)} </dev/null >/dev/null 2>&1 & echo $!; {up}"
        ours["submit"].append(_ms(lambda job=job, made=made: made.append(launcher.submit(job))))
        theirs["submit"].append(_ms(lambda start=start, pids=pids: pids.append(bare(start).strip())))
        ours["poll"].append(_ms(lambda made=made: launcher.poll(made)))
        theirs["poll"].append(_ms(lambda pids=pids: bare(f"kill -0 {pids[0]}")))
        ours["stop"].append(_ms(lambda made=made: launcher.stop(made[0], hard=False)))
        theirs["stop"].append(_ms(lambda pids=pids: bare(f"kill -TERM {pids[0]}")))
        for one in (job, other):
            while not Path(one.directory, "exit.json").exists():
                time.sleep(0.01)
    commands = {"submit": ("start in the background", 0.85), "poll": ("kill -0", 0.08), "stop": ("kill", 0.07)}
    return [
        Result(f"ssh: {k}", f"launcher / ssh: {command}", ours[k], theirs[k], GOAL, reached=reached)
        for k, (command, reached) in commands.items()
    ]


def _job(place: Path) -> Job:
    place.mkdir()
    spec = {"run": place.name, "command": "exec sleep 60", "cwd": str(place), "limits": {"grace_s": 1.0}}
    (place / "spec.json").write_text(json.dumps({**spec, "result_dir": str(place)}))
    argv = (sys.executable, "-S", "-E", "-s", RUNNER, str(place))
    return Job(place.name, f"ajet_{place.name}", "bench", str(place), argv, str(place), 90.0, 1.0)
