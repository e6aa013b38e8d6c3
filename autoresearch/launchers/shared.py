"""Files and programs of a target, by the remote file agent (`runner/remote_agent.py`), wherever that runs.

`AgentReach` says what each call of a `Reach` asks of it. With shared paths it runs in this process: a target's files
are local, its programs are started here (sbatch, curl ...).
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from autoresearch.core.run.job_launcher import DirectoryState, ProgramOutput, Unreachable, Want
from autoresearch.runner import remote_agent
from autoresearch.runner.remote_agent import MOST_SAID as MOST_SAID

# The remote file agent (`runner/remote_agent.py`) and its imports, in order, as one text: a host needs nothing of ours.

PARTS = ("basics", "processes", "remote_files", "remote_agent")
_LOADER = """
import json, sys, types
package = types.ModuleType("ajet_remote")
package.__path__ = []
sys.modules["ajet_remote"] = package
for name, text in SOURCES:
    agent = types.ModuleType("ajet_remote." + name)
    agent.__package__ = "ajet_remote"
    sys.modules[agent.__name__] = agent
    setattr(package, name, agent)
    exec(compile(text, "<autoresearch " + name + ">", "exec"), agent.__dict__)
"""


def program(call: str, **values: object) -> bytes:
    """Python source that ends with a call, which knows the agent's module as `agent`, and these values by name."""
    folder = Path(remote_agent.__file__).parent
    sources = [(name, (folder / f"{name}.py").read_text()) for name in PARTS]
    given = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    return f"SOURCES = {sources!r}\n{given}{_LOADER}{call}\n".encode()


ANSWER_S = 30.0


class AgentReach:
    """`core.run.job_launcher.Reach` by the operations of the agent. A subclass says how it is asked."""

    shared = True
    where = ""  # the beginning of a sentence about the target: `gpu1: `

    def call(self, op: str, *, within_s: float = ANSWER_S, **arguments: Any) -> Any:
        """The answer of one of `remote_agent.OPERATIONS`. Raises Unreachable, OSError (of the target)."""
        raise NotImplementedError

    def look(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        """See `Reach`. A held lock proves that its Runner lives, a free one nothing: flock may be of one machine."""
        asked = [{"run": w.run, "directory": w.directory, "offsets": dict(w.offsets)} for w in wants]
        found = self.call("look", wants=asked)
        return {run: DirectoryState(**{**seen, "alive": seen.get("alive") or None}) for run, seen in found.items()}

    def put(self, directory: str, files: Mapping[str, bytes], *, private: Collection[str] = ()) -> None:
        """See `Reach`; raises OSError if it cannot be written there (a full disk)."""
        self.call("put", directory=directory, files=dict(files), private=list(private))

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, cwd: str = "") -> ProgramOutput:
        """See `Reach`."""
        words = {"argv": list(argv), "stdin": stdin, "timeout_s": timeout_s, "cwd": cwd}
        said = self.call("run", within_s=timeout_s + ANSWER_S, **words)
        if said.get("late"):
            raise Unreachable(f"{self.where}{argv[0]} gave no answer within {timeout_s:.0f} s", code="no_answer")
        return ProgramOutput(said["returncode"], said["out"], said["err"])

    def command(self, argv: Sequence[str]) -> list[str]:
        """See `Reach`: nothing is copied where files are shared."""
        raise NotImplementedError


class SharedFiles(AgentReach):
    """The reach of this machine. `environ`: for programs; None: the current environment."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self.environ = environ

    def call(self, op: str, *, within_s: float = ANSWER_S, **arguments: Any) -> Any:
        """See `AgentReach`."""
        if op == "run":
            arguments["env"] = None if self.environ is None else dict(self.environ)
        return remote_agent.OPERATIONS[op](**arguments)


def said_by(answer: Mapping[str, Any], host: str) -> Any:
    """What an agent elsewhere answered; raises the OSError that it met there."""
    if error := answer.get("error"):
        raise OSError(error["errno"] or errno.EIO, error["what"], f"{host}:{error['path']}")
    return answer["said"]
