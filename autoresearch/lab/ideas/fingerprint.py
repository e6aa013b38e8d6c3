"""Which ideas are one: their code, recipe and command, without what differs from run to run."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache

from autoresearch.core.campaign.duplicates import fate
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.overrides import canonical, flatten
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.comparison import code_fingerprint
from autoresearch.lab.campaigns.earlier import earlier_campaigns, is_over
from autoresearch.lab.ideas.commit_builder import OURS, CommitBuilder


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
    """What became of the same code and settings in an earlier campaign, if that was no gain: a clause, or "".

    What was kept there may be tried again: nothing can be built on it here before.
    """
    for campaign in earlier_campaigns(builder.spec.earlier):
        apart = own_files(builder.spec) | own_files(campaign.state.spec)
        for idea in campaign.state.ideas:
            if not is_over(campaign.state, idea) or idea.kept or idea.hypothesis.blueprint:
                continue
            try:
                same = _code(builder, idea.commit, apart) == _code(builder, commit, apart)
                marks = [fingerprint_of(builder, one, hypothesis, apart) for one in (commit, idea.commit) if same]
            except AutoresearchError:  # a commit of another clone, or of a branch that was removed
                continue
            if same and marks[0] == marks[1]:
                return f"it is the same as {idea.name} of the campaign {campaign.name}, which was {fate(idea)}"
    return ""


def _code(builder: CommitBuilder, commit: str, apart: frozenset[str]) -> str:
    recipe = [builder.recipe_path] if builder.recipe_path else []
    return _of_tree(builder.checkout, commit, frozenset((OURS, *recipe, *apart)))


@lru_cache(maxsize=1024)  # a commit never changes
def _of_tree(checkout: Checkout, commit: str, ignored: frozenset[str]) -> str:
    return code_fingerprint(checkout, commit, ignoring=ignored)
