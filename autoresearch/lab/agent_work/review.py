"""Review: another turn, in a session of its own and without the author's words, may refuse an edit.

It sees what the hypothesis claims, the diff, and the files as they would be; it changes nothing, and what it would
change reaches nobody. A review that cannot be understood refuses nothing: the edit is then flagged as unreviewed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autoresearch.core.agents.agent import Ask, Edit, NotMade, Turn, TurnFault, TurnRole, Usage
from autoresearch.core.agents.proposals import object_with, one_line
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace
from autoresearch.lab.agent_work.untrusted_text import UNTRUSTED, fenced
from autoresearch.lab.render import render
from autoresearch.records.secrets import mask_text

ACCEPT, REFUSE = "accept", "refuse"
MOST_REASONS = 5
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["verdict", "reasons"],
    "properties": {
        "verdict": {"type": "string", "enum": [ACCEPT, REFUSE]},
        "reasons": {"type": "array", "items": {"type": "string"}},
    },
}
DIFF_CHARACTERS, DIFF_LINES = 120_000, 3000


@dataclass(frozen=True, slots=True)
class Review:
    """What came of a review."""

    refused: bool = False
    why: str = ""  # its reasons, masked, on one line
    usage: Usage = field(default_factory=Usage)
    fault: TurnFault | None = None  # why there is none: the edit is unreviewed


def review(workspace: EditWorkspace, hypothesis: Hypothesis, base: str, edit: Edit, ask: Ask) -> Review:
    """Ask for a verdict on an edit that was made on `base`. Raises as `make_edit` does."""
    directory = workspace.next_turn(TurnRole.REVIEW)
    with workspace.isolated_worktree.opened(base) as opened:
        opened.apply(edit.patch.encode("utf-8", "surrogateescape"))
        prompt = _prompt(workspace, hypothesis, edit)
        turn = Turn(TurnRole.REVIEW, prompt, opened.path, directory, schema=SCHEMA, bounds=workspace.spec.bounds)
        answer = ask(turn)
    data = answer.data if answer.data is not None else object_with("verdict", answer.text)[0]
    try:
        refused, reasons = read_review(data)
    except ValueError as broken:
        why = mask_text(one_line(answer.message, 300)) if answer.fault else str(broken)
        return Review(why=why, usage=answer.usage, fault=answer.fault or TurnFault.ANSWER)
    return Review(refused, mask_text("; ".join(reasons)), answer.usage)


def reviewed(workspace: EditWorkspace, hypothesis: Hypothesis, base: str, edit: Edit, ask: Ask) -> Edit:
    """The edit, refused or flagged as its review says, and charged with it; one that came to nothing as it is."""
    if edit.unmade is not None:
        return edit
    found = review(workspace, hypothesis, base, edit, ask)
    edit = replace(edit, usage=edit.usage + found.usage)
    if found.refused:
        return replace(edit, unmade=NotMade.REFUSED, why=f"the review refused it: {found.why}")
    if found.fault is not None:
        told = f"not reviewed, as the review failed ({found.fault}): {found.why}"
        return replace(edit, flags=(*edit.flags, told))
    return replace(edit, flags=(*edit.flags, f"its review says: {found.why}")) if found.why else edit


def _prompt(workspace: EditWorkspace, hypothesis: Hypothesis, edit: Edit) -> str:
    claim = hypothesis.sentence + (f"\nexpected: {hypothesis.expected}" if hypothesis.expected else "")
    noticed = "\n".join(f"- {flag}" for flag in edit.flags)
    parts = [
        render("agent/review.md.j2", objective=workspace.objective).rstrip("\n"),
        UNTRUSTED,
        fenced(claim, "the hypothesis"),
        f"What a program noticed in the diff, which may be harmless:\n{noticed}" if noticed else "",
        fenced(edit.patch, "the diff", most=DIFF_CHARACTERS, lines=DIFF_LINES),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def read_review(data: object) -> tuple[bool, tuple[str, ...]]:
    """Whether the review refuses the diff, and its reasons, one line each. ValueError, one clause, if invalid."""
    if not isinstance(data, Mapping):
        raise ValueError("the answer is no object")
    verdict, reasons = data.get("verdict"), data.get("reasons")
    if verdict not in (ACCEPT, REFUSE):
        raise ValueError(f"verdict is neither {ACCEPT} nor {REFUSE}")
    if not isinstance(reasons, list) or not all(isinstance(reason, str) for reason in reasons):
        raise ValueError("reasons is no list of texts")
    lines = tuple(line for reason in reasons[:MOST_REASONS] if (line := one_line(reason, 400)))
    if verdict == REFUSE and not lines:
        raise ValueError("it refuses without a reason")
    return verdict == REFUSE, lines
