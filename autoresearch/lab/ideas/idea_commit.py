"""Turns a hypothesis into a commit on its own branch; one that cannot be tried is refused with a reason."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.overrides import canonical, flatten
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo import branches
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.commits import Change, commit_hypothesis
from autoresearch.git_repo.comparison import code_fingerprint, diffstat, intact
from autoresearch.lab.agent_work.edit_workspace import protection_of
from autoresearch.lab.campaigns.context import is_full
from autoresearch.lab.campaigns.earlier import earlier_campaigns, given_up
from autoresearch.lab.ideas.commit_builder import ARGUMENTS, BLUEPRINT, OURS, RECIPE, CommitBuilder, IdeaRefused
from autoresearch.lab.recipes.overrides import inherited, parents
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.yaml_files import dump, load_mapping
from autoresearch.runner.basics import failpoint
from autoresearch.runner.masking import mask_text

_LISTED = ("", "queue", "grid", "campaign")  # proposers that only do what a person wrote down


def conceive(builder: CommitBuilder, state: CampaignState, hypothesis: Hypothesis, index: int) -> Idea:
    """Commit an idea on its parent, without claiming its branch. Raises IdeaRefused with the reason."""
    if hypothesis.slug in state.unwanted:
        raise IdeaRefused("somebody asked to skip it")
    try:
        builder = builder.for_idea(hypothesis)
        parent = _parent(state, hypothesis)
        base = parent.commit if parent else builder.spec.base_commit
        files = files_of(builder, hypothesis, base)
        message = f"{hypothesis.slug}: {hypothesis.sentence}\n\nIdea {index} of {builder.spec.name}.\n"
        change = Change(hypothesis.patches, files)
        made = commit_hypothesis(builder.checkout, base, change, message=message, uncounted=(OURS,))
        if not hypothesis.unmade:
            own = hypothesis.is_baseline or hypothesis.blueprint
            if made.changes_nothing and not own and builder.whole(base) == builder.whole(made.commit):
                raise IdeaRefused("it changes nothing in its parent")
            if hypothesis.proposer == AGENT and (touched := protected_changes(builder, base, made.commit)):
                raise IdeaRefused(f"it changes what is protected: {', '.join(touched[:5])}")
        empty = hypothesis.unmade and made.changes_nothing  # what it inherits from its parent is no idea of its own
        mark = "" if empty else fingerprint_of(builder, made.commit, hypothesis)
        twin = next((idea for idea in state.ideas if mark and idea.fingerprint == mark), None)
        if twin is not None and not hypothesis.unmade:
            raise IdeaRefused(f"it is the same as {twin.name}")
        asked_for = hypothesis.unmade or hypothesis.proposer in _LISTED
        stat = diffstat(builder.checkout, base, made.commit, ignoring=(OURS,)) if hypothesis.simpler else None
        if not asked_for and (told := tried_earlier(builder, made.commit, hypothesis)):
            raise IdeaRefused(told)
    except IdeaRefused:
        raise
    except AutoresearchError as error:
        raise _refused(error) from error
    return Idea(
        index=index,
        hypothesis=hypothesis,
        parent=parent.slug if parent else "",
        parent_commit=base,
        parent_branch=parent.branch if parent else "",
        commit=made.commit,
        branch=builder.spec.branch(hypothesis.slug),
        fingerprint=mark,
        simpler=stat is not None and stat.deletions > stat.insertions,
    )


def as_idea(builder: CommitBuilder, hypothesis: Hypothesis, commit: str, state: CampaignState) -> Idea:
    """An idea of a merge that was committed on the baseline, with a blueprint of its own."""
    baseline = state.baseline
    assert baseline is not None, "the baseline is measured first"
    index = 1 + max(idea.index for idea in state.ideas)
    message = f"{hypothesis.slug}: {hypothesis.sentence}\n\nIdea {index} of {builder.spec.name}.\n"
    files = files_of(builder, hypothesis, commit)
    made = commit_hypothesis(builder.checkout, commit, Change(files=files), message=message, uncounted=(OURS,))
    return Idea(
        index=index,
        hypothesis=hypothesis,
        parent=baseline.slug,
        parent_commit=baseline.commit,
        parent_branch=baseline.branch,
        commit=made.commit,
        branch=builder.spec.branch(hypothesis.slug),
        fingerprint=fingerprint_of(builder, made.commit, hypothesis),
    )


def protected_changes(builder: CommitBuilder, base: str, commit: str) -> tuple[str, ...]:
    """Protected paths and recipe keys that an agent's idea changes, according to its commit."""
    protection = protection_of(builder, builder.spec.research)
    ours = (OURS, *([builder.recipe_path] if builder.recipe_path else []))
    keys = protection.keys_changed(builder.whole(base), builder.whole(commit))
    return (*intact(builder.checkout, base, commit, protection, ours=ours), *keys)


def claim(builder: CommitBuilder, idea: Idea) -> Idea:
    """Claim the branch of an idea; after a crash, reuse the one already claimed for it."""

    def ours(name: str) -> bool:
        return branches.branch_commit(builder.checkout, name) == idea.commit

    try:
        branch = branches.claim_branch(builder.checkout, idea.branch, idea.commit, again=ours)
    except AutoresearchError as error:
        raise _refused(error) from error
    failpoint("campaign.claimed")
    return replace(idea, branch=branch)


def _refused(error: AutoresearchError) -> AutoresearchError:
    """The error to raise for an idea; the error itself if the disk is full, which is not the idea's fault."""
    return error if is_full(error) else IdeaRefused(error.message, hint=error.hint, code=error.code)


