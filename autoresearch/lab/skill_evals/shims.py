"""Wrapper programs that record their calls and arguments before they run the real program.

The agent's commands are taken from here and not from its transcript: every agent has its own format, and all of them
quote commands that they never ran.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# what an agent without the skill would use, and what the skill forbids
WATCHED = ("sleep", "tmux", "nohup", "pkill", "killall", "setsid", "watch")

_PROGRAM = """#!{python}
import json, os, sys
here, told = {here!r}, {told!r}
name = os.path.basename(sys.argv[0])
fd = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(fd, (json.dumps([name, *sys.argv[1:]]) + "\\n").encode("utf-8", "replace"))
os.close(fd)
path = [one for one in os.environ.get("PATH", os.defpath).split(os.pathsep) if one != here]
os.environ["PATH"] = os.pathsep.join(path)
os.environ.pop("BASH_ENV", None)
if name == "autoresearch":
    if {root!r}:
        os.environ["PYTHONPATH"] = {root!r}
    start = "import sys; sys.argv[0] = 'autoresearch'; from autoresearch.cli import main; main()"
    os.execv({python!r}, [{python!r}, "-P", "-c", start, *sys.argv[1:]])
extra = ["-S", {socket!r}] if name == "tmux" and not {{"-L", "-S"}} & set(sys.argv[1:3]) else []
for folder in path:
    if os.access(os.path.join(folder, name), os.X_OK):
        os.execv(os.path.join(folder, name), [name, *extra, *sys.argv[1:]])
sys.stderr.write(name + ": not found\\n")
sys.exit(127)
"""


@dataclass(frozen=True, slots=True)
class Shims:
    """A directory of such programs, and their record."""

    folder: Path
    socket: Path  # of the attempt's own tmux server

    @property
    def record(self) -> Path:
        """The record: one JSON list of words per line."""
        return self.folder.parent / "calls.jsonl"

    @property
    def profile(self) -> Path:
        """The file that a shell reads first (`BASH_ENV`), as login shells set a PATH of their own."""
        return self.folder.parent / "bash_env"

    def make(self) -> None:
        """Write the programs."""
        self.folder.mkdir(parents=True)
        text = _PROGRAM.format(
            python=sys.executable,
            here=str(self.folder),
            told=str(self.record),
            root=os.environ.get("PYTHONPATH", ""),
            socket=str(self.socket),
        )
        for name in ("autoresearch", *WATCHED):
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o755)
        self.profile.write_text(f'export PATH={shlex.quote(str(self.folder))}:"$PATH"\n', encoding="utf-8")

    def around(self, environ: Mapping[str, str]) -> dict[str, str]:
        """An environment in which they are found first."""
        path = os.pathsep.join([str(self.folder), environ.get("PATH", os.defpath)])
        return {**environ, "PATH": path, "BASH_ENV": str(self.profile)}

    def calls(self) -> tuple[str, ...]:
        """The command lines, in the order in which they were typed."""
        try:
            lines = self.record.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return ()
        return tuple(shlex.join(json.loads(line)) for line in lines)
