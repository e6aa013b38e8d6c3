"""`nrl-k8s run`: parse a launch command for NeMo-RL's Kubernetes launcher, and name its job so that it can be stopped.

NeMo-RL's launcher (infra/nrl_k8s/src/nrl_k8s/cli.py, NVIDIA-NeMo/RL at 7ea279ab). Its process is only a client: the job
goes on when the client dies. By default, and with `--rayjob`, it applies a KubeRay RayJob, waits for its end and prints
its states, never its log; with `--raycluster` it submits to a long-lived cluster and shows the job's log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.shell.reading import SimpleCommand, simple_commands
from autoresearch.core.text.regex import later

_RUN = later(r"\bnrl-k8s(?:[ \t]|\\\n)+run\b")
_VALUED = frozenset(
    ("--infra", "--repo-root", "--rayjob-name", "--ttl", "--timeout", "--mode", "--submitter", "--code-source")
) | {"--code-path", "--run-id"}
MOST_NAME = 47  # of a RayJob, see MaxRayJobNameLength in KubeRay


@dataclass(frozen=True, slots=True)
class NrlRun:
    """One `nrl-k8s run`. `name`: of the RayJob, or the run id on a long-lived cluster; "" if nrl-k8s generates it."""

    words: tuple[str, ...]  # recipe, overrides and --infra, which all nrl-k8s commands take
    rayjob: bool
    name: str
    waits: bool
    dry: bool

    @property
    def check(self) -> tuple[str, ...]:
        """The command that validates recipe and overrides without contacting a cluster."""
        return ("nrl-k8s", "check", *self.words)


def find(command: str) -> NrlRun | None:
    """The first `nrl-k8s run` in the command; None if there is none."""
    for simple in simple_commands(command):
        argv = _argv(simple)
        if argv[:2] == ["nrl-k8s", "run"]:
            return _parsed(argv[2:])
    return None


def _argv(simple: SimpleCommand) -> list[str]:
    return [simple.name, *simple.argv[1:]]


def _parsed(words: list[str]) -> NrlRun:
    """Parse the arguments of `nrl-k8s run`; the last of two opposite flags wins, as in click."""
    values: dict[str, str] = {}
    flags: list[str] = []
    own: list[str] = []
    at = 0
    while at < len(words):
        key, equals, value = words[at].partition("=")
        if key in _VALUED:
            at += 0 if equals else 1
            values[key] = value if equals else (words[at] if at < len(words) else "")
        elif words[at].startswith("-"):
            flags.append(words[at])
        else:
            own.append(words[at])
        at += 1
    rayjob = _last(flags, "--rayjob", "--raycluster") != "--raycluster"
    waiting = _last(flags, "--wait", "--no-wait")
    infra = ["--infra", values["--infra"]] if "--infra" in values else []
    return NrlRun(
        words=(*own, *infra),
        rayjob=rayjob,
        name=values.get("--rayjob-name" if rayjob else "--run-id", ""),
        waits=waiting == "--wait" or (not waiting and (rayjob or values.get("--mode") != "batch")),
        dry="--dry-run" in flags,
    )


def _last(flags: list[str], *among: str) -> str:
    return next((flag for flag in reversed(flags) if flag in among), "")


def named(command: str, run: str) -> str:
    """The command with this name for its job; unchanged if it starts no job, or already names it."""
    found = find(command)
    if found is None or found.name:
        return command
    option = f"--rayjob-name {_rayjob_name(run)}" if found.rayjob else f"--run-id {run}"
    return _RUN.sub(lambda match: f"{match[0]} {option}", command, count=1)


def _rayjob_name(run: str) -> str:
    """Make an RFC 1035 label of a run's name; a long name keeps its last 8 characters, which identify it."""
    name = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 9].rstrip('-')}-{name[-8:].lstrip('-')}"


def lint(command: str) -> tuple[Finding, ...]:
    """A dry run, a run that does not wait for its job, and a RayJob, whose log is never shown."""
    run = find(command)
    if run is None:
        return ()
    found = []
    if run.dry:
        message = "nrl-k8s run --dry-run prints a manifest and trains nothing"
        found.append(Finding(Severity.ERROR, "nrl_dry_run", message, "take --dry-run out"))
    if not run.waits:
        message = "nrl-k8s run does not wait: it ends at once with status 0, while the job is still to come"
        hint = "take --no-wait out, or add --wait: the run lasts as long as its command"
        found.append(Finding(Severity.ERROR, "nrl_no_wait", message, hint))
    elif run.rayjob and not run.dry:
        message = "nrl-k8s run --rayjob prints states only: no step of the training would ever be seen"
        hint = "use --raycluster, which shows the job's log, or start the same entrypoint with --launcher kubernetes"
        found.append(Finding(Severity.WARNING, "nrl_no_output", message, hint))
    return tuple(found)
