"""Things by name: those of autoresearch, and those that other distributions add by entry points.

    [project.entry-points."autoresearch.trainers"]
    mine = "my_package.trainer:MyTrainer"

A plug-in is used where it is named, and nowhere else. A scan for them reads every distribution of the environment, so a
registry makes it only where no name of its own fits.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from autoresearch.errors import EnvironmentUnusable, UsageError

GROUPS = ("trainers", "launchers", "proposers", "agents", "readers")
_UNUSABLE = "cannot be used: "


class PluginWarning(UserWarning):
    """A plug-in that a record names, and that is not here any more; whoever reads the record goes on without it."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point, not imported yet."""

    group: str  # one of GROUPS
    name: str  # lower-case, as in `trainer: NAME`
    point: EntryPoint

    @property
    def origin(self) -> str:
        """Its distribution and version: `autoresearch-mine 1.2`."""
        return f"{self.point.dist.name} {self.point.dist.version}" if self.point.dist else self.point.value

    def load(self) -> Any:
        """What it names. EnvironmentUnusable, in one sentence, whatever its import raises."""
        try:
            return self.point.load()
        except (Exception, SystemExit) as error:
            fault = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300].removesuffix(": ")
            message = f"the plug-in {self.name} ({self.group}) of {self.origin} {_UNUSABLE}{fault}"
            raise EnvironmentUnusable(message, hint="repair or uninstall it", code="plugin_broken") from error

    def fault(self) -> str:
        """Why it cannot be imported, in one line; "" if it can."""
        try:
            self.load()
        except EnvironmentUnusable as error:
            return error.message.partition(_UNUSABLE)[2]
        return ""


@lru_cache(maxsize=1)
def installed() -> tuple[Plugin, ...]:
    """All plug-ins of this environment by group and name, usable or not; none is imported."""
    points = entry_points()
    groups = ((group, points.select(group=f"autoresearch.{group}")) for group in GROUPS)
    found = {Plugin(group, one.name.lower(), one) for group, some in groups for one in some}
    return tuple(sorted(found, key=lambda one: (GROUPS.index(one.group), one.name, one.origin)))


@dataclass(frozen=True, eq=False)
class Registry:
    """What has a name in one of the groups."""

    group: str  # one of GROUPS
    own: Mapping[str, Any] = field(default_factory=dict)  # or `module:attribute`, imported when it is asked for

    def __contains__(self, name: object) -> bool:
        return name in self.own or self._plugin(str(name)) is not None

    def names(self) -> tuple[str, ...]:
        """Those of autoresearch, then those of plug-ins."""
        return tuple(dict.fromkeys([*self.own, *(one.name for one in installed() if one.group == self.group)]))

    def get(self, name: str) -> Any:
        """What has this name (case-insensitive); no plug-in replaces what autoresearch has.

        UsageError for an unknown name, EnvironmentUnusable for a plug-in that cannot be imported.
        """
        key = name.strip().lower()
        if key in self.own:
            own = self.own[key]
            if not isinstance(own, str):
                return own
            module, _, attribute = own.partition(":")
            return getattr(import_module(module), attribute)
        if plugin := self._plugin(key):
            return plugin.load()
        thing = self.group.removesuffix("s")
        near = difflib.get_close_matches(key, self.names(), 1)
        hint = f"did you mean {near[0]}?" if near else f"known {self.group}: {', '.join(self.names())}"
        raise UsageError(f"there is no {thing} {name!r}", hint=hint, code=f"unknown_{thing}")

    def _plugin(self, name: str) -> Plugin | None:
        key = name.strip().lower()
        return next((one for one in installed() if (one.group, one.name) == (self.group, key)), None)
