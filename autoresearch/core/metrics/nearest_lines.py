"""Nearest lines: those of a log most similar to the name of a metric that was not read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

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
    from difflib import SequenceMatcher  # for messages only

    bare_names = [bare for bare in map(_bare, names) if bare]

    @cache
    def of_phrase(phrase: str) -> float:
        return max((SequenceMatcher(None, phrase, bare, autojunk=False).ratio() for bare in bare_names), default=0.0)

    def of_line(line: str) -> float:
        words = [_bare(word) for word in _WORD.findall(line)[:_MOST_WORDS]]
        phrases = ("".join(words[at : at + n]) for n in range(1, _PHRASE + 1) for at in range(len(words) - n + 1))
        return max(map(of_phrase, phrases), default=0.0)

    last = {_NUMBER.sub("0", line): (at, line) for at, line in enumerate(lines)}
    ranked = sorted(((of_line(line), bool(_NUMBER.search(line)), at, line) for at, line in last.values()), reverse=True)
    return [line for _, _, _, line in ranked[:count]]


def _bare(name: str) -> str:
    """A name in lower case, without dashes, dots, slashes and other separators."""
    return _SEPARATOR.sub("", name.casefold())
