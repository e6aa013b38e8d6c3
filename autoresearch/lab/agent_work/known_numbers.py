"""Every number that a sentence about a campaign's ideas may hold: of its ledger, its settings and its curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from autoresearch.core.agents.quoted_numbers import IdeaNumbers, KnownNumbers, numbers_in
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import change_by, sd_of_run
from autoresearch.core.metrics.expression import Point
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.campaign_report import summary
from autoresearch.lab.campaign_report.curves_and_diffs import thinned
from autoresearch.lab.campaign_report.summary import IdeaLine

POINTS = 8  # of a curve that may be quoted, beside its best and its worst: no more are shown


def facts_of(propose_context: ProposeContext) -> KnownNumbers:
    """The numbers of each idea, and those that any sentence may hold."""
    state, band = propose_context.state, summary.band_of(propose_context.state)
    others = [v for v in (band.sd if band else None, sd_of_run(state), state.spec.rules.target) if v is not None]
    means = {line.slug: line.mean for line in propose_context.lines if line.mean is not None}
    known = {idea.slug: idea for idea in state.ideas}
    ideas = {
        line.slug: IdeaNumbers(
            [means[slug] for slug in (line.slug, line.parent) if slug in means],
            [
                *_numbers(line),
                *_settings(known[line.slug].hypothesis.overrides, propose_context.baseline),
                *_worth(state, known[line.slug]),
                *_in_words(known[line.slug].hypothesis),
                *_of_curves(propose_context.newly_decided.get(line.slug, {})),
            ],
        )
        for line in propose_context.lines
    }
    names = {state.spec.objective.metric, *state.spec.objective.keys, *propose_context.baseline}
    compared = [number for _, series in propose_context.compared for number in _of_curves(series)]
    common = [*others, *range(len(propose_context.lines) + 1), *compared]
    return KnownNumbers(ideas, IdeaNumbers([band.mean] if band else [], common), names)


def _numbers(idea_line: IdeaLine) -> Iterator[float]:
    shown, estimate = idea_line.shown, idea_line.shown.estimate
    proof = (estimate.gain, estimate.gain_low, estimate.gain_high) if estimate else ()
    proved = (shown.value, shown.change, shown.low, shown.high, *proof)
    found = (idea_line.delta, idea_line.noise, idea_line.minutes, *idea_line.values, *idea_line.confirming, *proved)
    yield from (value for value in found if value is not None)
    for row in idea_line.rows:
        yield from (float(n) for n in (row.memory_gb, row.steps, row.metric_step, row.best_value) if n is not None)
        yield from (60 * row.elapsed_min, row.elapsed_min) if row.elapsed_min is not None else ()


def _settings(overrides: Mapping[str, object], baseline: Mapping[str, object]) -> list[float]:
    """What an idea set, and what was there before."""
    flat = flatten(overrides)
    values = [*flat.values(), *(baseline.get(key.removeprefix("+")) for key in flat)]
    return [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


def _worth(state: CampaignState, idea: Idea) -> tuple[float, ...]:
    return (change_by(state, idea) or ()) if state.runs_once(idea) else ()


def _in_words(hypothesis: Hypothesis) -> list[float]:
    """The numbers of its own words and of the lines that its patch adds or takes out."""
    changed = [line for patch in hypothesis.patches for line in patch.splitlines() if line[:1] in ("+", "-")]
    return numbers_in("\n".join((hypothesis.sentence, hypothesis.rationale, hypothesis.expected, *changed)))


def _of_curves(series: Mapping[str, Sequence[Point]]) -> Iterator[float]:
    for points in series.values():
        values = [value for _, value in points if math.isfinite(value)]
        if values:
            yield from (min(values), max(values))
        for step, value in thinned(points, POINTS):
            yield from (float(step), value)
