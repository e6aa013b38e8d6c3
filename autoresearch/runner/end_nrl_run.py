"""End what `nrl-k8s run` started, after its client ended: `end_nrl_run.py rayjob|run NAME RECIPE [...] [--infra F]`.

A run on a long-lived cluster is ended by `nrl-k8s job stop`; a RayJob, for which nrl-k8s has no command, by kubectl in
the namespace that `nrl-k8s check` prints. A RayJob that is over is left alone. Standard library only, Python 3.9.
"""

from __future__ import annotations

import re
import subprocess
import sys

ANSWER_S = 60.0
OVER = ("Complete", "Failed")


class NoAnswer(Exception):  # noqa: N818 - it says what happened
    """A program is missing, failed, or timed out; the message is for the user."""


def ask(*words: str) -> str:
    """stdout of a command. Raises NoAnswer, with the last line of its output if it failed."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_S,
            check=False,
        )
    except FileNotFoundError:
        raise NoAnswer(f"{words[0]} is not on PATH") from None
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{words[0]} gave no answer within {ANSWER_S:.0f} s") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise NoAnswer(f"{words[0]}: {lines[-1] if lines else done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def end_run(name: str, rest: list[str]) -> str:
    """Stop a job on a long-lived cluster; returns the outcome. Raises NoAnswer."""
    ask("nrl-k8s", "job", "stop", name, *rest, "--role", "training")
    return "stopped, or over before"


def end_rayjob(name: str, rest: list[str]) -> str:
    """Delete a RayJob unless it is over: its finalizer stops the job and removes the cluster. Raises NoAnswer."""
    match = re.search(r"^namespace:\s+(\S+)", ask("nrl-k8s", "check", *rest), re.M)
    if match is None:
        raise NoAnswer("nrl-k8s check names no namespace")
    where = ("-n", match[1], "--ignore-not-found")
    found = ask(
        "kubectl", "get", "rayjob", name, *where, "-o", "jsonpath={.metadata.name}/{.status.jobDeploymentStatus}"
    )
    state = found.strip().partition("/")[2]
    if not found.strip() or state in OVER:
        return f"{state or 'there is none'}"
    ask("kubectl", "delete", "rayjob", name, *where, "--wait=false")
    return f"deleted, it was {state or 'new'}"


def main(argv: list[str]) -> int:
    """Print the outcome in one line; exit status 1 if the run could not be ended."""
    kind, name, rest = argv[1], argv[2], argv[3:]
    try:
        became = (end_rayjob if kind == "rayjob" else end_run)(name, rest)
    except NoAnswer as error:
        print(f"the {kind} {name} of nrl-k8s could not be ended: {error}", flush=True)
        return 1
    print(f"the {kind} {name} of nrl-k8s: {became}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
