"""verl's console line, `step:N - key:value - key:value ...`, which several trainers print.

Written by verl/utils/logger/aggregate_logger.py (`concat_dict_to_str`). The values come in three
generations: `%.3f` (verl up to 0.4), plain floats (numpy 1), `np.float64(...)` (numpy 2). A line of 3,000
characters and 100 pairs is usual.

The patterns follow three rules, so that a log of gigabytes costs little and an odd one no more:
- they begin with a literal, which re skips to; what stands before it is looked at afterwards. Which lines re is
  shown at all, their needles say;
- they walk word by word with possessive loops, which never give back, and every repeat is bounded;
- they never cross a newline or a carriage return and see no difference between the start of a chunk and
  the start of a line, so that it does not matter where a log is cut into chunks.
"""

from __future__ import annotations

import re

from autoresearch.core.metric_keys import KL_KEYS
from autoresearch.core.signal import SignalKind, SignalPattern
from autoresearch.core.values import NUMBER, number

_WORDS = 2000  # a pair is two words, "-" and "key:value"
_CHARS = 16384

# After a Ray prefix, a colour or a tqdm bar, but not in global_step:
_HERE = r"(?:(?<=^step:)|(?<=[\s\]m]step:))"
_VALUE = r"(?:np\.\w{1,12}\()?"
_TRAINING_PAIR = r"(?:actor|critic|train)/[^\s:]{1,200}:[-+.\dint]"
_VALIDATION_PAIR = r"(?:val[-/]|task_pass_rate@|TGC@)[^\s:]{1,300}:[-+.\dint]"


def _word_that(pattern: str) -> str:
    """The words after `step:N -`, up to one that begins so; another `step:` ends the search."""
    return rf"(?: (?!{pattern}|\]?step:)[^ \r\n]{{0,1000}}+){{0,{_WORDS}}}+ (?={pattern})"


def _somewhere(rare: str) -> str:
    """A quick look ahead for a text, so that lines without it are not walked; begin it with a rare letter.

    re jumps to the end of the line and back to that letter, faster than it walks words. It may see more
    than the line where carriage returns end lines; the walk after it is exact.
    """
    return rf"(?=.{{0,{_CHARS}}}{rare})"


def _kl() -> str:
    """An optional part that finds the KL: the first of the names that the line holds, with its value."""
    names = [key for key in KL_KEYS if key.startswith("actor/")]
    found = "|".join(_somewhere(name[name.index("kl") :] + ":") + _word_that(name + ":") + name + ":" for name in names)
    return rf"(?:(?:{found}){_VALUE}(?P<kl>{NUMBER}))?"


STEP = SignalPattern(
    SignalKind.STEP,
    rf"step:{_HERE}(?P<step>[1-9]\d{{0,9}}) -(?={_word_that(_TRAINING_PAIR)}){_kl()}",
    needles=("step:",),
)
"""A training step: from 1 on (`step:0` only validates) and with at least one metric of the policy."""

VALIDATION = SignalPattern(
    SignalKind.VALIDATION,
    rf"step:{_HERE}(?P<step>\d{{1,10}}) -(?:(?= val[-/])|(?=[^@]{{0,8192}}@))(?={_word_that(_VALIDATION_PAIR)})",
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
"""A loss, gradient norm, KL or entropy that is no number any more, as a pair of a step line.

Other keys may be NaN in a healthy run. It is anchored on the shape of the pair, `loss:nan - `, and not on
`step:`: the word is in hardly any piece of a log, so that looking for it costs next to nothing.
"""

_LINE = re.compile(r"(?P<before>.{0,400}?)(?<![^\s\]])step:(?P<step>\d{1,10}) - (?P<body>\S.*)")
_QUOTED = re.compile(r"""["'{}<>|`]""")


def parse(line: str) -> tuple[int, dict[str, float]] | None:
    """Step and metrics of a stripped line; None if it is no such line.

    A line that only quotes one (a sampled answer, a config dump) is refused: what stands before `step:` may
    be a logger's prefix or the tail of a tqdm bar, but hold no quotes or braces. Pairs without a number are
    left out; NaN and infinities are kept.
    """
    found = _LINE.match(line)
    if found is None or not _is_prefix(found["before"]):
        return None
    metrics: dict[str, float] = {}
    for pair in found["body"].split(" - "):
        key, _, text = pair.rpartition(":")
        value = number(text)
        if key and value is not None:
            metrics[key.strip()] = value
    return (int(found["step"]), metrics) if metrics else None


def _is_prefix(before: str) -> bool:
    if before.endswith("]") and "%|" in before:  # a bar to which the line is glued
        return True
    return _QUOTED.search(before) is None
