"""Durations as people write them, in digits: `1h30m`, `90 min`, `1.5 days`, `24小时`, `01:30:00`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from autoresearch.core.text.numbers import counted
from autoresearch.core.text.regex import later
from autoresearch.errors import UsageError

LONGEST_S = 366 * 86400.0  # a duration of more than a year is treated as a typo

_HOW = "write it like 90s, 20m, 1h30m, 24h or 2d"
_UNITS = dict(zip("周星天小钟鐘时分秒", "wwdhhhhms", strict=True))
_SECONDS = {"w": 7 * 86400.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_DIGITS = r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+|nan|inf(?:inity)?)"
_ENGLISH = r"weeks?|wks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s"
_CHINESE = r"周|星期|天|小时|小時|钟头|鐘頭|时(?![间长候刻])|分钟|分鐘|分(?![之数析])|秒钟|秒"
_ONE = later(
    rf"(?:(?<![a-z0-9_])|(?<=\d[wdhm]))(?<!\d[.,])(?P<sign>[-−]\s?)?{_DIGITS}"
    rf"(?:[\s-]?(?P<unit>{_ENGLISH})(?:(?=\d+[hms])|(?![a-z0-9_]))|\s?[个個]?\s?(?P<chinese>{_CHINESE}))"
)
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
    durations += map(_one, _ONE.finditer(rest))
    return _joined(sorted(durations, key=lambda f: f.start), text)


class DurationError(UsageError, ValueError):
    """The text is not a duration, or not a possible limit. Also a ValueError, as raised by `float`."""


def parse_duration(text: str) -> float:
    """Seconds in `3s`, `20m`, `1h30m`, `24 hours`, `01:30:00`, or a bare number of seconds; 0 is one.

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
    word = match["unit"] or match["chinese"]
    unit = _UNITS.get(word[0], word[0])
    count = float(match["digits"].replace(",", ""))
    return DurationMatch(match.start(), match.end(), (-count if match["sign"] else count) * _SECONDS[unit], unit)


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
