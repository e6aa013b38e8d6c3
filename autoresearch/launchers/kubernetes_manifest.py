"""A run's manifest: the values for the templates, and the parts that no template can omit."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

from autoresearch.core.run.job_launcher import Job
from autoresearch.core.run.targets import Target
from autoresearch.core.text.durations import parse_duration
from autoresearch.errors import UsageError
from autoresearch.launchers.kubernetes_names import object_name

WORKLOADS = ("job", "rayjob")
AFTER_GRACE_S = 60.0  # for the Runner's cleanup and record, after the trainer's grace
MARGIN_S = 300.0  # the Runner's own limits apply first
PRE_RUNNING = "30m"
TTL = "1h"
_UNPACK = "import os,sys,tarfile;tarfile.open(sys.argv[1]).extractall('/');os.execvp(sys.argv[2],sys.argv[2:])"


def checked(target: Target) -> str:
    """Validate a target's options and return its workload. Raises UsageError that names the option."""
    workload = target.text("workload", "job")
    if workload not in WORKLOADS:
        raise _wrong(target, "workload", f"{workload!r} is none of {', '.join(WORKLOADS)}")
    if not target.text("image") and not target.text("template"):
        raise _wrong(target, "image", "is missing: pods are made of an image", "image: registry.example.org/trainer:1")
    if target.text("claim") and not target.text("mount").startswith("/"):
        raise _wrong(target, "mount", "must say where pods have the claim, as an absolute path")
    if not target.text("claim") and (target.text("mount") or target.text("local")):
        raise _wrong(target, "claim", "is missing, and `mount` or `local` is given: name the PersistentVolumeClaim")
    if target.text("codebase", "sent") != "sent":
        raise _wrong(target, "codebase", "pods are not there before their run, so that none can be asked: it is sent")
    _check_root(target)
    for option in ("pre_running_deadline", "ttl"):
        _seconds(target, option, "1s")
    for option in ("labels", "annotations", "node_selector"):
        mapping(target, option)
    if not isinstance(target.options.get("tolerations") or [], list):
        raise _wrong(target, "tolerations", "must be a list, as a pod has it")
    for option in ("gpus", "workers"):
        if not target.text(option, "0").isdecimal():
            raise _wrong(target, option, f"{target.text(option)!r} is no number")
    return workload


def _check_root(target: Target) -> None:
    mount, root = target.text("mount").rstrip("/"), target.text("root").rstrip("/")
    apart = not target.text("claim") or target.text("local", mount).rstrip("/") != mount
    if apart and not root.startswith("/"):
        why = "is missing: code and runs go to a directory of the pods"
        raise _wrong(target, "root", why, f"root: {mount or ''}/autoresearch")
    if apart and mount and not root.startswith(f"{mount}/"):
        raise _wrong(target, "root", f"{root} is not below `mount`, which is {mount}")


def values(target: Target, job: Job) -> dict[str, Any]:
    """The values for the templates; named as the target's options where they mean the same."""
    names = ("image", "service_account", "pull_secret", "env_from_secret", "claim", "mount", "ray_version")
    root = target.text("root").rstrip("/")
    name = object_name(job.run, job.attempt)
    shipped = f"{root}/shipped/{name}"
    argv = [*job.argv]
    if not target.text("claim"):
        argv = [argv[0], "-W", "ignore", "-c", _UNPACK, f"{shipped}/files.tgz", *argv]
    pod_cwd = (
        "" if not target.text("claim") else job.cwd
    )  # without a claim it exists only after the archive is unpacked
    return {
        **{option: target.text(option) for option in names},
        "name": name,
        "argv": argv,
        "cwd": pod_cwd,
        "environment": [{"name": key, "value": value} for key, value in job.environment.items()],
        "directory": root,
        "shipped": shipped,
        "secret": name,
        "told": f"{root}/told-{name}",
        "entrypoint": _entrypoint(argv, job, "" if target.text("claim") else f"{root}/told-{name}"),
        "runtime_env": {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(math.ceil(job.grace_s + AFTER_GRACE_S))}},
        "grace_s": math.ceil(job.grace_s + AFTER_GRACE_S),
        "deadline_s": math.ceil(job.max_s + MARGIN_S),
        "pre_running_s": _seconds(target, "pre_running_deadline", PRE_RUNNING),
        "ttl_s": _seconds(target, "ttl", TTL),
        "gpus": int(target.text("gpus") or job.gpus),
        "workers": int(target.text("workers", "0")),
        "node_selector": mapping(target, "node_selector"),
        "tolerations": target.options.get("tolerations") or [],
        "limits": lambda gpus: _limits(target, gpus),
    }


def _entrypoint(argv: list[str], job: Job, entrypoint: str) -> str:
    """A RayJob's command. Only the Runner gets the run id: other processes with it would be swept as leftovers."""
    own = [f"{key}={value}" for key, value in job.environment.items()]
    line = "exec " + shlex.join(["env", *own, *argv])
    return f"{line} >>{shlex.quote(entrypoint)} 2>&1" if entrypoint else line


def _limits(target: Target, gpus: int) -> dict[str, object]:
    given = {"cpu": target.text("cpus"), "memory": target.text("memory")}
    return {**{key: value for key, value in given.items() if value}, **({"nvidia.com/gpu": gpus} if gpus else {})}


def mapping(target: Target, option: str) -> dict[str, str]:
    """An option that maps names to texts; {} if not given. Raises UsageError for anything else."""
    value = target.options.get(option) or {}
    if not isinstance(value, Mapping):
        raise _wrong(target, option, "must be a mapping of names to values")
    return {str(key): str(item) for key, item in value.items()}


def stamp(item: dict[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
    """Set labels and annotations on an object or a pod template, over its own."""
    about = item.setdefault("metadata", {})
    about["labels"] = {**(about.get("labels") or {}), **labels}
    if annotations:
        about["annotations"] = {**(about.get("annotations") or {}), **annotations}


def pods_of(made: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pod templates of a Job or RayJob; the first one is the Runner's. Raises UsageError without one."""
    spec = made.get("spec") or {}
    cluster = spec.get("rayClusterSpec") or {}
    groups = [cluster.get("headGroupSpec"), *(cluster.get("workerGroupSpecs") or [])] if cluster else [spec]
    found = [group["template"] for group in groups if isinstance((group or {}).get("template"), dict)]
    if not found:
        raise UsageError("the template of a Kubernetes target makes no pod: spec.template is missing")
    return found


def _seconds(target: Target, option: str, default: str) -> int:
    text = target.text(option, default)
    try:
        return max(1, math.ceil(parse_duration(text)))
    except ValueError as error:
        raise _wrong(target, option, str(error), "durations look like 30s, 20m or 24h") from error


def _wrong(target: Target, option: str, why: str, hint: str = "") -> UsageError:
    return UsageError(f"launchers.{target.name}.{option}: {why}", hint=hint, code="bad_launcher")
