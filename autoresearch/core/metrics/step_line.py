"""verl's console line, `step:N - key:value - key:value ...`, which several trainers print.

Written by verl/utils/logger/aggregate_logger.py (`concat_dict_to_str`). Values come in three formats: `%.3f` (verl up
to 0.4), plain floats (numpy 1) and `np.float64(...)` (numpy 2). A typical line has 3,000 characters and 100 pairs.

The patterns follow three rules, so that scanning a log of several gigabytes stays cheap, even for unusual input:
- They begin with a literal, which re searches for quickly; text before the literal is checked by lookbehind. The
  needles decide which lines re sees at all.
- They match word by word with possessive loops, which never backtrack, and every repeat is bounded.
- They never cross a newline or a carriage return, and treat the start of a chunk like the start of a line, so that
  it does not matter where a log is split into chunks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from autoresearch.core.metrics.metric_keys import KL_KEYS, TRAINING_PREFIXES, is_validation
from autoresearch.core.metrics.python_values import NUMBER, number
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.text.regex import later

_WORDS = 2000  # a pair is two words, "-" and "key:value"
_CHARS = 16384

# Lines are cleaned of colours before they are matched. Allowed right before `step:`: nothing, white space, or the
# closing bracket of a progress bar or prefix. `global_step:` must not match.
_HERE = r"(?:(?<=^step:)|(?<=[ \t\r\n\])]step:)|(?<=\]:step:))"  # the last: torchrun --tee, [default0]:step:1
_SHOWN = ("prompt", "response", "ground_truth")  # verl/workers/reward_manager prints samples behind such marks
_HERE += "".join(rf"(?<!\[{mark}\] step:)" for mark in _SHOWN)
_WRAPPER = r"(?:np\.\w{1,12}\()?"
# other output may follow a number without a space, but not with one of these characters
_END = r"(?![a-z0-9_.:])"
_VALUE = rf"{_WRAPPER}{NUMBER}{_END}"
_TRAINING_PAIR = rf"- (?:actor|critic|train)/[^\s:]{{1,200}}:{_VALUE}"
_VALIDATION_PAIR = rf"- (?:val[-/]|task_pass_rate@|TGC@)[^\s:]{{1,300}}:{_VALUE}"


def _unquoted(reach: int) -> str:
    """A lookahead that refuses a line whose next quotation mark is a closing one: a sampled answer or config dump.

    Apostrophes do not count. It looks ahead because the text before the match is lost when colours and prefixes are
    stripped. The common case, no quotation mark at all, is tested first, one mark at a time, which is five times
    faster.
    """
    # Unrolled: each apostrophe ends a stretch, so that there is only one way to match. (Possessive repeats would do the
    # same, but nested ones miss matches in Python before 3.11.5.)
    stretch = rf"[^'\"`\r\n]{{0,{reach}}}"
    closes = rf"(?!{stretch}(?:\b'\b{stretch}){{0,16}}(?<=[^\s(\[{{=:,])['\"`](?!\w))"
    none = "".join(rf"(?![^{mark}]{{0,{18 * reach}}}+{mark})" for mark in "'\"`")
    return rf"(?:{none}|{closes})"


def _word_that(pattern: str) -> str:
    """Match the words after `step:N -` up to the first that begins with `pattern`; another `step:` stops the search."""
    return rf"(?: (?!{pattern}|\]?step:)[^ \r\n]{{0,1000}}){{0,{_WORDS}}} (?={pattern})"


def _somewhere(rare: str) -> str:
    """A cheap lookahead that skips lines without this text; the text should begin with a rare letter.

    re jumps to the end of the line and back to that letter, which is faster than matching words. Where carriage returns
    end lines it may look past the line; the exact match that follows corrects this.
    """
    return rf"(?=.{{0,{_CHARS}}}{rare})"


def _kl() -> str:
    """An optional group that captures the KL: the value of the first of the KL names found in the line."""
    names = [key for key in KL_KEYS if key.startswith("actor/")]
    named = "|".join(_somewhere(name[name.index("kl") :] + ":") + _word_that(name + ":") + name + ":" for name in names)
    return rf"(?:(?:{named}){_WRAPPER}(?P<kl>{NUMBER}))?"


STEP = SignalPattern(
    SignalKind.STEP,
    rf"step:{_HERE}(?P<step>[1-9]\d{{0,9}})(?= - )(?={_word_that(_TRAINING_PAIR)}){_unquoted(_CHARS)} -{_kl()}",
    needles=("step:",),
)
"""A training step: from 1 on (`step:0` only validates) and with at least one metric of the policy."""

VALIDATION = SignalPattern(
    SignalKind.VALIDATION,
    rf"step:{_HERE}(?P<step>\d{{1,10}})(?= - (?:val[-/]|[^@]{{0,8192}}@))"
    rf"(?={_word_that(_VALIDATION_PAIR)}){_unquoted(_CHARS)}",
    needles=("@", " - val"),
)
"""A line with validation results, alone or at the end of a training line.

