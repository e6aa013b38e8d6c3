"""What an agent is told before it edits, and before it mends a run that failed: templates/agent/edit.md.j2."""

from __future__ import annotations

from collections.abc import Sequence

from autoresearch.core.agents.proposals import title_of
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.text.numbers import listed
from autoresearch.git_repo.patches import MAX_FILES, MAX_PATCH_BYTES
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace
from autoresearch.lab.agent_work.question import UNTRUSTED, fenced, limits
from autoresearch.lab.ideas.commit_builder import OURS
from autoresearch.lab.render import render
from autoresearch.lab.results.explain import Explanation
from autoresearch.runner.masking import mask_text

LOG_CHARACTERS = 16_000
NO_CHANGE = "NO CHANGE:"  # begins an answer that changes no file on purpose; the reason follows


def edit_prompt(
    workspace: EditWorkspace, hypothesis: Hypothesis, explanation: Explanation | None = None, refused: str = ""
) -> str:
    """The task of an edit turn; with an `explanation` of how its run failed, that of a fix turn.

    `refused`: the guard command that failed with the edit instead, as the explanation says.
    """
    rules, recipe = workspace.protection, workspace.recipe
    named = list(dict.fromkeys([*rules.protect, *rules.named, *(path for path in rules.blueprint if path)]))
    named = [name for name in named if name != OURS]  # named to everybody
    return render(
        "agent/edit.md.j2",
        line=_line,
        mask=mask_text,
        fenced=fenced,
        untrusted=UNTRUSTED,
        explanation=explanation,
        tail="\n".join(explanation.tail)[-LOG_CHARACTERS:] if explanation else "",
        log_characters=LOG_CHARACTERS,
        hypothesis=hypothesis,
        objective=workspace.objective,
        recipe=recipe,
        recipe_is_fixed=bool(recipe and rules.why(recipe)),
        refused=mask_text(refused),
        limits=limits(workspace.spec.bounds),
        title=_line(title_of(hypothesis)),
        interpreter=workspace.interpreter,
        no_change=NO_CHANGE,
        overrides=", ".join(f"{key}={value!r}" for key, value in hypothesis.overrides.items()),
        protected=_some(named),
        allowed=_some(rules.allow),
        guard=[mask_text(command) for command in workspace.spec.guard],
        most_files=min(MAX_FILES, 500),
        most_mebibytes=MAX_PATCH_BYTES >> 20,
    )


def _some(names: Sequence[str]) -> str:
    return listed([f"`{name}`" for name in names], 30)


def _line(text: str) -> str:
    return " ".join(text.split())[:6000]
