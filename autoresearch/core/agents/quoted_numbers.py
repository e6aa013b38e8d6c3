"""Which numbers in an agent's sentences are those of the records, at the precision that they are said with."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from autoresearch.core.text.regex import later

_NUMBER = later(r"(?<![\w.@/-])[-+−]?(?:\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+(?= ?%))( ?%| per ?cent)?(?![\w])")
_WHOLE = later(r"(?<![\w.@/#-])[-+−]?\d{2,}(?![\w.]*\d|\w| ?%| per ?cent)")
_IN_TEXT = later(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class IdeaNumbers:
    """Numbers of one idea: the means that differences are computed from (its own, its parent's), and all others."""

    means: Collection[float] = ()
    others: Collection[float] = ()


@dataclass(frozen=True, slots=True)
class KnownNumbers:
    """Numbers that are known: of each idea by its slug, and those that any sentence may hold."""

    ideas: Mapping[str, IdeaNumbers] = field(default_factory=dict)
    common: IdeaNumbers = field(default_factory=IdeaNumbers)  # of the baseline, the noise, the target
    names: Collection[str] = ()  # of metrics and recipe keys: digits in these names are not numbers


def numbers_in(text: str) -> list[float]:
    """Every number of a text, without its sign."""
    return [float(found[0]) for found in _IN_TEXT.finditer(text[:20_000])]


def unproven(sentence: str, numbers: KnownNumbers, *, about: Collection[str] = (), whole: bool = False) -> list[str]:
    """The numbers of a sentence that no record shows, as written; [] if it is about no known idea or metric.

    about: ideas that it is about even where it does not name them. whole: integers of two digits or more are looked
    at as well; smaller ones count things.
    """
    meant = [slug for slug in numbers.ideas if slug in about or _names(sentence, slug)]
    if not meant and not about and not any(_names(sentence, name) for name in numbers.names):
        return []
    bare = sentence
    for name in sorted((*meant, *numbers.names), key=len, reverse=True):
        bare = bare.replace(name, " ")
    ideas = [numbers.ideas[slug] for slug in meant or numbers.ideas]
    means = [mean for one in ideas for mean in one.means]
    against = [*numbers.common.means, *(means if meant else ())]
    values = [*means, *numbers.common.means, *numbers.common.others, *(value for one in ideas for value in one.others)]
    values += [a - b for a in means for b in against]
    values += [a / b - 1 for a in means for b in against if b]
    found = [*_NUMBER.finditer(bare), *(_WHOLE.finditer(bare) if whole else ())]
    return [number[0].strip() for number in found if not _is_known(number[0], values)]


def _names(sentence: str, name: str) -> bool:
    at = sentence.find(name)
    while at >= 0:
        before, after = sentence[at - 1 : at] if at else "", sentence[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before in ("-", "_")) and not (after.isalnum() or after in ("-", "_")):
            return True
        at = sentence.find(name, at + 1)
    return False


def _is_known(text: str, known: Iterable[float]) -> bool:
    plain = text.replace("−", "-").replace("per cent", "%").replace("percent", "%").replace(" ", "")
    share = plain.endswith("%")
    digits = plain.rstrip("%").lstrip("+-")
    number = float(digits)
    mantissa, _, power = digits.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(power or 0) - decimals)
    return any(
        math.isfinite(value) and abs(abs(value) * (100 if share else 1) - number) <= 0.5000001 * unit for value in known
    )
