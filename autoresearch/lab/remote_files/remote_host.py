"""A host without access to the local files, queried through its Reach by a program sent along with each request."""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from subprocess import PIPE
from typing import Any

from autoresearch.core.run.job_launcher import Declined, ProgramOutput, Reach, Unreachable
from autoresearch.core.run.targets import Target
from autoresearch.git_repo.checkout import Checkout, locate
from autoresearch.launchers.shared import program

# The interpreter of a run on a host without shared files: where to search for it, and the error if there is none.


@dataclass(frozen=True, slots=True)
class InterpreterSearch:
    """Where to search for a run's interpreter: the target's option, else the blueprint's path, else the code's
    .venv.
    """

    target: Target
    interpreter: str  # as in the blueprint
    codebase: Path | None = None  # of the run; None if unknown
    prepared: bool = False  # a `prepare` command of the run may create it

    @property
    def code(self) -> str:
        """Name of the run's remote code directory; "" if unknown. Raises Declined if the code is in no repository."""
        return code_name(checkout_of(self.codebase).root) if self.codebase else ""

    @property
    def paths(self) -> list[str]:
        """Paths of interpreters or virtual environments; `{code}` is the run's remote code directory."""
        if named := self.target.text("venv"):
            return [named]
        return [self.interpreter, "{code}/.venv", "{code}/venv"] if self.codebase else [self.interpreter]

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
            "interpreter", root=self.target.text("root"), code=self.code, interpreters=self.paths, within_s=60.0
        )
        if not found["interpreter"] and not self.prepared:
            raise self.missing()
        return str(found["interpreter"])


def checkout_of(directory: Path) -> Checkout:
    """The checkout whose code is sent along with a directory. Raises Declined without one."""
    checkout = locate(directory)
    if isinstance(checkout, Checkout):
        return checkout
    raise Declined(
        f"code is sent by `git push`, and {checkout}",
        code="no_repository",
        hint=f"commit it: cd {directory} && git init && git add -A && git commit -m start",
    )


def code_name(root: Path) -> str:
    """Name of the directory for a repository's code, below `code/` of a target."""
    key = sha256(str(root).encode()).hexdigest()[:10]
    return f"{plain_word(root.name)}-{key}"


def plain_word(text: str) -> str:
    """A text as one plain directory name."""
    return re.sub(r"[^\w.-]+", "_", text, flags=re.ASCII).strip(".") or "x"


LONGEST_S = 6 * 3600.0  # of a push, a checkout, or a copy of all results
_CODES = {errno.ENOSPC: "disk_full", errno.EDQUOT: "disk_full", errno.EROFS: "read_only"}
_CODES |= dict.fromkeys((errno.EACCES, errno.EPERM), "not_writable")


class RemoteHost:
    """Files and programs of one target; create one per run, it keeps nothing but the interpreter's path."""

    def __init__(self, reach: Reach, target: Target) -> None:
        self.reach = reach
        self.target = target

    @cached_property
    def python(self) -> str:
        """The interpreter that answers there."""
        return str(self.reach.call("probe", programs=[])["executable"])

    def ask(self, op: str, *, within_s: float = 300.0, **arguments: object) -> dict[str, Any]:
        """The answer of an operation of `runner.remote_files`. Raises Declined if it cannot be done, Unreachable."""
        try:
            answer = self.reach.call(op, within_s=within_s, **arguments) or {}
        except OSError as error:
            why = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            answer = {"error": why, "code": _CODES.get(error.errno or 0, "file_trouble")}
        self.refuse(answer)
        return answer

    def put(self, directory: str, files: Mapping[str, bytes], *, private: tuple[str, ...] = ()) -> None:
        """Write files on the host; raises Declined if its disk is full or not writable."""
        if files:
            self.ask("put", directory=directory, files=dict(files), private=list(private))

    def fetch(self, path: Path, **arguments: object) -> None:
        """Write the archive of `remote_files.results` into a file here. Raises Unreachable if its end is missing."""
        words = self.reach.command([self.python, "-S", "-E", "-s", "-"])
        with (
            path.open("wb") as file,
            subprocess.Popen(words, 0, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True) as process,
        ):
            assert process.stdin and process.stdout and process.stderr
            timer = threading.Timer(LONGEST_S, process.kill)
            timer.start()
            try:
                with contextlib.suppress(BrokenPipeError):  # it has ended already, and says why
                    process.stdin.write(program("agent.remote_files.results(**ARGUMENTS)", ARGUMENTS=arguments))
                process.stdin.close()
                shutil.copyfileobj(process.stdout, file)  # through this process, with which it ends
                said = ProgramOutput(process.wait(), err=process.stderr.read())
            finally:
                timer.cancel()
                process.kill()
        if said.returncode:
            raise Unreachable(f"{self.target.name}: its results were cut: {said.complaint}", code="cut")

    def refuse(self, answer: Mapping[str, Any]) -> None:
        """Raise Declined if `runner.remote_files` answered with an error."""
        if "error" in answer:
            raise Declined(f"{self.target.name}: {answer['error']}", code=answer["code"], hint=hint_of(answer["code"]))


def hint_of(code: str) -> str:
    """What to do about what a host refused."""
    if code == "disk_full":
        return "make room there, or give the target another `root:`"
    return "give the target another `root:`" if code in ("not_writable", "read_only") else ""
