"""Short queries to local programs: tmux -V, git --version, nvidia-smi."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

ANSWER_S = 10.0
_INSTALL = {
    "apt-get": "apt-get install -y",
    "dnf": "dnf install -y",
    "apk": "apk add",
    "pacman": "pacman -S --noconfirm",
    "brew": "brew install",
}


def output(program: str, *arguments: str, timeout_s: float = ANSWER_S) -> str | None:
    """Its stdout, whatever its exit code; None if it is missing or does not answer in time."""
    path = shutil.which(program)
    if not path:
        return None
    command = [path, *arguments]
    try:
        said = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout


def version(program: str, flag: str) -> str:
    """The version in the first line, such as `3.3a`, `next-3.6` or `master`; "" without the program."""
    words = (output(program, flag) or "").partition("\n")[0].split()[1:]
    numbered = [word for word in words if re.search(r"\d\.\d", word)]
    return next(iter(numbered or words), "")


def is_older(version: str, minimum: tuple[int, int]) -> bool:
    """Whether `3.1c` is older than (3, 2). A version without a number (`master`) never is."""
    numbers = re.search(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < minimum


def install_line(*packages: str) -> str:
    """The command that installs packages on this machine; "" for an unknown package manager."""
    tool = next((tool for tool in _INSTALL if shutil.which(tool)), "")
    if not tool:
        return ""
    sudo = "" if tool == "brew" or os.geteuid() == 0 else "sudo "
    return f"{sudo}{_INSTALL[tool]} {' '.join(packages)}"
