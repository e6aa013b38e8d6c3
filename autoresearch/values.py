"""`dataclasses`, for the classes of this house: what a class can do is made when it is first asked to do it.

The decorator of the standard library writes and compiles six functions for every class, 0.5 to 1 ms each time, and its
import takes 10 ms. A command imports 50 to 200 such classes and makes values of a third of them, mostly one or two.
Here a class costs 0.04 ms, `__init__` is compiled (0.1 ms) for the seventh value, and the rest is a few functions that
all classes share. What the standard library knows of a dataclass (`dataclasses.replace`, `fields`, `asdict`,
subclasses) it finds in ours as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace

__all__ = ["MISSING", "asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]

_MISSING: Any = type("MISSING", (), {"__repr__": lambda _: "MISSING"})()
_FIELDS = "__value_fields__"
_UNCOMPILED = 6  # values of a class: so many cost what compiling its `__init__` does, and most classes have fewer


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
    own = dict(cls.__dict__)
    by_name: dict[str, _Field] = {}
    for base in cls.__mro__[:0:-1]:
        by_name |= base.__dict__.get(_FIELDS, {})
    inherited = set(by_name)
    for name, kind in own.get("__annotations__", {}).items():
        if not str(kind).startswith(("ClassVar", "typing.ClassVar")):
            said = own.pop(name, _MISSING)
            said = said if said.__class__ is _Field else _Field(said)
            by_name[name] = _Field(*said[:5], kw_only, name, kind)
            if said.default.__class__.__hash__ is None:
                raise ValueError(f"{cls.__name__}.{name}: all values would share its default; use a default_factory")
            if slots:
                continue
            if said.default is not _MISSING:
                setattr(cls, name, said.default)
            elif name in cls.__dict__:
                delattr(cls, name)
    made = [cls]
    methods = _methods(made, own, by_name, frozen)
    if slots:  # only a new class can have them
        for name in ("__dict__", "__weakref__"):
            own.pop(name, None)
        own["__slots__"] = tuple(name for name in by_name if name not in inherited)
        own["__qualname__"] = cls.__qualname__
        made[0] = type(cls)(cls.__name__, cls.__bases__, own | methods)
    else:
        for name, method in methods.items():
            setattr(cls, name, method)
    return made[0]


def _methods(made: list[Any], own: Mapping[str, Any], by_name: dict[str, _Field], frozen: bool) -> dict[str, Any]:
    """What a class gets that it does not define itself; `made` holds that class, once there is one."""
    compared = [one.name for one in by_name.values() if one.compare]
    values = attrgetter(*compared) if compared else lambda _: ()
    left = [_UNCOMPILED]

    def first(self: Any, *args: Any, **options: Any) -> None:
        left[0] -= 1
        if left[0] < 0 or not _filled(self, by_name, args, options):
            made[0].__init__ = _initialiser(made[0], by_name, frozen)
            made[0].__init__(self, *args, **options)
        elif hasattr(self, "__post_init__"):
            self.__post_init__()

    def equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    methods: dict[str, Any] = {"__init__": first, "__eq__": equal, "__repr__": _repr}
    methods["__match_args__"] = tuple(one.name for one in by_name.values() if one.init and not one.kw_only)
    if frozen:
        methods |= {"__setattr__": _refuse, "__delattr__": _refuse, "__setstate__": _set_state}
    methods = {name: method for name, method in methods.items() if name not in own}
    if own.get("__hash__") is None:  # also None where the class has its own __eq__
        methods["__hash__"] = (lambda self: hash(values(self))) if frozen else None
    for name in ("__dataclass_fields__", "__dataclass_params__"):
        methods[name] = _ForDataclasses(name)
    return methods | {_FIELDS: by_name}


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
    return hasattr(value, _FIELDS)


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


if not TYPE_CHECKING:
    MISSING, dataclass, field, fields = _MISSING, _dataclass, _Field, _fields
    is_dataclass, replace, asdict = _is_dataclass, _replace, _asdict
