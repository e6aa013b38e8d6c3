"""Propose: one turn of an agent that yields hypotheses, asked again with what is wrong, twice at most."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from autoresearch.core.agents.agent import Answer, Ask, Bounds, Turn, TurnFault, TurnRole, Usage
from autoresearch.core.agents.proposals import KINDS, SCHEMA, KnownIdeas, object_with, one_line, validate
from autoresearch.core.campaign.duplicates import Earlier, all_earlier, earlier, resolved, twin, vetoed
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.overrides import unused
from autoresearch.core.campaign.state import CampaignState
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.propose_prompt import brief
from autoresearch.lab.agent_work.untrusted_text import fenced
from autoresearch.records.secrets import mask_text

AGAIN = 2  # re-prompts
MOST_TOLD = 12  # problems that an agent is told at once
MOST_QUOTED = 8000  # characters of its own answer that an agent without a memory is shown
EXTRA = "more than were asked for"
_ASKED_AGAIN = (None, TurnFault.ANSWER, TurnFault.SILENT)  # faults that asking again may mend


@dataclass(frozen=True, slots=True)
class TurnContext:
    """Where a turn takes place, and with whom."""

    ask: Ask
    cwd: PurePath  # a clean worktree at the best commit
    directory: Callable[[TurnRole], PurePath]  # of the next turn; each re-prompt gets one of its own
    bounds: Bounds = field(default_factory=Bounds)
    session: str = ""  # to go on with
    resumes: bool = False  # whether the agent remembers its last turn


@dataclass(frozen=True, slots=True)
class ProposeResult:
    """What came of asking for hypotheses. `fault` None: there is at least one."""

    hypotheses: tuple[Hypothesis, ...] = ()
    refused: tuple[tuple[Hypothesis, str], ...] = ()  # valid ones, and why they are not taken
    problems: tuple[str, ...] = ()  # of those that are not valid, of every answer
    usage: Usage = field(default_factory=Usage)
    fault: TurnFault | None = None
    message: str = ""  # one sentence about the fault
    turns: tuple[str, ...] = ()  # names of the turns' directories
    session: str = ""
    retry_s: float | None = None


@dataclass(slots=True)
class _Talk:
    """What was said so far."""

    taken: list[Hypothesis] = field(default_factory=list)
    refused: list[tuple[Hypothesis, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    turns: list[str] = field(default_factory=list)
    session: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """What a proposal must not repeat. `values`: the recipe of the best idea, on which most are built."""

    state: CampaignState
    waiting: Sequence[Hypothesis] = ()
    vetoes: Collection[str] = ()
    values: Mapping[str, object] | None = None

    @property
    def taken(self) -> set[str]:
        """Names that no further idea can have."""
        names = {idea.slug for idea in self.state.ideas} | {h.slug for h, _ in self.state.skipped}
        return names | {h.slug for h in self.waiting}


def propose(
    propose_context: ProposeContext, want: int, turn_context: TurnContext, kinds: Collection[str] = KINDS
) -> ProposeResult:
    """Ask for `want` hypotheses of these kinds, with all that is known of the campaign."""
    chosen = [kind for kind in KINDS if kind in kinds]
    state = propose_context.state
    known = KnownIdeas(
        objective=state.spec.objective,
        metrics=propose_context.metrics,
        parents={idea.slug for idea in state.ideas if idea.commit and not state.distrusted(idea)},
        kinds=chosen,
        protected=propose_context.protected,
        closed=propose_context.closed,
        fits=propose_context.fits,
    )
    past = Past(state, propose_context.waiting, propose_context.vetoes, propose_context.recipe or None)
    return ask_for(brief(propose_context, want, chosen), want, turn_context, known, past)


def ask_for(prompt: str, want: int, turn_context: TurnContext, known_ideas: KnownIdeas, past: Past) -> ProposeResult:
    """The same with a prompt that is there. Valid new ones are taken, even if others are not.

    Nothing left: it is asked again, with what is wrong, twice at most.
    """
    talk, had = _Talk(session=turn_context.session), all_earlier(past.state, past.waiting)
    words = prompt
    for _ in range(AGAIN + 1):
        directory = turn_context.directory(TurnRole.PROPOSE)
        turn = Turn(
            role=TurnRole.PROPOSE,
            prompt=words,
            cwd=turn_context.cwd,
            directory=directory,
            schema=SCHEMA,
            session=talk.session,
            bounds=turn_context.bounds,
        )
        answer = turn_context.ask(turn)
        talk.usage += answer.usage
        talk.turns.append(directory.name)
        talk.session = answer.session or talk.session
        if answer.fault not in _ASKED_AGAIN and answer.data is None:
            return _ended(talk, answer.fault, answer.message, answer.retry_s)
        problems, refused = _take(answer, want, replace(known_ideas, turn=directory.name), past, had, talk)
        if talk.taken:
            return _ended(talk, None, "")
        words = _again(prompt, answer, [*problems, *refused], resumes=turn_context.resumes and bool(answer.session))
    last = talk.problems[-1] if talk.problems else talk.refused[-1][1] if talk.refused else "no answer"
    return _ended(talk, TurnFault.ANSWER, f"no usable hypothesis in {AGAIN + 1} answers; the last one: {last}")


def data_of(answer: Answer, key: str = "hypotheses") -> tuple[Any, str]:
    """What it answered as JSON, given natively or found in its words; (None, why) where there is none."""
    if answer.data is not None:
        return answer.data, ""
    return object_with(key, answer.text)


def _take(
    answer: Answer, want: int, known_ideas: KnownIdeas, past: Past, had: list[Earlier], talk: _Talk
) -> tuple[list[str], list[str]]:
    """Sort what an answer holds into taken, refused and broken; what is to be told of the latter two."""
    data, missing = data_of(answer)
    checked = validate(data, known_ideas) if not missing else None
    problems = list(checked.problems) if checked else [missing]
    refused = []
    for hypothesis in checked.hypotheses if checked else ():
        one = _masked(hypothesis)
        parent = resolved(past.state, one.parent)
        best = past.state.best
        values = past.values if best and parent == best.slug else None
        why = vetoed(one, past.vetoes) or twin(one, parent, had, values)
        if not why and len(talk.taken) >= want:
            why = EXTRA
        if why:
            talk.refused.append((one, why))
            refused.append(f"{one.slug}: refused, because {why}")
            continue
        one = replace(one, slug=unused(one.slug, past.taken | {h.slug for h in talk.taken}))
        talk.taken.append(one)
        had.append(earlier(one, parent, "proposed in the same answer"))
    talk.problems += problems
    return problems, refused


def _masked(hypothesis: Hypothesis) -> Hypothesis:
    """The same without anything that looks like a secret in its words."""
    return replace(
        hypothesis,
        sentence=mask_text(hypothesis.sentence),
        rationale=mask_text(hypothesis.rationale),
        risk=mask_text(hypothesis.risk),
        expected=mask_text(hypothesis.expected),
    )


def _again(prompt: str, answer: Answer, refusals: Sequence[str], *, resumes: bool) -> str:
    """The next prompt: what is wrong, and for an agent without a memory everything else once more."""
    wrong = "\n".join(f"- {one_line(line, 400)}" for line in refusals[:MOST_TOLD])
    more = f"\n- and {len(refusals) - MOST_TOLD} more of the kind" if len(refusals) > MOST_TOLD else ""
    ask = (
        "Nothing in your answer could be used:\n\n"
        f"{wrong}{more}\n\n"
        'Answer again with the whole JSON object, {"hypotheses": [...]}, and nothing else. '
        "Put right what is wrong; where an idea was refused, give another one.\n"
    )
    if resumes:
        return ask
    said = str(dict(answer.data)) if answer.data is not None else answer.text
    quoted = fenced(said, "your answer", most=MOST_QUOTED)
    return f"{prompt}\n\n# Your answer so far\n\n{quoted}\n\n{ask}"


def _ended(talk: _Talk, fault: TurnFault | None, text: str, retry_s: float | None = None) -> ProposeResult:
    return ProposeResult(
        hypotheses=tuple(talk.taken),
        refused=tuple(talk.refused),
        problems=tuple(talk.problems),
        usage=talk.usage,
        fault=fault,
        message=mask_text(one_line(text, 400)),
        turns=tuple(talk.turns),
        session=talk.session,
        retry_s=retry_s,
    )
