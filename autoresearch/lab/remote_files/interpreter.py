"""The interpreter of a run on a host without shared files: where to search for it, and the error if there is none."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.run.job_launcher import Declined, Reach
from autoresearch.core.run.targets import Target
from autoresearch.lab.remote_files.code_files import root_of
from autoresearch.lab.remote_files.remote_host import RemoteHost


@dataclass(frozen=True, slots=True)
class InterpreterSearch:
    """Where to search for a run's interpreter: the target's option, else the blueprint's path, else the code's
    .venv.
    """

    target: Target
    interpreter: str  # as in the blueprint
    code: str  # name of the run's remote code directory; "" if unknown, or if the code is the host's own
    prepared: bool = False  # a `prepare` command of the run may create it

    @property
    def paths(self) -> list[str]:
        """Paths of interpreters or virtual environments; `{code}` is the run's remote code directory."""
        if named := self.target.text("interpreter") or self.target.text("venv"):
            return [named]
        return [self.interpreter, "{code}/.venv", "{code}/venv"] if self.code else [self.interpreter]

    def missing(self) -> Declined:
        """The error if none of them exists."""
        name = self.target.name
        other = ", and its copy of the code has no .venv" if len(self.paths) > 1 else ""
        return Declined(
            f"{name}: the interpreter {self.paths[0]} is not there{other}",
            code="missing_interpreter",
            hint=f"make the environment there, and name it: launchers: {{{name}: {{venv: /path/to/venv}}}}",
        )

    def run(self, reach: Reach) -> str:
        """Its remote path; "" if a `prepare` command may create it. Changes nothing remotely. Raises Declined,
        Unreachable.
        """
        found = RemoteHost(reach, self.target).ask(
            "interpreter", root=self.target.text("root"), code=self.code, interpreters=self.paths, timeout_s=60.0
        )
        if not found["interpreter"] and not self.prepared:
            raise self.missing()
        return str(found["interpreter"])


def search_for(target: Target, interpreter: str, codebase: Path, prepare: Collection[str]) -> InterpreterSearch:
    """The search for a run's interpreter; `prepare`: its commands that run before the trainer."""
    remote = target.text("codebase") == "remote"
    code = "" if remote else code_name(root_of(codebase))
    return InterpreterSearch(target, interpreter, code, prepared=bool(prepare) and not remote)


def code_name(root: Path) -> str:
    """Name of the directory for a repository's code, below `code/` of a target."""
    key = hashlib.sha256(str(root).encode()).hexdigest()[:10]
    return f"{plain_word(root.name)}-{key}"


def plain_word(text: str) -> str:
    """A text as one plain directory name."""
    return re.sub(r"[^\w.-]+", "_", text, flags=re.ASCII).strip(".") or "x"
