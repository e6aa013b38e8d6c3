"""Path mapping: rewrites paths into the user's codebase so that they point into a run's worktree.

They are found as those that are translated for other hosts (`translate_paths`): the codebase's path as the blueprint
writes it, its real path, and both as `~/...` and `$HOME/...`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, error
from autoresearch.core.text.regex import later
from autoresearch.lab.remote_files.translate_paths import REST, Translation

_ONE_WORD = later(r"[\w@%+=:,./-]*")


@dataclass(frozen=True, slots=True)
class PathMap:
    """The directories to map."""

    codebase: Path  # as the blueprint has it
    worktree: Path
    root: Path | None = None  # of the checkout, if the codebase is a directory inside it
    never: tuple[Path, ...] = ()  # directories inside that are not mapped: the virtual environment, results
    home: str = ""  # "" if `~` is not mapped

    @property
    def top(self) -> str:
        """The real path of what the worktree is of."""
        return os.path.realpath(self.root or self.codebase)

    def translation(self) -> Translation:
        """Every spelling of the codebase and of its checkout's root -> the worktree's; what is not mapped -> itself."""
        codebase, real = str(self.codebase), os.path.realpath(self.codebase)
        inside = os.path.relpath(real, self.top)
        there = os.path.normpath(self.worktree / inside)
        roots = {self.top: str(self.worktree), real: there, codebase: there}
        if inside != "." and codebase.endswith(f"/{inside}"):
            roots[codebase.removesuffix(f"/{inside}")] = str(self.worktree)
        roots |= {path: path for one in self.never for path in (str(one), os.path.realpath(one))}
        home, real_home = self.home.rstrip("/"), os.path.realpath(self.home)
        below = {path: new for path, new in roots.items() if home and path.startswith(f"{real_home}/")}
        return Translation({**roots, **{home + path.removeprefix(real_home): new for path, new in below.items()}}, home)


@dataclass(frozen=True, slots=True)
class Mapped:
    """One mapped path, for the record. `where` is "command", a recipe key, or `$NAME`."""

    where: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class MappedLaunch:
    """The launch after mapping. An error among the findings refuses the run."""

    command: str
    recipe: Mapping[str, object]
    environment: Mapping[str, str]
    mapped: tuple[Mapped, ...] = ()
    findings: tuple[Finding, ...] = ()


def map_launch(
    command: str, recipe: Mapping[str, object], environment: Mapping[str, str], path_map: PathMap
) -> MappedLaunch:
    """Map every path, also one that nothing is at yet: what a run misses, its own failure names (`not_shown`)."""
    translation, worktree, mapped = path_map.translation(), path_map.worktree, list[Mapped]()

    def text_of(where: str, text: str) -> str:
        parts, at = list[str](), 0
        for match in translation.pattern.finditer(text):
            old, end = match["root"], match.end()
            new, below = translation.spelled[old], REST.match(text, end)
            rest = below[0] if below else ""
            if Path(os.path.normpath(new + rest)).is_relative_to(worktree):
                parts += [text[at : match.start("root")], new]
                at = end
                mapped.append(Mapped(where, old + rest, new + rest))
        return "".join(parts) + text[at:]

    def value_of(key: str, value: object) -> object:
        if isinstance(value, Mapping):
            return {name: value_of(f"{key}.{name}", item) for name, item in value.items()}
        if isinstance(value, list):
            return [value_of(f"{key}.{number}", item) for number, item in enumerate(value)]
        return text_of(key, value) if isinstance(value, str) else value

    new_command, findings = text_of("command", command), tuple[Finding, ...]()
    if mapped and not _ONE_WORD.fullmatch(str(worktree)):
        hint = "let the campaign keep its worktrees elsewhere: `trees: /a/plain/path`"
        findings = (error(0, "odd_worktree", f"a shell would not read {worktree} as one word", hint),)
    new_recipe = {key: value_of(key, item) for key, item in recipe.items()}
    new_environment = {name: text_of(f"${name}", value) for name, value in environment.items()}
    return MappedLaunch(new_command, new_recipe, new_environment, tuple(mapped), findings)
