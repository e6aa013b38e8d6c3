"""Translation of local paths in texts to remote ones. Pure: no file is looked up.

Only whole paths are replaced, at their boundaries (`core.text.path_words`), the longest matching root first. Remote
roots hold no character that a shell or YAML would interpret, so they fit wherever the old path stood.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from autoresearch.core.text.command_words import AFTER, BEFORE, HOMES, escaped
from autoresearch.core.text.regex import later

PLAIN = later(r"/[\w@%+=:,./-]*\Z", re.ASCII)  # allowed form of a remote path
_PATH = later(BEFORE + r"(?P<path>/[^\s\"'`:,;|&<>()\[\]{}#\\*?$]+)")
# The keys of spec.json that hold paths, or texts with paths; the remote Runner reads no path from any other.
_TEXTS = ("command", "start", "cwd", "recipe", "interpreter", "result_dir", "evaluate_in", "output")
_LISTS = ("prepare", "cleanup", "evaluate")
_OURS = ("ledger", "blueprint", "notes", "environment")  # local records, of no use to the remote side
_LISTED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")  # variables that list directories


@dataclass(frozen=True, slots=True)
class Translation:
    """`roots`: local directory or file -> remote one. `home`: the local home directory, which may be written as `~`."""

    roots: Mapping[str, str]
    home: str = ""
    _spelled: dict[str, str] = field(init=False)
    _pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        spelled = dict(self.roots)
        for here, far in self.roots.items():
            if self.home and here.startswith(self.home + "/"):
                spelled |= {name + here.removeprefix(self.home): far for name in HOMES}
        spelled |= {escaped(here): far for here, far in spelled.items()}
        names = "|".join(map(re.escape, sorted(spelled, key=len, reverse=True))) or r"(?!)"
        object.__setattr__(self, "_spelled", spelled)
        object.__setattr__(self, "_pattern", re.compile(f"{BEFORE}(?P<root>{names}){AFTER}"))

    def text(self, text: str) -> str:
        """A text with every local path in it replaced."""
        return self._pattern.sub(lambda found: found["before"] + self._spelled[found["root"]], text)

    def path(self, path: str) -> str:
        """One path, unescaped; unchanged if no root holds it."""
        root = root_of_path(path, self.roots)
        return self.roots[root] + path[len(root) :] if root else path

    def left(self, text: str) -> tuple[str, ...]:
        """The absolute paths in a text that no root holds: the same on both sides, or missing remotely."""
        found = (match["path"].rstrip("/.") for match in _PATH.finditer(text))
        own = (
            path for path in found if path and not path.startswith("//") and not root_of_path(path, self.roots)
        )  # no URL
        return tuple(dict.fromkeys(own))


def root_of_path(path: str, roots: Iterable[str]) -> str:
    """The longest of these directories (or files) that holds a path; "" if none does."""
    return max((root for root in roots if path == root or path.startswith(root + "/")), key=len, default="")


def keys_of(directory: str) -> dict[str, object]:
    """Keys of the spec for a Runner in a remote directory: no collector."""
    journal = f"{directory}/journal.md"
    return {"run_dir": directory, "journal": journal, "collector": [], "claim": True}


def far_spec(record: Mapping[str, Any], translation: Translation) -> dict[str, Any]:
    """spec.json with remote paths, and without keys of purely local use."""
    found = {key: value for key, value in record.items() if key not in _OURS}
    for key in _TEXTS:
        if isinstance(found.get(key), str):
            found[key] = translation.text(found[key])
    for key in _LISTS:
        found[key] = [translation.text(str(line)) for line in found.get(key) or []]
    found["sources"] = [{**one, "path": translation.path(str(one["path"]))} for one in found.get("sources") or []]
    return found


def far_environment(
    pairs: Mapping[str, str], declared: Iterable[str], translation: Translation, lacking: Iterable[str] = ()
) -> dict[str, str]:
    """The variables that were meant for the run; the far host keeps all of its own.

    lacking: paths that are not there. They go out of the variables that list directories.
    """
    gone = set(lacking)
    found: dict[str, str] = {}
    for name in declared:
        if name not in pairs:
            continue
        value = translation.text(pairs[name])
        if name.rpartition(":")[2] in _LISTED:
            value = ":".join(item for item in value.split(":") if item.rstrip("/.") not in gone)
        found[name] = value
    return found


def texts_of(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts of a spec whose paths a run depends on, each after its key."""
    for key in ("command", "start"):
        yield key, str(record.get(key) or "")
    for key in _LISTS:
        for line in record.get(key) or []:
            yield key, str(line)
