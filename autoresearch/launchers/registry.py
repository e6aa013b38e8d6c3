"""Which launcher a target has, and which options it accepts."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from autoresearch.core.run.job_launcher import JobLauncher
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.launchers.options import check_value, refuse_secret
from autoresearch.plugins import PluginGroup, why_unlike

COMMON = {
    "python": "the interpreter of the Runner there; default: the trainer's",
    "gpus_per_run": "GPUs that each run gets; default: what the run says, else what its recipe asks for",
    "pending_limit": "how long a run may wait in a queue; default 24h",
    "poll": "how often its launcher is asked about all runs together; default every 2 s to 15 s",
}
COPIED = {  # options of a target without shared files; lab/remote_files/{upload,remote_host,download}.py
    "root": "the directory there for code and runs; default /ephemeral/autoresearch, else ~/.cache/autoresearch",
    "codebase": "remote: code and environment are the host's own, at the blueprint's paths; nothing is sent",
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


def make_launcher(target: Target, environ: Mapping[str, str]) -> JobLauncher:
    """What a plug-in offers: a class, or a function, that is called like this.

    Its attribute `OPTIONS` (option -> description) names what a target of this kind may say beside `COMMON` and
    `COPIED`; () for nothing. environ: of this shell.
    """
    raise NotImplementedError


PLUGINS = PluginGroup("launchers", make_launcher, (*Kind, "tmux", "k8s"), make=lambda offered: offered)


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
    return {**COMMON, **COPIED, **dict(getattr(own, "OPTIONS", ()))}


def _module(launcher_kind: str) -> ModuleType:
    return importlib.import_module(f"autoresearch.launchers.{_LAUNCHERS[Kind(launcher_kind)][0]}")


def check(target: Target) -> None:
    """Raise UsageError for an option that the launcher does not have, that holds a secret, or that is invalid."""
    known = options_of(target.kind)
    for name, value in target.options.items():
        where = f"launchers.{target.name}.{name}"
        refuse_secret(where, name, value, known=name in known)
        if name not in known:
            near = difflib.get_close_matches(name, known, n=2)  # `prot` is as near to `root` as to `port`
            meant = " or ".join(sorted(near))
            hint = f"did you mean {meant}?" if near else f"known: {', '.join(sorted(known)) or 'none'}"
            raise UsageError(f"{where}: {target.kind} has no such option", hint=hint, code="bad_launcher")
        check_value(where, name, value)


def launcher_of(target: Target, environ: Mapping[str, str], render: Render | None = None) -> JobLauncher:
    """The launcher of a target that is not local. Raises UsageError for invalid options.

    render: (template, values) -> manifest; for Kubernetes, whose templates belong to the lab.
    """
    check(target)
    if target.kind not in _LAUNCHERS:
        of_plugin: JobLauncher = _plugin(target.kind)(target, environ)
        if fault := why_unlike(of_plugin, JobLauncher):
            message = f"{PLUGINS.find(target.kind)} cannot be used: {fault}"
            raise EnvironmentUnusable(message, hint="repair or remove it", code="plugin_broken")
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
