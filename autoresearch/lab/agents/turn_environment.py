"""Where the turns of a campaign run, and what they may see and use up there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.git_repo.remove_tree import wipe
from autoresearch.lab.agents.agent_environment import surroundings, withheld
from autoresearch.lab.agents.agent_sandbox import Cell, Level, confined
from autoresearch.lab.agents.sandbox_paths import prefixes, socket_directories, worth_hiding


@dataclass(frozen=True, slots=True)
class TurnEnvironment:
    """The same for all turns of a campaign."""

    environ: Mapping[str, str] = field(repr=False)
    level: Level = Level.NONE
    keep: tuple[str, ...] = ()  # variables that the user lets through (`Chosen.keep`)
    readable: tuple[Path, ...] = ()  # even where it lies below /tmp: an interpreter, with all that belongs to it
    hidden: tuple[Path, ...] = ()  # beyond keys and tokens: other agents' homes, what only the evaluation may read
    printed_bytes: int = 64 << 20  # to each of stdout and stderr
    written_bytes: int = 2 << 30  # ... and never more than half of what is free
    grace_s: float = 5.0  # between TERM and KILL

    def cell(self, cwd: Path, scratch: Path, env: Mapping[str, str], program: str) -> Cell:
        """What something that is started in `cwd` with this environment may see; it may write there alone."""
        return Cell(
            cwd=cwd,
            writes=True,
            scratch=scratch,
            home=Path(env.get("HOME", "/")),
            readable=prefixes(env.get("PATH", os.defpath), Path(program), *self.readable),
            hidden=frozenset(worth_hiding(self.environ, withheld(self.environ, env), self.hidden)),
            closed=frozenset(socket_directories(self.environ)),
        )


def guard_in(turn_environment: TurnEnvironment) -> Callable[[str, Path], str]:
    """How a guard command is started in a worktree (`Bench.confined`): within bubblewrap, where turns are.

    It may write to the worktree and to a /tmp of its own, which lies beside the worktree as `<name>.tmp` until the next
    one; it reads no keys.
    """
    if turn_environment.level is not Level.BUBBLEWRAP:
        return lambda command, _: command

    def start(command: str, directory: Path) -> str:
        scratch = directory.with_name(f"{directory.name}.tmp")
        wipe(scratch)
        scratch.mkdir()
        env = surroundings(turn_environment.environ, keep=turn_environment.keep)
        return shlex.join(confined(("bash", "-c", command), turn_environment.cell(directory, scratch, env, "bash")))

    return start
