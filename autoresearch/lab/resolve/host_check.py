"""What the machine has for a run, checked before anything is written: GPUs, and processes that outlive a command.

In a coding agent's sandbox a run is lost silently: tmux exits with 0 and its session dies with the command, or git's
directory cannot be written. Such a command is refused, with the command to use instead.
"""

from __future__ import annotations

import shutil
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.blueprint.finding import Finding, Severity, error, errors, warning
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.run.targets import Declined, Kind, Target, Unreachable, kind_of
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.core.shell import ELSEWHERE, SimpleCommand
from autoresearch.core.text.regex import later
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.parts import Parts
from autoresearch.lab.settings import Settings
from autoresearch.launchers import gpus, host_sandbox_check
from autoresearch.launchers.program import install_line
from autoresearch.plugins import PluginGroup
from autoresearch.trainers import ray_job

if TYPE_CHECKING:
    from autoresearch.lab.remote_files.remote_host import InterpreterSearch

# Whether the GPUs that a recipe or a command asks for exist and are free; checked before a branch is created.

TOO_FEW = "too_few_gpus"
_HERE = ("127.0.0.1", "localhost", "::1", "", None)
_STARTS_RAY = ("agentjet", "verl", "nemo_rl")  # by `ray.init`, which joins a running cluster
_PROCESSES: Mapping[str, str] = {  # of programs that start a process for each GPU: the option that says how many
    **dict.fromkeys(("torchrun", "torch.distributed.run", "torch.distributed.launch", "tune"), "--nproc-per-node"),
    "accelerate": "--num-processes",
    "deepspeed": "--num-gpus",
}
_OWN = later(r"(?!max_)(?:\w+_)?(?:n_?|num_)?gpus(?:_per_node)?|nproc(?:_per_node)?|(?:num_)?devices")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ANYWAY = "--no-gpu-check (of a campaign: `--set gpu_check=false`) starts it all the same"


@dataclass(frozen=True, slots=True)
class RemoteGpus:
    """How many GPUs to request from the launcher of a remote target."""

    flag: int | None = None  # from the flag of this run
    usual: int = 0  # from its campaign or recipe

    def at(self, target: Target) -> int:
        """The number for a target: the flag, else the target's own option, else the usual one."""
        own = target.options.get("gpus_per_run")
        return self.flag if self.flag is not None else own if isinstance(own, int) else self.usual


def remote_gpus(settings: Settings, count: int, of_campaign: int | None) -> RemoteGpus:
    """The GPU request for remote targets.

    `count`: what the recipe asks for; `of_campaign`: what a campaign gives each run, if it says. Raises UsageError for
    a flag that names GPUs of this machine.
    """
    value = settings.values["gpus"]
    usual = count if of_campaign is None else of_campaign
    if not value.source.startswith("flag"):
        return RemoteGpus(None, usual)
    if value.text != "none" and not value.text.isdecimal():
        message = f"--gpus {value.text} is about the GPUs of this machine, and the run goes elsewhere"
        raise UsageError(message, hint="--gpus N asks for so many there")
    return RemoteGpus(0 if value.text == "none" else int(value.text), usual)


def elsewhere(settings: Settings, count: int) -> str:
    """The declared targets that may have so many GPUs, as flags to choose from; "" without any."""
    found = []
    for name, block in settings.launchers.items():
        own = block.get("gpus_per_run")
        kind = kind_of(str(block.get("kind", name)), PluginGroup("launchers"))
        if kind is not Kind.LOCAL and not (isinstance(own, int) and own < count):
            found.append(f"--launcher {name}")
    return " or ".join(found[:4])


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """The GPUs that a launch needs. `given`: how many it is leased, 0 if it leases none."""

    count: int
    leased: int = 0
    elsewhere: str = ""  # flags that would take it where there are more

    @property
    def _asks(self) -> str:
        return f"the run asks for {_gpus(self.count)}, and"

    def at(self, target: Target, remote_gpus: RemoteGpus) -> tuple[Finding, ...]:
        """An error if fewer are requested of a target than needed; only its launcher knows whether it has them."""
        given = remote_gpus.at(target)
        if not given or self.count <= given:
            return ()
        message = f"{self._asks} {target.name} is asked for {given}"
        return (error(0, TOO_FEW, message, f"--gpus {self.count}, or `gpus_per_run` of that target; {_ANYWAY}"),)

    def compared(self, environ: Mapping[str, str]) -> tuple[Finding, ...]:
        """An error if this machine has too few, a warning if others use them now."""
        if self.leased:
            hint = f"--gpus {self.count}, or a recipe or command that asks for less; {_ANYWAY}"
            few = error(0, TOO_FEW, f"{self._asks} this run is given {self.leased}", hint)
            return (few,) if self.count > self.leased else ()
        found = gpus.visible(gpus.find(), environ)
        free = len(found) - len(gpus.taken(found, environ)) if self.count <= len(found) else 0
        if self.count <= len(found):
            hint = f"wait, or lease them, so that no other run of ours takes them: --gpus {self.count}"
            busy = warning(0, "gpus_busy", f"{self._asks} {free} of {len(found)} are free now", hint)
            return (busy,) if self.count > free else ()
        here = f"{self._asks} {f'this machine has {_gpus(len(found))}' if found else 'nvidia-smi shows none here'}"
        if _ray_runs(environ):
            hint = "the Ray cluster that runs here may have them on its other nodes, which were not looked at"
            return (warning(0, TOO_FEW, here, hint),)
        there, are = self.elsewhere or "--launcher PLACE", "is one" if self.count == 1 else f"are {self.count}"
        return (error(0, TOO_FEW, here, f"lower it, or run it where there {are}: {there}; {_ANYWAY}"),)


