"""A host without access to the local files, queried through its Reach by a program sent along with each request."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from subprocess import PIPE
from typing import Any

from autoresearch.core.run.job_launcher import Declined, ProgramOutput, Reach, Unreachable
from autoresearch.core.run.targets import Target
from autoresearch.git_repo.checkout import Checkout, locate

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
        if named := self.target.text("interpreter") or self.target.text("venv"):
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
            "interpreter", root=self.target.text("root"), code=self.code, interpreters=self.paths, timeout_s=60.0
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


REMOTE_FILES = Path(__file__).parents[2] / "runner" / "remote_files.py"
PYTHONS = ("python3", *(f"python3.{minor}" for minor in range(14, 8, -1)), "/usr/bin/python3")
LEAST = (3, 9)
_PROBE = "import sys; print(sys.executable, *sys.version_info[:2])"
LONGEST_S = 6 * 3600.0  # of one copy of all results


class RemoteHost:
    """Files and programs of one target; create one per run, it keeps nothing but the interpreter's path."""

    def __init__(self, reach: Reach, target: Target) -> None:
        self.reach = reach
        self.target = target
        self.python = _python(reach, target)

    def ask(self, do: str, *, timeout_s: float = 300.0, **request: object) -> dict[str, Any]:
        """The answer of `runner.remote_files`. Raises Declined if it cannot be done, Unreachable without an answer."""
        words = [self.python, "-S", "-E", "-s", "-"]
        said = self.reach.run(words, stdin=_program(do, request), timeout_s=timeout_s)
        try:
            found = dict(json.loads(said.text))
        except ValueError:
            raise Unreachable(f"{self.target.name}: {do} gave no answer: {said.complaint}") from None
        self.refuse(found)
        return found

    def put(self, directory: str, files: Mapping[str, bytes], *, private: tuple[str, ...] = ()) -> None:
        """Write files on the host; raises Declined if its disk is full or not writable."""
        if not files:
            return
        try:
            self.reach.put(directory, files, private=private)
        except OSError as error:
            why = f"{self.target.name}: {directory} cannot be written: {error.strerror or error}"
            raise Declined(why, code="not_writable") from error

    def fetch(self, do: str, path: Path, **request: object) -> None:
        """Write all that `runner.remote_files` prints into a file here. Raises Unreachable if its end is missing."""
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
                    process.stdin.write(_program(do, request))
                process.stdin.close()
                shutil.copyfileobj(process.stdout, file)  # through this process, with which it ends
                said = ProgramOutput(process.wait(), err=process.stderr.read())
            finally:
                timer.cancel()
                process.kill()
        if said.returncode:
            raise Unreachable(f"{self.target.name}: {do} did not come to its end: {said.complaint}", code="cut")

    def refuse(self, answer: Mapping[str, Any]) -> None:
        """Raise Declined if `runner.remote_files` answered with an error."""
        if "error" in answer:
            raise Declined(f"{self.target.name}: {answer['error']}", code=answer["code"], hint=_hint(answer))


def _program(do: str, request: Mapping[str, object]) -> bytes:
    text = json.dumps({"do": do, **request})
    return f"{REMOTE_FILES.read_text()}\nanswer({text!r})\n".encode()


def _python(reach: Reach, target: Target) -> str:
    """The interpreter for the Runner: the target's option, else the first that is new enough."""
    said = target.text("python")
    for name in (said,) if said else PYTHONS:
        start = ["sh", "-c", 'exec ~/"$0" "$@"', name[2:]] if name.startswith("~/") else [name]
        words = reach.run([*start, "-c", _PROBE]).text.split()
        if len(words) == 3 and words[1].isdecimal() and (int(words[1]), int(words[2])) >= LEAST:
            return words[0] if words[0].startswith("/") else name
    wanted = f"{said} is no" if said else "there is no"
    raise Declined(
        f"{target.name}: {wanted} python >= {LEAST[0]}.{LEAST[1]}, which the Runner needs",
        code="no_python",
        hint=f"install one there, or name it: launchers: {{{target.name}: {{python: /path/to/python3}}}}",
    )


def _hint(answer: Mapping[str, Any]) -> str:
    if answer["code"] == "disk_full":
        return "make room there, or give the target another `root:` or a smaller `min_free_gb:`"
    return "give the target another `root:`" if answer["code"] in ("not_writable", "read_only") else ""
