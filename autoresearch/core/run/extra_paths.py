"""What a checkout has and a commit lacks (ignored, untracked, submodules' files), and how a worktree shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from autoresearch.core.text.regex import later

MOST_COPIED_BYTES, MOST_COPIED_FILES = 50 * 10**6, 1000  # of one path; a larger one is linked

# Names of what tools write: a run makes its own, and an earlier run's must not be taken for its own. Of the caches,
# and of where results lie that no blueprint has put elsewhere, no plan says a word.
OUTPUTS = frozenset(
    ["wandb", "mlruns", "mlartifacts", "runs", "outputs", "output", "out", "results", "ray_results", "logs",
     "lightning_logs", "tb_logs", "tensorboard", "checkpoints", "checkpoint", "ckpts", "ckpt", "multirun", "swanlog",
     ".aim", ".neptune", "comet_offline", "nohup.out"]
)  # fmt: skip
CACHES = frozenset(
    ["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints", ".tox", ".nox",
     ".hypothesis", ".coverage", "htmlcov", ".DS_Store", ".autoresearch", "auto_agent"]
)  # fmt: skip
_COPIED = later(r"\{\s*'?path'?\s*:\s*'?(?P<path>[^{}']+?)'?\s*,\s*'?write'?\s*:\s*'?(?P<write>\w+)'?\s*\}")


class Way(StrEnum):
    """How a worktree shows a path of the checkout."""

    COPY = "copied"  # small
    LINK = "linked"
    OWN = "a copy for each run"  # `include: [{path: data/, write: copy}]`
    OUTPUT = "left out as outputs"
    SECRET = "left out as secrets"  # from code that an agent edits; shown as secret files: `secrets: .env` is masked
    OTHER = "left out"  # a repository of its own, or named by `exclude:`

    @property
    def is_shown(self) -> bool:
        """Whether runs see it."""
        return self in (Way.COPY, Way.LINK, Way.OWN)


@dataclass(frozen=True, slots=True)
class ExtraPath:
    """One path, relative to the repository's root; of a directory, all that lies below it."""

    path: str
    way: Way
    directory: bool = False
    bytes: int = 0  # at least so many: counting ends at a limit
    included: bool = False  # named by `include:`: it goes to other hosts, too, and must be there

    @property
    def name(self) -> str:
        """As people write it: a directory's ends in a slash."""
        return f"{self.path}/" if self.directory else self.path


@dataclass(frozen=True, slots=True)
class Include:
    """An entry of `include:`: a file, a directory or a pattern, relative to the repository's root."""

    path: str
    copied: bool = False  # each run has a copy of its own, which it may write to

    def __str__(self) -> str:
        return f"{{path: {self.path}, write: copy}}" if self.copied else self.path


def is_within(path: str, directory: str) -> bool:
    """Whether a path is this one or lies below it."""
    return path == directory or path.startswith(f"{directory}/")


def parse_include(value: object) -> Include:
    """Parse `data/`, `{path: data/, write: copy}` (also as text). Raises ValueError with one clause."""
    if isinstance(value, Mapping):
        value = f"{{path: {value.get('path', '')}, write: {value.get('write', 'copy')}}}" if value else ""
    text = str(value).strip()
    match = _COPIED.fullmatch(text)
    if match and match["write"] != "copy":
        raise ValueError(f"write: {match['write']} is not `write: copy`")
    path = (match["path"] if match else text).strip().removeprefix("./").rstrip("/")
    if not path or path == "." or (text.startswith("{") and not match):
        raise ValueError(f"{text!r} names no path: write `data/` or `{{path: data/, write: copy}}`")
    if path.startswith(("/", "~")) or ".." in path.split("/") or "\0" in path:
        raise ValueError(f"{text!r} lies outside of the repository, where runs see it anyway: name its absolute path")
    return Include(path, bool(match))