def needed(
    trainer: Trainer,
    whole: Recipe,
    command: str,
    environ: Mapping[str, str],
    commands: Iterable[SimpleCommand],
    read: Callable[[SimpleCommand, str], Recipe] = lambda *_: {},
) -> int:
    """GPUs needed on this machine; 0 if nothing says, or if a remote Ray cluster provides them.

    The recipe's word comes first, then those of the commands that start processes, then keys that name GPUs in the
    recipe of a trainer that we do not know. read: the YAML file that a command names.
    """
    job = ray_job.find(command)
    address = (job.address if job else "") or environ.get("RAY_API_SERVER_ADDRESS") or environ.get("RAY_ADDRESS") or ""
    host = urllib.parse.urlsplit(address if "://" in address else f"//{address}").hostname
    if address not in ("auto", "local") and host not in _HERE:
        return 0
    if (known := trainer.gpus(whole)) is not None:
        return known
    keys = {} if trainer.named else flatten({**whole, "hydra": None})  # its launcher has GPUs of its own
    beside = {key: str(keys.get(f"{key.rpartition('.')[0]}.accelerator".lstrip("."))) for key in keys}
    own = [_number(value) for key, value in keys.items() if _is_own(key) and beside[key] not in ("auto", "cpu")]
    return started(commands, read) or max(own, default=0)


def started(commands: Iterable[SimpleCommand], read: Callable[[SimpleCommand, str], Recipe] = lambda *_: {}) -> int:
    """How many GPUs commands use: the processes of their launchers, or what a setting of the program's own says.

    Else the GPUs that CUDA_VISIBLE_DEVICES names.
    """
    most, named, exported = 0, set[str](), ""
    for one in commands:
        if one.elsewhere or one.name in ELSEWHERE:
            continue
        if one.name == "export":
            exported = next((word for word in one.words if word.startswith(f"{_VISIBLE}=")), exported)
            continue
        visible = one.environment.get(_VISIBLE, exported.partition("=")[2] if exported else None)
        known = visible is not None and "$" not in visible
        ids = [word.strip() for word in (visible or "").split(",")]
        if not one.may_train or (known and ids[0] in ("", "-1")):
            continue
        count = _processes(one, read)
        most = max(most, count or 0)
        if count is None and known:
            named |= set(ids)
    return max(most, len(named))


def _is_own(key: str) -> bool:
    """Whether a key, or the name of a flag, says how many GPUs a program takes: `trainer.n_gpus_per_node`."""
    return _OWN.fullmatch(key.lstrip("-+").rpartition(".")[2].replace("-", "_")) is not None


def _number(value: object) -> int:
    return int(str(value)) if str(value).isdecimal() else 0


