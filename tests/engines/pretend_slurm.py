"""A stand-in for Slurm's commands, for tests where there is none: real processes, a real queue, and faults on demand.

    python pretend_slurm.py sbatch|squeue|scancel|scontrol|sacct ...     with PRETEND_SLURM=DIRECTORY

The directory holds `slots` (how many jobs run at a time), `down` (present: nobody answers), `refuse` (present: what
sbatch says), `killwait` (seconds between TERM and KILL) and `jobs/<id>.json`. What a test does to a job from outside
(`become`) is written there, as slurmctld would.
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
CODES = {"i": "id", "A": "id", "j": "name", "T": "state", "r": "reason", "R": "reason", "N": "node", "k": "comment"}
FIELDS = {
    **{"JobID": "id", "State": "state", "NodeList": "node", "Name": "name", "Reason": "reason", "Comment": "comment"},
    "exit_code": "status",
}
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
    """--name=value and -x value; what is left over."""
    found, rest, todo = {}, [], list(words)
    while todo:
        word = todo.pop(0)
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name] = value
        elif word.startswith("-") and len(word) == 2:
            found[word[1]] = todo.pop(0) if todo and word not in ("-h",) else ""
        else:
            rest.append(word)
    return found, rest


def sbatch(words: list[str]) -> int:
    given, rest = options(words)
    if "version" in given:
        return say("slurm-wlm 22.05.8 (pretended)")
    if (HOME / "refuse").exists():
        return fail((HOME / "refuse").read_text().strip())
    if "test-only" in given:
        return 0
    script = Path(rest[0]).read_text() if rest else sys.stdin.read()
    for line in re.findall(r"^#SBATCH (.*)$", script, re.MULTILINE):
        given = {**options(line.split())[0], **given}
    with table():
        number = 1 + max((int(str(job["id"])) for job in jobs()), default=100)
        output = given.get("output", "/dev/null").replace("%j", str(number))
        write(
            {
                "id": str(number),
                "name": given.get("job-name", "script"),
                "comment": given.get("comment", ""),
                "state": "PENDING",
                "reason": "Priority",
                "node": "",
                "output": output,
                "script": script,
                "cwd": given.get("chdir", os.getcwd()),
                "code": "0:0",
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
            told = f"{code}:0" if code >= 0 else f"0:{-code}"
            write(
                {
                    **record,
                    "state": "FAILED" if code else "COMPLETED",
                    "code": told,
                    "reason": "NonZeroExitCode" if code else "None",
                }
            )
    return 0


def squeue(words: list[str]) -> int:
    given, _ = options(words)
    shape = given.get("o") or given.get("format") or "%i|%T"
    everything = given.get("t", given.get("states")) == "all"
    for job in jobs():
        if job.get("purged") or (job["state"] in OVER and not everything):
            continue
        if "Format" in given:  # each field is NAME:WIDTH and what follows it up to the comma
            code, _, signalled = str(job["code"]).partition(":")
            values = {**job, "status": int(code) * 256 + int(signalled)}
            fields = (re.fullmatch(r"(\w+):0(.*)", field) for field in given["Format"].split(","))
            say("".join(f"{values[FIELDS[field[1]]]}{field[2]}" for field in fields if field))
        else:
            say(re.sub(r"%\.?\d*([A-Za-z])", lambda m, job=job: str(job.get(CODES.get(m[1], ""), "")), shape))
    return 0


def scancel(words: list[str]) -> int:
    given, rest = options(words)
    number = getattr(signal, f"SIG{given.get('signal', given.get('s', 'TERM')).removeprefix('SIG')}")
    soft = "signal" in given or "s" in given
    for job in rest:
        with contextlib.suppress(FileNotFoundError):
            end(job, number, "" if soft else "CANCELLED")
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
    if words[:2] == ["show", "config"]:
        return say(f"KillWait                = {(HOME / 'killwait').read_text().strip()} sec")
    _, rest = options(words)
    known = {str(job["id"]): job for job in jobs() if not job.get("purged")}
    if rest[:2] != ["show", "job"]:
        return 0
    wanted = rest[2].split(",") if len(rest) > 2 else list(known)
    for job in (known[one] for one in wanted if one in known):
        say(
            f"JobId={job['id']} JobName={job['name']} JobState={job['state']} Reason={job['reason']} "
            f"ExitCode={job['code']} Comment={job['comment']} NodeList={job['node'] or '(null)'}"
        )
    return 0 if all(one in known for one in wanted) else fail("slurm_load_jobs error: Invalid job id specified")


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