def _parent(state: CampaignState, hypothesis: Hypothesis) -> Idea | None:
    """The idea that this one builds on; None for the baseline, which builds on the base commit."""
    if hypothesis.is_baseline:
        return None
    if hypothesis.parent in (BEST, ""):
        parent = state.base
    else:
        parent = state.baseline if hypothesis.parent == BASELINE else state.by_slug(hypothesis.parent)
    if parent is None:
        raise IdeaRefused(f"its parent {hypothesis.parent!r} is no idea of this campaign")
    return parent


def files_of(builder: CommitBuilder, hypothesis: Hypothesis, base: str) -> dict[str, bytes | None]:
    """The files to commit: those of the idea, its recipe, its command-line settings, its blueprint."""
    files: dict[str, bytes | None] = {path: text.encode() for path, text in hypothesis.files.items()}
    if hypothesis.is_baseline and builder.recipe_path == RECIPE:
        files[RECIPE] = _recipe_from_outside(builder).encode()
    before = builder.arguments(base)
    arguments: Mapping[str, object] = {} if hypothesis.blueprint else before
    if hypothesis.overrides:
        given = hypothesis.files.get(builder.recipe_path) if builder.recipe_path else None
        if given is None and hypothesis.patches and builder.recipe_path:  # the patches may change the recipe as well
            patched = commit_hypothesis(builder.checkout, base, Change(hypothesis.patches), message="")
            given = builder.recipe_text(patched.commit)
        changed = builder.changed(base, hypothesis.overrides, arguments, text=given)
        arguments = changed.arguments
        files.update(changed.scripts)
        if changed.recipe is not None:
            files[builder.recipe_path] = changed.recipe.encode()
    if arguments != before:
        files[ARGUMENTS] = dump(arguments).encode() if arguments else None
    description = builder.difference(hypothesis, base, files)
    text = render_blueprint(builder.fields(hypothesis, description, command=builder.command(arguments)))
    files[BLUEPRINT] = mask_text(text).encode()  # masks the prose: a command with a secret was refused earlier
    return files


def _recipe_from_outside(builder: CommitBuilder) -> str:
    """A recipe outside of the repository, merged with its parents, which are not copied."""
    path = Path(builder.spec.recipe)
    own = load_mapping(path)
    if not parents(own):
        return path.read_text(encoding="utf-8")
    return dump(inherited(own, str(path), lambda other: load_mapping(Path(other))))


_RECORDED = (
    "index", "parent", "parent_commit", "parent_branch", "commit", "branch", "fingerprint", "simpler",
)  # fmt: skip


def as_line(idea: Idea) -> dict[str, object]:
    """The fields of an idea's journal line."""
    return {"hypothesis": idea.hypothesis.to_json(), **{name: getattr(idea, name) for name in _RECORDED}}


# -- which ideas are one: their code, recipe and command, without what differs from run to run -------------------------


def fingerprint_of(
    builder: CommitBuilder, commit: str, hypothesis: Hypothesis, apart: frozenset[str] = frozenset()
) -> str:
    """Hash of the code, and of recipe and command without what differs from run to run; equal for equal ideas.

    apart: paths that are left out, too.
    """
    recipe = builder.whole(commit)
    runs_own = {output.key for output in builder.trainer.outputs(recipe)} | {builder.trainer.seed_key_in(recipe)}
    leaves = sorted(f"{key}={canonical(value)}" for key, value in flatten(recipe).items() if key not in runs_own)
    own = builder.blueprint_of(hypothesis).launch_command if hypothesis.blueprint else ""
    return hashlib.sha256("\n".join([_code(builder, commit, apart), own, *leaves]).encode()).hexdigest()[:16]


def own_files(campaign_spec: CampaignSpec) -> frozenset[str]:
    """The files of a campaign itself in its repository: blueprint, campaign file and queue, which no run reads."""
    root = os.path.realpath(campaign_spec.repository)
    named = (campaign_spec.blueprint, campaign_spec.proposer.queue, *campaign_spec.sources.values())
    paths = (os.path.relpath(os.path.realpath(one), root) for one in named if one.startswith("/"))
    return frozenset(path for path in paths if path != "." and not path.startswith(".."))


def tried_earlier(builder: CommitBuilder, commit: str, hypothesis: Hypothesis) -> str:
    """How the same code and settings stand in an earlier campaign, if they were given up there: a clause, or "".

    What was kept or confirmed there, or part of it, may be tried again: nothing can be built on it here before.
    """
    for earlier_state in earlier_campaigns(builder.spec.earlier):
        apart = own_files(builder.spec) | own_files(earlier_state.spec)
        for idea in earlier_state.ideas:
            stands = None if idea.hypothesis.blueprint else given_up(earlier_state, idea)
            if stands is None:
                continue
            try:
                same = _code(builder, idea.commit, apart) == _code(builder, commit, apart)
                marks = [fingerprint_of(builder, one, hypothesis, apart) for one in (commit, idea.commit) if same]
            except AutoresearchError:  # a commit of another clone, or of a branch that was removed
                continue
            if same and marks[0] == marks[1]:
                name = earlier_state.spec.name
                return f"it is the same as {idea.name} of the campaign {name}, given up there ({stands.words})"
    return ""


def _code(builder: CommitBuilder, commit: str, apart: frozenset[str]) -> str:
    recipe = [builder.recipe_path] if builder.recipe_path else []
    return _of_tree(builder.checkout, commit, frozenset((OURS, *recipe, *apart)))


@lru_cache(maxsize=1024)  # a commit never changes
def _of_tree(checkout: Checkout, commit: str, ignored: frozenset[str]) -> str:
    return code_fingerprint(checkout, commit, ignoring=ignored)