def _processes(simple: SimpleCommand, read: Callable[[SimpleCommand, str], Recipe]) -> int | None:
    """The processes that a launcher starts on this machine, or the GPUs of a program; None if it does not say."""
    argv = simple.argv
    module = argv[argv.index("-m") + 1 :][:1] if "-m" in argv else []
    option = next((_PROCESSES[one] for one in (argv[0].rpartition("/")[2], *module) if one in _PROCESSES), None)
    found: dict[str, str] = {}
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        name, joined, value = word.partition("=")
        found.setdefault(name.replace("_", "-"), value if joined else following)
    if option is None:
        own = [value for key, value in found.items() if (key[:2] == "--" or "." in key) and _is_own(key)]
        return None if any("$" in value for value in own) else max(map(_number, own), default=0) or None
    if option == "--num-processes" and option not in found and (path := found.get("--config-file")):
        found |= {f"--{key.replace('_', '-')}": str(value) for key, value in read(simple, path).items()}
    if option == "--num-gpus" and option not in found and (places := found.get("--include")):  # `localhost:0,1@b:2`
        return max(len(place.split(",")) if ":" in place else 0 for place in places.split("@")) or None
    count = found.get(option, "")
    if "--cpu" in found or not count.isdecimal():
        return 0 if "--cpu" in found or count == "cpu" else None
    machines = found.get("--num-machines", "1")  # accelerate counts the processes of all of them
    return int(count) // max(1, int(machines) if machines.isdecimal() else 1)


def joins(trainer: str, command: str, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """A warning if the trainer would join a Ray cluster that runs on this machine without being asked to."""
    asked = environ.get("RAY_ADDRESS") or ray_job.find(command) or "--with-ray-cluster" in command
    if trainer not in _STARTS_RAY or asked or not _ray_runs(environ):
        return ()
    message = f"a Ray cluster runs on this machine: {trainer} would join it, with all that is left in it"
    hint = "end it where it is a leftover (`ray status`), or say that it is meant: `- env: RAY_ADDRESS=auto`"
    return (warning(0, "ray_is_up", message, hint),)


def _ray_runs(environ: Mapping[str, str]) -> bool:
    """Whether `ray start` left its address here, which any `ray.init` joins (ray/_private/utils.py)."""
    place = environ.get("RAY_TMPDIR") or environ.get("TMPDIR") or "/tmp"
    return (Path(place) / "ray" / "ray_current_cluster").exists()


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs" if count else "no GPU"


def check_sandbox(parts: Parts) -> None:
    """Refuse to run in a sandbox, before its other limits (a home that cannot be written ...) cause misleading
    errors.
    """
    _refuse(host_sandbox_check.findings(host_sandbox_check.look(parts.environ)), parts)


def check_local(tmux_socket: str | None, parts: Parts, checkout: Checkout | None = None) -> None:
    """Refuse if nothing can be started here, or its code not be committed to `checkout` (None: no repository is
    written).

    tmux_socket: None where nothing would be left of a start that tmux refuses, so that it need not be asked before.
    """
    if tmux_socket is not None:
        _refuse(parts.launcher(tmux_socket).preflight(), parts)
    for git_dir in {checkout.git_dir, checkout.common_dir} if checkout else ():
        if host_sandbox_check.forbids_writing(git_dir):
            _refuse([host_sandbox_check.git_is_read_only(git_dir)], parts)
    if shutil.which("bash") is None:
        raise EnvironmentUnusable("bash is not on PATH; launch commands run as `bash -c`", code="no_bash")


def check_remote(target: Target, parts: Parts, search: InterpreterSearch | None = None) -> tuple[Finding, ...]:
    """Refuse if a run could not be sent: a missing tool, an invalid option, no interpreter.

    Returns the remaining findings, which do not prevent the run.
    """
    findings = remote_findings(target, parts, search)
    _refuse(findings, parts)
    return tuple(findings)


def remote_findings(target: Target, parts: Parts, search: InterpreterSearch | None = None) -> list[Finding]:
    """All problems of a target now, prefixed with its name; an unreachable one is an error too.

    `search`: the interpreter that must exist there; skipped for pods (their image has it) and for shared files.
    """
    if target.is_local:
        return []
    launcher = parts.launcher_for(target, parts.environ)
    try:
        findings = launcher.preflight()
        if search and not errors(findings) and not launcher.reach.shared and target.kind is not Kind.KUBERNETES:
            search.run(launcher.reach)
    except (Unreachable, Declined) as no:
        findings = [Finding(Severity.ERROR, no.code, no.reason, no.hint)]
    finally:
        launcher.reach.close()
    named = f"{target.name}: "
    return [one if one.message.startswith(named) else replace(one, message=named + one.message) for one in findings]


def _refuse(findings: list[Finding], parts: Parts) -> None:
    bad = next((finding for finding in findings if finding.severity is Severity.ERROR), None)
    if bad is None:
        return
    fix = install_line("tmux") if bad.code == "no_tmux" else ""
    if bad.hint == host_sandbox_check.REMEDY:
        fix = host_sandbox_check.way_out(host_sandbox_check.look(parts.environ), parts.environ)
    raise EnvironmentUnusable(bad.message, code=bad.code, hint=bad.hint, fix=fix)
