"""Plug-ins: what other distributions add to the registries by entry points.

    [project.entry-points."autoresearch.trainers"]
    mine = "my_package.trainer:MyTrainer"

A registry looks for a plug-in only where no name of its own fits: a scan reads every distribution of the environment,
and `status` and `wait` are called hundreds of times a night.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from autoresearch.errors import EnvironmentUnusable

T = TypeVar("T")
GROUPS = ("trainers", "launchers", "proposers", "agents", "readers", "notifiers")


class PluginWarning(UserWarning):
    """A plug-in that cannot be used, and why; whatever asked for plug-ins goes on without it."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point, not imported yet."""

    group: str  # one of GROUPS
    name: str  # lower-case, as in `trainer: NAME`
    reference: str  # module:attribute
    distribution: str = ""
    version: str = ""

    @property
    def origin(self) -> str:
        """Its distribution and version, as specs record them: `autoresearch-mine 1.2`."""
        return f"{self.distribution} {self.version}".strip() or self.reference

    def __str__(self) -> str:
        return f"the plug-in {self.name} ({self.group}) of {self.origin}"


def _may_be_any() -> bool:
    """Whether a distribution on the path names a group of ours; `importlib.metadata` takes 30 ms to import."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - faster, and called for every launch
        except NotADirectoryError:
            return True  # an archive
        except OSError:
            continue
        if any(name.endswith(".egg") for name in (folder, *names)):
            return True
        for name in names:
            if name.lower().endswith((".dist-info", ".egg-info")):
                with suppress(OSError):
                    if b"[autoresearch." in Path(folder, name, "entry_points.txt").read_bytes():
                        return True
    return False


@lru_cache(maxsize=1)
def _scan() -> tuple[Plugin, ...]:
    if not _may_be_any():
        return ()
    from importlib.metadata import entry_points

    points = entry_points()
    found = []
    for group in GROUPS:
        for point in points.select(group=f"autoresearch.{group}"):
            whose = (point.dist.name, point.dist.version) if point.dist else ("", "")
            found.append(Plugin(group, point.name.strip().lower(), point.value, *whose))
    return tuple(sorted(set(found), key=lambda one: (GROUPS.index(one.group), one.name, one.origin)))


@dataclass(frozen=True, slots=True)
class PluginNames:
    """The names of all plug-ins of a group, to look one up; nothing is scanned before."""

    group: str

    def __contains__(self, name: object) -> bool:
        return any(one.name == name for one in _scan() if one.group == self.group)


@dataclass(frozen=True, slots=True)
class PluginGroup:
    """The plug-ins of one registry.

    like: the protocol that what they offer must fulfil, or a function that it must be callable like.
    taken: the registry's own names, which no plug-in may replace.
    make: how that object is made of what the entry point names; by default, a class is called without arguments.
    """

    group: str  # one of GROUPS
    like: type | Callable[..., Any]
    taken: Collection[str]
    make: Callable[[Any], Any] | None = None

    def installed(self) -> tuple[Plugin, ...]:
        """All of them by name, usable or not. Imports none."""
        return tuple(one for one in _scan() if one.group == self.group)

    def find(self, name: str) -> Plugin | None:
        """The plug-in with this name (case-insensitive), usable or not; None if the registry has the name itself."""
        key = name.strip().lower()
        return None if key in self.taken else next((one for one in self.installed() if one.name == key), None)

    def get(self, name: str) -> Any:
        """What the plug-in with this name offers; None if there is none.

        Raises EnvironmentUnusable (`plugin_broken`), one sentence that names the plug-in and what is wrong.
        """
        plugin = self.find(name)
        if plugin is None:
            return None
        value, fault = self._loaded(plugin)
        if fault:
            hint = f"repair or remove it: pip uninstall {plugin.distribution or plugin.name}"
            raise EnvironmentUnusable(f"{plugin} cannot be used: {fault}", hint=hint, code="plugin_broken")
        return value

    def usable(self) -> dict[str, Any]:
        """What all plug-ins offer that can be used, by name; each other one is named in a PluginWarning, once."""
        offered = {}
        for plugin in self.installed():
            value, fault = self._loaded(plugin)
            if fault:
                _warn(f"{plugin} is left out: {fault}")
            else:
                offered[plugin.name] = value
        return offered

    def record(self, names: Iterable[str]) -> dict[str, str]:
        """Those of these names that are plug-ins, as specs record them: `trainers.mine` -> `autoresearch-mine 1.2`."""
        return {f"{self.group}.{one.name}": one.origin for name in names if name and (one := self.find(name))}

    def answer(self, name: str, question: Callable[[], T], otherwise: T) -> T:
        """What a plug-in answers that every command of a kind asks; if it raises, it is named, and this is its answer.

        For questions about what is not the plug-in's own, such as whether it recognises a command.
        """
        raised: list[str] = []
        with _caught(raised):
            return question()
        _warn(f"{self.find(name) or name} is passed over: {raised[0]}")
        return otherwise

    def faults(self) -> dict[Plugin, str]:
        """All of them, each with what is wrong with it in one clause; "" if nothing."""
        return {plugin: self._loaded(plugin)[1] for plugin in self.installed()}

    def _loaded(self, plugin: Plugin) -> tuple[Any, str]:
        if plugin.name in self.taken:
            return None, "that name is one of autoresearch's own"
        if (first := self.find(plugin.name)) not in (plugin, None):
            return None, f"{first.origin} has that name, too, and comes first" if first else ""
        return _offered(plugin, self.like, self.make)


def _offered(plugin: Plugin, like: type | Callable[..., Any], make: Callable[[Any], Any] | None) -> tuple[Any, str]:
    """What an entry point names, imported and made, and what is wrong with it in one clause."""
    from importlib import import_module

    module, _, attribute = plugin.reference.partition(":")
    raised: list[str] = []
    with _caught(raised):
        value: Any = import_module(module)
        for name in attribute.split(".") if attribute else ():
            value = getattr(value, name)
        value = make(value) if make else value() if isinstance(value, type) else value
        return value, why_unlike(value, like)
    return None, raised[0]


@contextmanager
def _caught(raised: list[str]) -> Iterator[None]:
    """Foreign code runs here: whatever it raises is added to the list, in one line."""
    try:
        yield
    except (Exception, SystemExit) as error:  # noqa: BLE001 - nothing that a plug-in raises may stop a command
        raised.append(f"{type(error).__name__}: {' '.join(str(error).split())}"[:300].removesuffix(": "))


@lru_cache(maxsize=256)
def _warn(sentence: str) -> None:
    warnings.warn(sentence, PluginWarning, stacklevel=3)


def forget() -> None:
    """Scan again when next asked: something was installed while this process ran."""
    _scan.cache_clear()
    _warn.cache_clear()


def why_unlike(value: object, like: type | Callable[..., Any]) -> str:
    """What an object lacks of a protocol, or of a function's signature, in one clause; "" if nothing."""
    if not isinstance(like, type):
        return _why_not_callable(value, like, "it")
    if isinstance(value, type):
        return "it is a class, not an object"
    for name, member in _members(like).items():
        if not hasattr(value, name):
            return f"{type(value).__name__} has no `{name}`"
        if callable(member):
            method = getattr(value, name)
            if fault := _why_not_callable(method, getattr(like, name), f"`{name}`", bound=True):
                return fault
    return ""


def _members(protocol: type) -> dict[str, object]:
    """The public members of a protocol and of those that it extends; an annotated field has None."""
    found: dict[str, object] = {}
    for one in reversed(protocol.__mro__[:-1]):
        fields = dict.fromkeys(vars(one).get("__annotations__", ()))
        found |= {name: value for name, value in {**fields, **vars(one)}.items() if not name.startswith("_")}
    return found


def _why_not_callable(value: object, like: Callable[..., Any], what: str, *, bound: bool = False) -> str:
    """Whether a function takes the arguments of another. bound: `like` has a `self` beside them."""
    import inspect

    if not callable(value):
        return f"{what} is no function"
    expected = list(inspect.signature(like).parameters.values())[1 if bound else 0 :]
    by_name = {one.name: None for one in expected if one.kind is one.KEYWORD_ONLY}
    try:
        inspect.signature(value).bind(*[None] * (len(expected) - len(by_name)), **by_name)
    except ValueError:  # a function in C without a signature
        return ""
    except TypeError:
        return f"{what} does not take ({', '.join(map(str, (one.name for one in expected)))})"
    return ""
