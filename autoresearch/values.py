"""`dataclasses`, for the classes of this house: what a class can do is made when it is first asked to do it.

The decorator of the standard library writes and compiles six functions for every class, 0.5 to 1 ms each time, and its
import takes 10 ms. A command imports 50 to 200 such classes and makes values of a third of them, mostly one or two.
Here a class costs 0.02 ms, its fields are looked at for its first value, `__init__` is compiled (0.1 ms) for the
seventh, and the rest is a few functions that all classes share. What the standard library knows of a dataclass
(`dataclasses.replace`, `fields`, `asdict`, subclasses) it finds in ours as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import hashlib
    from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace

__all__ = ["MISSING", "asdict", "dataclass", "field", "fields", "is_dataclass", "replace", "sha256"]

_MISSING: Any = type("MISSING", (), {"__repr__": lambda _: "MISSING"})()
_FIELDS, _DECLARED = "__value_fields__", "__value_declared__"
_UNCOMPILED = 6  # values of a class: so many cost what compiling its `__init__` does, and most classes have fewer


def sha256(data: bytes = b"") -> hashlib._Hash:
    """`hashlib.sha256`, without OpenSSL, which takes 3 ms to load."""
    made: hashlib._Hash = _sha256_module().sha256(data)
    return made


@cache
def _sha256_module() -> Any:
    for name in ("_sha256", "_sha2"):  # of Python 3.11; of later ones
        try:
            return import_module(name)
        except ImportError:
            pass
    return import_module("hashlib")


class _Field(NamedTuple):
    """One field of a class: as it is declared, and the name and type that it is declared for."""

    default: Any = _MISSING
    default_factory: Any = _MISSING
    init: bool = True
    repr: bool = True
    compare: bool = True
    kw_only: bool = False
    name: str = ""
    type: Any = None


def _dataclass(cls: Any = None, /, *, frozen: bool = False, slots: bool = False, kw_only: bool = False) -> Any:
    """What `dataclasses.dataclass` is, with the options that are used here."""
    return _made(cls, frozen, slots, kw_only) if cls else lambda cls: _made(cls, frozen, slots, kw_only)


def _made(cls: Any, frozen: bool, slots: bool, kw_only: bool) -> Any:
    own, defaults = dict(cls.__dict__), {}
    for name, kind in own.get("__annotations__", {}).items():
        if not str(kind).startswith(("ClassVar", "typing.ClassVar")):
            defaults[name] = said = own.pop(name, _MISSING)
            if said.__class__.__hash__ is None:
                raise ValueError(f"{cls.__name__}.{name}: all values would share its default; use a default_factory")
    added = {name: method for name, method in (_FROZEN if frozen else _SHARED).items() if name not in own}
    if own.get("__hash__") is None:  # also None where the class has its own __eq__
        added["__hash__"] = _hash if frozen else None
    added[_DECLARED] = (defaults, kw_only, frozen)
    if slots:  # only a new class can have them
        inherited = {name for base in cls.__mro__[1:-1] for name in base.__dict__.get(_DECLARED, ((),))[0]}
        added |= {"__slots__": tuple(name for name in defaults if name not in inherited)}
        added["__qualname__"] = cls.__qualname__
        for name in ("__dict__", "__weakref__"):
            own.pop(name, None)
        return type(cls)(cls.__name__, cls.__bases__, own | added)
    for name, said in defaults.items():
        if said.__class__ is _Field:
            added[name] = said.default
            delattr(cls, name)
    for name, value in added.items():
        if value is not _MISSING:
            setattr(cls, name, value)
    return cls


class _AllFields:
    """The fields of a class by name, with those that it inherits; made when they are first asked for."""

    def __get__(self, instance: object, owner: Any) -> dict[str, _Field]:
        by_name = {}
        for base in owner.__mro__[::-1]:
            defaults, kw_only, _ = base.__dict__.get(_DECLARED, ({}, False, False))
            for name, said in defaults.items():
                said = said if said.__class__ is _Field else _Field(said)
                by_name[name] = _Field(*said[:5], kw_only, name, base.__annotations__[name])
        setattr(next(base for base in owner.__mro__ if _DECLARED in base.__dict__), _FIELDS, by_name)
        return by_name


class _MatchArgs:
    """What `match` takes by position."""

    def __get__(self, instance: object, owner: Any) -> tuple[str, ...]:
        return tuple(one.name for one in _fields(owner) if one.init and not one.kw_only)


def _first(self: Any, *args: Any, **options: Any) -> None:
    """`__init__` of a class that has few values so far."""
    cls: Any = next(base for base in type(self).__mro__ if base.__dict__.get("__init__") is _first)
    _made_so_far[cls] = count = _made_so_far.get(cls, 0) + 1
    if count > _UNCOMPILED or not _filled(self, getattr(cls, _FIELDS), args, options):
        cls.__init__ = made = _initialiser(cls, getattr(cls, _FIELDS), cls.__dict__[_DECLARED][2])
        made(self, *args, **options)
    elif hasattr(self, "__post_init__"):
        self.__post_init__()


def _compared(value: Any) -> Any:
    cls = value.__class__
    if cls not in _getters:
        names = [one.name for one in _fields(cls) if one.compare]
        _getters[cls] = attrgetter(*names) if names else lambda _: ()
    return _getters[cls](value)


def _equal(self: Any, other: object) -> Any:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _filled(self: Any, by_name: Mapping[str, _Field], args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether it has all its fields now: not where a word is missing or too many, which the compiled one refuses."""
    taken, named = 0, 0
    for name, one in by_name.items():
        if one.init and not one.kw_only and taken < len(args):
            value = args[taken]
            taken += 1
        elif one.init and name in options:
            value = options[name]
            named += 1
        elif one.default_factory is not _MISSING:
            value = one.default_factory()
        elif (value := one.default) is _MISSING and one.init:
            return False
        if value is not _MISSING:
            object.__setattr__(self, name, value)
    return taken == len(args) and named == len(options)


