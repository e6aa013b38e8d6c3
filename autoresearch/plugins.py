"""Plug-ins: what other distributions add to the registries by entry points.

    [project.entry-points."autoresearch.trainers"]
    mine = "my_package.trainer:MyTrainer"

A registry looks for a plug-in only where no name of its own fits: a scan reads every distribution of the environment.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from autoresearch.errors import EnvironmentUnusable

T = TypeVar("T")
GROUPS = ("trainers", "launchers", "proposers", "agents", "readers")


class PluginWarning(UserWarning):
    """A plug-in that cannot be used, and why; whatever asked for plug-ins goes on without it."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point, not imported yet."""

    group: str  # one of GROUPS
    name: str  # lower-case, as in `trainer: NAME`
    point: EntryPoint

    @property
    def distribution(self) -> str:
        return self.point.dist.name if self.point.dist else ""

    @property
    def version(self) -> str:
        return self.point.dist.version if self.point.dist else ""

    @property
    def origin(self) -> str:
        """Its distribution and version, as specs record them: `autoresearch-mine 1.2`."""
        return f"{self.distribution} {self.version}".strip() or self.point.value

    def __str__(self) -> str:
        return f"the plug-in {self.name} ({self.group}) of {self.origin}"

    def load(self, *, made: bool = False) -> Any:
        """What it names; if `made`, a class is called. EnvironmentUnusable, whatever it raises."""

        def loaded() -> Any:
            offered = self.point.load()
            return offered() if made and isinstance(offered, type) else offered

        return _foreign(loaded, f"{self} cannot be used", f"pip uninstall {self.distribution or self.name}")

    def fault(self) -> str:
        """Why it cannot be imported, in one line; "" if it can."""
        try:
            self.load()
        except EnvironmentUnusable as error:
            return _in_one_line(error.__cause__ or error)
        return ""


@lru_cache(maxsize=1)
def installed() -> tuple[Plugin, ...]:
    """All plug-ins of this environment by group and name, usable or not; none is imported."""
    points = entry_points()
    groups = ((group, points.select(group=f"autoresearch.{group}")) for group in GROUPS)
    found = {Plugin(group, one.name.lower(), one) for group, some in groups for one in some}
    return tuple(sorted(found, key=lambda one: (GROUPS.index(one.group), one.name, one.origin)))


@dataclass(frozen=True, slots=True)
class PluginGroup:
    """The plug-ins of one registry.

    taken: the registry's own names, which no plug-in may replace.
    made: whether a class is called, without arguments, when it is asked for.
    """

    group: str  # one of GROUPS
    taken: Collection[str] = ()
    made: bool = True

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in installed() if one.group == self.group)

    def find(self, name: str) -> Plugin | None:
        """The plug-in with this name (case-insensitive); None if there is none, or the registry has the name itself."""
        key = name.strip().lower()
        ours = key in self.taken
        return None if ours else next((one for one in installed() if (one.group, one.name) == (self.group, key)), None)

    def get(self, name: str) -> Any:
        """What the plug-in with this name offers; None if there is none. EnvironmentUnusable if it cannot be made."""
        plugin = self.find(name)
        return plugin.load(made=self.made) if plugin else None

    def usable(self) -> dict[str, Any]:
        """What all plug-ins offer that can be used, by name; each other one is named in a PluginWarning, once."""
        offered = {}
        for name in self.names():
            try:
                if (value := self.get(name)) is not None:
                    offered[name] = value
            except EnvironmentUnusable as error:
                _warn(error.message)
        return offered

    def record(self, names: Iterable[str]) -> dict[str, str]:
        """Those of these names that are plug-ins, as specs record them: `trainers.mine` -> `autoresearch-mine 1.2`."""
        return {f"{self.group}.{one.name}": one.origin for name in names if name and (one := self.find(name))}

    def answer(self, name: str, question: Callable[[], T], otherwise: T) -> T:
        """What a plug-in answers that every command of a kind asks; if it raises, it is named, and this is its answer.

        For questions about what is not the plug-in's own, such as whether it recognises a command.
        """
        try:
            return _foreign(question, f"{self.find(name) or name} is passed over")
        except EnvironmentUnusable as error:
            _warn(error.message)
            return otherwise


def _foreign(call: Callable[[], T], what: str, repair: str = "") -> T:
    """What foreign code answers; whatever it raises is one sentence: its traceback says nothing to a user."""
    try:
        return call()
    except (Exception, SystemExit) as error:
        hint = f"repair or remove it: {repair}" if repair else ""
        raise EnvironmentUnusable(f"{what}: {_in_one_line(error)}", hint=hint, code="plugin_broken") from error


def _in_one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300].removesuffix(": ")


@lru_cache(maxsize=256)
def _warn(sentence: str) -> None:
    warnings.warn(sentence, PluginWarning, stacklevel=3)


def forget() -> None:
    """Scan again when next asked: something was installed while this process ran."""
    installed.cache_clear()
    _warn.cache_clear()
