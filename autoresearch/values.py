"""`dataclasses`, for the classes of this house: what a class can do is made when it is first asked to do it.

The decorator of the standard library writes and compiles six functions for every class, 0.5 to 1 ms each time, and its
import takes 10 ms. A command imports 60 to 250 such classes and makes values of a quarter of them. Here a class costs
0.05 ms, `__init__` is compiled for the first value, and the rest is a few functions that all classes share. What the
standard library knows of a dataclass (`dataclasses.replace`, `fields`, `asdict`, subclasses) it finds in ours as well.
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
_ATOMS = (str, int, float, type(None))


class _Field(NamedTuple):
    """One field of a class: as it is declared, and the name and type that it is declared for."""

    name: str = ""
    type: Any = None
    default: Any = _MISSING
    default_factory: Any = _MISSING
    init: bool = True
    repr: bool = True
    compare: bool = True
    kw_only: bool = False

    @property
    def needed(self) -> bool:
        return self.default is _MISSING and self.default_factory is _MISSING


def _field(**how: Any) -> Any:
    """What `dataclasses.field` is."""
    return _Field(**how)


def _dataclass(cls: Any = None, /, *, frozen: bool = False, slots: bool = False, kw_only: bool = False) -> Any:
    """What `dataclasses.dataclass` is, with the options that are used here."""
    return _made(cls, frozen, slots, kw_only) if cls else lambda cls: _made(cls, frozen, slots, kw_only)


def _made(cls: Any, frozen: bool, slots: bool, kw_only: bool) -> Any:
    by_name: dict[str, _Field] = {}
    for base in cls.__mro__[:0:-1]:
        by_name |= base.__dict__.get(_FIELDS, {})
    inherited = set(by_name)
    for name, kind in cls.__dict__.get("__annotations__", {}).items():  # noqa: RUF063 - inspect takes 8 ms
        if not str(kind).startswith(("ClassVar", "typing.ClassVar")):
            value = cls.__dict__.get(name, _MISSING)
            said = value if isinstance(value, _Field) else _Field(default=value)
            by_name[name] = said._replace(name=name, type=kind, kw_only=kw_only)
            if said.default.__class__.__hash__ is None:
                raise ValueError(f"{cls.__name__}.{name}: all values would share its default; use a default_factory")
            if said.default is not _MISSING:
                setattr(cls, name, said.default)
            elif value is not _MISSING:
                delattr(cls, name)
    if slots:
        cls = _slotted(cls, [name for name in by_name if name not in inherited], by_name)
    _add_methods(cls, by_name, frozen=frozen, slots=slots)
    return cls


def _slotted(cls: Any, own: list[str], by_name: Mapping[str, _Field]) -> Any:
    """The same class with slots for its own fields: only a new one can have them."""
    names = {name: value for name, value in cls.__dict__.items() if name not in by_name}
    for name in ("__dict__", "__weakref__"):
        names.pop(name, None)
    again = type(cls)(cls.__name__, cls.__bases__, names | {"__slots__": tuple(own)})
    again.__qualname__ = cls.__qualname__
    return again


def _add_methods(cls: Any, by_name: dict[str, _Field], *, frozen: bool, slots: bool) -> None:
    compared = tuple(one.name for one in by_name.values() if one.compare)
    values = attrgetter(*compared) if compared else lambda _: ()

    def first(self: Any, *args: Any, **options: Any) -> None:
        cls.__init__ = _initialiser(cls, by_name, frozen=frozen)
        cls.__init__(self, *args, **options)

    def equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def number(self: Any) -> int:
        return hash(values(self))

    def assign(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in by_name:
            _refuse(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in by_name:
            _refuse(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    methods: dict[str, Any] = {"__init__": first, "__eq__": equal, "__repr__": _repr}
    methods["__match_args__"] = tuple(one.name for one in by_name.values() if one.init and not one.kw_only)
    if frozen:
        methods |= {"__setattr__": assign, "__delattr__": delete}
        methods |= {"__getstate__": _state, "__setstate__": _set_state} if slots else {}
    own = cls.__dict__
    if own.get("__hash__") is None:  # also None where the class has its own __eq__
        cls.__hash__ = number if frozen else None
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    setattr(cls, _FIELDS, by_name)
    for name in ("__dataclass_fields__", "__dataclass_params__"):
        setattr(cls, name, _ForDataclasses(cls, name, frozen=frozen))


def _initialiser(cls: Any, by_name: Mapping[str, _Field], *, frozen: bool) -> Callable[..., None]:
    """`__init__`, compiled."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": _MISSING}
    parameters: list[str] = []
    keywords: list[str] = []
    body: list[str] = []
    for name, one in by_name.items():
        value = name
        if one.default_factory is not _MISSING:
            names[f"_new_{name}"] = one.default_factory
            value = f"_new_{name}() if {name} is _missing else {name}" if one.init else f"_new_{name}()"
        elif one.default is not _MISSING:
            names[f"_default_{name}"] = one.default
            value = name if one.init else f"_default_{name}"
        if one.init:
            default = "" if one.needed else "=_missing" if one.default is _MISSING else f"=_default_{name}"
            (keywords if one.kw_only else parameters).append(name + default)
        if one.init or not one.needed:
            body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    listed = ", ".join(["self", *parameters, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({listed}):\n " + "\n ".join(body or ["pass"]), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _refuse(sentence: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(sentence)


def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in _fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in _fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(_fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


class _ForDataclasses:
    """What the standard library asks a dataclass for, made of an equal one when it asks."""

    def __init__(self, cls: Any, name: str, *, frozen: bool) -> None:
        self._cls, self._name, self._frozen = cls, name, frozen

    def __get__(self, instance: object, owner: object) -> Any:
        import dataclasses

        said = [(one.name, one.type, _theirs(one)) for one in _fields(self._cls)]
        equal = dataclasses.make_dataclass(self._cls.__name__, said, frozen=self._frozen, kw_only=True)
        value = getattr(equal, self._name)
        setattr(self._cls, self._name, value)
        return value


def _theirs(declared: _Field) -> Any:
    import dataclasses

    default = {"default": declared.default, "default_factory": declared.default_factory}
    given = {name: value for name, value in default.items() if value is not _MISSING}
    return dataclasses.field(init=declared.init, repr=declared.repr, compare=declared.compare, **given)


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
    """What `dataclasses.asdict` does."""
    return {one.name: _plain(getattr(value, one.name)) for one in _fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, _ATOMS):
        return value
    if not isinstance(value, type) and _is_dataclass(value):
        return _asdict(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_plain, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    if isinstance(value, dict):
        return type(value)((_plain(key), _plain(one)) for key, one in value.items())
    from copy import deepcopy

    return deepcopy(value)


if not TYPE_CHECKING:
    MISSING, dataclass, field, fields = _MISSING, _dataclass, _field, _fields
    is_dataclass, replace, asdict = _is_dataclass, _replace, _asdict
