"""Finds what single lines of a log tell: bytes regexes, tried only on lines that contain one of their needles.

bytes.find scans a log up to a hundred times faster than a regex. A pattern with `metrics` is the head of a line: the
pairs behind it are read by `metric_lines`, here and in the readers of a whole log alike, so that both see the same.
"""

from __future__ import annotations

import re
from functools import lru_cache

from .basics import NEVER, LazyPattern, clock, whole
from .libc import find
from .text import clean, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

# Cool-down per kind of signal, in seconds, during which it is not searched again.
RESTS = {"validation": 0.0, "progress": 1.0, "ready": 0.0, "step": 0.0, "error": 60.0, "nan": NEVER}
KL_KEYS = (  # the distance to the reference first, the one to the sampling policy last
    *("actor/kl_loss", "train/kl_loss", "kl_loss", "actor/reward_kl_penalty", "train/kl_penalty", "kl"),
    *("actor/ppo_kl", "train/ppo_kl", "ppo_kl"),
)
_ANY_KL = LazyPattern(r"(?:^|/|(?<!use)_)(?:kl|kl_loss|approx_kl|kl_div)$", re.I)
_NAN = LazyPattern(r"loss|grad_norm|kl|entropy", re.I)  # the others may be NaN in a healthy run
_LINE = LazyPattern(rb"[^\n]+")
_MOST_HEADS = 8  # of a line with thousands of heads: only the last are read
_FAR = 1 << 14  # bytes behind a head in which a quotation mark counts
_MARKS = (b"'", b'"', b"`")
# A quotation mark, not an apostrophe between letters; `closes`: what stands before it is quoted.
_MARK = LazyPattern(rb"['\"`](?:(?<!')|(?<!\w')|(?!\w))(?P<closes>(?<=[^\s(\[{=:,].)(?!\w))?")


def kl_of(metrics: Mapping[str, float]) -> float | None:
    """The KL among these metrics, by the order of `KL_KEYS`, else any that is called so; None if there is none."""
    known = next((metrics[key] for key in KL_KEYS if key in metrics), None)
    return known if known is not None else next((metrics[key] for key in metrics if _ANY_KL.search(key)), None)


def diverged(metrics: Mapping[str, float]) -> list[str]:
    """The losses, gradient norms, KLs and entropies among these metrics that are not a number."""
    return [name for name, value in metrics.items() if value != value and _NAN.search(name)]


class LineSignal:
    """What a line tells. `at`: where in the cleaned line; `text`: words for the user, if the pattern names any."""

    __slots__ = ("at", "error_kind", "hold_s", "kind", "kl", "metrics", "step", "text")

    def __init__(self, kind: str, at: int, hold_s: float = 0.0) -> None:
        self.kind = kind
        self.at = at
        self.hold_s = hold_s
        self.step: int | None = None
        self.kl: float | None = None
        self.metrics: Mapping[str, float] = {}
        self.text = self.error_kind = b""


class LinePattern:
    """One signal's regex, and where in the log it matched last.

    It is matched against one cleaned line at a time. Named groups with a meaning: `step`, `kl`, `text`, `kind`; and
    `epoch` and `of`, where a step is counted from 0 in each epoch. `needles`: every matching line contains at least one
    of them; () if none are known. `metrics`: one of the names of the pairs behind the match has to match this; "": the
    pairs are not read.
    """

    def __init__(
        self, kind: str, text: str, hold_s: float = 0.0, needles: Iterable[str] = (), metrics: str = ""
    ) -> None:
        self.kind = kind
        self.hold_s = hold_s
        self.needles = tuple(_bytes(needle) for needle in needles)
        self.regex = _compiled(text)
        first = re.sub(r"\A\^", "\n", metrics)  # what begins with a literal is searched quickly
        self.metrics = re.compile(first, re.MULTILINE) if metrics else None
        self.quiet_until = 0.0
        self.seen = (0, -1, -1)  # of the last match: (generation of the log, offset of the line, offset in the line)

    @classmethod
    def of(cls, signal: Any) -> LinePattern:
        """The pattern of a `SignalPattern`."""
        return cls(str(signal.kind), signal.pattern, signal.hold_s, signal.needles, signal.metrics)

    def heads(
        self, line: bytes, pairs_of: Callable[[bytes], Mapping[str, float]] | None = None
    ) -> Iterator[tuple[re.Match[bytes], Mapping[str, float]]]:
        """Where it matches a cleaned line, with the pairs behind each match.

        `pairs_of`: what reads the pairs of a part of the line, if a reader of a whole log has learnt to do it faster.
        """
        for needle in self.needles:
            if needle in line:
                break
        else:
            if self.needles:
                return
        matches = list(self.regex.finditer(line))[-_MOST_HEADS:]
        for n, match in enumerate(matches):
            pairs: Mapping[str, float] = {}
            if self.metrics is not None:
                if not _quoted(line, match.end()):
                    part = line[match.end() : matches[n + 1].start() if n + 1 < len(matches) else len(line)]
                    pairs = (pairs_of or pairs_of_part)(part)
                if not self.metrics.search("\n".join(["", *pairs])):
                    continue
            yield match, pairs

    def read(self, line: bytes) -> list[LineSignal]:
        """What a cleaned line tells, in order; a metric that is not a number is a signal of its own."""
        found: list[LineSignal] = []
        for match, pairs in self.heads(line):
            signal = LineSignal(self.kind, match.start(), self.hold_s)
            signal.step = step_of(match)
            signal.text, signal.error_kind = _group(match, "text"), _group(match, "kind")
            signal.metrics = pairs
            signal.kl = number(_group(match, "kl")) if self.metrics is None else kl_of(pairs)
            found.append(signal)
            if b"nan" in line and diverged(signal.metrics or (pairs_of_part(line) if self.kind == "step" else {})):
                found.append(LineSignal("nan", match.start()))
        return found


