"""Reads one log from its beginning, live or whole: what its lines tell, by patterns of its trainer.

Only lines with one of the patterns' needles are looked at. A pattern with `metrics` is the head of a line: the pairs
behind it are read by `metric_lines`. The steps of a trainer that nobody described are found by `step_finder`.
"""

from __future__ import annotations

import re

from .basics import LazyPattern, whole
from .metric_lines import body, is_count, metrics_of, step_rank, value_of
from .text import Needles, clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .step_finder import FoundLine

_KINDS = ("validation", "progress", "ready", "step", "error", "nan")
_ERROR_BEGINS, _MOST_ERRORS = 40, 100  # characters, different beginnings
KL_KEYS = (  # the distance to the reference first, the one to the sampling policy last
    *("actor/kl_loss", "train/kl_loss", "kl_loss", "actor/reward_kl_penalty", "train/kl_penalty", "kl"),
    *("actor/ppo_kl", "train/ppo_kl", "ppo_kl"),
)
_ANY_KL = LazyPattern(r"(?:^|/|(?<!use)_)(?:kl|kl_loss|approx_kl|kl_div)$", re.I)
_NAN = LazyPattern(r"loss|grad_norm|kl|entropy", re.I)  # the others may be NaN in a healthy run
# What any trainer prints when it fails, with a text that every such line holds: told at once, explained after the end.
_FATAL = (
    (  # alone or glued to a progress bar; one quoted in a sampled answer stands elsewhere
        r"(?:^|(?<=\])|(?<=\) )|(?<=it\] )|(?<=/s\] ))Traceback \(most recent call last\):",
        "Traceback (most recent call last):",
    ),
    (  # of torch and of the CUDA driver
        r"out of memory(?:(?<=CUDA out of memory)\. Tried to allocate|(?<=CUDA error: out of memory))",
        "out of memory",
    ),
    (r"ray\.exceptions\.(?P<text>[A-Z]\w{0,60}[^\r\n]{0,160})", "ray.exceptions."),  # in the driver, of a worker
    (  # by C++, without a traceback; the process may hang afterwards
        r"Watchdog caught collective operation timeout: (?P<text>[^\r\n]{0,160})",
        "Watchdog caught collective operation timeout: ",
    ),
)
_NO_METRICS = ("step", "text", "kind", "epoch", "of")  # named groups with another meaning
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
    """What a line tells. `at`: where in the cleaned line; `text`: words for the user, if it names any."""

    def __init__(self, kind: str, at: int = 0, hold_s: float = 0.0, text: bytes | str = b"", time: float = 0.0) -> None:
        self.kind = kind
        self.at = at
        self.hold_s = hold_s
        self.text = text
        self.line = b""
        self.time = time  # when it was printed
        self.step: int | None = None
        self.kl: float | None = None
        self.metrics: Mapping[str, float] = {}
        self.error_kind = b""


class LinePattern:
    """One signal's regex, which is matched against one cleaned line at a time.

    Named groups with a meaning: `step`, `kl`, `text`, `kind`; and `epoch` and `of`, where a step is counted from 0 in
    each epoch. `needles`: every matching line contains at least one of them; () if none are known. `metrics`: one of
    the names of the pairs behind the match has to match this; "": the pairs are not read. `whole`: the pairs of the
    whole line are read, and the other named groups are metrics. `unread`: those whose text was no number.
    """

    def __init__(
        self,
        kind: str,
        pattern: str,
        hold_s: float = 0.0,
        needles: Iterable[str] = (),
        metrics: str = "",
        whole: bool = False,
    ) -> None:
        self.kind = kind
        self.hold_s = hold_s
        self.needles = tuple(map(_bytes, needles))
        self.regex = re.compile(_bytes(pattern), re.MULTILINE)
        first = re.sub(r"\A\^", "\n", metrics)  # what begins with a literal is searched quickly
        self.metrics = re.compile(first, re.MULTILINE) if metrics else None
        self.whole = whole
        self.unread: dict[str, str] = {}

    @classmethod
    def of(cls, signal: Any) -> LinePattern:
        """The pattern of a `SignalPattern`."""
        return cls(*(getattr(signal, name) for name in signal.__slots__))

    def read(self, line: bytes) -> list[LineSignal]:
        """What a cleaned line tells, in order; a metric that is not a number is a signal of its own."""
        found: list[LineSignal] = []
        if self.needles and not any(needle in line for needle in self.needles):
            return found
        matches = list(self.regex.finditer(line))[-_MOST_HEADS:]
        for n, match in enumerate(matches):
            signal = LineSignal(self.kind, match.start(), self.hold_s, _group(match, "text"))
            signal.step, signal.error_kind = step_of(match), _group(match, "kind")
            signal.kl = _number(match, "kl")
            if self.whole:
                if not self._read_whole(line, match, signal):
                    continue
            elif self.metrics is not None and not _quoted(line, match.end()):
                end = matches[n + 1].start() if n + 1 < len(matches) else len(line)
                signal.metrics = pairs_of_part(line[match.end() : end])
            if self.metrics is not None:
                if not self.metrics.search("\n".join(["", *signal.metrics])):
                    continue
                signal.kl = kl_of(signal.metrics)
            found.append(signal)
            if b"nan" in line and diverged(signal.metrics or (pairs_of_part(line) if self.kind == "step" else {})):
                found.append(LineSignal("nan", match.start()))
        return found

    def _read_whole(self, line: bytes, match: re.Match[bytes], signal: LineSignal) -> bool:
        """Read the pairs of the line and the named groups; False if its step is no whole number."""
        named: dict[str, float] = {}
        for name, raw in match.groupdict().items():
            text = (raw or b"").decode("utf-8", "replace")
            value = value_of(text) if name == "step" or name not in _NO_METRICS else None
            if value is not None and (name != "step" or is_count(value)):
                named[name] = value
            elif raw is not None and (name == "step" or name not in _NO_METRICS):
                self.unread.setdefault(name, text)
                if name == "step":  # counting it instead would give the metrics a wrong step
                    return False
        step = named.pop("step", None)
        signal.step = None if step is None else int(step)
        pairs = metrics_of(body(line.decode("utf-8", "replace")))
        pairs = {k: v for k, v in pairs.items() if k not in match.groupdict()}
        own = [k for k, v in pairs.items() if v == step and (step_rank(k) == 0 or k.encode() in match[0])]
        signal.metrics = {k: v for k, v in pairs.items() if k not in own} | named
        return True


