"""The sbatch command line of a run, and the batch script that becomes its Runner."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from autoresearch.core.run.job_launcher import Job
from autoresearch.core.run.targets import Target
from autoresearch.core.text.durations import parse_duration
from autoresearch.errors import UsageError
from autoresearch.launchers.slurm_states import NOT_SHARED_EXIT

OUTPUT = "slurm.out"
STARTED = "slurm.started"  # written just before the Runner starts: earlier time is not the run's
EARLY_S = 60.0  # Slurm may send its signal this much earlier than requested
SIGNAL_S = 120
_PLAIN: tuple[str, ...] = (
    "partition",
    "account",
    "qos",
    "gres",
    "gpus_per_node",
    "cpus_per_task",
    "mem",
    "nodes",
    "nodelist",
)
_PLAIN += ("exclude", "constraint", "exclusive", "reservation")
_GPUS = ("gres", "gpus_per_node")

OPTIONS = {
    **{name: f"sbatch --{name.replace('_', '-')}" for name in _PLAIN},
    "dependency": "sbatch --dependency, beside the one that keeps two jobs of one run apart",
    "cluster": "sbatch --clusters, where several are served from here",
    "extra": "a list of further words for sbatch",
    "setup": "shell lines before the Runner: module load ...; what they export reaches the trainer",
    "environment": "variables for the job: NAME: value",
    "time": "the longest walltime to ask for, such as 4h; default: what the run's limits need",
    "margin": "walltime beyond the run's limits; default 5m",
    "signal": "seconds before the walltime's end at which the Runner is told; default 120",
    "script": "a launch script such as NeMo-RL's ray.sub: it is submitted, and the Runner is its COMMAND",
    "interactive": "true: runs share one allocation, for tight debug loops",
    "idle": "how long that allocation is kept without a run; default 10m",
}
DEFAULTS = {"margin": "5m", "idle": "10m"}

# `exec` at the end: Slurm's signals reach the Runner. New files may show late on other nodes (network file systems).
_SCRIPT = """#!/bin/bash
cd / && umask 022
far={far}
for look in 1 2 3 4 5 6 7 8 9 10; do
    [ -e "$far/spec.json" ] && break
    [ $look = 10 ] && {{ echo "$(hostname) does not see $far: it shares no file system with us"; exit {not_shared}; }}
    sleep {pause}
done
{given}declare -A before
while IFS= read -r -d '' pair; do before["$pair"]=1; done < <(env -0)
{setup}{environment}touch "$far/{started}"
exec {argv}
"""
# The trainer's environment is a file that the Runner reads. Variables that Slurm and `setup` set for this job override
# those of the submitting machine; those of an allocation that the submitter was in are removed.
_ENVIRONMENT = """if [ -f "$far/environment" ]; then
    umask 077
    {
        while IFS= read -r -d '' pair || [ -n "$pair" ]; do
            case $pair in SLURM*_*=* | SBATCH_*=* | SRUN_*=* | *_VISIBLE_DEVICES=*) ;; *) printf '%s\\0' "$pair" ;; esac
        done < "$far/environment"
        while IFS= read -r -d '' pair; do
            case $pair in SLURM*_*=* | *_VISIBLE_DEVICES=* | GPU_DEVICE_ORDINAL=*) printf '%s\\0' "$pair" ;; *)
                [ -n "${before["$pair"]+x}" ] || printf '%s\\0' "$pair" ;;
            esac
        done < <(env -0)
    } > "$far/environment.slurm" && mv "$far/environment.slurm" "$far/environment"
    umask 022
