"""Turns a hypothesis into a commit on its own branch; one that cannot be tried is refused with a reason."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.blueprint.fields import BlueprintFields, fields_like
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.overrides import canonical, flatten
from autoresearch.core.campaign.recipe_edits import diff_recipes
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.text.naming import slugify
from autoresearch.errors import AutoresearchError, ConflictError
from autoresearch.git_repo import branches
from autoresearch.git_repo.commit_object import commit_tree
from autoresearch.git_repo.comparison import changed_paths, code_fingerprint
from autoresearch.git_repo.hypothesis_commit import Change, commit_hypothesis
from autoresearch.git_repo.tree_changes import intact
from autoresearch.lab.agent_work.edit_workspace import protection_of
from autoresearch.lab.campaigns.commit_builder import ARGUMENTS, BLUEPRINT, OURS, RECIPE, CommitBuilder, IdeaRefused
from autoresearch.lab.campaigns.trouble import is_full
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.overrides import variables
from autoresearch.lab.resolve.recipe_parents import inherited, parents
from autoresearch.lab.yaml_files import dump, load_mapping, parse_mapping
from autoresearch.records.failpoint import failpoint
from autoresearch.records.secrets import mask_text
from autoresearch.trainers import ask


def conceive(builder: CommitBuilder, state: CampaignState, hypothesis: Hypothesis, index: int) -> Idea:
    """Commit an idea on its parent, without claiming its branch. Raises IdeaRefused with the reason."""
    if hypothesis.slug in state.unwanted:
        raise IdeaRefused("somebody asked to skip it")
    try:
        builder = builder.for_idea(hypothesis)
        parent = _parent(state, hypothesis)
        base = parent.commit if parent else builder.spec.base_commit
        files = _files(builder, hypothesis, base)
        message = f"{hypothesis.slug}: {hypothesis.sentence}\n\nIdea {index} of {builder.spec.name}.\n"
        made = commit_hypothesis(
            builder.checkout,
            base,
            Change(hypothesis.patches, files),
            message=message,
            uncounted=(OURS,),
        )
        if not hypothesis.unmade:
            if made.changes_nothing and _same_settings(builder, hypothesis, base, made.commit):
                raise IdeaRefused("it changes nothing in its parent")
            if hypothesis.proposer == AGENT and (touched := _protected(builder, base, made.commit)):
                raise IdeaRefused(f"it changes what is protected: {', '.join(touched[:5])}")
        empty = hypothesis.unmade and made.changes_nothing  # what it inherits from its parent is no idea of its own
        mark = "" if empty else _fingerprint(builder, made.commit, hypothesis)
        twin = next((idea for idea in state.ideas if mark and idea.fingerprint == mark), None)
        if twin is not None and not hypothesis.unmade:
            raise IdeaRefused(f"it is the same as idea {twin.index}, {twin.slug}")
    except IdeaRefused:
        raise
    except AutoresearchError as error:
        raise refused(error) from error
    return Idea(
        index=index,
        hypothesis=hypothesis,
        parent=parent.slug if parent else "",
        parent_commit=base,
        parent_branch=parent.branch if parent else "",
        commit=made.commit,
        branch=builder.spec.branch(hypothesis.slug),
        fingerprint=mark,
        simpler=hypothesis.simpler and made.stat.deletions > made.stat.insertions,
    )


def _protected(builder: CommitBuilder, base: str, commit: str) -> tuple[str, ...]:
    """Protected paths and recipe keys that an agent's idea changes, according to its commit."""
    protection = protection_of(builder, builder.spec.research)
    ours = (OURS, *([builder.recipe_path] if builder.recipe_path else []))
    keys = protection.keys_changed(builder.whole(base), builder.whole(commit))
    return (*intact(builder.checkout, base, commit, protection, ours=ours), *keys)


def claim(builder: CommitBuilder, draft: Idea) -> Idea:
    """Claim the branch of a draft; after a crash, reuse the one already claimed for it."""

    def ours(name: str) -> bool:
        return branches.branch_commit(builder.checkout, name) == draft.commit

    try:
        branch = branches.claim_branch(builder.checkout, draft.branch, draft.commit, again=ours)
    except AutoresearchError as error:
        raise refused(error) from error
    failpoint("campaign.claimed")
    return replace(draft, branch=branch)


