"""The guard: commands that must succeed on an agent's patch before any GPU time is spent on it.

Each runs under a Runner of its own, as a trainer does: so its time is limited, its process tree ends with it, its
output is kept, and it outlives a controller that is killed. The code that it runs is an agent's: it sees no secret and
no GPU.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.diagnosis.failure import Diagnosis
from autoresearch.core.run.ending import Ending
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace
from autoresearch.lab.agent_work.turn import Pending, is_over
from autoresearch.lab.agent_work.turn_dir import surroundings
from autoresearch.lab.launch.runner_session import start_child
from autoresearch.lab.resolve.import_proof import import_environment
from autoresearch.lab.results.explain import Explanation, explain_log
from autoresearch.records import exit_record
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint
from autoresearch.runner.masking import mask_text

GRACE_S = 2.0
SHOWN = 20  # lines of a guard's output


@dataclass(frozen=True, slots=True)
class FailedGuard:
    """The guard command that failed, and why in words."""

    command: str
    why: str
    log: Path | None = None  # what it printed; None where there was no time left for it


def explain_guard(log: Path) -> Explanation:
    """Why a guard command failed: the exception or the first failed test, and the end of what it printed."""
    explanation = explain_log(log, None, SHOWN)
    cause, traceback = explanation.diagnosis.cause, mask_text(explanation.diagnosis.traceback)
    return Explanation(log, Diagnosis(cause, traceback=traceback), (), tail=explanation.tail)


def guard(workspace: EditWorkspace, directory: Path) -> FailedGuard | None:
    """Run the guard commands in the clean worktree as it is now; None where all succeeded. Raises Pending until then.

    `directory`: of the turn; each command gets `guard-<n>` in it. `spec.guard_s` is for all of them together.
    """
    left = workspace.spec.guard_s
    for number, command in enumerate(workspace.spec.guard, 1):
        rundir = RunDir(directory / f"guard-{number}")
        if not rundir.spec.exists():
            if left <= 0:
                why = f"there was no time left for the guard `{mask_text(command)}`"
                return FailedGuard(command, f"{why} (limit {workspace.spec.guard_s:g} s)")
            _start(workspace, rundir, command, left)
        if not is_over(rundir):
            raise Pending
        end, before = exit_record.read(rundir), rundir.path.with_name(f"{rundir.path.name}.ended")
        if end is not None and end.ending in (Ending.STOPPED, Ending.LOST) and not before.exists():
            rundir.path.rename(before)  # by a reboot, perhaps: once more
            return guard(workspace, directory)
        if end is None or end.ending is not Ending.FINISHED:
            return FailedGuard(command, _reason(workspace, command, rundir, end), rundir.log)
        left -= end.duration_s
    return None


def entered(workspace: EditWorkspace) -> set[str]:
    """Directories of the clean worktree that the guard commands start in, name, or run a program of."""
    tree = workspace.clean.path.resolve()
    words = re.findall(r"[\w./+-]{1,200}", "\n".join(workspace.spec.guard))
    named = {(tree / workspace.codebase / word).resolve() for word in words}
    directories = {path if path.is_dir() else path.parent for path in named}
    return {str(path.relative_to(tree)) for path in directories if path.is_relative_to(tree)}


def _start(workspace: EditWorkspace, rundir: RunDir, command: str, limit_s: float) -> None:
    wipe(rundir.path)
    rundir.path.mkdir(parents=True)
    place = workspace.worktree_paths[1]
    spec = {
        "schema": 1,
        "run": f"guard-{uuid.uuid4().hex[:12]}",
        "command": mask_text(command),
        "start": workspace.confined(command, place),
        "cwd": str(place / workspace.codebase),
        "interpreter": workspace.interpreter,
        "limits": {"max_s": limit_s, "grace_s": GRACE_S},
    }
    failpoint("research.guarding")
    environ = surroundings(workspace.environment, keep=("PYTHONPATH",))
    environ |= {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}  # pytest cuts what it says of a test to the width
    start_child(rundir, spec, import_environment(environ, place))  # the worktree's packages are found first


def _reason(workspace: EditWorkspace, command: str, rundir: RunDir, end: ExitRecord | None) -> str:
    name = mask_text(command)
    if end is None:
        return f"the guard `{name}` left no record of its end: {rundir.path}"
    if end.ending is Ending.MAX_TIME:
        how = f"did not end within {workspace.spec.guard_s:g} s"
    elif end.ending is Ending.STOPPED:
        how = "was stopped"
    elif end.returncode is not None:
        how = f"exited with {end.returncode}"
    else:
        how = f"failed: {mask_text(end.reason)}"
    explanation = explain_guard(rundir.log)
    cause, said = explanation.diagnosis.cause, "\n".join(explanation.tail)
    if cause is not None:
        return f"the guard `{name}` {how}: {cause.line}" + (f", raised at {cause.where}" if cause.where else "")
    return f"the guard `{name}` {how}" + (f":\n{said}" if said else "")
