"""Quoted numbers: finds the numbers in an agent's summary that are not in the ledger.

An agent that summarises a campaign may round, and may also misremember. A number with a decimal point or a per cent
sign, in a sentence about a known idea or the metric, must be one that was measured or that follows from measurements:
a value, a difference to the parent or the baseline, a setting. It is compared at the precision with which it is
written. Bare whole numbers are counts and are not checked.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from autoresearch.core.text.regex import later

_NUMBER = later(r"(?<![\w.@/-])[-+−]?(?:\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+(?= ?%))( ?%| per ?cent)?(?![\w])")


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


def unproven(sentence: str, numbers: KnownNumbers) -> list[str]:
    """The numbers of a sentence that no record shows, as written; [] if it is about no known idea or metric."""
    about = [slug for slug in numbers.ideas if _names(sentence, slug)]
    if not about and not any(_names(sentence, name) for name in numbers.names):
        return []
    bare = sentence
    for name in sorted((*about, *numbers.names), key=len, reverse=True):
        bare = bare.replace(name, " ")
    ideas = [numbers.ideas[slug] for slug in about or numbers.ideas]
    means = [mean for one in ideas for mean in one.means]
    against = [*numbers.common.means, *(means if about else ())]
    values = [*means, *numbers.common.means, *numbers.common.others, *(value for one in ideas for value in one.others)]
    values += [a - b for a in means for b in against]
    values += [a / b - 1 for a in means for b in against if b]
    return [number[0].strip() for number in _NUMBER.finditer(bare) if not _is_known(number[0], values)]


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