def refused(error: AutoresearchError) -> AutoresearchError:
    """The error to raise for an idea; the error itself if the disk is full, which is not the idea's fault."""
    return error if is_full(error) else IdeaRefused(error.message, hint=error.hint, code=error.code)


def _parent(state: CampaignState, hypothesis: Hypothesis) -> Idea | None:
    """The idea that this one builds on; None for the baseline, which builds on the base commit."""
    if hypothesis.is_baseline:
        return None
    found = (
        state.best
        if hypothesis.parent in (BEST, "")
        else state.baseline
        if hypothesis.parent == BASELINE
        else state.by_slug(hypothesis.parent)
    )
    if found is None:
        raise IdeaRefused(f"its parent {hypothesis.parent!r} is no idea of this campaign")
    return found


def _same_settings(builder: CommitBuilder, hypothesis: Hypothesis, base: str, commit: str) -> bool:
    """Whether an idea without code changes also leaves the recipe and the command unchanged."""
    if hypothesis.is_baseline or hypothesis.blueprint:
        return False
    return builder.whole(base) == builder.whole(commit)


def _files(builder: CommitBuilder, hypothesis: Hypothesis, base: str) -> dict[str, bytes | None]:
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
        text, arguments = builder.changed(base, hypothesis.overrides, arguments, text=given)
        if text is not None:
            files[builder.recipe_path] = text.encode()
    if arguments != before:
        files[ARGUMENTS] = dump(arguments).encode() if arguments else None
    description = _difference(builder, hypothesis, base, files)
    text = render_blueprint(fields_of(builder, hypothesis, description, command=builder.command(arguments)))
    files[BLUEPRINT] = mask_text(text).encode()  # masks the prose: a command with a secret was refused earlier
    return files


def _recipe_from_outside(builder: CommitBuilder) -> str:
    """A recipe outside of the repository, merged with its parents, which are not copied."""
    path = Path(builder.spec.recipe)
    own = load_mapping(path)
    if not parents(own):
        return path.read_text(encoding="utf-8")
    return dump(inherited(own, str(path), lambda other: load_mapping(Path(other))))


def _difference(builder: CommitBuilder, hypothesis: Hypothesis, base: str, files: Mapping[str, bytes | None]) -> str:
    """A sentence on how the idea differs from its parent."""
    if hypothesis.is_baseline:
        return "Nothing is changed: this is what all others are measured against."
    parts = []
    recipe = files.get(builder.recipe_path) if builder.recipe_path else None
    if recipe is not None:
        changes = diff_recipes(builder.recipe(base), parse_mapping(recipe, builder.recipe_path))
        parts.append("recipe: " + ", ".join(str(change) for change in changes))
    if ARGUMENTS in files:
        data = files[ARGUMENTS]
        now = parse_mapping(data or b"", ARGUMENTS)
        before, command = builder.whole(base), builder.command(now)
        changes = diff_recipes(before, {**ask.settings(builder.trainer, before, command), **variables(command)})
        parts.append("command: " + ", ".join(str(change) for change in changes))
    if own := [path for path in hypothesis.files if path != builder.recipe_path]:
        parts.append(f"files: {', '.join(own)}")
    if hypothesis.patches:
        parts.append(f"{len(hypothesis.patches)} patches")
    return f"Differs from its parent ({hypothesis.parent}) in {'; '.join(parts) or 'its blueprint'}."


def fields_of(
    builder: CommitBuilder, hypothesis: Hypothesis, description: str, result_dir: str = "", command: str = ""
) -> BlueprintFields:
    """The blueprint fields of an idea, valid in any worktree: paths inside the repository are relative."""
    own = builder.blueprint_of(hypothesis)
    expected = f"\nExpected: {hypothesis.expected}" if hypothesis.expected else ""
    return fields_like(
        own,
        title=hypothesis.slug,
        purpose=f"{hypothesis.sentence}\n{description}{expected}",
        launch_command=command or own.launch_command,
        codebase_dir=f"./{builder.spec.codebase}",
        venv_exe=builder.spec.interpreter,
        yaml_path=_recipe_seen_from(builder) or "",
        result_dir=result_dir or f"{builder.spec.result_dir}/{slugify(hypothesis.slug)}",
        slug=slugify(hypothesis.slug),
        trainer=builder.trainer.name,
        evaluate=builder.evaluation.evaluate,
        evaluate_s=builder.evaluation.evaluate_s,
        metric=builder.spec.objective.metric,
        direction=builder.spec.objective.direction.value,
        include=builder.spec.include,
    )


