"""Propose: one question to an agent that yields hypotheses, asked again with what is wrong, twice at most."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from autoresearch.core.agents.agent import TurnFault, TurnRole
from autoresearch.core.agents.findings import IdeaFinding, read_findings, standing_findings
from autoresearch.core.agents.proposals import EXTRA, KINDS, SCHEMA, KnownIdeas, validate
from autoresearch.core.campaign.duplicates import Earlier, all_earlier, resolved, twin, vetoed
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.overrides import unused
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.propose_prompt import brief
from autoresearch.lab.agent_work.question import TurnContext, UnansweredError, UnusableError

TRIES = 3


@dataclass(frozen=True, slots=True)
class ProposeResult:
    """What came of asking for hypotheses. `fault` None: there is at least one."""

    hypotheses: tuple[Hypothesis, ...] = ()
    refused: tuple[tuple[Hypothesis, str], ...] = ()  # valid ones, and why they are not taken
    findings: tuple[IdeaFinding, ...] = ()  # on decided ideas, whatever became of the hypotheses
    fault: TurnFault | None = None
    message: str = ""  # one clause about the fault


def propose(
    propose_context: ProposeContext, want: int, turn_context: TurnContext, kinds: Collection[str] = KINDS
) -> ProposeResult:
    """Ask for `want` hypotheses of these kinds. Valid new ones are taken, even if others are not."""
    state, best = propose_context.state, propose_context.state.base
    chosen = [kind for kind in KINDS if kind in kinds]
    known_ideas = KnownIdeas(
        objective=state.spec.objective,
        metrics=propose_context.metrics,
        parents={idea.slug for idea in state.ideas if idea.commit and not state.distrusted(idea)},
        kinds=chosen,
        protected=propose_context.protected,
        closed=propose_context.closed,
        fits=propose_context.fits,
    )
    names = {idea.slug for idea in state.ideas}
    names |= {one.slug for one in (*(skipped for skipped, _ in state.skipped), *propose_context.waiting)}
    taken: list[Hypothesis] = []
    refused: list[tuple[Hypothesis, str]] = []
    had = all_earlier(state, propose_context.waiting)
    so_far = standing_findings(state.research.findings)
    findings: dict[str, IdeaFinding] = {}

    def read(data: object, turn: str) -> None:
        said = read_findings(data, propose_context.newly_decided, so_far)
        findings.update((one.idea, one) for one in said)
        checked = validate(data, replace(known_ideas, turn=turn))
        problems = list(checked.problems)
        for one in checked.hypotheses:
            parent = resolved(state, one.parent)
            values = propose_context.recipe or None if best and parent == best.slug else None
            why = (
                vetoed(one, propose_context.vetoes)
                or twin(one, parent, had, values)
                or (EXTRA if len(taken) >= want else "")
            )
            if why:
                refused.append((one, why))
                problems.append(f"{one.slug}: refused, because {why}")
                continue
            named = replace(one, slug=unused(one.slug, names))
            names.add(named.slug)
            taken.append(named)
            had.append(Earlier(named, parent, "proposed in the same answer"))
        if not taken:
            raise UnusableError(*problems)

    try:
        prompt = brief(propose_context, want, chosen, turn_context.bounds, with_schema=not turn_context.given_schema)
        turn_context.answer(TurnRole.PROPOSE, prompt, SCHEMA, read, tries=TRIES)
    except UnansweredError as failed:
        return ProposeResult((), tuple(refused), tuple(findings.values()), failed.fault, failed.why)
    return ProposeResult(tuple(taken), tuple(refused), tuple(findings.values()))
