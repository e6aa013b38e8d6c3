"""What the machine has for a run, checked before anything is written: GPUs, and processes that outlive a command.

In a coding agent's sandbox a run is lost silently: tmux exits with 0 and its session dies with the command, or git's
directory cannot be written. Such a command is refused, with the command to use instead.
"""

from __future__ import annotations

import shutil
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity, error, warning
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.run.targets import Target
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.core.shell import ELSEWHERE, SimpleCommand
from autoresearch.core.text.regex import later
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.parts import Parts
from autoresearch.lab.settings import Settings
from autoresearch.launchers import gpus, host_sandbox_check
from autoresearch.launchers.program import install_line
from autoresearch.runner.gpu_lease import visible
from autoresearch.trainers import ray_job

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


def too_few_at(count: int, target: Target, remote_gpus: RemoteGpus) -> tuple[Finding, ...]:
    """An error if fewer GPUs are requested of a target than a run needs; only its launcher knows whether it has them.
    """
    given = remote_gpus.at(target)
    if not given or count <= given:
        return ()
    message = f"the run asks for {_gpus(count)}, and {target.name} is asked for {given}"
    return (error(0, TOO_FEW, message, f"--gpus {count}, or `gpus_per_run` of that target; {_ANYWAY}"),)


def too_few_here(count: int, leased: int, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """An error if a run needs more GPUs than it is leased (0: it leases none) or this machine has.

    A warning if others use them now.
    """
    asks = f"the run asks for {_gpus(count)}, and"
    if leased:
        hint = f"--gpus {count}, or a recipe or command that asks for less; {_ANYWAY}"
        return (error(0, TOO_FEW, f"{asks} this run is given {leased}", hint),) if count > leased else ()
    found = visible(gpus.find(), environ)
    if count <= len(found):
        free = len(found) - len(gpus.taken(found, environ))
        hint = f"wait, or lease them, so that no other run of ours takes them: --gpus {count}"
        busy = warning(0, "gpus_busy", f"{asks} {free} of {len(found)} are free now", hint)
        return (busy,) if count > free else ()
    here = f"{asks} {f'this machine has {_gpus(len(found))}' if found else 'nvidia-smi shows none here'}"
    if _ray_runs(environ):
        hint = "the Ray cluster that runs here may have them on its other nodes, which were not looked at"
        return (warning(0, TOO_FEW, here, hint),)
    return (error(0, TOO_FEW, here, f"lower it, or run it where there are more: --launcher PLACE; {_ANYWAY}"),)


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
    """How many GPUs commands use: the processes of their launchers, or what a setting of the program's own says."""
    here = (one for one in commands if one.may_train and not one.elsewhere and one.name not in ELSEWHERE)
    shown = (one for one in here if one.environment.get(_VISIBLE, "0") not in ("", "-1"))
    return max((_processes(one, read) for one in shown), default=0)


def _is_own(key: str) -> bool:
    """Whether a key, or the name of a flag, says how many GPUs a program takes: `trainer.n_gpus_per_node`."""
    return _OWN.fullmatch(key.lstrip("-+").rpartition(".")[2].replace("-", "_")) is not None


def _number(value: object) -> int:
    return int(str(value)) if str(value).isdecimal() else 0


def _processes(simple: SimpleCommand, read: Callable[[SimpleCommand, str], Recipe]) -> int:
    """The processes that a launcher starts on this machine, or the GPUs of a program; 0 if it does not say."""
    argv = simple.argv
    module = argv[argv.index("-m") + 1 :][:1] if "-m" in argv else []
    option = next((_PROCESSES[one] for one in (argv[0].rpartition("/")[2], *module) if one in _PROCESSES), None)
    found: dict[str, str] = {}
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        name, joined, value = word.partition("=")
        found.setdefault(name.replace("_", "-"), value if joined else following)
    if option is None:
        own = [value for key, value in found.items() if (key[:2] == "--" or "." in key) and _is_own(key)]
        return 0 if any("$" in value for value in own) else max(map(_number, own), default=0)
    if option == "--num-processes" and option not in found and (path := found.get("--config-file")):
        found |= {f"--{key.replace('_', '-')}": str(value) for key, value in read(simple, path).items()}
    count = 0 if "--cpu" in found else _number(found.get(option, ""))
    return count // max(1, _number(found.get("--num-machines", "1")))  # accelerate counts those of all machines


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
    refuse(host_sandbox_check.findings(host_sandbox_check.look(parts.environ)), parts)


def check_local(tmux_socket: str | None, parts: Parts, checkout: Checkout | None = None) -> None:
    """Refuse if nothing can be started here, or its code not be committed to `checkout` (None: no repository is
    written).

    tmux_socket: None where nothing would be left of a start that tmux refuses, so that it need not be asked before.
    """
    if tmux_socket is not None:
        refuse(parts.launcher(tmux_socket).preflight(), parts)
    for git_dir in {checkout.git_dir, checkout.common_dir} if checkout else ():
        if host_sandbox_check.forbids_writing(git_dir):
            refuse([host_sandbox_check.git_is_read_only(git_dir)], parts)
    if shutil.which("bash") is None:
        raise EnvironmentUnusable("bash is not on PATH; launch commands run as `bash -c`", code="no_bash")


def refuse(findings: Iterable[Finding], parts: Parts) -> None:
    """Raise EnvironmentUnusable for the first error."""
    bad = next((finding for finding in findings if finding.severity is Severity.ERROR), None)
    if bad is None:
        return
    fix = install_line("tmux") if bad.code == "no_tmux" else ""
    if bad.hint == host_sandbox_check.REMEDY:
        fix = host_sandbox_check.way_out(host_sandbox_check.look(parts.environ), parts.environ)
    raise EnvironmentUnusable(bad.message, code=bad.code, hint=bad.hint, fix=fix)
