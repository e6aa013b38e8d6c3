"""Confine a turn, or a training: bubblewrap around the agent or the trainer, where this machine lets it work.

Inside, everything can be read but what is hidden, and written is only the worktree (in turns that edit), the agent's
own home directories, and temporary directories of the turn. It has process ids, IPC and /dev of its own (a turn no
GPU). No socket of tmux, Docker or D-Bus is there by path: a read-only mount is no hindrance to a connection, and a
server that starts again makes a new socket. So it is not the socket that is hidden but its directory: an empty one
stands in its place, with the files that were there at the start. The network is shared, as it must reach its model:
services on this machine's loopback and abstract sockets can be reached, too.

Shown is what programs and interpreters need. Not shown are keys, tokens, other agents' homes, our own records, and the
directories of sockets. bubblewrap's options are those of bwrap(1), 0.8.0.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from autoresearch.records.index import state_home

_AT_HOME = (
    *(".ssh", ".aws", ".azure", ".oci", ".gnupg", ".docker", ".dockercfg", ".kube", ".huggingface", ".kaggle"),
    *(".netrc", "_netrc", ".git-credentials", ".pypirc", ".npmrc", ".yarnrc.yml", ".pgpass", ".my.cnf", ".vault-token"),
    *(".password-store", ".mozilla", ".bash_history", ".zsh_history", ".python_history", ".modelscope/credentials"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".terraform.d/credentials.tfrc.json", ".gem/credentials"),
    *(".config/gh", ".config/glab-cli", ".config/hub", ".config/gcloud", ".config/git/credentials", ".config/wandb"),
    *(".config/rclone", ".config/op", ".config/containers/auth.json", ".config/google-chrome", ".config/chromium"),
    *(".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".local/share/keyrings", ".wandb_api_key"),
)
_OF_THE_MACHINE = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers.d", "/etc/ssh", "/etc/kubernetes", "/var/lib/lxd")
_IN_A_DIRECTORY = {
    "HF_HOME": ("token", "stored_tokens"),
    "XDG_CONFIG_HOME": ("gh", "glab-cli", "gcloud", "git/credentials", "wandb", "rclone"),
}
_IS_ONE = ("HF_TOKEN_PATH", "NETRC", "KUBECONFIG", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "GNUPGHOME")


def worth_hiding(environ: Mapping[str, str], withheld: Mapping[str, str], homes: Iterable[Path]) -> set[Path]:
    """Those that exist, links resolved. `withheld`: secret variables, which may name a file; `homes`: other agents'."""
    return _existing({*_named(environ, withheld), *homes, *_of_ours(environ)})


def ways_out(environ: Mapping[str, str]) -> set[Path]:
    """What lets a sandboxed trainer act outside: keys to log in with, and our records.

    Tokens of trackers and of model hubs are not among it: a trainer has its own use for them.
    """
    home = Path(environ.get("HOME", "/"))
    named = (Path(environ[name]) for name in ("KUBECONFIG", "XDG_RUNTIME_DIR") if environ.get(name))
    return _existing({*named, *_of_ours(environ), *(home / name for name in (".ssh", ".kube", ".gnupg", ".docker"))})


def socket_directories(environ: Mapping[str, str], tmux_socket: str = "") -> set[Path]:
    """Directories in which somebody listens on a socket, or will: tmux, Docker, D-Bus, an ssh agent."""
    named = {Path(environ["TMUX_TMPDIR"])} if environ.get("TMUX_TMPDIR") else set()
    named |= {Path(tmux_socket).parent} if "/" in tmux_socket else set()
    if agent := environ.get("SSH_AUTH_SOCK"):
        named.add(Path(agent).parent)
    return _existing({*named, *(path.parent for path in _sockets())})


def _of_ours(environ: Mapping[str, str]) -> set[Path]:
    """The state directory of the run, and that of this process; what is needed of them are worktrees."""
    return {state_home(environ), state_home()}


def _existing(paths: Iterable[Path]) -> set[Path]:
    return {real_path(path) for path in paths if path.is_absolute() and can_see(path)}


def can_see(path: Path) -> bool:
    """Whether it exists, as far as this user can see: in another's home nothing does."""
    try:
        return path.exists()
    except OSError:
        return False


