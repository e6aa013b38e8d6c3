"""What an agent is told before it edits, and before it mends a run that failed: templates/agent/edit.md.j2."""

from __future__ import annotations

from collections.abc import Sequence

from autoresearch.core.agents.proposals import title_of
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import edits_of
from autoresearch.core.controller.standing import standing
from autoresearch.core.text.numbers import listed
from autoresearch.git_repo.patches import MAX_BYTES, MAX_FILES
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace
from autoresearch.lab.agent_work.prompt_parts import UNTRUSTED, fenced, limits
from autoresearch.lab.agent_work.propose_context import failure_of
from autoresearch.lab.agent_work.propose_prompt import noise_words
from autoresearch.lab.campaign_report.formatting import plain
from autoresearch.lab.ideas.commit_builder import OURS
from autoresearch.lab.render import render
from autoresearch.lab.results.explain import Explanation
from autoresearch.runner.masking import mask_text

LOG_CHARACTERS = 16_000
MOST_TRIED = 8  # ideas that changed the same files
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
        known=workspace.known,
        title=_line(title_of(hypothesis)),
        interpreter=workspace.interpreter,
        no_change=NO_CHANGE,
        overrides=", ".join(f"{key}={value!r}" for key, value in hypothesis.overrides.items()),
        protected=_some(named),
        allowed=_some(rules.allow),
        guard=[mask_text(command) for command in workspace.spec.guard],
        most_files=MAX_FILES,
        most_mebibytes=MAX_BYTES >> 20,
    )


def background(state: CampaignState, hypothesis: Hypothesis, parent: Idea) -> tuple[str, ...]:
    """What an edit stands on, what was tried in the same files, and how much runs scatter."""
    below = [one for one in state.ideas if one.index in edits_of(state, parent)]
    lines = [f"- the files here are those of {parent.slug}{' with all that it builds on:' if below else ''}"]
    lines += [f"  - {plain(f'{one.slug}: {title_of(one.hypothesis)}', 200)}" for one in below]
    files = set(hypothesis.paths)
    tried = [one for one in state.ideas if files & set(one.hypothesis.paths) and one not in below]
    tried = [one for one in tried if one.slug != hypothesis.slug][-MOST_TRIED:]
    lines += ["- tried in the same files, and not part of them:"] if tried else []
    for one in tried:
        stands = standing(state, one)
        came = stands.words if stands.value is not None else failure_of(one) or stands.words
        lines.append(f"  - {plain(f'{one.slug}: {title_of(one.hypothesis)} ({came})', 300)}")
    return (*lines, f"- {noise_words(state)}")


def _some(names: Sequence[str]) -> str:
    return listed([f"`{name}`" for name in names], 30)


def _line(text: str) -> str:
    return " ".join(text.split())[:6000]