def _recipe_seen_from(builder: CommitBuilder) -> str:
    """The recipe's path for the blueprint: relative to the codebase if it lies within it."""
    path, codebase = builder.recipe_path, builder.spec.codebase
    return path.removeprefix(codebase + "/") if codebase and path.startswith(codebase + "/") else path


def _fingerprint(builder: CommitBuilder, commit: str, hypothesis: Hypothesis) -> str:
    """Hash of the code, and of recipe and command without what differs from run to run; equal for equal ideas."""
    code = code_fingerprint(
        builder.checkout, commit, ignoring=(OURS, *([builder.recipe_path] if builder.recipe_path else []))
    )
    recipe = builder.whole(commit)
    apart = {output.key for output in builder.trainer.outputs(recipe)} | {ask.seed_key(builder.trainer, recipe)}
    leaves = sorted(f"{key}={canonical(value)}" for key, value in flatten(recipe).items() if key not in apart)
    own = builder.blueprint_of(hypothesis).launch_command if hypothesis.blueprint else ""
    return hashlib.sha256("\n".join([code, own, *leaves]).encode()).hexdigest()[:16]


def baseline_of(spec: CampaignSpec) -> Hypothesis:
    """The hypothesis that changes nothing."""
    return Hypothesis(BASELINE, "The baseline: nothing is changed.", parent="", proposer="campaign")


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


def repair(builder: CommitBuilder, idea: Idea, change: Hypothesis, note: str) -> str:
    """Commit a follow-up fix on an idea's branch; returns the idea's new commit. Raises IdeaRefused."""
    builder = builder.for_idea(idea.hypothesis)
    try:
        tip = branches.branch_commit(builder.checkout, idea.branch) or idea.commit
        files: dict[str, bytes | None] = {path: text.encode() for path, text in change.files.items()}
        text, arguments = builder.changed(idea.commit, change.overrides, builder.arguments(idea.commit))
        if builder.recipe_path:  # without what the last run wrote into it
            files.setdefault(builder.recipe_path, (text or builder.recipe_text(idea.commit)).encode())
        if arguments:
            files[ARGUMENTS] = dump(arguments).encode()
        message = f"{idea.slug}: follow-up fix\n\n{note}\n"
        if change.proposer == AGENT:
            return _mended(builder, idea, change, tip, message)
        made = commit_hypothesis(
            builder.checkout, tip, Change(change.patches, files), message=message, uncounted=(OURS,)
        )
        if not (change.overrides or change.files or change.patches):
            raise IdeaRefused("it repairs nothing")
        branches.advance_branch(builder.checkout, idea.branch, made.commit, tip)
    except IdeaRefused:
        raise
    except AutoresearchError as error:
        raise IdeaRefused(error.message, hint=error.hint, code=error.code) from error
    return made.commit


def _mended(builder: CommitBuilder, idea: Idea, change: Hypothesis, tip: str, message: str) -> str:
    """Commit an agent's patch, made against the idea, on top of its branch, without the files specific to a run."""
    made = commit_hypothesis(builder.checkout, idea.commit, Change(change.patches), message=message, uncounted=(OURS,))
    if made.changes_nothing:
        raise IdeaRefused("it repairs nothing")
    if touched := _protected(builder, idea.commit, made.commit):
        raise IdeaRefused(f"it changes what is protected: {', '.join(touched[:5])}")
    commit = commit_tree(builder.checkout.git, made.tree, tip, message)
    branches.advance_branch(builder.checkout, idea.branch, commit, tip)
    return commit


def as_line(idea: Idea) -> dict[str, object]:
    """The fields of an idea's journal line."""
    return {
        "index": idea.index,
        "hypothesis": idea.hypothesis.to_json(),
        "parent": idea.parent,
        "parent_commit": idea.parent_commit,
        "parent_branch": idea.parent_branch,
        "commit": idea.commit,
        "branch": idea.branch,
        "fingerprint": idea.fingerprint,
        "simpler": idea.simpler,
    }


def renamed(hypothesis: Hypothesis, taken: set[str]) -> Hypothesis:
    """The same hypothesis under a slug that is not taken yet."""
    slug, n = slugify(hypothesis.slug), 1
    wanted = slug
    while wanted in taken:
        n += 1
        wanted = f"{slug[:36]}-{n}"
    return replace(hypothesis, slug=wanted)
