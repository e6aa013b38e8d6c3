"""Hypothesis: one idea that can lose, as plain data that a journal line can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

BASELINE = "baseline"
BEST = "best"
_TUPLES = frozenset({"patches", "paths", "flags", "turns"})


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What differs from the parent, and why it may win.

    `overrides` change the branch's own recipe and need no code edit; `files` and `patches` change the code;
    `blueprint` replaces the campaign's blueprint. All may be empty only in the baseline.
    """

    slug: str  # unique in its campaign; the last part of the branch's name
    sentence: str  # the idea, in words
    parent: str = BEST  # BEST, BASELINE, or the slug of an idea of this campaign
    overrides: Mapping[str, object] = field(default_factory=dict)  # dotted recipe key -> value
    files: Mapping[str, str] = field(default_factory=dict)  # path in the repository -> the whole new text
    patches: tuple[str, ...] = ()  # unified diffs, as text
    blueprint: str = ""  # the text of a blueprint; "" is the campaign's
    expected: str = ""  # the effect that is expected, in words
    simpler: bool = False  # declared simpler than its parent: kept when it is only as good
    smoke: bool = False  # declared underpowered: validates plumbing, judges nothing
    proposer: str = ""  # who proposed it
    token: str = ""  # what the proposer calls it (an optimiser's trial)
    kind: str = ""  # of a researcher's: config, code, prompt or data; all but config need an edit turn
    risk: str = ""  # what may go wrong, in words
    rationale: str = ""  # all that its proposer says of why and how, for whoever edits the code
    paths: tuple[str, ...] = ()  # files that it means to change
    flags: tuple[str, ...] = ()  # what looks suspicious in its diff, one sentence each
    unmade: str = ""  # a `core.agents.agent.NotMade`: it is attempted, and never reaches a GPU
    why_unmade: str = ""  # one sentence
    turns: tuple[str, ...] = ()  # the researcher's turns that made it, by the names of their directories

    def to_json(self) -> dict[str, Any]:
        """The fields that say something, for a line of the campaign's journal."""
        found = asdict(self)
        return {key: value for key, value in found.items() if value not in ("", {}, (), False)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Hypothesis:
        """Read what `to_json` wrote; keys of newer versions are ignored."""
        known = {name: value[name] for name in cls.__dataclass_fields__ if name in value}
        for name in _TUPLES & known.keys():
            known[name] = tuple(known[name])
        return cls(**known)

    @property
    def is_baseline(self) -> bool:
        """Whether this is the hypothesis that changes nothing."""
        return self.slug == BASELINE
