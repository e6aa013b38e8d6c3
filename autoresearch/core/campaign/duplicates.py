"""Duplicate detection: whether an idea was proposed before, and with what result; whether a person vetoed it.

Two ideas are the same if they set the same values on the same parent, and change no code. A discarded idea may be tried
again on another parent. Titles tell nothing: of pairs under one title most change different code. Ideas that arrive at
the same code and recipe are detected by their fingerprint when they are committed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoresearch.core.agents.agent import NotMade
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.overrides import changed, fingerprint
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import place_of
from autoresearch.core.run.ending import WITHOUT_VALUE
from autoresearch.core.text.regex import later

_WORD = later(r"[a-z]+|\d[\d.e%+-]*", re.IGNORECASE)
_ENDINGS = ("ations", "ation", "ings", "ing", "ed", "es", "s", "e")
_OF_NO_MATTER = "no not never stop avoid more please a an the of any by to"  # in a veto


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier idea that later ones are compared with: attempted, waiting or refused."""

    hypothesis: Hypothesis
    parent: str  # the slug of the idea it was built on
    fate: str  # its outcome, as a clause
    again: bool = False  # its failure was not the idea's fault: it may be proposed again unchanged


def is_code(hypothesis: Hypothesis) -> bool:
    """Whether it changes more than recipe keys: code, prompts, data or the blueprint."""
    kinds = hypothesis.kind not in ("", "config")
    return kinds or bool(hypothesis.files or hypothesis.patches or hypothesis.paths or hypothesis.blueprint)


def all_earlier(state: CampaignState, hypotheses: Iterable[Hypothesis] = ()) -> list[Earlier]:
    """Every idea that a campaign has had, oldest first; `proposals`: queued ideas that have not been started."""
    had = [
        Earlier(idea.hypothesis, idea.parent, _fate(state, idea), again=idea.hypothesis.unmade == NotMade.RESEARCHER)
        for idea in state.ideas
        if idea.parent
    ]
    had += [
        Earlier(hypothesis, resolved(state, hypothesis.parent), f"refused: {reason}")
        for hypothesis, reason in state.skipped
        if hypothesis.unmade != NotMade.RESEARCHER
    ]
    return had + [Earlier(h, resolved(state, h.parent), "waiting to be begun") for h in hypotheses]


def resolved(state: CampaignState, parent: str) -> str:
    """The slug that a parent refers to now: `best` and "" are what new ideas are built on."""
    if parent in (BEST, ""):
        return state.base.slug if state.base else BASELINE
    return parent


def _fate(state: CampaignState, idea: Idea) -> str:
    """The same of an idea that may run once: whether it is in the tip says more than the status of its run."""
    told = fate(idea)
    once = state.runs_once(idea) and bool(idea.values)
    return f"{place_of(state, idea)}{told.removeprefix(idea.status)}" if once else told


def fate(idea: Idea) -> str:
    """The outcome of an attempted idea, as a clause with its metric."""
    if idea.hypothesis.unmade:
        return f"never ran: {idea.hypothesis.unmade}"
    word = idea.confirmed if idea.confirmed == "demoted" else "pruned" if idea.pruned else idea.status
    value = "" if idea.value is None else f" at {idea.value:.4g}"
    failure = next((row.failure for row in reversed(idea.rows) if row.failure), "") if word in WITHOUT_VALUE else ""
    return f"{word}{value}{f' ({failure})' if failure else ''}" if word else "still under way"


def twin(
    hypothesis: Hypothesis, parent: str, had: Sequence[Earlier], values: Mapping[str, object] | None = None
) -> str:
    """Why a hypothesis is refused as a duplicate, naming the earlier idea and its outcome; "" if it is new.

    parent: the slug that its parent refers to now. values: the recipe of that parent, if known.
    """
    if is_code(hypothesis):
        return ""
    if values and hypothesis.overrides and not changed(hypothesis.overrides, values):
        return f"it changes nothing: {parent} has these values already"
    mark = fingerprint(hypothesis.overrides, values)
    for other in reversed(had):
        theirs = other.hypothesis
        if other.again or other.parent != parent or is_code(theirs) or fingerprint(theirs.overrides, values) != mark:
            continue
        return f"it sets the same values as {theirs.slug} on the same parent ({parent}), which was {other.fate}"
    return ""


def vetoed(hypothesis: Hypothesis, vetoes: Collection[str]) -> str:
    """The veto that matches it by slug, recipe key, path or words, as a clause; "" if there is none."""
    keys = [key.removeprefix("+") for key in hypothesis.overrides]
    names = {hypothesis.slug, *hypothesis.paths, *hypothesis.files, *keys}
    words = set(_words(" ".join((hypothesis.slug, hypothesis.sentence, hypothesis.rationale, *keys))))
    for veto in sorted(veto.strip() for veto in vetoes):
        if veto in names:
            return f"a person vetoed {veto}"
        unwanted = set(_words(veto)) - set(_words(_OF_NO_MATTER))
        if len(veto.split()) > 1 and unwanted and unwanted <= words:
            return f'a person vetoed "{veto[:120]}"'
    return ""


def _words(text: str) -> Iterator[str]:
    """The words of a text, lower-case and without an ending if four letters are left."""
    for word in map(str.lower, _WORD.findall(text)):
        ending = next((one for one in _ENDINGS if word.endswith(one) and len(word) - len(one) >= 4), "")
        yield word.removesuffix(ending)
