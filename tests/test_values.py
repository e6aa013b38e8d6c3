"""Our dataclasses against those of the standard library: one class, made by both, does the same."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from autoresearch import values

Make = Callable[[Any, Any], type[Any]]  # of a module: `dataclasses`, or ours


def point(kind: Any, options: dict[str, bool]) -> type[Any]:
    @kind.dataclass(**options)
    class Point:
        """Two numbers."""

        unit: ClassVar[str] = "m"
        x: int
        y: int = 2
        tags: list[str] = kind.field(default_factory=list)
        seen: int = kind.field(default=0, init=False, repr=False, compare=False)

        @property
        def total(self) -> int:
            return self.x + self.y

    return Point


def below(kind: Any, options: dict[str, bool], base: type[Any] | None = None) -> type[Any]:
    base = base or point(kind, options)

    @kind.dataclass(**options)
    class Below(base):  # type: ignore[misc, valid-type]
        y: int = 7
        inner: Any = None

        def __repr__(self) -> str:
            return f"below {self.x}"

    return Below


def checked(kind: Any, options: dict[str, bool]) -> type[Any]:
    @kind.dataclass(**options)
    class Checked:
        x: int

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("below zero")

        def __eq__(self, other: object) -> bool:
            return True

    return Checked


CLASSES = (point, below, checked)
OPTIONS = ({"frozen": True, "slots": True}, {"slots": True}, {"frozen": True}, {}, {"frozen": True, "kw_only": True})


def answer(ask: Callable[[Any, Any], Any], kind: Any, cls: type[Any]) -> object:
    """What it says, or that it refuses."""
    try:
        return repr(ask(kind, cls)).replace(f"{cls.__qualname__}", "C")
    except (TypeError, ValueError):
        return "no"
    except AttributeError as error:
        return type(error).__name__


ASKED: list[Callable[[Any, Any], Any]] = [
    lambda _, c: c(1),
    lambda _, c: c(x=1),
    lambda _, c: c(x=-1),
    lambda _, c: c(x=1, y=3).total,
    lambda _, c: c(x=1, tags=["a"]).tags,
    lambda _, c: c(x=1).tags is c(x=1).tags,
    lambda _, c: c(),
    lambda _, c: c(1, 2, 3, 4, 5, 6),
    lambda _, c: c(x=1, seen=3),
    lambda _, c: c(x=1).seen,
    lambda _, c: (c(x=1) == c(x=1), c(x=1) == c(x=2), c(x=1) == 1),
    lambda _, c: hash(c(x=1)) == hash(c(x=1)),
    lambda _, c: hash(c(x=1, tags=())) == hash(c(x=1, tags=())),
    lambda _, c: setattr(c(x=1), "x", 2),
    lambda _, c: delattr(c(x=1), "x"),
    lambda _, c: (c.__name__, c.__match_args__),
    lambda _, c: getattr(c, "unit", None),
    lambda _, c: hasattr(c(x=1), "__dict__"),
    lambda kind, c: kind.replace(c(x=1), x=5),
    lambda kind, c: kind.replace(c(x=1), seen=5),
    lambda kind, c: kind.replace(c(x=1), none=5),
    lambda kind, c: kind.asdict(c(x=1)),
    lambda kind, c: kind.asdict(c(x=1, tags=[c(x=2), {"k": (c(x=3),)}])),
    lambda kind, c: [(one.name, one.type, one.init, one.default == 2) for one in kind.fields(c)],
    lambda kind, c: [one.name for one in kind.fields(c(x=1)) if one.default is kind.MISSING],
    lambda kind, c: (kind.is_dataclass(c), kind.is_dataclass(c(x=1)), kind.is_dataclass(int)),
    lambda _, c: dataclasses.replace(c(x=1), x=5),
    lambda _, c: dataclasses.asdict(c(x=1)),
    lambda _, c: [one.name for one in dataclasses.fields(c)],
    lambda _, c: below(dataclasses, {"frozen": c.__dataclass_params__.frozen}, c)(x=1),
    lambda _, c: copy.copy(c(x=1)),
    lambda _, c: copy.deepcopy(c(x=1, tags=["a"])),
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("make", CLASSES)
def test_ours_do_what_those_of_the_standard_library_do(make: Make, options: dict[str, bool]) -> None:
    theirs, ours = make(dataclasses, options), make(values, options)
    for number, ask in enumerate(ASKED):  # the first values of a class are made without a compiled `__init__`
        expected = answer(ask, dataclasses, theirs)
        assert (answer(ask, values, ours), answer(ask, values, make(values, options))) == (expected, expected), number


def test_a_default_that_all_values_would_share_is_refused() -> None:
    with pytest.raises(ValueError, match="default_factory"):
        values.dataclass(type("Shared", (), {"__annotations__": {"x": list}, "x": []}))


def test_a_value_of_a_module_is_pickled() -> None:
    from autoresearch.core.run.targets import Target

    target = Target("ssh", "gpu1")
    assert pickle.loads(pickle.dumps(target)) == target


@pytest.mark.system
def test_values_are_made_without_the_module_of_the_standard_library() -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from autoresearch.values import dataclass, replace, fields, asdict\n"
        "cls = dataclass(frozen=True, slots=True)(type('A', (), {'__annotations__': {'x': int}}))\n"
        "print(replace(cls(1), x=2), asdict(cls(1)), hash(cls(1)) == hash(cls(1)), *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("A(x=2) {'x': 1} True ")
    assert not {"dataclasses", "inspect", "copy"} & set(done.stdout.split())
