"""One turn of a coding agent is a run: the Runner starts, limits, logs and ends it, with all that it started.

What it came to is read from its directory, by whoever is there when it is over: a controller that is killed meanwhile
is followed by one that takes the answer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.agents.agent import Agent, Answer, Spoken, Turn, TurnFault
from autoresearch.core.run.ending import Ending
from autoresearch.core.text.durations import spoken
from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.lab.agent_work.sandbox import PROGRAM, confined
from autoresearch.lab.agent_work.turn_dir import (
    PRINTED_BYTES,
    Level,
    TurnEnvironment,
    in_words,
    read_last,
    surroundings,
    turn_record,
    write_question,
    write_shell,
)
from autoresearch.lab.launch.runner_session import child_lives, start_child
from autoresearch.lab.resolve.run_names import new_token
from autoresearch.lab.runs.processes import sweep
from autoresearch.records import exit_record
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.files import locked, read_json
from autoresearch.records.hostile import read_plain
from autoresearch.records.order_file import request_stop
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint, is_locked

# Outside of the sandbox: the files, and how large each may become. The Runner's variables are for trainers.
_OUTER = 'ulimit -f "$1"; exec "${@:5}" < "$2" > "$3" 2> "$4"'
_INNER = "unset AUTORESEARCH_RUN_DIR AUTORESEARCH_RESULT_DIR AUTORESEARCH_CODEBASE"
LEFT_S = 1.0  # of grace, for what a Runner that died has left
_FLOOD = "flood"  # the cause of a stop
_NOT_RUN = (126, 127)  # what bash answers for a program that cannot be run
_ITS_OWN = f"{PROGRAM}: "  # begins what bubblewrap itself says, before it exits with 1
_FOR_US = (Ending.STOPPED, Ending.MAX_TIME)


class Pending(Exception):  # noqa: N818 - nothing went wrong
    """A job waits: for its turn or a guard command to be over, or for a time. It is done again then, from the start.

    What was done before is found in the directories of its turns, and not done twice.
    """


def begin_turn(agent: Agent, turn: Turn, turn_environment: TurnEnvironment) -> Answer | None:
    """Start a turn in its directory, where none was begun before; the answer at once where it cannot be asked.

    Raises EnvironmentUnusable where the sandbox cannot be made, OSError where a disk is full.
    """
    write_question(turn)
    env = surroundings(turn_environment.environ, needs=agent.needs(), keep=turn_environment.keep)
    env |= {**agent.environment(turn), "PWD": str(turn.cwd)}
    # two programs, where one of ours starts the agent (`acp`)
    names = dict.fromkeys((agent.argv(turn)[0], agent.program()))
    programs = {name: shutil.which(name, path=env.get("PATH", os.defpath)) or "" for name in names}
    if absent := [name for name in programs if not programs[name]]:
        why = f"{absent[0]} is not installed, not executable, or not on PATH"
        return Answer(fault=TurnFault.NOT_INSTALLED, message=why)
    failpoint("turn.begun")
    spec = _spec(agent, turn, turn_environment, env, tuple(programs.values()))
    env.pop("BASH_ENV", None)  # a bash of ours starts the agent
    start_child(RunDir(Path(turn.directory)), spec, env)
    return None


def answer_turn(agent: Agent, turn: Turn, turn_environment: TurnEnvironment) -> Answer:
    """What a turn that is over came to; how it can fail is a fault of the answer.

    Raises EnvironmentUnusable where the sandbox could not be made, OSError where a disk was full.
    """
    record = exit_record.read(RunDir(Path(turn.directory)))
    clear(turn)
    if record is not None and record.error_kind == "disk_full":
        raise OSError(errno.ENOSPC, record.error)
    answer = answer_of(agent, turn, turn_environment.printed_bytes)
    if turn_environment.level is Level.BUBBLEWRAP and not answer.text and answer.message.startswith(_ITS_OWN):
        raise EnvironmentUnusable(
            f"the agent cannot be confined: {answer.message}",
            hint="`--set sandbox=off` runs it without one; its changes are still checked",
            code="sandbox_failed",
        )
    return answer


def answer_of(agent: Agent, turn: Turn, most: int = PRINTED_BYTES) -> Answer:
    """What a turn that is over came to: what the agent's own file makes of its words, and what its Runner recorded.

    At most `most` bytes of what it printed are kept.
    """
    record = exit_record.read(RunDir(Path(turn.directory)))
    fault, why = _early_end(record, turn)
    for file in (Path(turn.out_file), Path(turn.err_file)):
        if _size(file) >= most:
            fault, why = fault or TurnFault.FLOOD, why or f"it printed more than {most >> 20} MiB"
            os.truncate(file, most)
    code = None
    if record is not None and record.ending not in _FOR_US:
        code = -record.signal if record.signal else record.returncode
    out, err = (read_plain(Path(file), most) for file in (turn.out_file, turn.err_file))
    words = Spoken(out, err, code, read_last(turn), fault, record.duration_s if record else 0.0)
    answer = agent.read(turn, words)
    fault, message = answer.fault or fault, answer.message
    if why:
        message = f"{why}; its last words: {message}" if message else why
    elif fault in (None, TurnFault.ENDED, TurnFault.SILENT) and code in _NOT_RUN:
        fault, message = TurnFault.NOT_INSTALLED, message or _last_line(err)
    elif code is not None and code < 0:
        fault = fault or TurnFault.ENDED
        message = message or f"it was killed by signal {-code}"
    if fault is TurnFault.ENDED and not message:
        message = _last_line(read_plain(RunDir(Path(turn.directory)).log)) or "it failed without a word"
    return replace(answer, fault=fault, message=message, usage=replace(answer.usage, seconds=words.seconds))


def is_over(rundir: RunDir, most: int = 0) -> bool:
    """Whether a turn, or a guard command, is over; one that printed more than `most` bytes is told to end.

    Where a Runner died, or never began, what it left is ended and recorded. Its lock is held meanwhile, and then there
    is a record: a Runner that begins only now starts nothing.
    """
    lives = child_lives(rundir)
    if rundir.exit_record.exists() and not lives:
        return True
    files = (rundir.path / "out", rundir.path / "err") if most else ()
    if any(_size(file) >= most for file in files) and not rundir.stop.exists():
        request_stop(rundir, f"it printed more than {most >> 20} MiB", cause=_FLOOD, durable=False)
    if lives:
        return False
    if is_locked(rundir.lock):
        return False
    with locked(rundir.lock, blocking=False) as alone:
        run = str((read_json(rundir.spec) or {}).get("run", ""))
        if alone and run and not rundir.exit_record.exists():
            sweep(run, LEFT_S)
            rundir.environment.unlink(missing_ok=True)
            if not exit_record.recover(rundir, run):
                exit_record.write(rundir, ExitRecord(run, Ending.LOST, "its Runner died, or never began"))
    return alone


def clear(turn: Turn) -> None:
    """Remove the temporary files of a turn that is over."""
    spec = read_json(RunDir(Path(turn.directory)).spec) or {}
    with contextlib.suppress(EnvironmentUnusable, KeyError, TypeError):  # it was set aside
        wipe(Path(spec["turn"]["scratch"]))


def _early_end(record: ExitRecord | None, turn: Turn) -> tuple[TurnFault | None, str]:
    """What ended it, if that was not the agent itself; and why, in words."""
    if record is None or record.ending is Ending.LOST:
        return TurnFault.LOST, "its Runner was killed"
    if record.ending is Ending.MAX_TIME:
        return TurnFault.TIMEOUT, f"it took longer than {spoken(turn.bounds.seconds)}"
    if record.ending is Ending.STOPPED:
        return (TurnFault.FLOOD, record.reason) if record.cause == _FLOOD else (TurnFault.STOPPED, "")
    if record.ending is Ending.LAUNCH_FAILED or record.cause == "runner_error":
        return TurnFault.ENDED, record.reason
    if signal.SIGXFSZ in (record.signal, (record.returncode or 0) - 128):
        return TurnFault.FLOOD, "it wrote a larger file than it may"
    return None, ""


def _spec(
    agent: Agent, turn: Turn, turn_environment: TurnEnvironment, env: dict[str, str], programs: tuple[str, ...]
) -> dict[str, Any]:
    """spec.json: the agent's command line, in the sandbox if there is one. `env` gets its temporary directory."""
    argv, confines = agent.argv(turn), turn_environment.level is Level.BUBBLEWRAP
    if confines:
        scratch = Path(turn.directory) / "tmp"
        scratch.mkdir(mode=0o700, exist_ok=True)
    else:  # a short path, as sockets may be put there
        scratch = Path(tempfile.mkdtemp(prefix="ar-turn-"))
        env |= {"TMPDIR": str(scratch), "TMUX_TMPDIR": str(scratch)}
    in_shells = write_shell(turn, turn_environment.interpreter, env)
    exports = [f"export {name}={shlex.quote(value)}" for name, value in in_shells.items()]
    files = (turn.prompt_file, turn.out_file, turn.err_file)
    inside = ["bash", "-c", _OUTER, "turn", str(turn_environment.file_bytes >> 10), *map(str, files)]
    if confines:
        cell = turn_environment.cell(Path(turn.cwd), scratch, env, *programs)
        homes = tuple(Path(home) for home in agent.homes(env))
        inside += confined((), replace(cell, writes=turn.role.writes, turn=Path(turn.directory), homes=homes))
    return {
        "schema": 1,
        "run": f"turn-{new_token()}{new_token()}",
        "command": in_words(argv),
        "start": "; ".join([_INNER, *exports, f"exec {shlex.join(argv)}"]),
        "inside": inside,
        "cwd": str(turn.cwd),
        "limits": {"max_s": turn.bounds.seconds, "grace_s": turn_environment.grace_s},
        "turn": turn_record(turn, agent=agent.name, level=turn_environment.level, scratch=str(scratch)),
    }


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size  # no link's: it may be cut
    except OSError:
        return 0


def _last_line(text: bytes) -> str:
    lines = text[-4096:].decode(errors="replace").strip().splitlines()
    return lines[-1][:500] if lines else ""
