"""Hypothesis: one falsifiable idea, as plain data that fits in a journal line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from autoresearch.core.run.json_record import from_record
from autoresearch.core.text.session_and_branch_names import SLUG_MAX, first_free, slugify

BASELINE = "baseline"
BEST = "best"


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
    simpler: bool = False  # declared simpler than its parent: kept if it is only as good
    smoke: bool = False  # declared underpowered: validates plumbing, judges nothing
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
    def is_baseline(self) -> bool:
        """Whether this is the unchanged baseline."""
        return self.slug == BASELINE


def baseline_hypothesis() -> Hypothesis:
    """The hypothesis that changes nothing."""
    return Hypothesis(BASELINE, "The baseline: nothing is changed.", parent="", proposer="campaign")


def renamed(hypothesis: Hypothesis, taken: Collection[str]) -> Hypothesis:
    """The same hypothesis under a slug that is not taken yet."""
    return replace(hypothesis, slug=first_free(slugify(hypothesis.slug), taken.__contains__, SLUG_MAX))
