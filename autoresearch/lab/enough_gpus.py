"""Whether the GPUs that a recipe asks for are here and free; asked before a branch is made."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.finding import Finding, Severity
from autoresearch.core.trainer import Recipe, Trainer
from autoresearch.launchers import gpus
from autoresearch.trainers import ask, ray_job

TOO_FEW = "too_few_gpus"
_HERE = ("127.0.0.1", "localhost", "::1", "", None)
_STARTS_RAY = ("agentjet", "verl", "nemo_rl")  # by `ray.init`, which joins one that is there
_ANYWAY = "--no-gpu-check starts it all the same"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a launch asks for. `given`: how many GPUs it is leased, 0 where it leases none."""

    count: int
    given: int = 0

    def compared(self, environ: Mapping[str, str]) -> tuple[Finding, ...]:
        """An error where it can never have them, a warning where others have them now."""
        asks = f"the recipe asks for {_gpus(self.count)}"
        if self.given:
            if self.count <= self.given:
                return ()
            message = f"{asks}, and this run is given {self.given}"
            return (_error(message, f"--gpus {self.count}, or a recipe that asks for less; {_ANYWAY}"),)
        found = gpus.visible(gpus.find(), environ)
        if self.count > len(found):
            here = f"this machine has {_gpus(len(found))}, {asks}"
            here = here if found else f"{asks}, and nvidia-smi shows none here"
            if _ray_runs(environ):
                hint = "the Ray cluster that runs here may have them on its other nodes; nobody looked"
                return (Finding(Severity.WARNING, TOO_FEW, here, hint),)
            return (_error(here, f"lower it, or run it where there are {self.count}; {_ANYWAY}"),)
        free = len(found) - len(gpus.taken(found, environ))
        if self.count > free:
            message = f"{asks}, and {free} of {len(found)} are free now"
            hint = f"wait, or lease them, so that no other run of ours takes them: --gpus {self.count}"
            return (Finding(Severity.WARNING, "gpus_busy", message, hint),)
        return ()


def checks(word: str) -> bool:
    """Whether the setting `gpu_check` says so."""
    return word.strip().lower() not in ("no", "off", "false", "0")


def wanted(trainer: Trainer, whole: Recipe, command: str, environ: Mapping[str, str]) -> int:
    """GPUs that it needs on this machine; 0 where it says nothing, or where a Ray elsewhere has them."""
    job = ray_job.find(command)
    address = (job.address if job else "") or environ.get("RAY_API_SERVER_ADDRESS") or environ.get("RAY_ADDRESS") or ""
    host = urllib.parse.urlsplit(address if "://" in address else f"//{address}").hostname
    if address not in ("auto", "local") and host not in _HERE:
        return 0
    return ask.gpus(trainer, whole) or 0


def joins(trainer: str, command: str, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """A warning where the trainer would begin in a Ray cluster that somebody left here, unasked."""
    asked = environ.get("RAY_ADDRESS") or ray_job.find(command) or "--with-ray-cluster" in command
    if trainer not in _STARTS_RAY or asked or not _ray_runs(environ):
        return ()
    message = f"a Ray cluster runs on this machine: {trainer} would join it, with all that is left in it"
    hint = "end it where it is a leftover (`ray status`), or say that it is meant: `- env: RAY_ADDRESS=auto`"
    return (Finding(Severity.WARNING, "ray_is_up", message, hint),)


def _ray_runs(environ: Mapping[str, str]) -> bool:
    """Whether `ray start` left its address here, which any `ray.init` joins (ray/_private/utils.py)."""
    place = environ.get("RAY_TMPDIR") or environ.get("TMPDIR") or "/tmp"
    return (Path(place) / "ray" / "ray_current_cluster").exists()


def _error(message: str, hint: str) -> Finding:
    return Finding(Severity.ERROR, TOO_FEW, message, hint)


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs" if count else "no GPU"
