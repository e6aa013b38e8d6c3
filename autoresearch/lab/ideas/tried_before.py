"""Whether an idea was tried before: it equals one of the campaign, or one of an earlier campaign on the same question.

Ideas are equal that have one code, recipe and command, without what differs from run to run. Earlier campaigns are of
the same repository, objective and command; they are only read. Which they are is looked for once, among the campaigns
of this account, and stands in the spec. One whose directory is gone or damaged by then has nothing to say.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from autoresearch.core.blueprint.parser import BlueprintInvalid, parse_blueprint
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.overrides import canonical, flatten
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import proved_edits
from autoresearch.core.controller.standing import GIVEN_UP, Standing, standing
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import GitFailed
from autoresearch.git_repo.history import code_fingerprint, first_commits
from autoresearch.lab.campaigns.campaign_history import history_of
from autoresearch.lab.ideas.commit_builder import OURS, CommitBuilder
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir

MOST = 5  # campaigns, the newest first


def with_earlier(campaign_spec: CampaignSpec, campaign_dirs: Iterable[CampaignDir]) -> CampaignSpec:
    """The campaign with those of these, the newest first, that are on the same question."""
    spec, found = campaign_spec, list[str]()
    for campaign_dir in campaign_dirs:
        try:
            old = campaign_records.declared_spec(campaign_dir)
        except (AutoresearchError, OSError):  # damaged, or being removed just now
            continue
        if len(found) < MOST and campaign_dir.path != Path(spec.directory) and asks_the_same(old, spec):
            found.append(str(campaign_dir.path))
    return replace(spec, earlier=tuple(found))


def earlier_campaigns(directories: tuple[str, ...]) -> Iterator[CampaignState]:
    """Those that can be read, as their records are now, the newest first."""
    for directory in directories:
        campaign_dir = CampaignDir(Path(directory))
        try:
            if campaign_dir.spec.is_file():
                yield history_of(campaign_dir).state()
        except (AutoresearchError, OSError, ValueError):  # damaged, or being removed just now
            continue


def asks_the_same(campaign_spec: CampaignSpec, other_spec: CampaignSpec) -> bool:
    """Whether two campaigns pursue one objective with one command, in one repository or clones of it."""
    one, other = campaign_spec, other_spec
    if (one.objective, one.codebase) != (other.objective, other.codebase) or one.prove or other.prove:
        return False
    same = measured_by(one) == measured_by(other) != ()
    return same and _same_repository(Path(one.repository), Path(other.repository))


def measured_by(campaign_spec: CampaignSpec) -> tuple[object, ...]:
    """What runs and measures the baseline, as the blueprint says it; () if that cannot be read."""
    try:
        blueprint = parse_blueprint(campaign_spec.blueprint_text.encode(), campaign_spec.blueprint)
    except BlueprintInvalid:
        return ()
    notes = blueprint.notes
    told = (notes.prepare, notes.evaluate, dict(notes.env), notes.seed, notes.lines, notes.source)
    return (" ".join(blueprint.launch_command.split()), *told)


def _same_repository(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other) or (_roots(one) == _roots(other) != ())


def _roots(repository: Path) -> tuple[str, ...]:
    try:
        return first_commits(repository)
    except GitFailed:
        return ()


def given_up(state: CampaignState, idea: Idea) -> Standing | None:
    """How an idea of another campaign stands there, if it was given up by its own runs; None if it may yet be good."""
    if not idea.judged or idea.index in proved_edits(state):
        return None
    found = standing(state, idea)
    return found if found.word in GIVEN_UP else None


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


def _own_files(campaign_spec: CampaignSpec) -> frozenset[str]:
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
        apart = _own_files(builder.spec) | _own_files(earlier_state.spec)
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
