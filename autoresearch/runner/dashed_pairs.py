"""verl's pairs, ` - key:value - key:value ...`: a hundred on a line, of which one or two are asked for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from .basics import LazyPattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView, Iterator, KeysView

_VALUE = (
    r"(?:(?:np\.\w{1,12}|tensor)\()?([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI]nf(?:inity)?))"
    r"(?![a-z0-9_.:])"
)
_DASHED = LazyPattern(  # names may hold colons and blanks
    rf" - ([^\s:]+(?:(?: (?!- )|:(?!{_VALUE.replace('([', '(?:[', 1)}))[^\s:]*){{0,40}}):{_VALUE}"
)
_NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+|)(?:[eE][-+]?[0-9]+|)"  # in one way only: a line has a hundred
_NUMBERS = LazyPattern(rf"(?:{_NUMBER}(?::|\Z))+\Z")
_OFTEN = 64  # lines with the same names, before a template is made of them
_MOST_TEMPLATES = 4


class PrintedPairs(Mapping[str, float]):
    """Pairs whose numbers, all of them finite, stay as they are printed until they are asked for.

    Of a hundred numbers on a line one or two are needed, and to make floats of them takes half of the reader's time.
    """

    __slots__ = ("_column_of", "_numbers")

    def __init__(self, column_of: Mapping[str, int], numbers: str) -> None:
        self._column_of = column_of
        self._numbers = numbers  # joined by colons

    def __getitem__(self, name: str) -> float:
        return float(_texts(self._numbers)[self._column_of[name]])

    def __contains__(self, name: object) -> bool:
        return name in self._column_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._column_of)

    def __len__(self) -> int:
        return len(self._column_of)

    def keys(self) -> KeysView[str]:
        return self._column_of.keys()

    def items(self) -> ItemsView[str, float]:
        numbers = list(map(float, _texts(self._numbers)))
        return {name: numbers[column] for name, column in self._column_of.items()}.items()


@lru_cache(maxsize=4)
def _texts(numbers: str) -> list[str]:
    return numbers.split(":")


@lru_cache(maxsize=64)
def _columns(names: tuple[str, ...]) -> dict[str, int]:
    """Where each name's number is, of two the last; the lines of a log share these, and so its strings."""
    return {name: column for column, name in enumerate(names)}


def dashed_pairs(text: str) -> Mapping[str, float]:
    """All pairs of a text that begins with ` - `, split at once: that is ten times as fast as tokens.

    Where more than pairs is on the line, a regex finds them: names may hold anything, and other output may follow a
    value.
    """
    names, values = _dashed(text)
    numbers = ":".join(values)
    if names and _NUMBERS.match(numbers):
        return PrintedPairs(_columns(tuple(names)), numbers)
    if names and "_" not in numbers:  # Python reads 1_000 as a number
        try:
            return dict(zip(names, map(float, values)))  # noqa: B905
        except ValueError:
            pass
    return {name: float(number) for name, number in _DASHED.findall(text)}


class LineTemplates:
    """Reads one log, most of whose lines have the same names: a regex of these names takes half the time of splitting.

    The Runner has no use for it: it sees a line a minute, and is kept small.
    """

    def __init__(self) -> None:
        self._templates: list[tuple[Mapping[str, int], Callable[[str], re.Match[str] | None]]] = []
        self._seen: Counter[tuple[str, ...]] = Counter()

    def pairs_of(self, text: str) -> Mapping[str, float]:
        """The same as `dashed_pairs`."""
        for column_of, match in self._templates:
            if found := match(text):
                return PrintedPairs(column_of, ":".join(found.groups()))
        pairs = dashed_pairs(text)
        if isinstance(pairs, PrintedPairs) and len(self._templates) < _MOST_TEMPLATES:
            names = tuple(pairs)
            self._seen[names] += 1
            if self._seen[names] == _OFTEN:
                self._templates.append((_columns(names), _template(names, text)))
            if len(self._seen) > _OFTEN:  # no two lines have the same names
                self._seen.clear()
        return pairs


def _template(names: tuple[str, ...], text: str) -> Callable[[str], re.Match[str] | None]:
    """Matches the lines that differ from this one in their numbers alone."""
    wrapped, plain = rf"np\.float64\(({_NUMBER})\)", f"({_NUMBER})"
    starts = (f" - {name}:" for name in names)
    parts = (re.escape(start) + (wrapped if f"{start}np.float64(" in text else plain) for start in starts)
    return re.compile("".join((*parts, r"\Z"))).match


def _dashed(text: str) -> tuple[list[str], list[str]]:
    """Names and values of ` - key:value - key:value ...`, or of numpy 2; none if anything else is there."""
    if "np.float64(" in text:
        text = text.replace("np.float64(", "")
        if "(" in text:
            return [], []
        text = text.replace(")", "")
    parts = text[3:].replace(" - ", ":").split(":")
    names, values = parts[::2], parts[1::2]
    if text.count(" ") != 2 * len(values) or len(names) != len(values) or "" in parts:
        return [], []
    return names, values
