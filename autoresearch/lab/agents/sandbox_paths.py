"""What the inside of a sandbox shows, and what it does not.

Shown is what programs and interpreters need. Not shown are keys, tokens, other agents' homes, our own records, and
directories in which those who may do more have their sockets.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
from collections.abc import Iterable, Iterator, Mapping
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
    """What lets a sandboxed trainer act outside: keys to log in with, and our records, with the keys of their seals.

    Tokens of trackers and of model hubs are not among it: a trainer has its own use for them.
    """
    home = Path(environ.get("HOME", "/"))
    named = (Path(environ[name]) for name in ("KUBECONFIG", "XDG_RUNTIME_DIR") if environ.get(name))
    return _existing({*named, *_of_ours(environ), *(home / name for name in (".ssh", ".kube", ".gnupg", ".docker"))})


def socket_directories(environ: Mapping[str, str]) -> set[Path]:
    """Directories in which somebody listens on a socket, or will: tmux, Docker, D-Bus, an ssh agent."""
    named = {Path(environ["TMUX_TMPDIR"])} if environ.get("TMUX_TMPDIR") else set()
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
