"""Further commits on the branch of an idea: what is specific to a run, and fixes by a person or the coding agent."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.state import Idea
from autoresearch.errors import AutoresearchError, ConflictError
from autoresearch.git_repo import branches
from autoresearch.git_repo.commit_object import commit_tree
from autoresearch.git_repo.comparison import changed_paths
from autoresearch.git_repo.hypothesis_commit import Change, commit_hypothesis
from autoresearch.lab.ideas.commit_builder import ARGUMENTS, BLUEPRINT, OURS, CommitBuilder, IdeaRefused
from autoresearch.lab.ideas.idea_commit import protected_changes
from autoresearch.lab.yaml_files import dump


def follow_up(builder: CommitBuilder, idea: Idea, files: Mapping[str, bytes | None], message: str) -> tuple[str, str]:
    """A further commit of an idea, and the branch that it is on. Nothing new is nothing done.

    The branch is the idea's own, unless it was checked out, removed, or other code was committed to it. Then the idea
    gets another branch with a similar name, so that nothing but the idea is run.
    """
    tip = branches.branch_commit(builder.checkout, idea.branch)
    if tip is not None and not _is_idea(builder, idea, tip, files):
        tip = None
    made = commit_hypothesis(builder.checkout, tip or idea.commit, Change(files=files), message=message)
    if tip is not None:
        if made.changes_nothing:
            return tip, idea.branch
        with contextlib.suppress(ConflictError):
            branches.advance_branch(builder.checkout, idea.branch, made.commit, tip)
            return made.commit, idea.branch
    commit = idea.commit if made.changes_nothing else made.commit
    return commit, branches.claim_branch(builder.checkout, idea.branch, commit)


def _is_idea(builder: CommitBuilder, idea: Idea, tip: str, files: Mapping[str, bytes | None]) -> bool:
    """Whether a commit differs from the idea only in the files that are rewritten for each run."""
    if tip == idea.commit:
        return True
    ours = {*files, BLUEPRINT, ARGUMENTS, *([builder.recipe_path] if builder.recipe_path else [])}
    return set(changed_paths(builder.checkout, idea.commit, tip)) <= ours


def repair(builder: CommitBuilder, idea: Idea, fix: Hypothesis, note: str) -> str:
    """Commit a follow-up fix on an idea's branch; returns the idea's new commit. Raises IdeaRefused."""
    builder = builder.for_idea(idea.hypothesis)
    try:
        tip = branches.branch_commit(builder.checkout, idea.branch) or idea.commit
        files: dict[str, bytes | None] = {path: text.encode() for path, text in fix.files.items()}
        changed = builder.changed(idea.commit, fix.overrides, builder.arguments(idea.commit))
        own = {path: text.encode() for path, text in builder.launch(idea.commit).scripts.items()}
        if builder.recipe_path:
            own[builder.recipe_path] = (changed.recipe or builder.recipe_text(idea.commit)).encode()
        for path, data in {**own, **changed.scripts}.items():  # without what the last run wrote into it
            files.setdefault(path, data)
        if changed.arguments:
            files[ARGUMENTS] = dump(changed.arguments).encode()
        message = f"{idea.slug}: follow-up fix\n\n{note}\n"
        if fix.proposer == AGENT:
            return _mended(builder, idea, fix, tip, message)
        made = commit_hypothesis(builder.checkout, tip, Change(fix.patches, files), message=message, uncounted=(OURS,))
        if not (fix.overrides or fix.files or fix.patches):
            raise IdeaRefused("it repairs nothing")
        branches.advance_branch(builder.checkout, idea.branch, made.commit, tip)
    except IdeaRefused:
        raise
    except AutoresearchError as error:
        raise IdeaRefused(error.message, hint=error.hint, code=error.code) from error
    return made.commit


def _mended(builder: CommitBuilder, idea: Idea, fix: Hypothesis, tip: str, message: str) -> str:
    """Commit an agent's patch, made against the idea, on top of its branch, without the files specific to a run."""
    made = commit_hypothesis(builder.checkout, idea.commit, Change(fix.patches), message=message, uncounted=(OURS,))
    if made.changes_nothing:
        raise IdeaRefused("it repairs nothing")
    if touched := protected_changes(builder, idea.commit, made.commit):
        raise IdeaRefused(f"it changes what is protected: {', '.join(touched[:5])}")
    commit = commit_tree(builder.checkout.git, made.tree, tip, message)
    branches.advance_branch(builder.checkout, idea.branch, commit, tip)
    return commit