def _initialiser(cls: Any, by_name: Mapping[str, _Field], frozen: bool) -> Callable[..., None]:
    """`__init__`, compiled."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": _MISSING}
    parameters: list[str] = []
    keywords: list[str] = ["*"]
    body: list[str] = []
    for name, one in by_name.items():
        declared, value, made = name, name, ""
        if one.default is not _MISSING:
            names[f"_default_{name}"] = one.default
            made = f"_default_{name}"
            declared = f"{name}={made}"
        elif one.default_factory is not _MISSING:
            names[f"_new_{name}"] = one.default_factory
            made = f"_new_{name}()"
            declared, value = f"{name}=_missing", f"{made} if {name} is _missing else {name}"
        if one.init:
            (keywords if one.kw_only else parameters).append(declared)
        if value := value if one.init else made:
            body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    body.append("self.__post_init__()" if hasattr(cls, "__post_init__") else "pass")
    listed = ", ".join(["self", *parameters, *(keywords if keywords[1:] else [])])
    exec(f"def __init__({listed}):\n " + "\n ".join(body), names)
    made_init: Callable[..., None] = names["__init__"]
    made_init.__qualname__ = f"{cls.__qualname__}.__init__"
    return made_init


def _refuse(self: Any, name: str, *_: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot change field {name!r}")


def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in _fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _set_state(self: Any, state: Any) -> None:
    """As pickle and copy do it, but that a frozen value refuses them."""
    for names in state if isinstance(state, tuple) else (state,):
        for name, value in (names or {}).items():
            object.__setattr__(self, name, value)


class _ForDataclasses:
    """What the standard library asks a dataclass for, made of an equal one when it asks."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: Any) -> Any:
        import dataclasses

        said = []
        for one in _fields(owner):
            how = {key: value for key, value in one._asdict().items() if value is not _MISSING}
            said.append((how.pop("name"), how.pop("type"), dataclasses.field(**how)))
        equal = dataclasses.make_dataclass(owner.__name__, said, frozen=owner.__setattr__ is _refuse)
        setattr(owner, self._name, getattr(equal, self._name))
        return getattr(owner, self._name)


def _fields(value: Any) -> tuple[_Field, ...]:
    """The fields of a dataclass, or of a value of one."""
    return tuple(getattr(value, _FIELDS).values())


def _is_dataclass(value: object) -> bool:
    return hasattr(value, _DECLARED)


def _replace(value: Any, /, **changes: Any) -> Any:
    """What `dataclasses.replace` does."""
    for name in [one.name for one in _fields(value) if one.init and one.name not in changes]:
        changes[name] = getattr(value, name)
    return type(value)(**changes)


def _asdict(value: Any) -> dict[str, Any]:
    """What `dataclasses.asdict` does, except that it copies no value but lists, tuples and dicts."""
    return {one.name: _plain(getattr(value, one.name)) for one in _fields(value)}


def _plain(value: Any) -> Any:
    if _is_dataclass(type(value)):
        return _asdict(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return {key: _plain(one) for key, one in value.items()} if isinstance(value, dict) else value


_made_so_far: dict[Any, int] = {}
_getters: dict[Any, Callable[[Any], Any]] = {}
_SHARED: dict[str, Any] = {
    **{"__init__": _first, "__eq__": _equal, "__repr__": _repr, "__match_args__": _MatchArgs(), _FIELDS: _AllFields()},
    **{name: _ForDataclasses(name) for name in ("__dataclass_fields__", "__dataclass_params__")},
}
_FROZEN = _SHARED | {"__setattr__": _refuse, "__delattr__": _refuse, "__setstate__": _set_state}

if not TYPE_CHECKING:
    MISSING, dataclass, field, fields = _MISSING, _dataclass, _Field, _fields
    is_dataclass, replace, asdict = _is_dataclass, _replace, _asdict
