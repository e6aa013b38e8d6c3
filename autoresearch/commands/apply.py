"""`autoresearch apply`: a confirmed idea, brought into the user's own files on a branch of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState, Idea


def apply(
    name: Annotated[str, Positional(metavar="CAMPAIGN|IDEA", show_default=False)] = "",
    campaign: Annotated[str, Option(help="The campaign of the idea; default: the newest.")] = "",
    diff: Annotated[bool, Option("--diff", help="Show what would change; change nothing.")] = False,
    yes: Annotated[bool, Option("--yes", help="Also an idea that is not confirmed.")] = False,
) -> CommandResult:
    """Bring a confirmed idea into your own files: one commit on a new branch from where you stand.

    Your checkout stays as it is. Code and recipe are merged three ways, flags go into the blueprint's command; what
    clashes is named, and then nothing is changed.
    """
    from autoresearch.commands.campaign_view import state_of
    from autoresearch.core.controller.standing import standing
    from autoresearch.git_repo import checkout as repository
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.lab.ideas import apply as bringing
    from autoresearch.lab.ideas.commit_builder import CommitBuilder

    parts = real_parts()
    try:
        directory = campaign_registry.find(campaign or name, parts)
        word = name if campaign else ""
    except NotFoundError:
        if campaign or not name:
            raise
        directory, word = campaign_registry.find("", parts), name
    state = state_of(directory)
    idea = _chosen(state, word)
    spec = state.spec
    if idea.confirmed != "confirmed" and not (yes or diff):
        proof = f"autoresearch campaign confirm {idea.hypothesis.slug} --campaign {spec.name}"
        raise ConflictError(
            f"{idea.name} is not confirmed: {standing(state, idea).sentence}",
            hint="--yes brings it home all the same",
            fix="" if state.unseeded else proof,  # copies prove nothing
            code="not_confirmed",
        )
    checkout = repository.find(Path(spec.repository) / spec.codebase)
    if checkout is None:
        raise NotFoundError(f"the repository {spec.repository} is not there any more", code="repository_moved")
    builder = CommitBuilder.of(spec, checkout)
    evidence = f"{standing(state, idea).sentence}\n\nIdea {idea.index} of the campaign {spec.name}, {idea.branch}."
    planned = bringing.plan(builder, idea, evidence)
    payload: dict[str, Any] = {"campaign": spec.name, "idea": idea.name, "base": planned.head, "diff": planned.diff}
    payload |= {"commit": "", "branch": "", "command": planned.command, "blueprint": planned.blueprint}
    payload |= {"by_hand": list(planned.by_hand), "next": []}
    if diff:
        return CommandResult(payload, [planned.diff.rstrip("\n") or "no file in git changes", *_to_do(planned)])
    branch = bringing.carry_out(builder, idea, planned)
    lines = [f"{idea.name}: your files have it already"] if not (branch or planned.text or planned.by_hand) else []
    if branch:
        payload |= {"branch": branch, "commit": planned.commit}
        payload["next"] = [f"git merge {branch}"]
        lines += [f"{idea.name} is on the branch {branch}, one commit after {planned.head[:12]}"]
    return CommandResult(payload, [*lines, *_to_do(planned)])


def _to_do(planned: Any) -> list[str]:
    """What is not in the commit, and the command that trains with the gain."""
    lines = [f"by hand: {text}" for text in planned.by_hand]
    if planned.text:
        lines.append(f"blueprint: {planned.blueprint}")
    return [*lines, f"command: {planned.command}"] if planned.command else lines


def _chosen(state: CampaignState, word: str) -> Idea:
    """The idea that was named; else the best, one that is confirmed before any other."""
    from autoresearch.commands.campaign_view import known_idea

    if word:
        idea = known_idea(state, word)
    else:
        confirmed = [one for one in state.ideas if one.confirmed == "confirmed"]
        best = state.winner if state.winner in confirmed or not confirmed else confirmed[-1]
        if best is None or best.hypothesis.is_baseline:
            raise ConflictError(
                f"{state.spec.name} has no idea to bring home: nothing is better than its baseline",
                fix=f"autoresearch report {state.spec.name}",
                code="nothing_to_apply",
            )
        idea = best
    if idea.hypothesis.is_baseline:
        raise ConflictError("the baseline is what you have already", code="nothing_to_apply")
    return idea
