"""Which launcher a target has, and which options it accepts; a mistake is reported before anything is written."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from autoresearch.core.run.targets import Kind, Target
from autoresearch.core.text.durations import parse_duration, problem
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.plugins import PluginGroup
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
    "root": "the directory there for code and runs; default /ephemeral/autoresearch, else ~/.cache/autoresearch",
    "venv": "the trainer's environment there; default: the blueprint's path, else .venv or venv of the code there",
    "interpreter": "the trainer's interpreter there, instead of `venv`",
    "min_free_gb": "a run is declined where less is free; default 1",
    "paths": "directories here -> the same there, such as {/data: /mnt/data}",
    "collect": "patterns of results that come back; default: all but checkpoints and weights",
    "collect_max_gb": "results that are larger stay there, and are named; default 5",
}

Render = Callable[[str, Mapping[str, object]], dict[str, Any]]
_LAUNCHERS = {  # module in this package and its launcher; imported when a target of that kind is used
    Kind.SSH: ("ssh", "SshLauncher"),
    Kind.SLURM: ("slurm", "launcher_of"),
    Kind.RAY: ("ray", "RayLauncher"),
    Kind.KUBERNETES: ("kubernetes", "KubernetesLauncher"),
}


# A plug-in is a class, or a function: (Target, environment of this shell) -> JobLauncher. Its attribute `OPTIONS`
# (option -> description), if it has one, names what a target of this kind may say beside `COMMON`. They see our files.
PLUGINS = PluginGroup("launchers", (*Kind, "tmux", "k8s"), made=False)


def _plugin(launcher_kind: str) -> Any:
    """What the plug-in with this name offers. EnvironmentUnusable if there is none, or if it is broken."""
    if (offered := PLUGINS.get(launcher_kind)) is None:
        raise EnvironmentUnusable(
            f"the launcher {launcher_kind} is a plug-in, and none with this name is installed here",
            hint="`autoresearch doctor` lists the plug-ins of this environment",
            code="plugin_missing",
        )
    return offered


def options_of(launcher_kind: str) -> Mapping[str, str]:
    """Option -> its description."""
    if launcher_kind == Kind.LOCAL:
        return {}
    own = _module(launcher_kind) if launcher_kind in _LAUNCHERS else _plugin(launcher_kind)
    return {**COMMON, **(COPIED if launcher_kind == Kind.SSH else {}), **dict(getattr(own, "OPTIONS", ()))}


def _module(launcher_kind: str) -> ModuleType:
    return importlib.import_module(f"autoresearch.launchers.{_LAUNCHERS[Kind(launcher_kind)][0]}")


def check(target: Target) -> None:
    """Raise UsageError for an option that the launcher does not have, that holds a secret, or that is invalid."""
    known = options_of(target.kind)
    for name, value in target.options.items():
        where = f"launchers.{target.name}.{name}"
        _refuse_secret(where, name, value, known=name in known)
        if name not in known:
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


# What options may hold, of whichever target: a check, and what is said of a value that fails it.
_DURATIONS = ("pending_limit", "poll", "time", "margin", "ttl")
_WHOLE = (lambda value: type(value) is int and value >= 0, "is no whole number of at least 0")
_NUMBER = (_is_number, "is no number of at least 0")
_SECONDS = (lambda value: _is_number(value) and 0 < float(value) < 3600, "is no number of seconds")
_COUNT = (lambda value: str(value).isdecimal(), "is no whole number")
_LIST = (lambda value: isinstance(value, list | tuple), "is no list")
_BLOCK = (lambda value: isinstance(value, Mapping), "is no block of NAME: value")
_PORT = (lambda value: str(value).isdecimal() and 0 < int(str(value)) < 65536, "is no port: 1 to 65535")
_TEXTS = (
    lambda value: bool(value) and all(map(_is_text, value if isinstance(value, list) else [value])),
    "is no pattern",
)
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("python", "user", "root", "venv", "interpreter"), (_is_text, "is no text")),
    **dict.fromkeys(("address", "partition"), (_is_text, "is no text")),
    **dict.fromkeys(("min_free_gb", "collect_max_gb", "driver_gpus", "driver_cpus"), _NUMBER),
    **dict.fromkeys(("connect_timeout", "keepalive"), _SECONDS),
    "signal": _COUNT,
    **dict.fromkeys(("extra", "tolerations"), _LIST),
    **dict.fromkeys(("labels", "annotations", "node_selector", "driver_resources"), _BLOCK),
    "environment": (lambda value: _BLOCK[0](value) and all(map(_is_variable, value)), _BLOCK[1]),
    "host": (lambda value: _is_text(value) and not value.startswith("-"), "is no host"),
    "gpus_per_run": _WHOLE,
    "port": _PORT,
    "collect": _TEXTS,
    "paths": (_are_roots, "is no mapping of directories here to those there: {/data: /mnt/data}"),
    "shared": (lambda value: isinstance(value, bool), "is neither true nor false"),
}


def _why_wrong(name: str, value: Any) -> str:
    if name in _DURATIONS:
        return _why_no_duration(value)
    fits, why = _CHECKS.get(name, (lambda _: True, ""))
    return "" if fits(value) else f"{value!r} {why}"


def _why_no_duration(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return f"{value!r} is no time; durations look like 90s, 20m or 24h"
    try:
        wrong = problem(parse_duration(value) if isinstance(value, str) else float(value))
    except ValueError as error:
        return f"{error}; durations look like 90s, 20m or 24h"
    return f"{value!r} {wrong}" if wrong else ""


def launcher_of(target: Target, environ: Mapping[str, str], render: Render | None = None) -> JobLauncher:
    """The launcher of a target that is not local. Raises UsageError for invalid options.

    render: (template, values) -> manifest; for Kubernetes, whose templates belong to the lab.
    """
    check(target)
    if target.kind not in _LAUNCHERS:
        of_plugin: JobLauncher = _plugin(target.kind)(target, environ)
        return of_plugin
    more = (render,) if target.kind is Kind.KUBERNETES else ()
    made: JobLauncher = getattr(_module(target.kind), _LAUNCHERS[Kind(target.kind)][1])(target, environ, *more)
    return made


def pinned(target: Target, environ: Mapping[str, str]) -> Target:
    """The target with settings from this shell's environment written into it: another shell may have others."""
    named = environ.get("RAY_API_SERVER_ADDRESS") or environ.get("RAY_ADDRESS")
    if target.kind is not Kind.RAY or target.options.get("address") or not named:
        return target
    return replace(target, options={**target.options, "address": named})
