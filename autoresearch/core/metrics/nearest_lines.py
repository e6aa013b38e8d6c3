"""Nearest lines: those of a log most similar to the name of a metric that was not read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from autoresearch.core.text.regex import later

_WORD = later(r"[^\W\d_][\w@%./-]{0,80}")
_SEPARATOR = later(r"[\W_]+")
_NUMBER = later(r"\d")
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