fi
"""


def script(job: Job, target: Target, *, pause_s: float = 3.0) -> str:
    """The batch script of a run: look for its directory, set up, become its Runner."""
    lines = setup_lines(target)
    return _SCRIPT.format(
        far=shlex.quote(job.directory),
        not_shared=NOT_SHARED_EXIT,
        pause=pause_s,
        given=_exports(job.environment),
        setup=_exports(environment(target)) + (f"{lines}\n" if lines else ""),
        environment=_ENVIRONMENT,
        started=STARTED,
        argv=shlex.join(job.argv),
    )


def _exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def words(job: Job, target: Target) -> list[str]:
    """`sbatch` and its options for a run; the script itself comes after, or on stdin."""
    found = ["sbatch", "--parsable", *on_cluster(target), f"--job-name={job.name}", f"--comment={comment(job)}"]
    found += ["--no-requeue", "--open-mode=append", f"--output={escaped(job.directory)}/{OUTPUT}"]
    found += [f"--time={minutes(job, target)}", f"--dependency={dependency(target)}"]
    if not target.text("script"):  # there the Runner is in a step, and a batch shell would die of it
        found.append(f"--signal=B:USR1@{signal_s(target)}")
    return found + resources(target, job.gpus)


def resources(target: Target, gpus: int) -> list[str]:
    """The requested resources. The scheduler chooses the GPUs: CUDA_VISIBLE_DEVICES is its own."""
    found = []
    for name in _PLAIN:
        value = target.options.get(name)
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(flag)
        elif value not in (None, False, ""):
            found.append(f"{flag}={value}")
    if gpus and not any(target.text(name) for name in _GPUS):
        found.append(f"--gres=gpu:{gpus}")
    return found + [str(word) for word in target.options.get("extra") or ()]


def comment(job: Job) -> str:
    """The comment that identifies the job, even if another one has its name."""
    return "autoresearch:" + ":".join(re.sub(r"[^\w./@+-]", "_", text) for text in (job.campaign, job.run))


def dependency(target: Target) -> str:
    """`singleton`: should one run ever have two jobs, the second waits until the first is over, and is then refused."""
    return ",".join(word for word in ("singleton", target.text("dependency")) if word)


def minutes(job: Job, target: Target) -> int:
    """The walltime in minutes: beyond the Runner's own limits, with room for a signal that comes early."""
    asked = job.max_s + seconds(target, "margin") + signal_s(target) + EARLY_S
    return max(1, math.ceil(min(asked, seconds(target, "time") if target.text("time") else asked) / 60))


def signal_s(target: Target) -> int:
    """Seconds before the walltime's end at which the Runner is signalled."""
    said = target.text("signal", str(SIGNAL_S))
    return int(said) if said.isdecimal() else int(_bad(target, "signal", "is no number of seconds"))


def seconds(target: Target, option: str) -> float:
    """An option that is a duration, in seconds. Raises UsageError for any other value."""
    try:
        return parse_duration(target.text(option, DEFAULTS.get(option, "")))
    except ValueError as error:
        return float(_bad(target, option, str(error)))


def environment(target: Target) -> dict[str, str]:
    """The target's variables for the job."""
    given = target.options.get("environment") or {}
    if not isinstance(given, Mapping) or not all(re.fullmatch(r"[A-Za-z_]\w*", str(name)) for name in given):
        _bad(target, "environment", "is no block of NAME: value")
    return {str(name): str(value) for name, value in given.items()}


def setup_lines(target: Target) -> str:
    """Shell lines to run before the Runner, as one text."""
    given: Any = target.options.get("setup") or ""
    return "\n".join(map(str, given)) if isinstance(given, Sequence) and not isinstance(given, str) else str(given)


def on_cluster(target: Target) -> list[str]:
    """The option that names the cluster, for every client command."""
    return [f"--clusters={target.text('cluster')}"] if target.text("cluster") else []


def escaped(path: str) -> str:
    """A path in which Slurm finds no filename pattern."""
    return path.replace("\\", "\\\\").replace("%", "%%")


def check(target: Target) -> None:
    """Raise UsageError for invalid options."""
    extra = target.options.get("extra") or ()
    if isinstance(extra, str) or not isinstance(extra, Sequence):
        _bad(target, "extra", "is no list of words")
    signal_s(target), environment(target)
    for option in ("time", "margin", "idle"):
        if target.text(option):
            seconds(target, option)


def _bad(target: Target, option: str, why: str) -> str:
    raise UsageError(f"launchers.{target.name}.{option}: {target.options.get(option)!r} {why}")