def _quoted(line: bytes, at: int) -> bool:
    """Whether a place lies within quotation marks: in a sampled answer, or in a dump of a configuration."""
    if all(line.find(mark, at, at + _FAR) < 0 for mark in _MARKS):
        return False
    mark = _MARK.search(line, at, at + _FAR)
    return mark is not None and mark["closes"] is not None


@lru_cache(maxsize=8)  # of one line, a step and a validation ask for the same
def pairs_of_part(part: bytes) -> Mapping[str, float]:
    """The pairs of a part of a line. Their reader is loaded only when there is one: a Runner is kept small."""
    from .metric_lines import metrics_of

    return metrics_of(part.decode("utf-8", "replace"))


def step_of(match: re.Match[bytes]) -> int | None:
    """The step that a match names; None if it names none."""
    step = whole(number(_group(match, "step")))
    if step is None or not match.re.groupindex.keys() >= {"epoch", "of"}:
        return step
    epoch, of = whole(number(match["epoch"] or b"")), whole(number(match["of"] or b""))
    return step if epoch is None or of is None else epoch * of + step + 1


def _group(match: re.Match[bytes], name: str) -> bytes:
    """A named group's bytes; b"" if the pattern has no such group or it did not participate in the match."""
    return (match[name] or b"") if name in match.re.groupindex else b""


def _compiled(text: str) -> re.Pattern[bytes]:
    raw = _bytes(text)
    try:
        return re.compile(raw, re.MULTILINE)
    except re.error:  # Python before 3.11 has no possessive quantifiers; they only save time
        return re.compile(re.sub(rb"(?<!\\)([*+?}])\+", rb"\1", raw), re.MULTILINE)


def _bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


class Scanner:
    """Searches one log for all patterns."""

    def __init__(self, patterns: Iterable[LinePattern]) -> None:
        self.patterns = [p for p in patterns if p.kind in RESTS]
        self._groups: dict[tuple[bytes, ...], list[LinePattern]] = {}
        for pattern in self.patterns:  # a line is cleaned once for all patterns with the same needles
            self._groups.setdefault(pattern.needles, []).append(pattern)

    def scan(self, chunk: bytes, start: int, generation: int = 0) -> Iterator[tuple[LineSignal, bytes]]:
        """Yield every new signal, with its line, in a chunk that begins at a line's start.

        `start`: the chunk's offset in the log; what was yielded before is skipped.
        """
        now = clock()
        flat = chunk.replace(b"\r", b"\n")
        for needles, patterns in self._groups.items():
            if all(pattern.quiet_until > now for pattern in patterns):
                continue
            for low, high in lines_with(flat, needles):
                line, place = clean(flat[low:high]), (generation, start + low)
                for pattern in patterns:
                    found = pattern.read(line) if pattern.quiet_until <= now else ()
                    for signal in [one for one in found if (*place, one.at) > pattern.seen]:
                        pattern.seen = (*place, signal.at)
                        yield signal, flat[low:high]
                        if RESTS[pattern.kind]:
                            self._rest(pattern, now)
                            break

    def _rest(self, matched: LinePattern, now: float) -> None:
        """Start the cool-down; a progress match also starts that of progress patterns with no longer `hold_s`."""
        for pattern in self.patterns:
            if pattern is matched or (pattern.kind == matched.kind == "progress" and pattern.hold_s <= matched.hold_s):
                pattern.quiet_until = now + RESTS[matched.kind]


def lines_with(text: bytes, needles: tuple[bytes, ...]) -> Iterable[tuple[int, int]]:
    """(start, end) of every line that contains a needle, in order; of every line if there are no needles."""
    if not needles:
        return (line.span() for line in _LINE.finditer(text))
    if len(needles) == 1:
        return _lines_with(text, needles[0])
    return sorted({span for needle in needles for span in _lines_with(text, needle)})


def _lines_with(text: bytes, needle: bytes) -> Iterator[tuple[int, int]]:
    at = 0 if find(text, len(text), needle, len(needle)) else len(text)  # most chunks contain no needle
    while (hit := text.find(needle, at)) >= 0:
        low = text.rfind(b"\n", at, hit) + 1 or at
        high = text.find(b"\n", hit)
        if high < 0:
            high = len(text)
        yield low, high
        at = high + 1