def _quoted(line: bytes, at: int) -> bool:
    """Whether a place lies within quotation marks: in a sampled answer, or in a dump of a configuration."""
    if all(line.find(mark, at, at + _FAR) < 0 for mark in _MARKS):
        return False
    mark = _MARK.search(line, at, at + _FAR)
    return mark is not None and mark["closes"] is not None


def pairs_of_part(part: bytes) -> Mapping[str, float]:
    """The pairs of a part of a line."""
    return metrics_of(part.decode("utf-8", "replace"))


def step_of(match: re.Match[bytes]) -> int | None:
    """The step that a match names; None if it names none."""
    step = whole(_number(match, "step"))
    if step is None or not match.re.groupindex.keys() >= {"epoch", "of"}:
        return step
    epoch, of = whole(_number(match, "epoch")), whole(_number(match, "of"))
    return step if epoch is None or of is None else epoch * of + step + 1


def _group(match: re.Match[bytes], name: str) -> bytes:
    """A named group's bytes; b"" if the pattern has no such group or it did not participate in the match."""
    return (match[name] or b"") if name in match.re.groupindex else b""


def _number(match: re.Match[bytes], name: str) -> float | None:
    """A named group's number, as Python or numpy prints it; None for any other text."""
    return value_of(_group(match, name).decode("utf-8", "replace"))


def _bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


class LogReader:
    """Reads one log from its beginning, by a trainer's patterns and those of what is fatal to any.

    `names`: metrics that are read wherever they stand, where steps are found.
    """

    def __init__(self, patterns: Iterable[LinePattern], names: Sequence[str] = (), *, finds: bool = False) -> None:
        self.patterns = [one for one in patterns if one.kind in _KINDS and not (finds and one.kind == "step")]
        self.patterns += [LinePattern("error", pattern, needles=(needle,)) for pattern, needle in _FATAL]
        self._errors: set[bytes | str] = set()  # as they began
        self.finder = None
        if finds:  # loaded only then: a Runner is kept small
            from .step_finder import StepFinder

            self.finder = StepFinder(names)

    def feed(self, chunk: bytes, time: float = 0.0) -> list[LineSignal]:
        """What a chunk of whole lines tells. `time`: when it was read."""
        found = list(self._read(chunk))
        if self.finder is not None:
            self.finder.feed(chunk, time)
            found += _signals(self.finder.take())
        return found

    def end(self) -> list[LineSignal]:
        """What is told only at the end."""
        return _signals(self.finder.end()) if self.finder is not None else []

    def unproven(self) -> list[LineSignal]:
        """The steps that were found, although none has grown twice."""
        return _signals(self.finder.take_unproven()) if self.finder is not None else []

    def _read(self, chunk: bytes) -> Iterator[LineSignal]:
        """Every signal; of progress, which may be most of the output, what holds the clock for longer each time."""
        flat = chunk.replace(b"\r", b"\n")
        progress = [one for one in self.patterns if one.kind == "progress"]
        while progress and (signal := next(_signals_in(flat, progress), None)):
            yield signal
            progress = [one for one in progress if one.hold_s > signal.hold_s]
        for signal in _signals_in(flat, [one for one in self.patterns if one.kind != "progress"]):
            if signal.kind != "error" or self._is_news(signal):
                yield signal

    def _is_news(self, signal: LineSignal) -> bool:
        """Whether no error began like this one before; many programs print the same for hours."""
        begins = (signal.text or signal.line)[:_ERROR_BEGINS]
        news = begins not in self._errors and len(self._errors) < _MOST_ERRORS
        self._errors.update([begins] if news else [])
        return news


def _signals_in(flat: bytes, patterns: Sequence[LinePattern]) -> Iterator[LineSignal]:
    """What the lines of a text tell by these patterns."""
    known = all(one.needles for one in patterns)
    for low, high in Needles(needle for one in patterns for needle in one.needles if known).lines(flat):
        line = clean(flat[low:high])
        for signal in (signal for pattern in patterns for signal in pattern.read(line)):
            signal.line = flat[low:high]
            yield signal


def _signals(found_lines: Iterable[FoundLine]) -> list[LineSignal]:
    """What lines tell that were found, at the time when each was read."""
    signals = []
    for line in found_lines:
        kinds = ["step"] if line.main else []
        kinds += ["validation"] if line.validates else [] if line.main else ["progress"]
        kinds += ["nan"] if diverged(line.metrics) else []
        for kind in kinds:
            signal = LineSignal(kind, text=line.text, time=line.at)
            signal.step, signal.metrics, signal.kl = line.step, line.metrics, kl_of(line.metrics)
            signals.append(signal)
    return signals
