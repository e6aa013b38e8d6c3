"""Review: another turn, in a session of its own and without the author's words, may refuse an edit.

It sees what the hypothesis claims, the diff, and the files as they would be; it changes nothing, and what it would
change reaches nobody. A review that cannot be understood refuses nothing: the edit is then flagged as unreviewed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autoresearch.core.agents.agent import Ask, Edit, NotMade, TurnRole
from autoresearch.core.agents.proposals import closed, one_line
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace
from autoresearch.lab.agent_work.question import UNTRUSTED, TurnContext, UnansweredError, UnusableError, fenced
from autoresearch.lab.render import render

ACCEPT, REFUSE = "accept", "refuse"
MOST_REASONS = 5
SCHEMA: Mapping[str, Any] = closed(
    {
        "verdict": {"type": "string", "enum": [ACCEPT, REFUSE]},
        "reasons": {"type": "array", "items": {"type": "string"}},
    }
)
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
        refused, reasons = context.answer(TurnRole.REVIEW, prompt, SCHEMA, read_review)
    except UnansweredError as failed:
        told = f"not reviewed, as the review failed ({failed.fault}): {failed.why}"
        return replace(edit, flags=(*edit.flags, told))
    worktree.close()
    why = "; ".join(reasons)
    if refused:
        return replace(edit, unmade=NotMade.REFUSED, why=f"the review refused it: {why}")
    return replace(edit, flags=(*edit.flags, f"its review says: {why}")) if why else edit


def read_review(data: object, _: str = "") -> tuple[bool, tuple[str, ...]]:
    """Whether the review refuses the diff, and its reasons, one line each. Raises UnusableError."""
    if not isinstance(data, Mapping):
        raise UnusableError("the answer is no object")
    verdict, reasons = data.get("verdict"), data.get("reasons")
    if verdict not in (ACCEPT, REFUSE):
        raise UnusableError(f"verdict is neither {ACCEPT} nor {REFUSE}")
    if not isinstance(reasons, list) or not all(isinstance(reason, str) for reason in reasons):
        raise UnusableError("reasons is no list of texts")
    lines = tuple(line for reason in reasons[:MOST_REASONS] if (line := one_line(reason, 400)))
    if verdict == REFUSE and not lines:
        raise UnusableError("it refuses without a reason")
    return verdict == REFUSE, lines
