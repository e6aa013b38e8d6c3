"""Path mapping: rewrites paths into the user's codebase so that they point into a run's worktree.

Paths are matched at their boundaries (`core.text.path_words`): the codebase's path as the blueprint writes it, its real
path, and both as `~/...` and `$HOME/...`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.text.command_words import AFTER, BEFORE, HOMES, REST, escaped
from autoresearch.core.text.regex import later

_OPEN_ENDED = later(r"[*?$\[{~%]")  # a pattern or a variable: only the part before it is known


@dataclass(frozen=True, slots=True)
class PathMap:
    """The directories to map. `exists`: whether the worktree will have a path relative to `root`."""

    codebase: Path  # as the blueprint has it
    worktree: Path
    exists: Callable[[str], bool]
    root: Path | None = None  # of the checkout, if the codebase is a directory inside it
    never: tuple[Path, ...] = ()  # directories inside that are not mapped: the virtual environment, results
    home: str = ""  # "" if `~` is not mapped


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
    command: str,
    recipe: Mapping[str, object],
    environment: Mapping[str, str],
    path_map: PathMap,
    *,
    inherited: frozenset[str] = frozenset(),
) -> MappedLaunch:
    """Map every path. A path that the worktree will not have is an error that names it.

    `inherited` are variables not set for this run (PATH, OLDPWD ...): such a path stays unchanged in them.
    """
    tracing = _Tracing(path_map)
    new_command = tracing.text("command", command, shell=True)
    new_recipe = {key: _value(tracing, key, item) for key, item in recipe.items()}
    new_environment = {
        name: tracing.text(f"${name}", value, lenient=name in inherited) for name, value in environment.items()
    }
    return MappedLaunch(new_command, new_recipe, new_environment, tuple(tracing.mapped), tuple(tracing.findings))


def _value(tracing: _Tracing, key: str, value: object) -> object:
    if isinstance(value, str):
        return tracing.text(key, value)
    if isinstance(value, Mapping):
        return {name: _value(tracing, f"{key}.{name}", item) for name, item in value.items()}
    if isinstance(value, list):
        return [_value(tracing, f"{key}.{number}", item) for number, item in enumerate(value)]
    return value


@dataclass(slots=True)
class _Tracing:
    """Maps texts and records what it mapped."""

    path_map: PathMap
    mapped: list[Mapped] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    roots: dict[str, str] = field(init=False)  # spelling -> path relative to the checkout's root
    never: tuple[str, ...] = field(init=False)
    pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        top = os.path.realpath(self.path_map.root or self.path_map.codebase)
        self.roots = _spellings(self.path_map, top)
        written = {os.path.realpath(p) for p in self.path_map.never} | {str(p) for p in self.path_map.never}
        inside = [_join(rel, p[len(root) + 1 :]) for p in written for root, rel in self.roots.items() if _in(p, root)]
        self.never = tuple(dict.fromkeys(inside))
        names = sorted(self.roots, key=len, reverse=True)
        self.pattern = re.compile(f"{BEFORE}(?P<root>{'|'.join(map(re.escape, names))}){AFTER}")

    def text(self, where: str, text: str, *, shell: bool = False, lenient: bool = False) -> str:
        """One text with every path in it mapped."""
        parts: list[str] = []
        at = 0
        for match in self.pattern.finditer(text):
            root, end = match["root"], match.end()
            written = _candidates(text, end, match["before"][-1:], shell=shell)
            candidates = [_join(self.roots[root], relative) for relative in written]
            if self._stays(candidates[0]):
                continue
            if not any(relative == "." or self.path_map.exists(relative) for relative in candidates):
                if lenient:
                    continue
                self.findings.append(self._lacking(where, candidates[0]))
            new = _join(str(self.path_map.worktree), self.roots[root])
            parts += [text[at : match.start("root")], _quoted(new, text, match.start("root")) if shell else new]
            at = end
            self.mapped.append(Mapped(where, root + _rest(text, end), new + _rest(text, end)))
        return "".join(parts) + text[at:]

    def _stays(self, relative: str) -> bool:
        outside = relative == ".." or relative.startswith("../")
        return outside or any(relative == path or _in(relative, path) for path in self.never)

    def _lacking(self, where: str, relative: str) -> Finding:
        path = Path(os.path.realpath(self.path_map.root or self.path_map.codebase)) / relative
        message = f"{where} names {path}, which the worktree of a run will not have"
        hint = f"`include: {relative}` shows it, if it is there; or name a path outside of the codebase"
        return Finding(Severity.ERROR, "path_not_in_worktree", message, hint)


def _spellings(path_map: PathMap, top: str) -> dict[str, str]:
    """The possible spellings of the codebase and the root of its checkout."""
    codebase, real = str(path_map.codebase), os.path.realpath(path_map.codebase)
    inside = os.path.relpath(real, top)
    found = {top: ".", real: inside, codebase: inside}
    if inside != "." and codebase.endswith("/" + inside):
        found[codebase.removesuffix("/" + inside)] = "."
    home = path_map.home.rstrip("/")
    for path, relative in tuple(found.items()):
        for known in {home, os.path.realpath(home)} if home else ():
            if _in(path, known):
                found |= {name + path.removeprefix(known): relative for name in HOMES}
    found |= {escaped(path): relative for path, relative in found.items()}
    return found


def _in(path: str, directory: str) -> bool:
    return path.startswith(directory + "/")


def _join(base: str, relative: str) -> str:
    return os.path.normpath(f"{base}/{relative}")


def _rest(text: str, at: int) -> str:
    """The rest of the path that continues at `at`."""
    found = REST.match(text, at)
    return found[0] if found else ""


def _candidates(text: str, at: int, quote: str, *, shell: bool) -> Iterator[str]:
    """Possible paths relative to the root, the likeliest first: to the end of the quotes, a separator, or the text."""
    ends = [at + len(_rest(text, at))]
    if quote and quote in "\"'":
        closing = text.find(quote, at)
        ends.insert(0, closing if closing >= 0 else len(text))
    if not shell:
        ends.append(len(text))
    for end in dict.fromkeys(ends):
        written = text[at:end]
        yield _known(re.sub(r"\\(.)", r"\1", written) if shell else written)


def _known(rest: str) -> str:
    """`/a/./b*/c` as `a`: normalized, and cut where a pattern or a variable begins."""
    if found := _OPEN_ENDED.search(rest):
        rest = rest[: found.start()].rpartition("/")[0]
    return os.path.normpath(rest.lstrip("/") or ".")


def _quoted(path: str, text: str, at: int) -> str:
    """A path quoted for this position in a shell command."""
    inside = ""  # the quote that is open
    position = 0
    while position < at:
        character = text[position]
        if character == "\\" and inside != "'":
            position += 1
        elif character == inside:
            inside = ""
        elif character in "\"'" and not inside:
            inside = character
        position += 1
    if inside == '"':
        return re.sub(r'(["$`\\])', r"\\\1", path)
    if inside == "'":
        return path.replace("'", "'\\''")
    return path if shlex.quote(path) == path else re.sub(r"([^\w@%+=:,./-])", r"\\\1", path)
