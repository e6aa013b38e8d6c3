"""What a turn of a coding agent gets of the environment, and what it may see and use up where it runs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from autoresearch.git_repo.git import KEPT
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.lab.agent_work.sandbox import Cell, Level, confined, prefixes, socket_directories, worth_hiding
from autoresearch.launchers.host_sandbox_check import AGENT_MARKERS
from autoresearch.records.secrets import mask_environment

_GONE = (
    *("TMUX", "TMUX_PANE", "TMUX_TMPDIR", "STY", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "SSH_ASKPASS"),
    *("DOCKER_HOST", "DOCKER_CONFIG", "CONTAINER_HOST", "KUBECONFIG", "RAY_ADDRESS", "SLURM_CONF"),
    *("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "OLDPWD", "FORCE_COLOR", "CLICOLOR_FORCE"),
    *("TMPDIR", "TMP", "TEMP", "AUTORESEARCH_*"),
)
_PROXIES = frozenset(f"{kind}_proxy" for kind in ("http", "https", "all", "no"))
_SET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
}


def surroundings(environ: Mapping[str, str], *, needs: Iterable[str] = (), keep: Iterable[str] = ()) -> dict[str, str]:
    """What of the environment an agent gets; `needs` and `keep` are names, or patterns such as `PREFIX_*`.

    What goes, unless the user keeps it by name:
    - secrets, by name or by the shape of their value, but for what the agent needs to log in. A proxy stays even
      with a password in it: without it there is no way to the model.
    - ways out of a sandbox, and to other people's work: sockets of tmux, ssh, Docker, D-Bus and the display,
      addresses of clusters, GIT_* that name a repository, an index or another command than git's own.
    - traces of whoever started us: an agent that sees another one's marks takes itself for its child, and some
      refuse to start; AUTORESEARCH_* is ours.
    - PYTHONPATH and its kin: it names the user's checkout, so that the worktree's tests would import that.
    - temporary directories: it gets one of its own.
    What is set: git asks nobody and takes no optional lock; no colours, pagers or editors; no GPU, as those belong
    to the runs that are under way (`keep` CUDA_VISIBLE_DEVICES gives them back).
    """
    needs, keep = tuple(needs), tuple(keep)
    masked = mask_environment(environ)
    found = {}
    for name, value in environ.items():
        wanted = _matches(name, keep) or (name not in AGENT_MARKERS and _matches(name, needs))
        if wanted or name.lower() in _PROXIES or not (masked[name] != value or _is_gone(name)):
            found[name] = value
    return found | {name: value for name, value in _SET.items() if not _matches(name, keep)}


def withheld(environ: Mapping[str, str], passed: Mapping[str, str]) -> dict[str, str]:
    """The secrets that were taken out: files that they name are to be hidden, too."""
    masked = mask_environment(environ)
    return {name: value for name, value in environ.items() if name not in passed and masked[name] != value}


def _is_gone(name: str) -> bool:
    if name in AGENT_MARKERS or _matches(name, _GONE):
        return True
    return name.startswith("GIT_") and (name not in KEPT or name == "GIT_CONFIG_COUNT")


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


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
