"""The name of an idea that people read: `#7 lr=4.4e-3 kl=0.018`. Its slug is for branches, sessions and arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.overrides import cut, flatten, short_keys, spoken

MOST = 48  # characters of the settings or words; what does not fit is counted, or cut


def idea_name(index: int, hypothesis: Hypothesis, parent_index: int = 0) -> str:
    """`#7 lr=4.4e-3 kl=0.018`, `#1 baseline`, `#4 Decay the entropy bonus`; without a number for an index below 1.

    An idea of settings is named by them, any other by the first words of its sentence. With the index of a parent that
    is not the baseline, it ends with it: `#5 beta=0.02 (on #2)`, as its own settings are not all that it changes.
    """
    number, on = f"#{index} " if index > 0 else "", f" (on #{parent_index})" if parent_index > 1 else ""
    return number + (_settings(hypothesis.overrides) or _words(hypothesis)) + on


def idea_index(text: str) -> int | None:
    """The number in `#7` or `7`; None for any other text."""
    digits = text.removeprefix("#")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else None


def _settings(overrides: Mapping[str, object]) -> str:
    """As many settings as fit, at least one, and how many there are besides."""
    values = {key.lstrip("+~"): value for key, value in flatten(overrides).items()}
    texts = [f"{name}={spoken(values[key])}" for key, name in short_keys(values).items()]
    shown = texts[:1]
    for text in texts[1:]:
        more = len(texts) - len(shown) - 1
        if len(" ".join([*shown, text])) + (len(f" +{more} more") if more else 0) > MOST:
            break
        shown.append(text)
    left = len(texts) - len(shown)
    return " ".join(shown) + (f" +{left} more" if left else "")


def _words(hypothesis: Hypothesis) -> str:
    """The first words of its sentence, without its full stop; of one without a sentence, those of its slug."""
    if hypothesis.is_baseline:
        return BASELINE
    sentence = " ".join(hypothesis.sentence.split()) or hypothesis.slug.replace("-", " ")
    return cut(re.split(r"[.;:!?](?:\s|$)", sentence, maxsplit=1)[0] or sentence, MOST)

