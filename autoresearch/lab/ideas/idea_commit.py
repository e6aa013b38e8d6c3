"""Turns a hypothesis into a commit on its own branch; one that cannot be tried is refused with a reason.

And the edits that seem good into one commit, the tip. It is made from the baseline up, so that any of them can leave
again. A setting is set again by its key; any other edit is applied as a patch, by a 3-way merge where what is around it
has changed. What does not fit is left out, and said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import edits_of, good_edits
from autoresearch.core.controller import ablation
from autoresearch.core.text.session_and_branch_names import first_free
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo import branches
from autoresearch.git_repo.commits import Change, commit_hypothesis
from autoresearch.git_repo.history import diff, intact
from autoresearch.lab.agent_work.edit_workspace import protection_of
from autoresearch.lab.campaigns.context import CampaignContext, is_full
from autoresearch.lab.ideas.commit_builder import ARGUMENTS, BLUEPRINT, OURS, RECIPE, CommitBuilder, IdeaRefused
from autoresearch.lab.ideas.tried_before import fingerprint_of, tried_earlier
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
        if not asked_for and (told := tried_earlier(builder, made.commit, hypothesis)):
            raise IdeaRefused(told)
    except IdeaRefused:
        raise
    except AutoresearchError as error:
        raise _refused(error) from error
    return replace(_idea(builder, hypothesis, index, parent, made.commit), fingerprint=mark)


def _idea(builder: CommitBuilder, hypothesis: Hypothesis, index: int, parent: Idea | None, commit: str) -> Idea:
    """An idea on its parent, None for the baseline."""
    return Idea(
        index=index,
        hypothesis=hypothesis,
        parent=parent.slug if parent else "",
        parent_commit=parent.commit if parent else builder.spec.base_commit,
        parent_branch=parent.branch if parent else "",
        commit=commit,
        branch=builder.spec.branch(hypothesis.slug),
    )


def protected_changes(builder: CommitBuilder, base: str, commit: str) -> tuple[str, ...]:
    """Protected paths and recipe keys that an agent's idea changes, according to its commit."""
    protection = protection_of(builder, builder.spec.research)
    ours = (OURS, *([builder.recipe_path] if builder.recipe_path else []))
    keys = protection.keys_changed(builder.whole(base), builder.whole(commit))
    return (*intact(builder.checkout, base, commit, protection, ours=ours), *keys)


def record_idea(context: CampaignContext, draft: Idea) -> Idea:
    """Claim the branch of an idea that was committed, and record it. After a kill in between, `recovery` goes on."""
    context.note("drafted", **as_line(draft))
    failpoint("campaign.drafted")
    idea = claim(context.builder, draft)
    failpoint("campaign.conceived")
    context.note("idea", **as_line(idea))
    return idea


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
    text = render_blueprint(builder.blueprint_as(hypothesis, description, command=builder.command(arguments)))
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
    "index", "parent", "parent_commit", "parent_branch", "commit", "branch", "fingerprint",
)  # fmt: skip


def as_line(idea: Idea) -> dict[str, object]:
    """The fields of an idea's journal line."""
    return {"hypothesis": idea.hypothesis.to_json(), **{name: getattr(idea, name) for name in _RECORDED}}


# -- the tip: the merge of the edits that seem good -------------------------------------------------------------------


def merge_tip(context: CampaignContext) -> None:
    """Make the tip what it should be now, and record it."""
    state, before = context.state, context.state.made_tip
    asked = good_edits(state)
    by_index = {idea.index: idea for idea in state.ideas}
    commit, merged = merge(context.builder, state, [by_index[index] for index in asked])
    left = [index for index in asked if index not in {idea.index for idea in merged}]
    found = _same_merge(state, merged) if merged else None
    if merged and found is None:
        found = _conceived(context, _of_merge(state, "tip", f"The tip of {_numbers(merged)}", merged), commit)
    context.note("tip", good_edits=list(asked), index=found.index if found else 0, left=left)
    if ((index := found.index if found else 0), *left) != (before.index, *before.left):
        context.say(_merge_words(index, merged, [by_index[index] for index in left]))


def begin_ablation(context: CampaignContext, tip: Idea, edits: Sequence[Idea]) -> bool:
    """Make the tip without each of these edits, as far as the others fit without it, and record what is to run."""
    whole = [idea for idea in map(context.state.by_slug, tip.hypothesis.merges) if idea]
    versions = list[Idea]()
    for edit in edits:
        others = [idea for idea in whole if idea is not edit]
        version = _same_merge(context.state, others)
        if version is None:
            commit, merged = merge(context.builder, context.state, others)
            if len(merged) < len(others):
                context.say(f"{edit.name} is not measured apart: what was edited on it does not fit without it")
                continue
            words = f"What is in #{tip.index} without #{edit.index}"
            named = _of_merge(context.state, f"{tip.slug}-without-{edit.index}", words, merged)
            version = _conceived(context, named, commit)
        versions.append(version)
    number, candidates = ablation.next_number(context.state), [version.index for version in versions]
    context.note("confirming", round=number, candidates=candidates, sizes=[ablation.RUNS], of=tip.index)
    if versions:
        runs = ablation.RUNS * (len(versions) + 1)
        context.say(f"measuring what {_numbers(edits)} are worth in {tip.name}: {runs} runs, with and without them")
    return True


