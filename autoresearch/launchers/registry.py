"""Which launcher a target has, and which options it accepts; a mistake is reported before anything is written."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autoresearch.core.keys import seconds
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import UsageError
from autoresearch.launchers.gpus import words_of
from autoresearch.plugins import Registry
from autoresearch.runner.masking import mask_text

if TYPE_CHECKING:
    from autoresearch.core.run.job_launcher import JobLauncher

COMMON = {
    "python": "the interpreter of the Runner there; default: the trainer's",
    "gpus_per_run": "GPUs that each run gets; default: what the run says, else what its recipe asks for",
    "pending_limit": "how long a run may wait in a queue; default 24h",
    "poll": "how often its launcher is asked about all runs together; default every 2 s to 15 s",
}
COPIED = {  # options of an ssh host; lab/remote_files/{upload,remote_host,download}.py
    "root": "the directory there for code and runs; default ~/.cache/autoresearch",
    "venv": "the trainer's environment or python; default: the blueprint's path, else .venv or venv of the code there",
    "paths": "directories here -> the same there, such as {/data: /mnt/data}",
    "collect": "patterns of results that come back; default: every file of up to 100 MB",
    "collect_max_gb": "results that are larger stay there, and are named; default 5",
}

# Each a class, or a function: (Target, environment of this shell) -> JobLauncher. Its attribute `OPTIONS` (option ->
# description), if it has one, names what a target of this kind may say beside `COMMON`.
LAUNCHERS = Registry(
    "launchers",
    {
        Kind.SSH: "autoresearch.launchers.ssh:SshLauncher",
        Kind.SLURM: "autoresearch.launchers.slurm:SlurmLauncher",
        Kind.RAY: "autoresearch.launchers.ray:RayLauncher",
        Kind.KUBERNETES: "autoresearch.launchers.kubernetes:KubernetesLauncher",
    },
)


def options_of(launcher_kind: str) -> Mapping[str, str]:
    """Option -> its description."""
    if launcher_kind == Kind.LOCAL:
        return {}
    own = getattr(LAUNCHERS.get(launcher_kind), "OPTIONS", {})
    return {**COMMON, **(COPIED if launcher_kind == Kind.SSH else {}), **own}


def check(target: Target) -> None:
    """Raise UsageError for an option that the launcher does not have, that holds a secret, or that is invalid."""
    known = options_of(target.kind)
    for name, value in target.options.items():
        where = f"launchers.{target.name}.{name}"
        _refuse_secret(where, name, value, known=name in known)
        if name not in known and target.kind is not Kind.SLURM:  # which judges its own options itself
            import difflib

            near = difflib.get_close_matches(name, known, n=2)  # `prot` is as near to `root` as to `port`
            meant = " or ".join(sorted(near))
            hint = f"did you mean {meant}?" if near else f"known: {', '.join(sorted(known)) or 'none'}"
            raise UsageError(f"{where}: {target.kind} has no such option", hint=hint, code="bad_launcher")
        wrong = "says nothing" if value is None else _why_wrong(name, value)
        if wrong:
            raise UsageError(f"{where}: {wrong}", code="bad_launcher")


def _refuse_secret(where: str, name: str, value: Any, *, known: bool) -> None:
    """Raise UsageError if an option, or a nested value, holds a token or a password: the file is committed.

    known: its launcher has an option of that name, so only the value is judged.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _refuse_secret(f"{where}.{key}", str(key), inner, known=False)
    elif isinstance(value, list):
        for inner in value:
            _refuse_secret(where, name, inner, known=known)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        text = str(value) if known else f"{name}={value}"
        if mask_text(text) != text:
            message = f"{where} holds a secret, and this file is for everybody who has the repository"
            hint = "give it in the environment of the command (RAY_AUTH_TOKEN, an ssh agent, a kubeconfig)"
            raise UsageError(message, hint=f"take it out; {hint}", code="secret_in_file")


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, str | int | float) and not isinstance(value, bool) and 0 <= float(value) < math.inf
    except ValueError:
        return False


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_variable(name: Any) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*", str(name)) is not None


def _are_roots(value: Any) -> bool:
    return isinstance(value, Mapping) and all(str(path).startswith("/") for pair in value.items() for path in pair)


def _are_gpus(value: Any) -> bool:
    try:
        words_of(",".join(map(str, value)) if isinstance(value, list) else str(value))
    except UsageError:
        return False
    return True


# What options may hold, of whichever target: a check, and what is said of a value that fails it.
_DURATIONS = ("pending_limit", "poll", "time", "ttl")
_WHOLE = (lambda value: type(value) is int and value >= 0, "is no whole number of at least 0")
_NUMBER = (_is_number, "is no number of at least 0")
_BLOCK = (lambda value: isinstance(value, Mapping), "is no block of NAME: value")
_TEXTS = (
    lambda value: bool(value) and all(map(_is_text, value if isinstance(value, list) else [value])),
    "is no pattern",
)
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("python", "root", "venv", "address"), (_is_text, "is no text")),
    **dict.fromkeys(("collect_max_gb", "driver_gpus", "driver_cpus"), _NUMBER),
    **dict.fromkeys(("labels", "annotations", "pod_spec", "container_spec", "driver_resources"), _BLOCK),
    "environment": (lambda value: _BLOCK[0](value) and all(map(_is_variable, value)), _BLOCK[1]),
    "host": (lambda value: _is_text(value) and not value.startswith("-"), "is no host"),
    "gpus_per_run": _WHOLE,
    "gpus": (_are_gpus, "is neither none, all, a number, nor a list of indices or UUIDs"),
    "collect": _TEXTS,
    "paths": (_are_roots, "is no mapping of directories here to those there: {/data: /mnt/data}"),
    "shared": (lambda value: isinstance(value, bool), "is neither true nor false"),
}


def _why_wrong(name: str, value: Any) -> str:
    if name in _DURATIONS:
        try:
            seconds(value)
        except ValueError as error:
            return f"{error}; durations look like 90s, 20m or 24h"
        return ""
    fits, why = _CHECKS.get(name, (lambda _: True, ""))
    return "" if fits(value) else f"{value!r} {why}"


def launcher_of(target: Target, environ: Mapping[str, str]) -> JobLauncher:
    """The launcher of a target that is not local. Raises UsageError for invalid options."""
    check(target)
    made: JobLauncher = LAUNCHERS.get(target.kind)(target, environ)
    return made


def pinned(target: Target, environ: Mapping[str, str]) -> Target:
    """The target with settings from this shell's environment written into it: another shell may have others."""
    named = environ.get("RAY_API_SERVER_ADDRESS") or environ.get("RAY_ADDRESS")
    if target.kind is not Kind.RAY or target.options.get("address") or not named:
        return target
    return replace(target, options={**target.options, "address": named})
