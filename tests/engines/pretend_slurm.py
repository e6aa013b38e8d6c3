"""A stand-in for Slurm's commands, for tests where there is none: real processes, a real queue, and faults on demand.

    python pretend_slurm.py sbatch|squeue|scancel|scontrol|sacct ...     with PRETEND_SLURM=DIRECTORY

The directory holds `slots` (how many jobs run at a time), `down` (present: nobody answers), `killwait` (seconds between
TERM and KILL) and `jobs/<id>.json`. What a test does to a job from outside is written there, as slurmctld would. Only
the words that `launchers/slurm.py` uses are known.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HOME = Path(os.environ.get("PRETEND_SLURM", "/nonexistent"))
FIELDS = {"JobID": "id", "State": "state", "NodeList": "node", "Name": "name", "Reason": "reason"}
FIELDS |= {"Comment": "comment", "exit_code": "status"}
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")


@contextlib.contextmanager
def table() -> Iterator[None]:
    """One at a time, as slurmctld does it."""
    with (HOME / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read(job: str) -> dict[str, object]:
    return dict(json.loads((HOME / "jobs" / f"{job}.json").read_text()))


def write(record: dict[str, object]) -> None:
    path = HOME / "jobs" / f"{record['id']}.json"
    path.with_suffix(".tmp").write_text(json.dumps(record))
    path.with_suffix(".tmp").rename(path)


def change(job: str, **fields: object) -> dict[str, object]:
    with table():
        record = {**read(job), **fields}
        write(record)
    return record


def jobs() -> list[dict[str, object]]:
    found = [json.loads(path.read_text()) for path in (HOME / "jobs").glob("*.json")]
    return sorted(found, key=lambda job: int(job["id"]))


def options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """--name=value; what is left over."""
    given = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
    return given, [word for word in words if not word.startswith("-")]


def sbatch(words: list[str]) -> int:
    given, others = options(words)
    if "version" in given:
        return say("slurm-wlm 22.05.8 (pretended)")
    if "test-only" in given:
        return 0
    with table():
        number = 1 + max((int(str(job["id"])) for job in jobs()), default=100)
        write(
            {
                "id": str(number),
                "name": given.get("job-name", "script"),
                "comment": given.get("comment", ""),
                "state": "PENDING",
                "reason": "Priority",
                "node": "",
                "output": given["output"],
                "script": Path(others[0]).read_text(),
                "cwd": os.getcwd(),
                "status": 0,
            }
        )
    own = [sys.executable, __file__, "run", str(number)]
    subprocess.Popen(
        own, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    return say(str(number))


def run(job: str) -> int:
    """What slurmd and slurmctld do with one job: wait for a slot, start it, say how it ended."""
    while True:
        with table():
            record = read(job)
            if record["state"] != "PENDING":
                return 0
            busy = sum(one["state"] == "RUNNING" for one in jobs())
            if busy < int((HOME / "slots").read_text() or 0):  # a test may be writing it just now
                write({**record, "state": "RUNNING", "reason": "None", "node": "p1"})
                break
        time.sleep(0.05)
    with open(str(record["output"]), "ab") as out:
        batch = subprocess.Popen(
            ["bash", "-c", str(record["script"])],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=str(record["cwd"]),
            env={**os.environ, "SLURM_JOB_ID": job},
            start_new_session=True,
        )
    change(job, pid=batch.pid)
    code = batch.wait()
    with table():
        record = read(job)
        if record["state"] == "RUNNING":
            state, reason = ("FAILED", "NonZeroExitCode") if code else ("COMPLETED", "None")
            write({**record, "state": state, "status": code * 256 if code >= 0 else -code, "reason": reason})
    return 0


def squeue(words: list[str]) -> int:
    given, _ = options(words)
    fields = [
        re.fullmatch(r"(\w+):0(.*)", field) for field in given["Format"].split(",")
    ]  # NAME:WIDTH and what follows
    for job in jobs():
        say("".join(f"{job[FIELDS[field[1]]]}{field[2]}" for field in fields if field))
    return 0


def scancel(words: list[str]) -> int:
    given, rest = options(words)
    for job in rest:
        with contextlib.suppress(FileNotFoundError):
            end(job, signal.SIGTERM, "" if "signal" in given else "CANCELLED")
    return 0


def end(job: str, number: int, state: str) -> None:
    """Signal a job; with a state it is over, and killed after a while if it does not go."""
    with table():
        record = read(job)
        if record["state"] in OVER:
            return
        if state:
            write({**record, "state": state, "reason": "None"})
    pid = record.get("pid")
    if not isinstance(pid, int):
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        if state:
            until = time.monotonic() + float((HOME / "killwait").read_text())
            while time.monotonic() < until and Path(f"/proc/{pid}").exists():
                time.sleep(0.02)
            os.killpg(pid, signal.SIGKILL)


def scontrol(words: list[str]) -> int:
    assert words == ["show", "config"]
    return say(f"KillWait                = {(HOME / 'killwait').read_text().strip()} sec")


def say(text: str) -> int:
    sys.stdout.write(text + "\n")
    return 0


def fail(text: str) -> int:
    sys.stderr.write(text + "\n")
    return 1


def main(program: str, words: list[str]) -> int:
    if program == "run":
        return run(words[0])
    if (HOME / "down").exists() and "--version" not in words:
        return fail(f"{program}: error: Unable to contact slurm controller (connect failure)")
    if program == "sacct":
        return fail("Slurm accounting storage is disabled")
    return {"sbatch": sbatch, "squeue": squeue, "scancel": scancel, "scontrol": scontrol}[program](words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