def _sockets() -> Iterator[Path]:
    """UNIX sockets that somebody listens on, by path (proc_net_unix, proc(5)).

    Those whose owner sees other files are not there by that name.
    """
    try:
        lines = Path("/proc/net/unix").read_bytes().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split(None, 7)
        if len(fields) == 8 and fields[7].startswith(b"/"):
            path = Path(os.fsdecode(fields[7]))
            with contextlib.suppress(OSError):
                if path.is_socket():
                    yield path


def _named(environ: Mapping[str, str], withheld: Mapping[str, str]) -> Iterator[Path]:
    yield from map(Path, _OF_THE_MACHINE)
    for home in {environ.get("HOME", "/"), _own_home()}:
        yield from (Path(home) / name for name in _AT_HOME)
    for variable, names in _IN_A_DIRECTORY.items():
        if place := environ.get(variable):
            yield from (Path(place) / name for name in names)
    for name in _IS_ONE:
        yield from map(Path, environ.get(name, "").split(":"))
    for value in withheld.values():
        if value.startswith("/") and len(value) < 4096 and Path(value).is_file():
            yield Path(value)


def _own_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container's number without a name
        return "/"


def prefixes(path: str, *needed: Path) -> tuple[Path, ...]:
    """What belongs to the programs of a PATH, and to these files (see `_prefix`), and what interpreters import from."""
    places = [Path(entry) for entry in path.split(":") if entry.startswith("/")]
    for one in (form for each in needed for form in (each, real_path(each))):
        places.append(one if one.is_dir() else one.parent)
    imported = [root for each in needed for root in import_roots(each)]
    return (*(_prefix(place) for place in places if can_see(place) and place.is_dir()), *imported)


def _prefix(directory: Path) -> Path:
    """The whole `node_modules` that a directory is in; else what is above a `bin`; else the directory itself."""
    whole = [above for above in (directory, *directory.parents) if above.name == "node_modules"]
    return whole[-1] if whole else directory.parent if directory.name == "bin" else directory


def import_roots(interpreter: Path) -> Iterator[Path]:
    """Those of the environment whose `bin` an interpreter lies in; nothing is started.

    Source: PEP 610 (`direct_url.json`), and the documentation of Python's `site`.
    """
    for site in interpreter.parent.parent.glob("lib*/python*/site-packages"):
        yield from filter(None, map(_editable, site.glob("*.dist-info/direct_url.json")))
        for file in site.glob("*.pth"):
            lines = map(str.strip, _text(file).splitlines())
            yield from (Path(line) for line in lines if line.startswith("/"))


def _editable(record: Path) -> Path | None:
    try:
        said = json.loads(_text(record))
        url = urlsplit(said["url"])
        if said["dir_info"]["editable"] and url.scheme == "file":
            return Path(unquote(url.path))
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def real_path(path: Path) -> Path:
    """The path without links."""
    return Path(os.path.realpath(path))


PROGRAM = "bwrap"
PROBE_S = 20.0
_REPLACED_PATHS = frozenset(map(Path, ("/tmp", "/var/tmp", "/dev/shm", "/run")))  # not seen as they are here
MOST_ENTRIES = 2000  # of a directory that holds sockets: each is mounted
_RESOLVERS = (  # /etc/resolv.conf is often a link to one of these; the last two are NixOS's programs
    *("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/nscd"),
    *("/run/current-system", "/run/opengl-driver"),
)
_SETTINGS = (  # of an agent: what stands there is run outside, too, the next time that its user starts it
    *("settings.json", "settings.local.json", "config.toml", "opencode.json", "opencode.jsonc", "hooks"),
)
_DEVICES = ("nvidia*", "dri", "kfd", "accel*", "dxg", "infiniband", "gdrdrv", "davinci*")
_SPACES = (
    *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--cap-drop", "ALL", "--die-with-parent", "--new-session"),
)
_SYSTEM = ("--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/run", "--proc", "/proc")