def _conceived(context: CampaignContext, hypothesis: Hypothesis, commit: str) -> Idea:
    """An idea of a merge that was committed on the baseline, with a blueprint and a branch; no run of it is due yet."""
    builder, state = context.builder, context.state
    index = 1 + max(idea.index for idea in state.ideas)
    message = f"{hypothesis.slug}: {hypothesis.sentence}\n\nIdea {index} of {builder.spec.name}.\n"
    files = files_of(builder, hypothesis, commit)
    made = commit_hypothesis(builder.checkout, commit, Change(files=files), message=message, uncounted=(OURS,))
    idea = _idea(builder, hypothesis, index, state.baseline, made.commit)
    return record_idea(context, replace(idea, fingerprint=fingerprint_of(builder, made.commit, hypothesis)))


def merge(builder: CommitBuilder, state: CampaignState, ideas: Sequence[Idea]) -> tuple[str, list[Idea]]:
    """The commit with as many of the edits as fit, and those, in their order; an edit may need one that comes later."""
    baseline = state.baseline
    assert baseline is not None, "the baseline is measured first"
    commit, merged, waiting = baseline.commit, list[Idea](), list(ideas)
    while waiting:
        left = []
        for idea in waiting:
            whole = {one.index for one in (*merged, idea)}
            if any(broken <= whole for broken in state.broken_merges) or _clashes(state, idea, merged, waiting):
                left.append(idea)
                continue
            try:
                commit = _with_edit(builder, commit, idea)
                merged.append(idea)
            except AutoresearchError as error:
                if is_full(error):
                    raise
                left.append(idea)
        if len(left) == len(waiting):
            break
        waiting = left
    return commit, merged


def _clashes(state: CampaignState, idea: Idea, merged: Sequence[Idea], unmerged: Sequence[Idea]) -> bool:
    """Whether a key that an idea sets has a value of an edit that it was not made on, or will get its older one."""
    keys, below = idea.hypothesis.keys, edits_of(state, idea)
    others = (one for one in (*merged, *unmerged) if one is not idea)
    sharing = [one for one in others if one.hypothesis.keys & keys]
    placed = {one.index for one in merged}
    return any((one.index in placed) != (one.index in below) for one in sharing)


def _with_edit(builder: CommitBuilder, base: str, idea: Idea) -> str:
    """The base with the edit of an idea, as a commit of its own."""
    hypothesis = idea.hypothesis
    if hypothesis.files or idea.repaired >= 0:  # whole files would undo what others changed in them
        whole = diff(builder.checkout, idea.parent_commit, idea.commit, ignoring=(OURS,))
        hypothesis = replace(hypothesis, files={}, patches=(whole,))
    files = files_of(builder, hypothesis, base)
    change = Change(hypothesis.patches, files, merge=True)
    message = f"{hypothesis.slug}: {hypothesis.sentence}\n\nThe edit of idea {idea.index}, for the tip.\n"
    return commit_hypothesis(builder.checkout, base, change, message=message).commit


def _same_merge(state: CampaignState, merged: Sequence[Idea]) -> Idea | None:
    """The earlier tip of the same edits."""
    slugs = {idea.slug for idea in merged}
    return next((idea for idea in state.ideas if idea.hypothesis.merges and {*idea.hypothesis.merges} == slugs), None)


def _of_merge(state: CampaignState, name: str, sentence: str, merged: Sequence[Idea]) -> Hypothesis:
    slug = first_free(name, {idea.slug for idea in state.ideas}.__contains__)
    slugs = tuple(idea.slug for idea in merged)
    return Hypothesis(slug, sentence, parent=BASELINE, proposer="campaign", merges=slugs)


def _numbers(merged: Sequence[Idea]) -> str:
    numbers = [f"#{idea.index}" for idea in merged]
    return " and ".join(filter(None, (", ".join(numbers[:-1]), numbers[-1])))


def _merge_words(index: int, merged: Sequence[Idea], left: Sequence[Idea]) -> str:
    apart = f"; what does not fit: {', '.join(one.name for one in left)}" if left else ""
    if not index:
        return f"there is no tip, so new ideas are edited on the best one{apart}"
    return f"the tip, on which new ideas are edited, is now #{index}, the merge of {_numbers(merged)}{apart}"
