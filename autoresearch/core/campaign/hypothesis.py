"""Hypothesis: one falsifiable idea, as plain data that fits in a journal line.

People read its name, `#7 lr=4.4e-3 kl=0.018`; its slug is for branches, sessions and arguments.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from autoresearch.core.campaign.overrides import cut, flatten, short_keys, spoken
from autoresearch.core.run.json_record import from_record
from autoresearch.core.text.session_and_branch_names import SLUG_MAX, first_free, slugify

BASELINE = "baseline"
BEST = "best"
MOST_NAMED = 48  # characters of the settings or words; what does not fit is counted, or cut


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What differs from the parent, and why it may be better.

    `overrides` change the branch's own recipe and need no code edit; `files` and `patches` change the code;
    `blueprint` replaces the campaign's blueprint. All of them may be empty only in the baseline.
    """

    slug: str  # unique in its campaign; the last part of the branch's name
    sentence: str  # the idea, in one sentence
    parent: str = BEST  # BEST, BASELINE, or the slug of an idea of this campaign
    overrides: Mapping[str, object] = field(default_factory=dict)  # dotted recipe key -> value
    files: Mapping[str, str] = field(default_factory=dict)  # path in the repository -> the whole new text
    patches: tuple[str, ...] = ()  # unified diffs, as text
    blueprint: str = ""  # the text of a blueprint; "" is the campaign's
    expected: str = ""  # the expected effect, in words
    proposer: str = ""  # who proposed it
    token: str = ""  # the proposer's own ID for it (an optimiser's trial)
    kind: str = ""  # of an agent's idea: config, code, prompt or data; all but config need an edit turn
    risk: str = ""  # what may go wrong, in words
    rationale: str = ""  # the proposer's full explanation of why and how, for the agent that edits the code
    paths: tuple[str, ...] = ()  # files that it intends to change
    flags: tuple[str, ...] = ()  # what looks suspicious in its diff, one sentence each
    unmade: str = ""  # a `core.agents.agent.NotMade`: it counts as attempted, but never ran
    why_unmade: str = ""  # one sentence
    turns: tuple[str, ...] = ()  # directory names of the agent turns that produced it
    merges: tuple[str, ...] = ()  # of a tip: the slugs of the ideas whose edits it is, in the order of their merge

    def to_json(self) -> dict[str, Any]:
        """All non-empty fields, for a line of the campaign's journal."""
        found = asdict(self)
        return {key: value for key, value in found.items() if value not in ("", {}, (), False)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Hypothesis:
        """Read the output of `to_json`; unknown keys (of newer versions) are ignored."""
        return from_record(cls, value)

    @property
    def changes_code(self) -> bool:
        """Whether it changes more than recipe keys: code, prompts, data or the blueprint."""
        kinds = self.kind not in ("", "config")
        return kinds or bool(self.files or self.patches or self.paths or self.blueprint)

    @property
    def keys(self) -> frozenset[str]:
        """The keys that it sets, however hydra or a command spells them: `+kl` and `kl` are one."""
        return frozenset(key.lstrip("+~-") for key in flatten(self.overrides))

    @property
    def is_baseline(self) -> bool:
        """Whether this is the unchanged baseline."""
        return self.slug == BASELINE


def baseline_hypothesis() -> Hypothesis:
    """The hypothesis that changes nothing."""
    return Hypothesis(BASELINE, "The baseline: nothing is changed.", parent="", proposer="campaign")


def renamed(hypothesis: Hypothesis, taken: Collection[str]) -> Hypothesis:
    """The same hypothesis under a slug that is not taken yet."""
    return replace(hypothesis, slug=first_free(slugify(hypothesis.slug), taken.__contains__, SLUG_MAX))


def idea_name(index: int, hypothesis: Hypothesis, parent_index: int = 0) -> str:
    """`#7 lr=4.4e-3 kl=0.018`, `#1 baseline`, `#4 Decay the entropy bonus`; without a number for an index below 1.

    An idea of settings is named by them, any other by the first words of its sentence. With the index of a parent that
    is not the baseline, it ends with it: `#5 beta=0.02 (on #2)`, as its own settings are not all that it changes.
    """
    number, on = f"#{index} " if index > 0 else "", f" (on #{parent_index})" if parent_index > 1 else ""
    return number + (_settings(hypothesis.overrides) or _first_words(hypothesis)) + on


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
        if len(" ".join([*shown, text])) + (len(f" +{more} more") if more else 0) > MOST_NAMED:
            break
        shown.append(text)
    left = len(texts) - len(shown)
    return " ".join(shown) + (f" +{left} more" if left else "")


def _first_words(hypothesis: Hypothesis) -> str:
    """The first words of its sentence, without its full stop; of one without a sentence, those of its slug."""
    if hypothesis.is_baseline:
        return BASELINE
    sentence = " ".join(hypothesis.sentence.split()) or hypothesis.slug.replace("-", " ")
    return cut(re.split(r"[.;:!?](?:\s|$)", sentence, maxsplit=1)[0] or sentence, MOST_NAMED)
