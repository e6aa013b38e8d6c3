"""The questions whose answer is JSON: for hypotheses, and for a review of an edit.

What is wrong with an answer is told, and the same is asked again, twice for hypotheses. A review is a turn of its own
that may refuse an edit: it sees what the hypothesis claims, the diff, and the files as they would be, and not the
author's words. What it would change reaches nobody. One that cannot be understood refuses nothing: the edit is then
flagged as unreviewed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, TypeVar

from autoresearch.core.agents.agent import Answer, Ask, Bounds, Edit, NotMade, Turn, TurnFault, TurnRole
from autoresearch.core.agents.proposals import (
    EXTRA,
    KINDS,
    KnownIdeas,
    object_with,
    one_line,
    read_findings,
    validate,
)
from autoresearch.core.agents.turns import HYBRID, IdeaFinding, standing_findings
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.overrides import unused
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace
from autoresearch.lab.agent_work.prompt_parts import UNTRUSTED, fenced
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.propose_prompt import brief
from autoresearch.lab.render import render

MOST_TOLD = 12  # problems that an agent is told at once
MOST_QUOTED = 8000  # characters of its own answer that an agent is shown
_ASKED_AGAIN = (None, TurnFault.ANSWER, TurnFault.SILENT)  # faults that asking again may mend
T = TypeVar("T")


class UnusableError(Exception):
    """Raised by a reader of answers. `problems`: what is wrong with this one, a clause each."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems


class UnansweredError(Exception):
    """No answer could be used. `why`: one clause, masked."""

    def __init__(self, fault: TurnFault, why: str) -> None:
        super().__init__(why)
        self.fault, self.why = fault, one_line(why, 400)


@dataclass(frozen=True, slots=True)
class TurnContext:
    """Where a question is asked, and of whom."""

    ask: Ask
    cwd: PurePath  # a clean worktree
    directory: Callable[[TurnRole], PurePath]  # makes that of the next turn; each try gets one of its own
    bounds: Bounds = field(default_factory=Bounds)

    def answer(
        self, role: TurnRole, prompt: str, key: str, read: Callable[[Mapping[str, Any], str], T], tries: int = 1
    ) -> T:
        """What `read` makes of the JSON object with this key in the agent's words, and of the name of the turn.

        `read` raises UnusableError to ask again. Raises UnansweredError.
        """
        words, problems = prompt, tuple[str, ...]()
        for _ in range(tries):
            directory = self.directory(role)
            answer = self.ask(Turn(role, words, self.cwd, directory, self.bounds))
            data, missing = object_with(key, answer.text)
            if data is None and answer.fault not in _ASKED_AGAIN:
                raise UnansweredError(answer.fault, answer.message)
            try:
                if data is not None:
                    return read(data, directory.name)
                problems = (missing,)
            except UnusableError as unusable:
                problems = unusable.problems
            words = _once_more(prompt, answer, problems)
        raise UnansweredError(TurnFault.ANSWER, problems[-1])


