"""`pkill`, `killall`, `ray` and `tmux` as a run sees them: they end processes of this run only.

They stand before the others on the PATH of a run, as launch scripts begin with `pkill -9 python; ray stop --force`. The
shells around such a command, and the Runner, are spared. What is no kill is passed on to the real program.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping

NAMES = ("pkill", "killall", "ray", "tmux")
_RUN_ID = "AUTORESEARCH_RUN_ID"  # as in `basics`: this file is a program by itself
_RAY = (b"raylet", b"gcs_server", b"plasma_store", b"ray::", b"/ray/")


def install(run_dir: str, env: dict[str, str]) -> None:
    """Put them before a run's PATH. Raises OSError."""
    folder = f"{run_dir}/shims"
    os.makedirs(folder, exist_ok=True)
    for name in NAMES:
        if not _real(name, env):
            continue
        words = shlex.join([sys.executable, "-I", "-S", os.path.abspath(__file__), name])
        with open(f"{folder}/{name}", "w", encoding="utf-8", opener=_executable) as file:
            file.write(f'#!/bin/sh\nexec {words} "$@"\n')
    env["PATH"] = f"{folder}{os.pathsep}{env.get('PATH', os.defpath)}"


def _executable(path: str, flags: int) -> int:
    return os.open(path, flags, 0o755)


def main(name: str, words: list[str]) -> int:
    """Do what the words ask for, within this run; returns an exit code."""
    if name == "tmux" and "kill-server" in words:
        sys.stderr.write("tmux kill-server ends every session of this user; within a run it does nothing\n")
        return 1
    if name == "ray" and words[:1] == ["stop"]:
        number = signal.SIGKILL if {"-f", "--force"} & set(words) else signal.SIGTERM
        _end([pid for pid in _of_run() if any(one in _read(pid, "cmdline") for one in _RAY)], number)
        return 0
    if name in ("ray", "tmux"):
        program = _real(name)
        if not program:
            sys.stderr.write(f"{name}: command not found\n")
            return 127
        os.execv(program, [name, *words])
    return _by_name(name, words)


def _by_name(name: str, words: list[str]) -> int:
    """`pkill` and `killall`: the processes that `pgrep` finds, as far as they are of this run."""
    import subprocess  # the Runner does without

    number, rest, asked = int(signal.SIGTERM), list[str](), iter(words)
    for word in asked:
        option, _, value = word.partition("=")
        if option == "--signal" or (name == "killall" and option == "-s"):
            word = f"-{value or next(asked, '')}"
        if match := re.match(r"-(?:SIG)?([A-Z][A-Z0-9]*|\d+)\Z", word):
            number = int(match[1]) if match[1].isdecimal() else int(getattr(signal, f"SIG{match[1]}", number))
        elif word not in ("-e", "--echo", "-q", "--quiet"):
            rest.append(word)
    pgrep, found, code = _real("pgrep"), set[int](), 1
    if not pgrep:
        sys.stderr.write(f"{name} asks pgrep (Debian: procps) within a run, and there is none: nothing was ended\n")
        return 127
    for pattern in [rest] if name == "pkill" else [["-x", one[:15]] for one in rest if one[:1] != "-"]:
        listed = subprocess.run([pgrep, *pattern], stdout=subprocess.PIPE, check=False)
        code = listed.returncode if listed.returncode > 1 else code
        found |= {int(line) for line in listed.stdout.split() if line.isdigit()}
    mine = found & set(_of_run())
    _end(mine, number)
    return 0 if mine else code


def _of_run() -> list[int]:
    """The processes of this run, without this one and those that it was started by."""
    spared, pid = set[int](), os.getpid()
    while pid > 1:
        spared.add(pid)
        pid = int((_read(pid, "stat").rpartition(b")")[2].split() or b"00")[1])
    mark = f"{_RUN_ID}={os.environ.get(_RUN_ID, '')}".encode()
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return [pid for pid in pids if pid not in spared and mark in _read(pid, "environ").split(b"\0")]


def _end(pids: list[int] | set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass  # gone


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _real(name: str, env: Mapping[str, str] = os.environ) -> str:
    """The program behind these on PATH; "" if there is none."""
    own = f"{env.get('AUTORESEARCH_RUN_DIR', '')}/shims"
    folders = [one for one in env.get("PATH", os.defpath).split(os.pathsep) if one and one != own]
    return next((f"{one}/{name}" for one in folders if os.access(f"{one}/{name}", os.X_OK)), "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
