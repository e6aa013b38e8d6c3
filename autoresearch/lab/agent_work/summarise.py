"""Summarise: an agent's opinion of a campaign, beside the harness's own numbers and never instead of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoresearch.core.agents.agent import TurnRole
from autoresearch.core.agents.proposals import closed, one_line
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.text.regex import later
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.propose_prompt import facts, schema_section
from autoresearch.lab.agent_work.question import UNTRUSTED, TurnContext, UnusableError
from autoresearch.lab.campaign_report import formatting, summary
from autoresearch.lab.campaign_report.summary import IdeaLine, IdeaStatus
from autoresearch.lab.render import render
from autoresearch.records.rundir import write_page
from autoresearch.runner.masking import mask_text

_NUMBER = later(r"(?<![\w.@/-])[-+−]?(?:\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+(?= ?%))( ?%| per ?cent)?(?![\w])")
NAME = "agent_summary.md"
LISTS = {
    "what_helped": "What helped",
    "what_did_not": "What did not",
    "surprising": "Surprising",
    "next_ideas": "What to try next",
}
UNTOLD = (IdeaStatus.PENDING, IdeaStatus.SMOKE, IdeaStatus.RUNNING, IdeaStatus.PREPARED)
MOST_ITEMS = 12
MOST_TEXT = 600
_TEXTS = {"type": "array", "items": {"type": "string"}}
SCHEMA: Mapping[str, Any] = closed({"headline": {"type": "string"}, **dict.fromkeys(LISTS, _TEXTS)})


@dataclass(frozen=True, slots=True)
class Opinion:
    """What an agent said of a campaign."""

    headline: str
    lists: Mapping[str, tuple[str, ...]]  # by the names in LISTS


def summarise(propose_context: ProposeContext, turn_context: TurnContext) -> Opinion:
    """Ask for a summary; an answer that is none is asked for again, once. Raises UnansweredError."""
    return turn_context.answer(TurnRole.SUMMARISE, prompt_of(propose_context), SCHEMA, read, tries=2)


def prompt_of(propose_context: ProposeContext) -> str:
    """The whole prompt; the facts are those of a propose turn."""
    honest = "\n".join(
        f"- {formatting.plain(line, 600)}" for line in summary.honest(propose_context.state, propose_context.lines)
    )
    rules = render("agent/summarise.md.j2", untrusted=UNTRUSTED)
    end = f"# What the harness concludes\n\n{honest}\n\n# Now\n\n{propose_context.stand.sentence}. Sum it up.\n"
    return "\n".join(part for part in (rules, schema_section(SCHEMA), *facts(propose_context), end) if part)


def read(data: object, _: str = "") -> Opinion:
    """An opinion; too much is cut, unknown keys are not looked at. Raises UnusableError."""
    if not isinstance(data, Mapping) or not isinstance(data.get("headline"), str) or not data["headline"].strip():
        raise UnusableError("it has no `headline`")
    said = {}
    for name in LISTS:
        items = data.get(name)
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise UnusableError(f"`{name}` is no list of sentences")
        said[name] = tuple(mask_text(one_line(item, MOST_TEXT)) for item in items if item.strip())[:MOST_ITEMS]
    return Opinion(mask_text(one_line(data["headline"], MOST_TEXT)), said)


def write(propose_context: ProposeContext, opinion: Opinion, directory: Path) -> Path:
    """Write `agent_summary.md`, atomically; returns its path. OSError where it cannot be written."""
    path = directory / NAME
    write_page(path, document(propose_context, opinion), durable=False)
    return path


def document(propose_context: ProposeContext, opinion: Opinion) -> str:
    """Two parts: what the harness measured, and what the agent thinks of it, as a quotation."""
    known = facts_of(propose_context)
    return render(
        "agent_summary.md.j2",
        spec=propose_context.state.spec,
        honest=summary.honest(propose_context.state, propose_context.lines),
        stand=propose_context.stand,
        lines=[line for line in propose_context.lines if line.standing not in UNTOLD][-30:],
        opinion=opinion,
        titles=LISTS,
        marked=lambda sentence: _marked(sentence, known),
        cell=formatting.cell,
        number=formatting.number,
        signed=formatting.signed,
    )


def facts_of(propose_context: ProposeContext) -> KnownNumbers:
    """Every number that a sentence about these ideas may hold."""
    state, band = propose_context.state, summary.band_of(propose_context.state)
    others = [v for v in (band.sd if band else None, state.spec.rules.target) if v is not None]
    means = {line.slug: line.mean for line in propose_context.lines if line.mean is not None}
    overrides = {idea.slug: idea.hypothesis.overrides for idea in state.ideas}
    ideas = {
        line.slug: IdeaNumbers(
            [means[slug] for slug in (line.slug, line.parent) if slug in means],
            [*_numbers(line), *_settings(overrides[line.slug], propose_context.baseline)],
        )
        for line in propose_context.lines
    }
    names = {state.spec.objective.metric, *state.spec.objective.keys, *propose_context.baseline}
    return KnownNumbers(ideas, IdeaNumbers([band.mean] if band else [], others), names)


def _numbers(idea_line: IdeaLine) -> list[float]:
    shown, estimate = idea_line.shown, idea_line.shown.estimate
    proof = (estimate.gain, estimate.gain_low, estimate.gain_high) if estimate else ()
    proved = (shown.value, shown.change, shown.low, shown.high, *proof)
    found = (idea_line.delta, idea_line.noise, idea_line.minutes, *idea_line.values, *idea_line.confirming, *proved)
    return [value for value in found if value is not None]


def _settings(overrides: Mapping[str, object], baseline: Mapping[str, object]) -> list[float]:
    """What an idea set, and what was there before."""
    flat = flatten(overrides)
    values = [*flat.values(), *(baseline.get(key.removeprefix("+")) for key in flat)]
    return [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


def _marked(sentence: str, known_numbers: KnownNumbers) -> str:
    """A sentence as markdown, with a mark behind what the ledger does not show."""
    text = formatting.cell(sentence, MOST_TEXT)
    wrong = unproven(sentence, known_numbers)
    return f"{text} **[not in the ledger: {formatting.cell(', '.join(wrong), 120)}]**" if wrong else text


@dataclass(frozen=True, slots=True)
class IdeaNumbers:
    """Numbers of one idea: the means that differences are computed from (its own, its parent's), and all others."""

    means: Collection[float] = ()
    others: Collection[float] = ()


@dataclass(frozen=True, slots=True)
class KnownNumbers:
    """Numbers that are known: of each idea by its slug, and those that any sentence may hold."""

    ideas: Mapping[str, IdeaNumbers] = field(default_factory=dict)
    common: IdeaNumbers = field(default_factory=IdeaNumbers)  # of the baseline, the noise, the target
    names: Collection[str] = ()  # of metrics and recipe keys: digits in these names are not numbers


def unproven(sentence: str, numbers: KnownNumbers) -> list[str]:
    """The numbers of a sentence that no record shows, as written; [] if it is about no known idea or metric."""
    about = [slug for slug in numbers.ideas if _names(sentence, slug)]
    if not about and not any(_names(sentence, name) for name in numbers.names):
        return []
    bare = sentence
    for name in sorted((*about, *numbers.names), key=len, reverse=True):
        bare = bare.replace(name, " ")
    ideas = [numbers.ideas[slug] for slug in about or numbers.ideas]
    means = [mean for one in ideas for mean in one.means]
    against = [*numbers.common.means, *(means if about else ())]
    values = [*means, *numbers.common.means, *numbers.common.others, *(value for one in ideas for value in one.others)]
    values += [a - b for a in means for b in against]
    values += [a / b - 1 for a in means for b in against if b]
    return [number[0].strip() for number in _NUMBER.finditer(bare) if not _is_known(number[0], values)]


def _names(sentence: str, name: str) -> bool:
    at = sentence.find(name)
    while at >= 0:
        before, after = sentence[at - 1 : at] if at else "", sentence[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before in ("-", "_")) and not (after.isalnum() or after in ("-", "_")):
            return True
        at = sentence.find(name, at + 1)
    return False


def _is_known(text: str, known: Iterable[float]) -> bool:
    plain = text.replace("−", "-").replace("per cent", "%").replace("percent", "%").replace(" ", "")
    share = plain.endswith("%")
    digits = plain.rstrip("%").lstrip("+-")
    number = float(digits)
    mantissa, _, power = digits.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(power or 0) - decimals)
    return any(
        math.isfinite(value) and abs(abs(value) * (100 if share else 1) - number) <= 0.5000001 * unit for value in known
    )