Every name since verl 0.3 holds an @ (val-core/.../mean@1, task_pass_rate@1), the cheapest of needles; the
older val/test_score/... is only seen where it comes first.
"""

_NAN_KEYS = ("loss", "grad_norm", "_kl", "entropy")
_NAN_BEFORE = "|".join(
    rf"(?<={key}:{wrapper}nan)" for key in _NAN_KEYS for wrapper in ("", r"np\.float64\(", r"np\.float32\(")
)

NAN = SignalPattern(SignalKind.NAN, rf"nan(?:{_NAN_BEFORE})(?=\)?(?: - |[\r\n]|\Z))", needles=("nan",))
"""A loss, gradient norm, KL or entropy that has become NaN, as a pair of a step line.

Other keys may be NaN in a healthy run. It is anchored on the shape of the pair, `loss:nan - `, and not on
`step:`: the word is in hardly any piece of a log, so that looking for it costs next to nothing.
"""

_HEADS = 8  # for a line with thousands of `step:` heads: only the last are read
_HEAD = later(
    "".join(rf"(?<!\[{mark}\] )" for mark in _SHOWN) + r"(?<![\w./\"'`-])step:(?P<step>\d{1,10})(?= - )", re.ASCII
)
_UNQUOTED = later(_unquoted(_CHARS // 8), re.ASCII)
_GLUED = later(rf"(?P<key>[^\s:]{{1,300}}):{_WRAPPER}(?P<value>{NUMBER}){_END}", re.ASCII)


def parse(line: str) -> tuple[int, dict[str, float]] | None:
    """Step and metrics of a stripped line; None for any other line.

    Accepts all lines that the patterns above match: `step:` may follow a logger's prefix or a progress bar, and other
    output may follow the line directly. If one line holds several, the last with policy metrics or a validation wins.
    Pairs without a number are skipped; NaN and infinities are kept.
    """
    heads = [head for head in _heads(line)[-_HEADS:] if _UNQUOTED.match(line, head.end())]
    ends = [*(head.start() for head in heads), len(line)][1:]
    own = [(int(head["step"]), _metrics(line[head.end() : end])) for head, end in zip(heads, ends, strict=False)]
    read = [pair for pair in own if _tells(*pair)]
    if not read:  # a line that quotes another step before its first metric
        read = [(int(head["step"]), _metrics(line[head.end() :])) for head in heads]
        read = [pair for pair in read if _tells(*pair)] or [pair for pair in own if pair[1]]
    return read[-1] if read else None


def read(line: str) -> Reading | None:
    """Read a line in verl's format; None if it has neither training metrics (from step 1 on) nor a validation."""
    parsed = parse(line) if "step:" in line else None
    if parsed is None:
        return None
    step, metrics = parsed
    if step > 0 and any(key.startswith(TRAINING_PREFIXES) for key in metrics):
        return Reading(SignalKind.STEP, step, metrics)
    if any(is_validation(key) for key in metrics):
        return Reading(SignalKind.VALIDATION, step, metrics)
    return None


def _heads(line: str) -> list[re.Match[str]]:
    """Every `step:N -`; searching for the literal is faster than for a pattern that begins with a lookbehind."""
    heads = []
    at = line.find("step:")
    while at >= 0:
        if head := _HEAD.match(line, at):
            heads.append(head)
        at = line.find("step:", at + 5)
    return heads


def _tells(step: int, metrics: Mapping[str, float]) -> bool:
    return any((step > 0 and key.startswith(TRAINING_PREFIXES)) or is_validation(key) for key in metrics)


def _metrics(body: str) -> dict[str, float]:
    metrics: dict[str, float] = {}
    pairs = body.split(" - ")[1:]
    for n, pair in enumerate(pairs):
        key, _, text = pair.rpartition(":")
        value = number(text)
        if value is None or (n == len(pairs) - 1 and ":" in key):
            glued = _GLUED.match(pair)
            key, value = (glued["key"], number(glued["value"])) if glued else (key, value)
        if key and value is not None:
            metrics[key.strip()] = value
    return metrics
