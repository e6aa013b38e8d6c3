"""Whether `nrl-k8s` accepts a launch command; checked before anything is written, if the command runs locally."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping

from autoresearch.errors import BlueprintError, EnvironmentUnusable
from autoresearch.trainers import nrl_k8s

NRL_S = 60.0  # seconds; it loads recipes by omegaconf, which imports a lot


def check_nrl(command: str, cwd: str, environment: Mapping[str, str]) -> None:
    """Refuse a launch that `nrl-k8s` would refuse, or whose tools are missing; contacts no cluster."""
    run = nrl_k8s.find(command)
    if run is None:
        return
    inside = "KUBERNETES_SERVICE_HOST" in environment  # in a pod it needs no kubectl
    for tool in ("nrl-k8s",) if inside else ("nrl-k8s", "kubectl"):
        if shutil.which(tool, path=environment.get("PATH")) is None:
            message = f"{tool} is not on PATH, and the launch command needs it"
            raise EnvironmentUnusable(message, code=f"no_{tool.replace('-', '_')}", hint=f"install {tool}")
    if any(set(word) & set("$`*") for word in run.check):  # only a shell can expand these words
        return
    words = [str(shutil.which(run.check[0], path=environment.get("PATH"))), *run.check[1:]]
    try:
        said = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=cwd,
            env=dict(environment),
            timeout=NRL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentUnusable(f"nrl-k8s check gave no answer: {error}", code="nrl_check_failed") from error
    if said.returncode != 0:
        lines = (said.stderr or said.stdout).decode("utf-8", "replace").strip().splitlines()
        reason = lines[0] if lines else f"exit code {said.returncode}"
        raise BlueprintError(f"nrl-k8s check refuses it: {reason}", hint=shlex.join(run.check), code="nrl_check_failed")
