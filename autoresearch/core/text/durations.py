"""Durations as people write them: `1h30m`, `90 min`, `twenty-four hours`, `一天`, `24小时`, `01:30:00`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from autoresearch.core.text.numbers import counted
from autoresearch.core.text.regex import later
from autoresearch.errors import UsageError

LONGEST_S = 366 * 86400.0  # a duration of more than a year is treated as a typo

_HOW = "write it like 90s, 20m, 1h30m, 24h or 2d"
_SECONDS = {"w": 7 * 86400.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
_CJK_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}

_DIGITS = r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+|nan|inf(?:inity)?)"
_WORD = "|".join(_ONES[::-1])
_WORDS = rf"(?P<words>(?:(?:{'|'.join(_TENS)})(?:[- ](?:{_WORD}))?)|{_WORD})"
_HALF = r"(?P<half>half(?: an?)?|an?(?= half\b))"
_ENGLISH_UNIT = (
    r"(?P<unit>weeks?|wks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
    r"(?:(?=\d+[hms])|(?![a-z0-9_]))(?P<tail> and a half)?"
)
_CJK_UNIT = (
    r"(?P<cjk_unit>周|星期|天|小时|小時|钟头|鐘頭|时(?![间长候刻])|分钟|分鐘|分(?![之数析])|秒钟|秒)"
    r"(?P<cjk_tail>半)?"
)
_LEAD = r"(?:(?<![a-z0-9_])|(?<=\d[wdhm]))(?<!\d[.,])"
_NUMERALS = "零〇一二两三四五六七八九十百半"
_ONE_RE = later(
    rf"{_LEAD}(?P<sign>[-−]\s?)?(?:{_DIGITS}|{_WORDS})[\s-]?{_ENGLISH_UNIT}"
    rf"|{_LEAD}{_HALF} {_ENGLISH_UNIT.replace('<unit>', '<half_unit>').replace('<tail>', '<half_tail>')}"
    r"|(?<![a-z0-9_])an? (?P<a_unit>week|day|hour|minute)\b(?P<a_tail> and a half)?"
    rf"|(?:(?<![第{_NUMERALS}])(?P<cjk>[{_NUMERALS}]+)|{_LEAD}{_DIGITS.replace('<digits>', '<cjk_digits>')})"
    rf"\s?(?P<cjk_each>个半|個半|个|個)?\s?{_CJK_UNIT}",
)
_DIGITS_RE = later(rf"{_LEAD}(?P<sign>-\s?)?{_DIGITS}[\s-]?{_ENGLISH_UNIT}")  # compiled in a third of the time
_NOT_IN_DIGITS = (*_ONES, *_TENS, "half", "a ", "an ")
_GROUPS = ("words", "half", "half_unit", "half_tail", "a_unit", "a_tail", "cjk", "cjk_digits", "cjk_each", "cjk_unit",
           "cjk_tail")  # fmt: skip
_CLOCK = later(r"(?<![\d:])(?:(?P<days>\d{1,3})-)?(?P<h>\d{1,4}):(?P<m>\d\d):(?P<s>\d\d)(?![\d:])")
_GAP = later(r"\s*(?:and\s+)?\Z")
_FOLLOWED = later(r"\s*(?:to|until|till|for|before)\b")


@dataclass(frozen=True, slots=True)
class DurationMatch:
    """A duration in a text: its position in the *normalised* text and its length in seconds.

    `seconds` may be impossible (NaN, zero, negative, more than a year); see `problem`.
    """

    start: int
    end: int
    seconds: float
    unit: str  # the smallest unit used: w, d, h, m or s


def normalise(text: str) -> str:
    """Full-width digits, letters and colons as plain ones, in lower case (NFKC)."""
    import unicodedata

    return unicodedata.normalize("NFKC", text).lower()


def find_durations(text: str) -> list[DurationMatch]:
    """Every duration in a text returned by `normalise`, in order; `1 h 30 min` is one."""
    durations = [_clock(m) for m in _CLOCK.finditer(text)]
    rest = _CLOCK.sub(lambda m: "#" * len(m.group()), text)
    digits = rest.isascii() and not any(word in rest for word in _NOT_IN_DIGITS)
    for match in (_DIGITS_RE if digits else _ONE_RE).finditer(rest):
        if digits or not (match["cjk"] and match["cjk_unit"] == "分"):  # 十分重要 means "very important"
            durations.append(_one(match))
    return _joined(sorted(durations, key=lambda f: f.start), text)


class DurationError(UsageError, ValueError):
    """The text is not a duration, or not a possible limit. Also a ValueError, as raised by `float`."""


def parse_duration(text: str) -> float:
    """Seconds in `3s`, `20m`, `1h30m`, `24 hours`, `01:30:00`, `一天`, or a bare number of seconds; 0 is one.

    Raises DurationError for anything else, and for one that is negative or longer than a year.
    """
    if (short := _short(text)) is not None:
        return short
    normal = normalise(text).strip()
    durations = find_durations(normal)
    if len(durations) == 1 and not normal[: durations[0].start].strip() and not normal[durations[0].end :].strip():
        seconds = durations[0].seconds
    else:
        try:
            seconds = float(normal)
        except ValueError:
            raise DurationError(f"{text[:60]!r} is not a duration", hint=_HOW) from None
    if seconds != 0 and (trouble := problem(seconds)):
        raise DurationError(f"{text[:60]!r} {trouble}", hint=_HOW)
    return seconds


def _short(text: str) -> float | None:
    """Fast path for the most common forms, `100s` and `20m`, which avoids compiling the patterns."""
    count, unit = text[:-1], text[-1:]
    plain = count.isascii() and count.isdecimal() and len(count) < 6 and unit in ("s", "m", "h")
    seconds = float(count) * _SECONDS[unit] if plain else LONGEST_S + 1
    return seconds if seconds <= LONGEST_S else None


def problem(seconds: float) -> str:
    """Why a run cannot have this limit, as the end of a sentence; "" if it can."""
    if math.isnan(seconds):
        return "is not a time that exists"
    if seconds <= 0:
        return "is no time at all: a limit must be longer than zero"
    return "is longer than a year" if seconds > LONGEST_S else ""


def spoken(seconds: float) -> str:
    """A duration in words, readable by `parse_duration`: `24 hours`, `90 minutes`, `1.5 seconds`, `5 days 2 hours`."""
    for unit, size, most in (("hour", 3600.0, 99), ("minute", 60.0, 180)):
        if seconds % size == 0 and 1 <= seconds // size <= most:
            return counted(int(seconds // size), unit)
    if seconds < 120 or seconds != int(seconds):
        return "1 second" if seconds == 1 else f"{seconds!r} seconds".replace(".0 ", " ")
    parts, left = [], int(seconds)
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, left = divmod(left, size)
        parts += [counted(count, unit)] if count else []
    return " ".join(parts)


def _one(match: re.Match[str]) -> DurationMatch:
    got: dict[str, Any] = dict.fromkeys(_GROUPS) | match.groupdict()
    unit = _letter(got["unit"] or got["half_unit"] or got["a_unit"] or got["cjk_unit"])
    if got["half"]:
        count = 0.5
    elif got["a_unit"]:
        count = 1.0
    elif got["cjk_digits"] is not None or got["digits"] is not None:
        count = _number(got["cjk_digits"] or got["digits"])
    else:
        count = _cjk(got["cjk"]) if got["cjk"] else _english(got["words"])
    if got["tail"] or got["a_tail"] or got["half_tail"] or got["cjk_tail"]:
        count += 0.5
    if (got["cjk_each"] or "") in ("个半", "個半"):
        count += 0.5
    return DurationMatch(
        match.start(), match.end(), -count * _SECONDS[unit] if got["sign"] else count * _SECONDS[unit], unit
    )


def _clock(match: re.Match[str]) -> DurationMatch:
    days, hours, minutes, seconds = (int(match[g] or 0) for g in ("days", "h", "m", "s"))
    total = days * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds
    return DurationMatch(match.start(), match.end(), math.nan if minutes > 59 or seconds > 59 else total, "s")


def _joined(durations: list[DurationMatch], text: str) -> list[DurationMatch]:
    """Merge `1 hour 30 minutes` and `1 hour and 30 minutes`, but not `24 hours and 20 minutes to ...`."""
    order = "wdhms"
    merged: list[DurationMatch] = []
    for part in durations:
        last = merged[-1] if merged else None
        gap = text[last.end : part.start] if last else "x"
        smaller = last is not None and order.index(part.unit) > order.index(last.unit)
        split = "and" in gap and _FOLLOWED.match(text, part.end)
        adds_up = _GAP.match(gap) or (gap.strip() == "," and last is not None and last.unit + part.unit == "ms")
        if last is not None and smaller and adds_up and not split:
            merged[-1] = DurationMatch(last.start, part.end, last.seconds + part.seconds, part.unit)
        else:
            merged.append(part)
    return merged


def _letter(unit: str) -> str:
    cjk = {"周": "w", "星": "w", "天": "d", "小": "h", "钟": "h", "鐘": "h", "时": "h", "分": "m", "秒": "s"}
    return cjk.get(unit[0], unit[0])


def _number(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except OverflowError:  # pragma: no cover - float() of digits gives inf, but be sure
        return math.inf


def _english(words: str) -> float:
    parts = re.split(r"[- ]", words)
    return float(sum(_TENS[p] if p in _TENS else _ONES.index(p) for p in parts))


def _cjk(text: str) -> float:
    """`二十四` is 24, `半` one half, `一百二十` 120."""
    if text == "半":
        return 0.5
    total, digit = 0, 0
    for char in text:
        if char in "十百":
            total += (digit or 1) * (10 if char == "十" else 100)
            digit = 0
        elif char in _CJK_DIGITS:
            digit = digit * 10 + _CJK_DIGITS[char]
    return total + digit + (0.5 if text.endswith("半") else 0.0)
