"""Merges the edits that seem good into one commit, the tip, from the baseline up: so any of them can leave again.

A setting is set again by its key; any other edit is applied as a patch, by a 3-way merge where what is around it has
changed. What does not fit is left out, and said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import edits_of, good_edits
from autoresearch.core.controller import ablation
from autoresearch.core.text.session_and_branch_names import first_free
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.commits import Change, commit_hypothesis
from autoresearch.git_repo.comparison import diff
from autoresearch.lab.campaigns.context import CampaignContext, is_full
from autoresearch.lab.ideas import idea_commit
from autoresearch.lab.ideas.commit_builder import OURS, CommitBuilder
from autoresearch.runner.basics import failpoint


def merge_tip(context: CampaignContext) -> None:
    """Make the tip what it should be now, and record it."""
    state, before = context.state, context.state.made_tip
    asked = good_edits(state)
    by_index = {idea.index: idea for idea in state.ideas}
    commit, merged = merge(context.builder, state, [by_index[index] for index in asked])
    left = [index for index in asked if index not in {idea.index for idea in merged}]
    found = _same(state, merged) if merged else None
    if merged and found is None:
        found = _conceived(context, _hypothesis(state, "tip", f"The tip of {_numbers(merged)}", merged), commit)
    context.note("tip", good_edits=list(asked), index=found.index if found else 0, left=left)
    if ((index := found.index if found else 0), *left) != (before.index, *before.left):
        context.say(_merge_words(index, merged, [by_index[index] for index in left]))


def begin_ablation(context: CampaignContext, tip: Idea, edits: Sequence[Idea]) -> bool:
    """Make the tip without each of these edits, as far as the others fit without it, and record what is to run."""
    whole = [idea for idea in map(context.state.by_slug, tip.hypothesis.merges) if idea]
    versions = list[Idea]()
    for edit in edits:
        others = [idea for idea in whole if idea is not edit]
        version = _same(context.state, others)
        if version is None:
            commit, merged = merge(context.builder, context.state, others)
            if len(merged) < len(others):
                context.say(f"{edit.name} is not measured apart: what was edited on it does not fit without it")
                continue
            words = f"What is in #{tip.index} without #{edit.index}"
            named = _hypothesis(context.state, f"{tip.slug}-without-{edit.index}", words, merged)
            version = _conceived(context, named, commit)
        versions.append(version)
    number, candidates = ablation.next_number(context.state), [version.index for version in versions]
    context.note("confirming", round=number, candidates=candidates, sizes=[ablation.RUNS], of=tip.index)
    if versions:
        runs = ablation.RUNS * (len(versions) + 1)
        context.say(f"measuring what {_numbers(edits)} are worth in {tip.name}: {runs} runs, with and without them")
    return True


def _conceived(context: CampaignContext, hypothesis: Hypothesis, commit: str) -> Idea:
    """An idea of a merge, with its branch; no run of it is due yet."""
    idea = idea_commit.as_idea(context.builder, hypothesis, commit, context.state)
    context.note("drafted", **idea_commit.as_line(idea))
    failpoint("campaign.drafted")
    made = idea_commit.claim(context.builder, idea)
    failpoint("campaign.conceived")
    context.note("idea", **idea_commit.as_line(made))
    return made


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
    keys, below = flatten(idea.hypothesis.overrides).keys(), edits_of(state, idea)
    others = (one for one in (*merged, *unmerged) if one is not idea)
    sharing = [one for one in others if flatten(one.hypothesis.overrides).keys() & keys]
    placed = {one.index for one in merged}
    return any((one.index in placed) != (one.index in below) for one in sharing)


def _with_edit(builder: CommitBuilder, base: str, idea: Idea) -> str:
    """The base with the edit of an idea, as a commit of its own."""
    hypothesis = idea.hypothesis
    if hypothesis.files or idea.repaired >= 0:  # whole files would undo what others changed in them
        whole = diff(builder.checkout, idea.parent_commit, idea.commit, ignoring=(OURS,))
        hypothesis = replace(hypothesis, files={}, patches=(whole,))
    files = idea_commit.files_of(builder, hypothesis, base)
    change = Change(hypothesis.patches, files, merge=True)
    message = f"{hypothesis.slug}: {hypothesis.sentence}\n\nThe edit of idea {idea.index}, for the tip.\n"
    return commit_hypothesis(builder.checkout, base, change, message=message).commit


def _same(state: CampaignState, merged: Sequence[Idea]) -> Idea | None:
    """The earlier tip of the same edits."""
    slugs = {idea.slug for idea in merged}
    return next((idea for idea in state.ideas if idea.hypothesis.merges and {*idea.hypothesis.merges} == slugs), None)


def _hypothesis(state: CampaignState, name: str, sentence: str, merged: Sequence[Idea]) -> Hypothesis:
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
