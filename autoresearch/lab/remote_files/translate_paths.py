"""Translation of local paths in texts to remote ones. Pure: no file is looked up.

Only whole paths are replaced, at their boundaries, the longest matching root first. Remote roots hold no character that
a shell or YAML would interpret, so they fit wherever the old path stood. A remote `host:/path` cannot be told from a
list `a:/path`: in both, /path is a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autoresearch.core.text.regex import later

# Before a path: the start of the text, a separator, `file://`, or a short option without a space (-I/x); then quotes.
_BEFORE = r"(?P<before>(?:^|[\s=:,;|&<>(\[{`@]|(?<=:)//|(?<=[\s\"'=]-)[A-Za-z]|(?<=^-)[A-Za-z])[\"'\\]*)"
_AFTER = r"(?=$|[/\s\"'`:,;|&<>()\[\]{}#]|\\[\"'\n])"
REST = later(r"(?:[^\s\"'`:,;|&<>()\[\]{}\\]|\\[^\n\"'])*")  # the rest of a path
_HOMES = ("~", "$HOME", "${HOME}")
PLAIN = later(r"/[\w@%+=:,./-]*\Z", re.ASCII)  # allowed form of a remote path
# The keys of spec.json that hold paths, or texts with paths; the remote Runner reads no path from any other.
_TEXTS = ("command", "start", "cwd", "recipe", "interpreter", "result_dir", "evaluate_in", "output")
_LISTS = ("prepare", "cleanup", "evaluate")
_OURS = ("ledger", "blueprint", "notes", "environment")  # local records, of no use to the remote side


@dataclass(frozen=True, slots=True)
class Translation:
    """`roots`: local directory or file -> remote one. `home`: the local home directory, which may be written as `~`."""

    roots: Mapping[str, str]
    home: str = ""
    spelled: dict[str, str] = field(init=False)  # the roots in all their spellings
    pattern: re.Pattern[str] = field(init=False)  # finds one at its boundaries

    def __post_init__(self) -> None:
        spelled = dict(self.roots)
        for here, far in self.roots.items():
            if self.home and here.startswith(self.home + "/"):
                spelled |= {name + here.removeprefix(self.home): far for name in _HOMES}
        spelled |= {escaped(here): far for here, far in spelled.items()}
        names = "|".join(map(re.escape, sorted(spelled, key=len, reverse=True))) or r"(?!)"
        object.__setattr__(self, "spelled", spelled)
        object.__setattr__(self, "pattern", re.compile(f"{_BEFORE}(?P<root>{names}){_AFTER}"))

    def text(self, text: str) -> str:
        """A text with every local path in it replaced."""
        return self.pattern.sub(lambda found: found["before"] + self.spelled[found["root"]], text)

    def path(self, path: str) -> str:
        """One path, unescaped; unchanged if no root holds it."""
        root = root_of_path(path, self.roots)
        return self.roots[root] + path[len(root) :] if root else path


def escaped(path: str) -> str:
    """A path with special characters escaped by backslashes, as in unquoted shell text."""
    return re.sub(r"([^\w@%+=:,./~${}-])", r"\\\1", path)


def root_of_path(path: str, roots: Iterable[str]) -> str:
    """The longest of these directories (or files) that holds a path; "" if none does."""
    return max((root for root in roots if path == root or path.startswith(root + "/")), key=len, default="")


def keys_of(directory: str) -> dict[str, object]:
    """Keys of the spec for a Runner in a remote directory: no collector, and the journal is written here."""
    return {"run_dir": directory, "journal": "", "collector": [], "claim": True}


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


def far_environment(pairs: Mapping[str, str], declared: Iterable[str], translation: Translation) -> dict[str, str]:
    """The variables that were meant for the run; the far host keeps all of its own."""
    return {name: translation.text(pairs[name]) for name in declared if name in pairs}
