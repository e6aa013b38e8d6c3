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
from collections.abc import Mapping

from autoresearch.core.metrics.metric_keys import KL_KEYS, TRAINING_PREFIXES, is_validation
from autoresearch.core.metrics.python_values import NUMBER, number
from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.core.text.regex import later

_WORDS = 2000  # a pair is two words, "-" and "key:value"
_CHARS = 16384

# What may stand right before it: nothing, white space, a bar's or a prefix's bracket, each with a colour behind
# it or not. It may not be global_step, and re looks back at fixed widths only: one for each length of a colour.
_COLOUR = r"\x1b\[[0-9;]"
_COLOURS = ("", *(rf"{reset}{_COLOUR}{{{n}}}m" for n in range(13) for reset in ("", r"\x1b\[0m")))
_HERE = "(?:" + "|".join(rf"(?<=^{colour}step:)|(?<=[ \t\r\n\])]{colour}step:)" for colour in _COLOURS) + ")"
_HERE = _HERE[:-1] + r"|(?<=\]:step:))"  # torchrun --tee: [default0]:step:1
_SHOWN = ("prompt", "response", "ground_truth")  # verl/workers/reward_manager prints samples behind such marks
_HERE += "".join(rf"(?<!\[{mark}\] step:)" for mark in _SHOWN)
_WRAPPER = r"(?:np\.\w{1,12}\()?"
_END = rf"(?!(?:{_COLOUR}{{0,12}}m){{0,4}}[a-z0-9_.:])"  # what is glued to a number begins otherwise
_VALUE = rf"{_WRAPPER}{NUMBER}{_END}"
_TRAINING_PAIR = rf"- (?:actor|critic|train)/[^\s:]{{1,200}}:{_VALUE}"
_VALIDATION_PAIR = rf"- (?:val[-/]|task_pass_rate@|TGC@)[^\s:]{{1,300}}:{_VALUE}"


def _unquoted(reach: int) -> str:
    """Refuses a line whose next quotation mark closes one: a sampled answer or a config dump quotes a line.

    Apostrophes are none. It looks ahead, as what stands behind is lost when colours and prefixes are taken off.
    That there is no such mark at all is found at five times the speed by looking for one after the other.
    """
    # Unrolled: each apostrophe ends a stretch, so that there is one way to match. (Possessive repeats would say
    # the same, but nested ones miss matches in Python before 3.11.5.)
    stretch = rf"[^'\"`\r\n]{{0,{reach}}}"
    closes = rf"(?!{stretch}(?:\b'\b{stretch}){{0,16}}(?<=[^\s(\[{{=:,])['\"`](?!\w))"
    none = "".join(rf"(?![^{mark}]{{0,{18 * reach}}}+{mark})" for mark in "'\"`")
    return rf"(?:{none}|{closes})"


def _word_that(pattern: str) -> str:
    """The words after `step:N -`, up to one that begins so; another `step:` ends the search."""
    return rf"(?: (?!{pattern}|\]?step:)[^ \r\n]{{0,1000}}){{0,{_WORDS}}} (?={pattern})"


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
    return rf"(?:(?:{found}){_WRAPPER}(?P<kl>{NUMBER}))?"


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
"""A loss, gradient norm, KL or entropy that is no number any more, as a pair of a step line.

Other keys may be NaN in a healthy run. It is anchored on the shape of the pair, `loss:nan - `, and not on
`step:`: the word is in hardly any piece of a log, so that looking for it costs next to nothing.
"""

_HEADS = 8  # of a line that holds thousands, only the last are read
_HEAD = later(
    "".join(rf"(?<!\[{mark}\] )" for mark in _SHOWN) + r"(?<![\w./\"'`-])step:(?P<step>\d{1,10})(?= - )", re.ASCII
)
_UNQUOTED = later(_unquoted(_CHARS // 8), re.ASCII)
_GLUED = later(rf"(?P<key>[^\s:]{{1,300}}):{_WRAPPER}(?P<value>{NUMBER}){_END}", re.ASCII)


def parse(line: str) -> tuple[int, dict[str, float]] | None:
    """Step and metrics of a stripped line; None if it is no such line.

    It reads whatever the patterns above accept: before `step:` may stand a logger's prefix or the bar to which
    the line is glued, and other output may be glued to its end. Of several on one line, the last that has
    metrics of the policy or a validation counts. Pairs without a number are left out; NaN and infinities are kept.
    """
    heads = [head for head in _heads(line)[-_HEADS:] if _UNQUOTED.match(line, head.end())]
    ends = [*(head.start() for head in heads), len(line)][1:]
    own = [(int(head["step"]), _metrics(line[head.end() : end])) for head, end in zip(heads, ends, strict=False)]
    read = [found for found in own if _tells(*found)]
    if not read:  # one that quotes another step before its first metric
        read = [(int(head["step"]), _metrics(line[head.end() :])) for head in heads]
        read = [found for found in read if _tells(*found)] or [found for found in own if found[1]]
    return read[-1] if read else None


def _heads(line: str) -> list[re.Match[str]]:
    """Every `step:N -`. What begins by looking back is found faster by its literal."""
    found = []
    at = line.find("step:")
    while at >= 0:
        if head := _HEAD.match(line, at):
            found.append(head)
        at = line.find("step:", at + 5)
    return found


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