@functools.cache
def why_not() -> str:
    """Why bubblewrap cannot be used here, in bwrap's own words; "" where it can. Tried once, for real."""
    found = shutil.which(PROGRAM)
    if found is None:
        return f"{PROGRAM} is not installed"
    argv = [found, *_SPACES, *_SYSTEM, *_switches(), "--remount-ro", "/dev", "true"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=PROBE_S, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.decode(errors="replace").strip()[:300] or "it failed silently"


@dataclass(frozen=True, slots=True)
class Cell:
    """What one turn may see and write. Paths are absolute."""

    cwd: Path
    writes: bool  # to cwd
    scratch: Path  # an empty directory for /tmp and its kin, and for what stands in front of hidden things
    home: Path
    turn: Path | None = None  # the turn's directory; its `answer` can be written
    homes: tuple[Path, ...] = ()  # the agent's own
    writable: tuple[Path, ...] = ()  # directories and files beside `cwd`; those that do not exist are left out
    devices: bool = False  # GPUs and their kin, and a /dev/shm in memory, which is what they exchange data by
    readable: tuple[Path, ...] = ()  # what must be seen even where it lies below /tmp
    hidden: frozenset[Path] = frozenset()  # files, and directories but for what is needed of them
    binds: Mapping[Path, Path] = field(default_factory=dict)  # read-only: a place in `cwd` -> what is seen there
    closed: frozenset[Path] = frozenset()  # directories of which only the present files and directories are seen


def confined(argv: tuple[str, ...], cell: Cell) -> tuple[str, ...]:
    """The command line within bubblewrap, in `cell.cwd`; see `sandbox`."""
    *options, end = sandbox(cell)
    return (*options, "--chdir", str(cell.cwd), end, *argv)


def sandbox(cell: Cell) -> tuple[str, ...]:
    """What comes before a command; it begins where it is started.

    Makes the agent's homes and what the sandbox needs below `scratch`.
    """
    found = shutil.which(PROGRAM) or PROGRAM
    return (found, *_base(cell), *_binds(cell), "--remount-ro", "/run", "--")


def _base(cell: Cell) -> Iterator[str]:
    """The machine, with temporary directories of its own."""
    yield from (*_SPACES, *_SYSTEM, *_switches())
    if cell.devices:
        yield from ("--tmpfs", "/dev/shm")
        for device in (path for pattern in _DEVICES for path in sorted(Path("/dev").glob(pattern))):
            yield from ("--dev-bind", str(device), str(device))
    for place in ("/tmp", "/var/tmp") if cell.devices else ("/dev/shm", "/tmp", "/var/tmp"):
        if place != "/dev/shm" and (Path(place).is_symlink() or not Path(place).is_dir()):
            continue
        own = cell.scratch / place.replace("/", "-")[1:]
        own.mkdir(exist_ok=True)
        yield from ("--bind", str(own), place)
    yield from ("--remount-ro", "/dev")  # else its files would be memory that nobody counts
    for place in _RESOLVERS:
        if Path(place).exists():
            yield from ("--ro-bind", place, place)


def _switches() -> Iterator[str]:
    """All of /proc that is no process's, read-only: else root, even without a capability, sets the kernel's switches.

    Processes stay writable: CUDA names its threads in /proc/self/task/*/comm, and does not start where it cannot.
    """
    for place in sorted(Path("/proc").iterdir()):
        if not place.name.isdigit() and not place.is_symlink() and (place.is_dir() or place.stat().st_mode & 0o222):
            yield from ("--ro-bind", str(place), str(place))


def _binds(cell: Cell) -> Iterator[str]:
    """Outer places before inner ones, so that the innermost says what may be done there."""
    modes = dict.fromkeys(_seen(cell), "--ro-bind")
    copies: dict[Path, Path | str] = dict(cell.binds)
    for home in cell.homes:
        if made := _made(home):
            modes[made] = "--bind"
            if made.is_file():  # `.claude.json` also names programs that the user's own Claude starts, outside
                copies[made] = shutil.copy(made, cell.scratch / f"home{made.name}")
            modes |= {place: "--ro-bind" for name in _SETTINGS if (place := made / name).exists()}
    if cell.turn is not None:
        modes |= {real_path(cell.turn): "--ro-bind", real_path(cell.turn / "answer"): "--bind"}
    modes |= {real_path(place): "--bind" for place in cell.writable if place.exists()}
    modes[real_path(cell.cwd)] = "--bind" if cell.writes else "--ro-bind"
    modes |= dict.fromkeys(cell.binds, "--ro-bind")
    modes |= dict(_git_places(cell))
    nothing = cell.scratch / "nothing.txt"
    nothing.touch()
    masks = _masks(cell, modes)
    for place in sorted({*modes, *masks}, key=lambda path: (len(path.parts), path)):
        if place not in masks:
            yield from (modes[place], str(copies.get(place, place)), str(place))
        elif place.is_dir():
            yield from ("--tmpfs", str(place))
            for entry in masks[place]:
                linked = entry.is_symlink()
                yield from ("--symlink", str(entry.readlink())) if linked else ("--ro-bind-try", str(entry))
                yield str(entry)
        else:
            yield from ("--ro-bind", str(nothing), str(place))
    for place in filter(Path.is_dir, masks):  # not before all that is needed was mounted in it
        yield from ("--remount-ro", str(place))


def _masks(cell: Cell, modes: Mapping[Path, str]) -> dict[Path, list[Path]]:
    """What is hidden, unless it is needed itself or unseen anyway; and what is seen in its directories all the same."""
    never = {*cell.home.parents, cell.home, *_REPLACED_PATHS}
    masks: dict[Path, list[Path]] = {place: [] for place in cell.hidden - never - modes.keys()}
    for place in cell.closed - masks.keys() - {*_REPLACED_PATHS, Path("/")}:
        if modes.get(place) != "--bind":  # there it may make sockets of its own
            masks[place] = _entries(place)
    return {place: masks[place] for place in masks if _is_visible(place, modes, masks, writable=place in cell.hidden)}


def _is_visible(path: Path, modes: Mapping[Path, str], masks: Mapping[Path, list[Path]], *, writable: bool) -> bool:
    """Whether it would be seen without a mask of its own; `writable`: also where it can be written."""
    for parent in path.parents:
        if parent in masks:
            return any(entry == path or entry in path.parents for entry in masks[parent])
        if parent in modes:
            return writable or modes[parent] != "--bind"
    return path in modes or not _is_replaced(path)


def _entries(directory: Path) -> list[Path]:
    """The files, links and directories in a directory; [] if they are too many, or cannot be listed."""
    try:
        with os.scandir(directory) as entries:
            kept = (Path(one.path) for one in entries if one.is_symlink() or one.is_file() or one.is_dir())
            found = list(itertools.islice(kept, MOST_ENTRIES + 1))
    except OSError:
        return []
    return sorted(found) if len(found) <= MOST_ENTRIES else []


def _seen(cell: Cell) -> Iterator[Path]:
    """What lies below a replaced or hidden directory and must be there; by the name of a link to it, too."""
    needed = set(filter(can_see, (cell.home, *cell.readable, Path(sys.prefix), Path(sys.base_prefix))))
    yield from (real for real in map(real_path, needed) if _is_replaced(real) or cell.hidden & set(real.parents))
    named = {path for path in needed if _is_replaced(path)}
    yield from (path for path in named if path != real_path(path) and not named & set(path.parents))


def _is_replaced(path: Path) -> bool:
    return not _REPLACED_PATHS.isdisjoint(path.parents)


def _git_places(cell: Cell) -> Iterator[tuple[Path, str]]:
    """The `.git` of a worktree, git's directory of it, and the repository that it belongs to, each with its mode.

    The last two are the user's, and read-only, unless the worktree is an enclosure (`git_repo.patches`),
    whose git directory lies beside it, is ours, and borrows objects.
    """
    cwd = real_path(cell.cwd)
    top = next((place for place in (cwd, *cwd.parents) if (place / ".git").exists()), None)
    if top is None:
        return
    yield top / ".git", "--ro-bind"
    if not (top / ".git").is_file():
        return
    words = (top / ".git").read_text(errors="surrogateescape").strip()
    admin = real_path(top / words.removeprefix("gitdir:").strip())
    if admin == top.with_name(f"{top.name}.git"):
        yield admin, "--bind" if cell.writes else "--ro-bind"
        common = _borrowed(admin)
    else:
        common = admin.parent.parent if admin.parent.name == "worktrees" else admin
    for place in (common.parent if common.name == ".git" else common, common):
        if place.is_dir() and not cwd.is_relative_to(place):
            yield place, "--ro-bind"


def _borrowed(admin: Path) -> Path:
    """The git directory whose objects another one borrows."""
    try:
        line = (admin / "objects/info/alternates").read_text(errors="surrogateescape").splitlines()[0]
    except (OSError, IndexError):
        return admin
    return real_path(Path(line.strip('"'))).parent


def _made(home: Path) -> Path | None:
    """A home of the agent's, made where it is missing: what does not exist cannot be shared with the sandbox."""
    try:
        if not home.exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            if home.suffix == ".json":
                home.write_text("{}\n")
            else:
                home.mkdir(mode=0o700)
    except OSError:
        return None
    return real_path(home)
