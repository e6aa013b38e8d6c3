"""Nearest lines: those of a log most similar to the name of a metric that was not read, and how to read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from autoresearch.core.metrics.python_values import NUMBER
from autoresearch.core.text.regex import later

_WORD = later(r"[^\W\d_][\w@%./-]{0,80}")
_SEPARATOR = later(r"[\W_]+")
_NUMBER = later(r"\d")
_VALUE = later(rf"(?<![\w.]){NUMBER}(?!\w*[A-Za-z])")
_IDENTIFIER = later(r"\W+")
_STEP_WORD = later(r"(?i)\b(?:step|iter(?:ation)?|update|episode|epoch)s?\W*\Z")
_ALIKE = 0.7  # likeness of a name that is probably meant: `pass` and `pass@1`, not `points` and `holdout_mse`
_MOST_WORDS = 40  # words of a line that are compared: metrics are printed near its start
_PHRASE = 3  # consecutive words that may form one name: `eval pass rate`


def nearest_lines(names: Sequence[str], lines: Iterable[str], count: int = 3) -> list[str]:
    """The lines whose words are spelt most like one of these names, the most similar first.

    Of lines that differ only in their numbers, the last one is used. Ties are broken in favour of lines that contain
    a number, then of later lines.
    """
    last = {_NUMBER.sub("0", line): (at, line) for at, line in enumerate(lines)}
    likeness = _Likeness(names)
    ranked = sorted(
        ((likeness.of(line), bool(_NUMBER.search(line)), at, line) for at, line in last.values()), reverse=True
    )
    return [line for _, _, _, line in ranked[:count]]


class _Likeness:
    """Similarity of words to the wanted names, from 0 to 1."""

    def __init__(self, names: Sequence[str]) -> None:
        from difflib import SequenceMatcher  # for messages only

        self._names = [SequenceMatcher(None, "", bare, autojunk=False) for name in names if (bare := _bare(name))]
        self._of_word = lru_cache(maxsize=1 << 16)(self._compared)

    def of(self, line: str) -> float:
        """The highest similarity of any word of the line, or of up to _PHRASE consecutive words."""
        words = [_bare(word) for word in _WORD.findall(line)[:_MOST_WORDS]]
        phrases = ("".join(words[at : at + n]) for n in range(1, _PHRASE + 1) for at in range(len(words) - n + 1))
        return max(map(self._of_word, phrases), default=0.0)

    def _compared(self, word: str) -> float:
        best = 0.0
        for matcher in self._names:
            matcher.set_seq1(word)
            if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
                best = max(best, matcher.ratio())
        return best


def _bare(name: str) -> str:
    """A name in lower case, without dashes, dots, slashes and other separators."""
    return _SEPARATOR.sub("", name.casefold())


@dataclass(frozen=True, slots=True)
class ReadableLine:
    """How a line would be read: the `step_line:` of the notes, and the name of the metric that it gives."""

    step_line: str
    metric: str


def readable(name: str, line: str) -> ReadableLine | None:
    """The pattern that reads the number behind the words most like this name; None without such words, or a number.

    The number behind a word for steps becomes the step. Numbers between are left open, and the rest of the line too.
    """
    numbers = list(_VALUE.finditer(line))
    likeness = _Likeness([name])
    words = [(likeness.of(line[: word.end()]), -word.start(), word.end()) for word in _WORD.finditer(line)]
    if not numbers or not words:
        return None
    alike, _, after = max(words)
    if alike < _ALIKE:
        return None
    behind = [n for n, found in enumerate(numbers) if found.start() >= after] or [len(numbers) - 1]
    chosen = next((n for n in behind if line[numbers[n].start() - 1] != "("), behind[0])  # `set (10000 images): 71.2`
    words_before = _IDENTIFIER.sub("_", line[: numbers[chosen].start()].strip(" :=|,-"))[-40:].strip("_").lower()
    metric = name if name.isidentifier() else words_before.lstrip("0123456789_") or "metric"
    parts, at = ["^"], 0
    for n, found in enumerate(numbers[: chosen + 1]):
        parts.append(_literal(line[at : found.start()]))
        is_step = n != chosen and _STEP_WORD.search(line[: found.start()]) and found[0].isdecimal()
        parts.append(rf"(?P<{metric}>[-+.\deE]+)" if n == chosen else r"(?P<step>\d+)" if is_step else r"\S+?")
        at = found.end()
    pattern = "".join(parts)
    read = re.search(pattern, line)
    return ReadableLine(pattern, metric) if read and _VALUE.match(read[metric]) else None


def _literal(text: str) -> str:
    return r"\s+".join(re.escape(piece) for piece in re.split(r"\s+", text))
