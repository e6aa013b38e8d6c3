"""Starting a command, and reading how it ended."""

from __future__ import annotations

import os
import signal

from .basics import RUN_ID, read_file
from .spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class LaunchError(Exception):
    """The trainer's first instruction was not reached; args: a word for programs, a sentence for people."""


def spawn(command: str, cwd: str, env: Mapping[str, str], log: int, keep: Iterable[int] = ()) -> int:
    """Start `bash -c command` in a session of its own, writing to `log`; its pid, or LaunchError.

    `keep`: descriptors that it inherits.
    """
    reader, writer = os.pipe()
    every = signal.valid_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, every)  # a signal before exec would wake the parent's loop
    pid = os.fork()
    if pid == 0:
        cause = "exec_failed"
        try:
            signal.set_wakeup_fd(-1)
            for number in every - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            for fd in keep:
                os.set_inheritable(fd, True)
            cause = "bad_cwd"
            os.chdir(cwd or "/")
            cause = "exec_failed"
            os.execvpe("bash", ["bash", "-c", command], dict(env))
        except (OSError, ValueError) as error:
            os.write(writer, f"{cause}\n{error}".encode("utf-8", "replace")[:4000])
        finally:
            os._exit(127)
    os.close(writer)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    said = read_all(reader)
    if said:
        cause, _, message = said.decode("utf-8", "replace").partition("\n")
        what = "its working directory cannot be entered" if cause == "bad_cwd" else "bash could not start it"
        raise LaunchError(cause, f"{what}: {message}")
    return pid


def read_all(fd: int) -> bytes:
    """Everything until the other side closes; closes the descriptor."""
    parts = []
    while part := os.read(fd, 4096):
        parts.append(part)
    os.close(fd)
    return b"".join(parts)


def trainer_environment(run_dir: str, spec: Spec) -> dict[str, str]:
    """The environment that the CLI left for the trainer (read once, then removed), with ours added to it."""
    path = os.path.join(run_dir, "environment")
    if os.path.exists(path):
        raw = read_file(path)
        os.unlink(path)
        pairs = (os.fsdecode(item).partition("=") for item in raw.split(b"\0") if b"=" in item[1:])
        env = {key: value for key, _, value in pairs}
    else:
        env = dict(os.environ)
    for name in ("TMUX", "TMUX_PANE"):
        env.pop(name, None)
    env["PYTHONUNBUFFERED"] = "1"  # block buffering hides the first step, and a crash's last words
    env[RUN_ID] = spec.run
    env["AUTORESEARCH_RUN_DIR"] = run_dir
    env["AUTORESEARCH_RESULT_DIR"] = spec.result_dir
    if spec.interpreter:
        bin_dir = os.path.dirname(spec.interpreter)
        env["PATH"] = bin_dir + os.pathsep + env.get("PATH", os.defpath)
        env.pop("VIRTUAL_ENV", None)
        if os.path.exists(os.path.join(os.path.dirname(bin_dir), "pyvenv.cfg")):
            env["VIRTUAL_ENV"] = os.path.dirname(bin_dir)
            env.pop("PYTHONHOME", None)
    return env


def exit_code(status: int) -> int:
    """The shell's reading of a wait status: 128+n for signal n."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def term_signal(status: int) -> int | None:
    """The signal that ended a process, None if it exited."""
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else None


def how_it_ended(code: int | None, number: int | None) -> str:
    """The end of a process in words."""
    if code is None:
        return "did not end"
    if number is not None:
        return f"was ended by {signal.Signals(number).name}"
    known = {126: ": a file is not executable", 127: ": a command was not found"}
    return f"exited with {code}{known.get(code, '')}"