def _once_more(prompt: str, answer: Answer, problems: Sequence[str]) -> str:
    """Everything again, as an agent remembers no other turn, with what it answered and what is wrong with that."""
    quoted = fenced(answer.text, "your answer", most=MOST_QUOTED)
    wrong = "\n".join(f"- {one_line(line, 400)}" for line in problems[:MOST_TOLD])
    more = f"\n- and {len(problems) - MOST_TOLD} more of the kind" if len(problems) > MOST_TOLD else ""
    return (
        f"{prompt}\n\n# Your answer so far\n\n{quoted}\n\nNothing in it could be used:\n\n{wrong}{more}\n\n"
        "Answer again with the whole JSON object, and nothing else. "
        "Put right what is wrong; where an idea was refused, give another one.\n"
    )


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
    propose_context: ProposeContext, want: int, turn_context: TurnContext
) -> ProposeResult:
    """Ask for `want` hypotheses. Valid new ones are taken, even if others are not."""
    state = propose_context.state
    # an optimiser sees to the numbers of a hybrid
    chosen = [kind for kind in KINDS if kind != "config" or state.spec.proposer.name != HYBRID]
    known_ideas = KnownIdeas(
        parents={idea.slug for idea in state.ideas if idea.commit and not state.distrusted(idea)},
        kinds=chosen,
        protection=propose_context.protection,
        fits=propose_context.fits,
    )
    names = {idea.slug for idea in state.ideas}
    names |= {one.slug for one in (*(skipped for skipped, _ in state.skipped), *propose_context.waiting)}
    taken: list[Hypothesis] = []
    refused: list[tuple[Hypothesis, str]] = []
    so_far = standing_findings(state.research.findings)
    findings: dict[str, IdeaFinding] = {}

    def read(data: object, turn: str) -> None:
        said = read_findings(data, propose_context.newly_decided, so_far)
        findings.update((one.idea, one) for one in said)
        checked = validate(data, replace(known_ideas, turn=turn))
        problems = list(checked.problems)
        for one in checked.hypotheses:
            why = "a person skipped it" if one.slug in propose_context.unwanted else ""
            if why := why or (EXTRA if len(taken) >= want else ""):
                refused.append((one, why))
                problems.append(f"{one.slug}: refused, because {why}")
                continue
            named = replace(one, slug=unused(one.slug, names))
            names.add(named.slug)
            taken.append(named)
        if not taken:
            raise UnusableError(*problems)

    try:
        prompt = brief(propose_context, want, chosen, turn_context.bounds)
        turn_context.answer(TurnRole.PROPOSE, prompt, "hypotheses", read, tries=TRIES)
    except UnansweredError as failed:
        return ProposeResult((), tuple(refused), tuple(findings.values()), failed.fault, failed.why)
    return ProposeResult(tuple(taken), tuple(refused), tuple(findings.values()))


ACCEPT, REFUSE = "accept", "refuse"
MOST_REASONS = 5
DIFF_CHARACTERS, DIFF_LINES = 120_000, 3000


def reviewed(workspace: EditWorkspace, hypothesis: Hypothesis, base: str, edit: Edit, ask: Ask) -> Edit:
    """The edit, which was made on `base`, refused or flagged as its review says; one that came to nothing as it is.

    Raises as `make_edit` does.
    """
    if edit.unmade is not None:
        return edit
    worktree = workspace.isolated_worktree
    opened = worktree.open(base, edit.patch.encode("utf-8", "surrogateescape"))
    context = TurnContext(ask, opened.path, workspace.turn, workspace.spec.bounds)
    prompt = render(
        "agent/review.md.j2",
        objective=workspace.objective,
        untrusted=UNTRUSTED,
        fenced=fenced,
        hypothesis=hypothesis,
        edit=edit,
        diff_characters=DIFF_CHARACTERS,
        diff_lines=DIFF_LINES,
    )
    try:
        refused, reasons = context.answer(TurnRole.REVIEW, prompt, "verdict", read_review)
    except UnansweredError as failed:
        told = f"not reviewed, as the review failed ({failed.fault}): {failed.why}"
        return replace(edit, flags=(*edit.flags, told))
    worktree.close()
    why = "; ".join(reasons)
    if refused:
        return replace(edit, unmade=NotMade.REFUSED, why=f"the review refused it: {why}")
    return replace(edit, flags=(*edit.flags, f"its review says: {why}")) if why else edit


def read_review(data: Mapping[str, Any], _: str = "") -> tuple[bool, tuple[str, ...]]:
    """Whether the review refuses the diff, and its reasons, one line each. Raises UnusableError."""
    verdict, reasons = data.get("verdict"), data.get("reasons")
    if verdict not in (ACCEPT, REFUSE):
        raise UnusableError(f"verdict is neither {ACCEPT} nor {REFUSE}")
    if not isinstance(reasons, list) or not all(isinstance(reason, str) for reason in reasons):
        raise UnusableError("reasons is no list of texts")
    lines = tuple(line for reason in reasons[:MOST_REASONS] if (line := one_line(reason, 400)))
    if verdict == REFUSE and not lines:
        raise UnusableError("it refuses without a reason")
    return verdict == REFUSE, lines
