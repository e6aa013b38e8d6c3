"""The environment of a turn: an agent sees what it needs to work and to log in, and nothing that is worth stealing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from autoresearch.git_repo.git import KEPT
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
