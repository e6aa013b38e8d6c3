"""Every way a command can stop, each with its exit code.

    AutoresearchError        1  internal (only ever raised as a subclass)
    ├── UsageError           2  the command line cannot be understood
    ├── BlueprintError       3  a blueprint or a recipe is invalid
    ├── NotFoundError        4  no such run, file or campaign
    ├── ConflictError        5  something is in the way: a live run, a branch, a lock
    ├── EnvironmentUnusable  6  no tmux, a sandbox, an unwritable directory, an agent that is not installed
    └── ResearcherFailed     7  a coding agent gave no usable answer: login, quota, time, nonsense

Expected endings of a run are not errors: they are `core.run.ending.Ending`.
"""

from __future__ import annotations


class AutoresearchError(Exception):
    """Something that stops a command; `message` is one sentence, `hint` says what to do."""

    exit_code = 1
    code = "internal"

    def __init__(self, message: str, *, hint: str = "", fix: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fix = fix  # one command line to type, or ""
        if code:
            self.code = code  # a stable word for programs, e.g. "no_tmux"


class UsageError(AutoresearchError):
    """The command line, the environment or autoresearch.yaml holds a value that cannot be used."""

    exit_code = 2
    code = "usage"


class BlueprintError(AutoresearchError):
    """The blueprint or the recipe it names cannot be run as it is."""

    exit_code = 3
    code = "blueprint_invalid"


class NotFoundError(AutoresearchError):
    """Nothing answers to the name that was given."""

    exit_code = 4
    code = "not_found"


class ConflictError(AutoresearchError):
    """The thing exists already, is alive, or is held by somebody else."""

    exit_code = 5
    code = "conflict"


class EnvironmentUnusable(AutoresearchError):  # noqa: N818 - it names a state, not an accident
    """This machine, shell or sandbox cannot do what was asked."""

    exit_code = 6
    code = "environment"


class ResearcherFailed(AutoresearchError):  # noqa: N818 - as above
    """A coding agent was asked and gave nothing that can be used."""

    exit_code = 7
    code = "researcher_failed"
