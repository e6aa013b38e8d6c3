"""What a turn of an agent gets of the environment, and its directory, which is a run directory.

turns/0007-propose/
    spec.json     of the Runner; its `turn` says who asks what. exit.json, run.log and the rest: see `RunDir`
    shell.sh      what each bash that it starts reads first (BASH_ENV): the experiments' interpreter comes first on PATH
    prompt.md     on its standard input
    out, err      what it printed
    answer/       the one directory here that it may write to (`last.txt`)
    edit.json     what was made of the turn, if it edits, with edit.patch
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from autoresearch.core.agents.agent import Bounds, Traits, Turn, TurnRole
from autoresearch.core.text.regex import later
from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.git import KEPT
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.lab.agent_work.sandbox import Cell, confined, prefixes, socket_directories, why_not, worth_hiding
from autoresearch.lab.resolve.import_proof import import_environment
from autoresearch.launchers.host_sandbox_check import AGENT_MARKERS
from autoresearch.records.files import read_json
from autoresearch.records.hostile import read_plain, write_atomically
from autoresearch.runner.masking import mask_environment, mask_text


class Level(StrEnum):
    """How a turn is confined."""

    BUBBLEWRAP = "bubblewrap"
    AGENT = "agent"  # by the agent's own sandbox
    NONE = "none"  # not at all: its environment is clean, and the diff is looked at as always

    @property
    def sentence(self) -> str:
        """What a person should know about it."""
        return _SENTENCES[self]


_SENTENCES = {
    Level.BUBBLEWRAP: "the agent is confined by bubblewrap: it writes to its worktree and its own files only",
    Level.AGENT: "the agent is confined by its own sandbox only; install bubblewrap to have it confined by us",
    Level.NONE: "the agent is not sandboxed: it can write wherever you can; bubblewrap would sandbox it",
}


def choose(name: str, traits: Traits) -> Level:
    """The level for `ResearchSpec.sandbox`: auto, need or off.

    Raises EnvironmentUnusable where one is needed and bubblewrap does not work here.
    """
    if name != "off" and not (why := why_not()):
        return Level.BUBBLEWRAP
    if name == "need":  # what the agent has of its own does not confine what it edits, once that trains
        raise EnvironmentUnusable(
            f"a sandbox is needed, and bubblewrap does not work here: {why}",
            hint="install bubblewrap (bwrap) and allow user namespaces, or go without by `--set sandbox=auto`",
            code="no_sandbox",
        )
    return Level.AGENT if traits.sandbox else Level.NONE


# What a turn of a coding agent gets of the environment, and what it may see and use up where it runs.

_GONE = (
    *("TMUX", "TMUX_PANE", "TMUX_TMPDIR", "STY", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "SSH_ASKPASS"),
    *("DOCKER_HOST", "DOCKER_CONFIG", "CONTAINER_HOST", "KUBECONFIG", "RAY_ADDRESS", "SLURM_CONF"),
    *("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "OLDPWD", "FORCE_COLOR", "CLICOLOR_FORCE"),
    *("TMPDIR", "TMP", "TEMP", "AUTORESEARCH_*"),
)
PRINTED_BYTES = 64 << 20
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
    interpreter: str = ""  # of the experiments; its directory comes first on PATH in each shell of the agent's
    printed_bytes: int = PRINTED_BYTES  # to each of stdout and stderr
    file_bytes: int = 2 << 30  # of each file that it writes
    grace_s: float = 5.0  # between TERM and KILL

    def cell(self, cwd: Path, scratch: Path, env: Mapping[str, str], *programs: str) -> Cell:
        """What something that is started in `cwd` with this environment may see; it may write there alone."""
        return Cell(
            cwd=cwd,
            writes=True,
            scratch=scratch,
            home=Path(env.get("HOME", "/")),
            readable=(*prefixes(env.get("PATH", os.defpath), *map(Path, programs), *self.readable), *self.readable),
            hidden=frozenset(worth_hiding(self.environ, withheld(self.environ, env), self.hidden)),
            closed=frozenset(socket_directories(self.environ)),
        )


def write_shell(turn: Turn, interpreter: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Give every bash of the agent's what a guard command has; the variables that do so.

    The interpreter's directory comes first on PATH, the worktree first on PYTHONPATH. A login shell sets PATH anew in
    /etc/profile, and reads BASH_ENV after that. What the agent itself has stays as it is: it may be a program of
    another Python, or of another node.
    """
    first, before = shlex.quote(os.path.dirname(interpreter)), environ.get("BASH_ENV", "")  # noqa: PTH120 - no links
    lines = [f"[ -r {shlex.quote(before)} ] && . {shlex.quote(before)}"] if before else []
    lines += [f'case ":$PATH:" in *:{first}:*) ;; *) export PATH={first}:"$PATH" ;; esac'] if interpreter else []
    for name, value in import_environment({"PYTHONDONTWRITEBYTECODE": "1"}, Path(turn.cwd)).items():
        lines.append(f"export {name}={shlex.quote(value)}")
    write_atomically(Path(turn.shell_file), os.fsencode("\n".join([*lines, ""])), mode=0o600, durable=False)
    bash = shutil.which("bash", path=environ.get("PATH"))
    return {"BASH_ENV": str(turn.shell_file), **({"SHELL": bash} if bash else {})}


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


MOST_LAST = 4 << 20
_NUMBERED = later(r"(\d{4,})-[a-z]+\Z")


def next_directory(turns: Path, role: TurnRole) -> Path:
    """Make the next one: numbers only grow over a campaign."""
    turns.mkdir(parents=True, exist_ok=True)
    found = (_NUMBERED.match(entry.name) for entry in turns.iterdir())
    number = max((int(one[1]) for one in found if one), default=0) + 1
    path = turns / f"{number:04}-{role}"
    path.mkdir(mode=0o700)
    return path


def write_question(turn: Turn) -> None:
    """Make the directory of a turn, for its owner only, with what it asks."""
    for path in (Path(turn.directory), Path(turn.last_file).parent):
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
    prompt = turn.prompt.encode("utf-8", "surrogateescape")
    write_atomically(Path(turn.prompt_file), prompt, mode=0o600, durable=False)


def turn_record(turn: Turn, **more: object) -> dict[str, object]:
    """`turn` of spec.json: what is asked, beside the prompt; `more`: how."""
    return {"role": turn.role, "bounds": asdict(turn.bounds), "base": turn.base, **more}


def read_turn(directory: Path) -> Turn | None:
    """The turn that was begun here; None where none was, or its records are damaged."""
    spec = read_json(directory / "spec.json") or {}
    prompt = read_plain(directory / "prompt.md", MOST_LAST).decode("utf-8", "surrogateescape")
    try:
        record = spec["turn"]
        role, bounds, cwd = TurnRole(record["role"]), Bounds(**record["bounds"]), Path(spec["cwd"])
        return Turn(role, prompt, cwd, directory, bounds, str(record["base"]))
    except (KeyError, TypeError, ValueError):
        return None


def in_words(argv: tuple[str, ...]) -> str:
    """A command line for a record: masked, and not longer than anybody reads."""
    return mask_text(shlex.join(argv))[: 16 << 10]


def read_last(turn: Turn) -> str:
    """What it wrote into the file that it was told to use; "" where that is nothing."""
    last = Path(turn.last_file)
    if last.parent.is_symlink():
        return ""
    return read_plain(last, MOST_LAST).decode("utf-8", "replace")
