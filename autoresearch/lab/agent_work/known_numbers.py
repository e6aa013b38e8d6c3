"""Every number that a sentence about a campaign's ideas may hold: what an agent is told of them, and their records."""

from __future__ import annotations

import json
from collections.abc import Iterator

from autoresearch.core.agents.quoted_numbers import IdeaNumbers, KnownNumbers, numbers_in
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.propose_ideas import told_of_ideas
from autoresearch.lab.agent_work.propose_prompt import common_facts
from autoresearch.lab.campaign_report import summary
from autoresearch.lab.campaign_report.summary import IdeaLine


def facts_of(propose_context: ProposeContext) -> KnownNumbers:
    """The numbers of each idea, and those that any sentence may hold."""
    state, lines, band = propose_context.state, propose_context.lines, summary.band_of(propose_context.state)
    means = {line.slug: line.mean for line in lines if line.mean is not None}
    known, told = {idea.slug: idea.hypothesis for idea in state.ideas}, told_of_ideas(propose_context)
    ideas = {
        line.slug: IdeaNumbers(
            [means[slug] for slug in (line.slug, line.parent) if slug in means],
            [*_recorded(line), *numbers_in(told[line.slug]), *numbers_in(_words(known[line.slug]))],
        )
        for line in lines
    }
    names = {state.spec.objective.metric, *state.spec.objective.keys, *propose_context.baseline}
    common = [*numbers_in("\n".join(common_facts(propose_context))), *range(len(lines) + 1)]
    return KnownNumbers(ideas, IdeaNumbers([band.mean] if band else [], common), names)


def _recorded(idea_line: IdeaLine) -> Iterator[float]:
    shown, estimate = idea_line.shown, idea_line.shown.estimate
    proof = (estimate.gain, estimate.gain_low, estimate.gain_high) if estimate else ()
    proved = (shown.value, shown.change, shown.low, shown.high, *proof)
    found = (idea_line.delta, idea_line.noise, idea_line.minutes, *idea_line.values, *idea_line.confirming, *proved)
    yield from (value for value in found if value is not None)
    for row in idea_line.rows:
        yield from (float(n) for n in (row.memory_gb, row.steps, row.metric_step, row.best_value) if n is not None)
        yield from (60 * row.elapsed_min, row.elapsed_min) if row.elapsed_min is not None else ()


def _words(hypothesis: Hypothesis) -> str:
    """What an idea says of itself, what it sets, and the lines that its patch adds or takes out."""
    changed = [line for patch in hypothesis.patches for line in patch.splitlines() if line[:1] in ("+", "-")]
    settings = json.dumps(dict(hypothesis.overrides), default=str)
    return "\n".join((hypothesis.sentence, hypothesis.rationale, hypothesis.expected, settings, *changed))
