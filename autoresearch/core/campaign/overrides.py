"""Overrides: what an idea changes in the recipe; equality of ideas, and their generated names.

An override set maps dotted recipe keys to values. Equal ideas have equal fingerprints, however they are
written: 1e-3 and 0.001, 8 and 8.0, nested or dotted, in any order, with or without keys that change nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256

from autoresearch.core.text.regex import later
from autoresearch.core.text.session_and_branch_names import SLUG_MAX, first_free, slugify

_MISREAD = later(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+\Z")
_EXACT = 5  # significant digits up to which a number is shown as it is: somebody wrote it
_ROUNDED = 3  # of any other number: a sampler drew it


def plain(value: object) -> object:
    """The intended value: YAML 1.1 parses `1e-3`, which has no dot, as text."""
    if isinstance(value, str) and _MISREAD.match(value.strip()):
        return float(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return value


def flatten(mapping: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested mappings as dotted keys, with values normalised by `plain`; an empty mapping counts as a value."""
    found: dict[str, object] = {}
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            found.update(flatten({str(k): v for k, v in value.items()}, f"{name}."))
        else:
            found[name] = plain(value)
    return found


def canonical(value: object) -> str:
    """The same text for all spellings of a value; True is not 1, and "8" in quotes is not 8."""
    value = plain(value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.12g}"
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{json.dumps(str(k))}:{canonical(v)}" for k, v in value.items())) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    return json.dumps(str(value))


def changed(overrides: Mapping[str, object], baseline: Mapping[str, object] | None = None) -> dict[str, object]:
    """The overrides that differ from the baseline's values, flattened, in their original order."""
    before = flatten(baseline or {})
    return {
        key: value
        for key, value in flatten(overrides).items()
        if key not in before or canonical(before[key]) != canonical(value)
    }


def fingerprint(overrides: Mapping[str, object], baseline: Mapping[str, object] | None = None) -> str:
    """16 hexadecimal digits, equal for equal ideas; without any change, the fingerprint of {}."""
    parts = sorted(f"{key}={canonical(value)}" for key, value in changed(overrides, baseline).items())
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def sentence(overrides: Mapping[str, object], baseline: Mapping[str, object] | None = None) -> str:
    """The changes as text: `lr 0.0003 -> 0.003, group_size 8 -> 16`; `lr = 0.003` where the old value is unknown."""
    different, before = changed(overrides, baseline), flatten(baseline or {})
    names = short_keys(different)
    sides = {key: f"{shown(before[key])} ->" if key in before else "=" for key in different}
    return ", ".join(f"{names[k]} {sides[k]} {shown(v)}" for k, v in different.items()) or "changes nothing"


def slug(
    overrides: Mapping[str, object], baseline: Mapping[str, object] | None = None, taken: Collection[str] = ()
) -> str:
    """A name such as `lr-3e-3-group-16`: at most 40 characters, made unique among `taken` by a suffix such as `-2`."""
    different = changed(overrides, baseline)
    names = short_keys(different)
    firsts = {key: re.split(r"[_\-]", name)[0] or name for key, name in names.items()}
    names = {key: one if list(firsts.values()).count(one) == 1 else names[key] for key, one in firsts.items()}
    words = " ".join(f"{names[key]} {spoken(value)}" for key, value in different.items())
    words = words.replace(" -", " neg")  # a slug cannot hold a minus
    whole = slugify(words, fallback="same")
    if len(re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")) > SLUG_MAX:
        mark = fingerprint(overrides, baseline)[:6]
        whole = f"{whole[: SLUG_MAX - 7].rstrip('-')}-{mark}"
    return unused(whole, taken)


def unused(name: str, taken: Collection[str]) -> str:
    """The name, with the first suffix of `-2`, `-3` ... that makes it unique if it is taken; 40 characters at most."""
    return first_free(name, taken.__contains__, SLUG_MAX)


def short_keys(keys: Iterable[str]) -> dict[str, str]:
    """The last part of each dotted key; of keys that share it, as many parts as tell them apart."""
    parts = {key: key.split(".") for key in keys}
    names = {}
    for key, own in parts.items():
        others = [other for name, other in parts.items() if name != key]
        apart = (n for n in range(1, len(own)) if all(other[-n:] != own[-n:] for other in others))
        names[key] = ".".join(own[-next(apart, len(own)) :])
    return names


def shown(value: object) -> str:
    """A value of a recipe with six digits, and cut if it is long."""
    value = plain(value)
    text = f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) else canonical(value)
    return cut(text, 40)


def spoken(value: object) -> str:
    """A value as people say it: a short number, the last part of a path, the beginning of a text."""
    value = plain(value)
    if isinstance(value, bool) or value is None or not isinstance(value, int | float):
        text = value.rstrip("/").rpartition("/")[2] if isinstance(value, str) else canonical(value)
        return cut(" ".join(text.split()) or '""', 24)
    return short_number(value)


def cut(text: str, most: int) -> str:
    """At most so many characters, cut between words where one ends in the second half."""
    if len(text) <= most:
        return text
    head = text[: most - 1]
    words = head if text[most - 1] == " " else head.rpartition(" ")[0]
    return f"{(words if len(words) > most // 2 else head).rstrip(' ,-')}…"


def short_number(value: float) -> str:
    """`4.4e-3`, `0.018`, `8192`: short numbers as they are, others to three digits; near 1, of what is missing to 1."""
    if isinstance(value, int) and abs(value) < 1_000_000:
        return str(value)
    digits = _EXACT
    if float(f"{value:.{_EXACT}g}") != value:
        digits = math.ceil(1 - math.log10(1 - abs(value))) if 0.9 < abs(value) < 1 else _ROUNDED
    if value and not 0.01 <= abs(value) < 1_000_000 and math.isfinite(value):
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    return f"{value:.{digits}g}"
