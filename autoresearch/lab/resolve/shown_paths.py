"""Which paths that no commit holds the worktrees of runs show, and how: decided once, before the first run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from autoresearch.core.run.extra_paths import (
    CACHES,
    MOST_COPIED_BYTES,
    MOST_COPIED_FILES,
    OUTPUTS,
    ExtraPath,
    Include,
    Way,
    is_within,
    parse_include,
)
from autoresearch.core.text.numbers import listed
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.extras import extra_paths
from autoresearch.git_repo.snapshot import is_secret
from autoresearch.lab.disk.usage import MOST_OF_A_RUN, disk_usage, gb

_CROWD = 100  # more files of a directory are shown as one path
_FEW = 6  # names of one kind in a line of a plan


@dataclass(frozen=True, slots=True)
class ShowRules:
    """What decides. Paths are relative to the repository's root."""

    include: tuple[str, ...] = ()  # as `parse_include` takes them
    exclude: tuple[str, ...] = ()
    own: tuple[str, ...] = ()  # records, results and what is hidden: nobody sees them, and nobody is told
    written: tuple[str, ...] = ()  # where the command writes, by its flags
    named: tuple[str, ...] = ()  # what command or recipe names
    edited: bool = False  # an agent edits the code: no secrets


def paths_to_show(checkout: Checkout, entries: Iterable[bytes], show_rules: ShowRules) -> tuple[ExtraPath, ...]:
    """All that the commit with these entries lacks (`extra_paths`), shown or left out. UsageError for a bad include."""
    return tuple(_together(_Chooser(checkout.root, show_rules).chosen(extra_paths(checkout, entries))))


class _Chooser:
    def __init__(self, root: Path, show_rules: ShowRules) -> None:
        self.root, self.rules = root, show_rules
        self.excludes = tuple(one.rstrip("/") for one in show_rules.exclude)
        self.includes = {path: one for text in show_rules.include for path, one in included(root, text)}

    def chosen(self, extras: Iterable[str]) -> Iterator[ExtraPath]:
        """Each extra as a whole, or in parts where its parts differ; inner ones that are named beside an outer one."""
        for extra in extras:
            path = extra.removesuffix("/")
            if any(is_within(path, own) for own in self.rules.own):
                continue
            if self._differs(path) and (self.root / path).is_dir() and not (self.root / path).is_symlink():
                yield from self.chosen(sorted(f"{path}/{one.name}" for one in (self.root / path).iterdir()))
                continue
            if one := self._as_one(path):
                yield one
                inner = () if one.way.is_shown else dict.fromkeys((*self.includes, *self.rules.named))
                yield from (self._shown(name) for name in inner if name != path and is_within(name, path))

    def _differs(self, path: str) -> bool:
        """Whether something below a directory has to be left out, or copied for each run."""
        inner = (*self.rules.own, *self.excludes, *(name for name, one in self.includes.items() if one.copied))
        return any(name != path and is_within(name, path) for name in inner)

    def _as_one(self, path: str) -> ExtraPath | None:
        here, parts = self.root / path, set(path.split("/"))
        way: Way | None = None
        if any(fnmatchcase(path, one) or is_within(path, one) for one in self.excludes):
            way = Way.OTHER
        elif path in self.includes or path in self.rules.named:
            return self._shown(path)
        elif parts & CACHES or path.endswith(".pyc"):
            return None
        elif self._include_of(path):
            return self._shown(path)
        elif parts & OUTPUTS or any(is_within(path, one) for one in self.rules.written):
            way = Way.OUTPUT
        elif self.rules.edited and is_secret(path):
            way = Way.SECRET
        elif (here / ".git").exists():
            way = Way.OTHER
        return ExtraPath(path, way, here.is_dir()) if way else self._shown(path)

    def _include_of(self, path: str) -> Include | None:
        return next((one for name, one in self.includes.items() if is_within(path, name)), None)

    def _shown(self, path: str) -> ExtraPath:
        here, include = self.root / path, self._include_of(path)
        usage = disk_usage([Path(os.path.realpath(here))], MOST_OF_A_RUN)
        small = usage.whole and usage.length <= MOST_COPIED_BYTES and usage.entries <= MOST_COPIED_FILES
        own = include is not None and include.copied
        sent = include is not None and not any((here / mark).exists() for mark in ("pyvenv.cfg", "conda-meta"))
        way = Way.OWN if own else Way.COPY if small and not usage.links and not here.is_symlink() else Way.LINK
        return ExtraPath(path, way, here.is_dir(), usage.length, included=sent)


def _together(paths: Iterable[ExtraPath]) -> Iterator[ExtraPath]:
    """The files that lie loose in a directory of the commit are copied or linked together, a crowd of them as one."""
    loose: dict[str, list[ExtraPath]] = {}
    for one in paths:
        if one.way is Way.COPY and not one.directory:
            loose.setdefault(one.path.rpartition("/")[0], []).append(one)
        else:
            yield one
    for directory, ones in loose.items():
        size = sum(one.bytes for one in ones)
        if directory and len(ones) > _CROWD:
            yield ExtraPath(directory, Way.LINK, directory=True, bytes=size, included=any(o.included for o in ones))
        else:
            yield from (replace(one, way=Way.LINK) for one in ones) if size > MOST_COPIED_BYTES else ones


def included(root: Path, text: str) -> Iterator[tuple[str, Include]]:
    """The paths that an entry of `include:` names in the checkout."""
    try:
        include = parse_include(text)
    except ValueError as error:
        raise UsageError(f"include: {error}", code="bad_include") from None
    matches = sorted(root.glob(include.path)) if set(include.path) & set("*?[") else [root / include.path]
    if not any(map(os.path.lexists, matches)):
        raise EnvironmentUnusable(
            f"include: {include.path} is not there: {root / include.path}",
            hint="paths and patterns are relative to the repository's root; make it, or take it out",
            code="include_missing",
        )
    yield from ((match.relative_to(root).as_posix(), include) for match in matches)


def named_paths(root: Path, codebase: Path, texts: Iterable[str]) -> tuple[str, ...]:
    """What of the checkout a command's words and a recipe's values name, relative to its root."""
    words = [word for text in texts for word in _words(text)]
    values = dict.fromkeys(part for word in words for part in (word, word.partition("=")[2]) if part)
    here = (os.path.normpath(codebase / value) for value in values if "\0" not in value)
    return tuple(os.path.relpath(path, root) for path in here if path.startswith(f"{root}/") and os.path.lexists(path))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quote
        return text.split()


def shown_words(paths: Collection[ExtraPath]) -> str:
    """One line of a plan: `data/ (1.2 GB), .venv/; left out as outputs: wandb/, runs/`; "" where there is nothing."""
    groups: dict[str, list[str]] = {}
    large = {one.path: one.bytes for one in paths if one.bytes > MOST_COPIED_BYTES}
    order = {way: 0 if way.is_shown else number for number, way in enumerate(Way)}
    for one in sorted(paths, key=lambda one: (order[one.way], -large.get(one.path, 0))):
        own = f", {one.way}" if one.way is Way.OWN else ""
        size = f" ({gb(one.bytes)}{own})" if one.path in large or own else ""
        groups.setdefault("" if one.way.is_shown else f"{one.way}: ", []).append(one.name + size)
    return "; ".join(title.replace("secrets", "secret files") + listed(names, _FEW) for title, names in groups.items())
