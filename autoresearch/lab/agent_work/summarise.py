"""Summarise: an agent's opinion of a campaign, beside the harness's own numbers and never instead of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.agents.agent import TurnRole
from autoresearch.core.agents.proposals import closed, one_line
from autoresearch.core.agents.quoted_numbers import KnownNumbers, unproven
from autoresearch.lab.agent_work.known_numbers import facts_of
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.propose_prompt import facts, schema_section
from autoresearch.lab.agent_work.question import UNTRUSTED, TurnContext, UnusableError
from autoresearch.lab.campaign_report import formatting, summary
from autoresearch.lab.campaign_report.memory import OPINION
from autoresearch.lab.campaign_report.summary import IdeaStatus
from autoresearch.lab.render import render
from autoresearch.records.rundir import write_page
from autoresearch.runner.masking import mask_text

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
    prompt = prompt_of(propose_context, with_schema=not turn_context.given_schema)
    return turn_context.answer(TurnRole.SUMMARISE, prompt, SCHEMA, read, tries=2)


def prompt_of(propose_context: ProposeContext, *, with_schema: bool = True) -> str:
    """The whole prompt; the facts are those of a propose turn."""
    honest = "\n".join(
        f"- {formatting.plain(line, 600)}" for line in summary.honest(propose_context.state, propose_context.lines)
    )
    rules = render("agent/summarise.md.j2", untrusted=UNTRUSTED, by_reward=propose_context.by_reward)
    schema = schema_section(SCHEMA) if with_schema else ""
    end = f"# What the harness concludes\n\n{honest}\n\n# Now\n\n{propose_context.stand.sentence}. Sum it up.\n"
    return "\n".join(part for part in (rules, schema, *facts(propose_context), end) if part)


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
    path = directory / OPINION
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


def _marked(sentence: str, known_numbers: KnownNumbers) -> str:
    """A sentence as markdown, with a mark behind what the ledger does not show."""
    text = formatting.cell(sentence, MOST_TEXT)
    wrong = unproven(sentence, known_numbers)
    return f"{text} **[not in the ledger: {formatting.cell(', '.join(wrong), 120)}]**" if wrong else text
