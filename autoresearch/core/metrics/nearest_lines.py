"""Nearest lines: which lines of a log look most like the name of a metric that could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from autoresearch.core.text.regex import later

_WORD = later(r"[^\W\d_][\w@%./-]{0,80}")
_SEPARATOR = later(r"[\W_]+")
_NUMBER = later(r"\d")
_MOST_WORDS = 40  # of a line: what looks like a metric stands near its start
_PHRASE = 3  # words that may make one name: `eval pass rate`


def nearest_lines(names: Sequence[str], lines: Iterable[str], count: int = 3) -> list[str]:
    """The lines whose words are spelt most like one of these names, the nearest first.

    Of lines that differ in their numbers alone the last one stands for all. Of equals the later one is nearer, and
    before it one that holds a number.
    """
    last = {_NUMBER.sub("0", line): (at, line) for at, line in enumerate(lines)}
    likeness = _Likeness(names)
    ranked = sorted(
        ((likeness.of(line), bool(_NUMBER.search(line)), at, line) for at, line in last.values()), reverse=True
    )
    return [line for _, _, _, line in ranked[:count]]


class _Likeness:
    """How alike words are to the names that are looked for, from 0 to 1."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [SequenceMatcher(None, "", bare, autojunk=False) for name in names if (bare := _bare(name))]
        self._of_word = lru_cache(maxsize=1 << 16)(self._compared)

    def of(self, line: str) -> float:
        """The nearest of a line's words, or of several in a row."""
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
    """A name without what people write differently: case, dashes, dots, slashes."""
    return _SEPARATOR.sub("", name.casefold())
