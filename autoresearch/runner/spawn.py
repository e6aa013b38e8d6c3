"""Starts commands, builds their environments, and decodes how they ended."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterable, Mapping, Sequence

from . import shims
from .basics import RUN_ID, LaunchError, read_file
from .processes import join_new_keyring
from .spec import Spec

FOR_EVALUATION = "AUTORESEARCH_EVALUATION:"  # prefix of a variable's name in `environment`


class Command:
    """A bash command line, its working directory and environment; `inside`: sandbox program and options to prefix."""

    def __init__(self, line: str, cwd: str, env: Mapping[str, str], inside: Sequence[str] = ()) -> None:
        self.line = line
        self.cwd = cwd
        self.env = env
        self.inside = inside


def spawn(command: Command, log: int, keep: Iterable[int] = ()) -> int:
    """Start a command in a new session, with stdout and stderr to `log`; returns its pid. Raises LaunchError.

    `keep`: descriptors that it inherits.
    """
    argv = [*_without_gone(command.inside), "bash", "-c", with_hook(command.line, command.env)]
    reader, writer = os.pipe()
    every = signal.valid_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, every)  # a signal before exec would wake the parent's loop
    pid = os.fork()
    if pid == 0:
        cause, what = "exec_failed", "bash could not start it"
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
            cause, what = "bad_cwd", "its working directory cannot be entered"
            os.chdir(command.cwd or "/")
            cause, what = "exec_failed", f"{argv[0]} could not start it"
            if command.inside:
                join_new_keyring()
            os.execvpe(argv[0], argv, dict(command.env))
        except (OSError, ValueError) as error:
            os.write(writer, f"{cause}\n{what}: {error}".encode("utf-8", "replace")[:4000])
        finally:
            os._exit(127)
    os.close(writer)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    with open(reader, "rb") as pipe:  # closed by a successful exec
        cause, _, sentence = pipe.read().decode("utf-8", "replace").partition("\n")
    if cause:
        raise LaunchError(cause, sentence)
    return pid


def with_hook(line: str, env: Mapping[str, str]) -> str:
    """A line behind what it takes for granted of an interactive shell: that `conda activate` is known."""
    found = re.search(r"(?:^|[\s;&|(])(conda|mamba|micromamba)\s+(?:de)?activate\b", line)
    if not found:
        return line
    is_conda = found[1] == "conda"
    program = shlex.quote(env.get("CONDA_EXE" if is_conda else "MAMBA_EXE") or found[1])
    hook = f"{program} {'shell.bash hook' if is_conda else 'shell hook --shell bash'}"
    return f'command -v {program} > /dev/null && eval "$({hook})"; {line}'


def _without_gone(inside: Sequence[str]) -> list[str]:
    """bubblewrap's options without those that hide what is gone since they were made: it would refuse to start."""
    found, words = [], list(inside)
    while words:
        count = {"--tmpfs": 2, "--remount-ro": 2, "--ro-bind": 3, "--symlink": 3}.get(words[0], 1)
        option, words = words[:count], words[count:]
        source, place = option[1:2], option[-1]
        if count == 1 or os.path.lexists(place) or (count == 3 and [place] == source):
            found += option
    return found


def trainer_environment(run_dir: str, runner_spec: Spec) -> dict[str, str]:
    """The environment that the CLI wrote for the trainer (the file is removed), plus the Runner's own variables."""
    path = f"{run_dir}/environment"
    env = dict(os.environ)
    if os.path.exists(path):
        pairs = (os.fsdecode(item).partition("=") for item in read_file(path).split(b"\0") if b"=" in item[1:])
        env = {key: value for key, value in os.environ.items() if key.startswith(runner_spec.inherit)}
        env |= {key: value for key, _, value in pairs if not (key in env and key in runner_spec.yields)}
        os.unlink(path)
    for name in ("TMUX", "TMUX_PANE"):
        env.pop(name, None)
    env["PYTHONUNBUFFERED"] = "1"  # block buffering would delay the first step's line and lose the last ones of a crash
    env[RUN_ID] = runner_spec.run
    env["AUTORESEARCH_RUN_DIR"] = run_dir
    env["AUTORESEARCH_RESULT_DIR"] = runner_spec.result_dir
    env["AUTORESEARCH_CODEBASE"] = runner_spec.cwd
    if runner_spec.interpreter:
        _use_interpreter(os.path.dirname(runner_spec.interpreter), env)
    if not runner_spec.inside and os.path.exists("/proc/self/environ"):  # a sandbox has processes of its own
        try:
            shims.install(run_dir, env)
        except OSError as error:
            raise LaunchError("unwritable", f"the run directory cannot be written: {error.strerror}") from None
    return env


def _use_interpreter(bin_dir: str, env: dict[str, str]) -> None:
    """Make `python` mean the interpreter in a directory; where it does already, the environment stays as it is."""
    word = "python" if os.path.exists(f"{bin_dir}/python") else "python3"
    path = env.get("PATH", os.defpath)
    if next((one for one in path.split(os.pathsep) if os.access(f"{one}/{word}", os.X_OK)), "") == bin_dir:
        return
    env["PATH"] = bin_dir + os.pathsep + path
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"):
        env.pop(name, None)
    prefix = os.path.dirname(bin_dir)
    if os.path.exists(f"{prefix}/pyvenv.cfg"):
        env["VIRTUAL_ENV"] = prefix
        env.pop("PYTHONHOME", None)
    elif os.path.exists(f"{prefix}/conda-meta"):
        env["CONDA_PREFIX"] = prefix


def evaluation_environment(env: dict[str, str]) -> dict[str, str]:
    """The evaluation's environment: `env` plus its `FOR_EVALUATION` variables, which are removed from `env`."""
    own = {name: env.pop(name) for name in list(env) if name.startswith(FOR_EVALUATION)}
    return {**env, **{name[len(FOR_EVALUATION) :]: value for name, value in own.items()}}


def how_it_ended(status: int | None) -> tuple[int | None, int | None, str]:
    """Exit code as in a shell (128+n for signal n), signal number and description of a wait status; None: running."""
    if status is None:
        return None, None, "did not end"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return 128 + number, number, f"was ended by {signal.Signals(number).name}"
    code = os.WEXITSTATUS(status)
    known = {126: ": a file is not executable", 127: ": a command was not found"}
    return code, None, f"exited with {code}{known.get(code, '')}"
