"""The errors that stop a command, each with its exit code.

    AutoresearchError        1  internal (only ever raised as a subclass)
    ├── UsageError           2  the command line is invalid
    │   └── InputMissing     2  a metric or a search space that nobody can guess
    ├── BlueprintError       3  a blueprint or a recipe is invalid
    ├── NotFoundError        4  no such run, file or campaign
    ├── ConflictError        5  something is in the way: a live run, a branch, a lock
    ├── EnvironmentUnusable  6  no tmux, a sandbox, an unwritable directory, an agent that is not installed
    └── ResearcherFailed     7  a coding agent gave no usable answer: login, quota, timeout, invalid output

Expected endings of a run are not errors: they are `core.run.ending.Ending`.
"""

from __future__ import annotations

import shlex


class AutoresearchError(Exception):
    """An error that stops a command; `message` is one sentence, `hint` says what to do."""

    exit_code = 1
    code = "internal"

    def __init__(self, message: str, *, hint: str = "", fix: str = "", code: str = "", setting: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.setting = setting  # the KEY=VALUE with which the same command would do, or ""
        self.fix = f"{fix} --set {shlex.quote(setting)}" if setting else fix  # one command line to type, or ""
        if code:
            self.code = code  # a stable code for programs, e.g. "no_tmux"


class UsageError(AutoresearchError):
    """The command line, the environment or autoresearch.yaml contains an invalid value."""

    exit_code = 2
    code = "usage"


class InputMissing(UsageError):  # noqa: N818 - as EnvironmentUnusable
    """Nobody can guess what is `missing`: `add` are the lines that give it, `add_to` the file for them."""

    def __init__(self, message: str, *, missing: str, add: str, add_to: str, **more: str) -> None:
        super().__init__(message, **more)
        self.missing, self.add, self.add_to = [missing], [add], add_to


class BlueprintError(AutoresearchError):
    """The blueprint, or the recipe that it names, is invalid."""

    exit_code = 3
    code = "blueprint_invalid"


class NotFoundError(AutoresearchError):
    """No run, file or campaign has the given name."""

    exit_code = 4
    code = "not_found"


class ConflictError(AutoresearchError):
    """The object already exists, is still running, or is held by someone else."""

    exit_code = 5
    code = "conflict"


class EnvironmentUnusable(AutoresearchError):  # noqa: N818 - it names a state, not an accident
    """This machine, shell or sandbox does not support the command."""

    exit_code = 6
    code = "environment"


class ResearcherFailed(AutoresearchError):  # noqa: N818 - as above
    """A coding agent gave no usable answer."""

    exit_code = 7
    code = "researcher_failed"
