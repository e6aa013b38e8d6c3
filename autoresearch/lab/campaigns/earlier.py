"""Earlier campaigns on the same question: same repository, objective and command. They are only read.

Which they are is looked for once, among the campaigns of this account, and stands in the spec. One whose directory is
gone or damaged by then has nothing to say.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from autoresearch.core.blueprint.parser import BlueprintInvalid, parse_blueprint
from autoresearch.core.campaign.claim import Claim
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import edits_of
from autoresearch.core.controller.standing import GIVEN_UP, Standing, standing
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.git import GitFailed
from autoresearch.git_repo.history import first_commits
from autoresearch.lab.campaigns.campaign_history import history_of
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir

MOST = 5  # campaigns, the newest first


def with_earlier(campaign_spec: CampaignSpec, campaign_dirs: Iterable[CampaignDir]) -> CampaignSpec:
    """The campaign with those of these, the newest first, that are on the same question; one that goes on has its own.
    """
    spec, found = campaign_spec, list[str]()
    if CampaignDir(Path(spec.directory)).spec.exists():
        return spec
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


def proved_edits(state: CampaignState) -> frozenset[int]:
    """The indices of the ideas whose edits are in something that was confirmed."""
    confirmed = (edits_of(state, idea) for idea in state.ideas if idea.confirmed == Claim.CONFIRMED)
    return frozenset().union(*confirmed)


def given_up(state: CampaignState, idea: Idea) -> Standing | None:
    """How an idea of another campaign stands there, if it was given up by its own runs; None if it may yet be good."""
    if not idea.judged or idea.hypothesis.smoke or idea.index in proved_edits(state):
        return None
    found = standing(state, idea)
    return found if found.word in GIVEN_UP else None
