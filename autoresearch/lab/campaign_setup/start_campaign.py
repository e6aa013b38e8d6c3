"""Create a proposed campaign, or continue the one of its name that ended; its controller is started afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from autoresearch.git_repo.snapshot import exclude, pattern_for
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaign_setup.base_commit import with_base_commit
from autoresearch.lab.campaign_setup.continue_campaign import continue_with, refuse_other_code, refuse_other_terms
from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign, resolve_campaign
from autoresearch.lab.parts import Parts
from autoresearch.lab.plugin_groups import used_by
from autoresearch.lab.resolve.host_check import check_local
from autoresearch.records import campaign_records
from autoresearch.records.appending import make_directory
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.failpoint import failpoint
from autoresearch.records.rundir import locked


def start(source: Path, pairs: Sequence[str], parts: Parts) -> CampaignDir:
    """Start the campaign of a file or a blueprint without asking. pairs: KEY=VALUE, laid over the file.

    Raises UsageError, BlueprintError, ConflictError or EnvironmentUnusable.
    """
    from autoresearch.lab.campaign_setup import controller_session
    from autoresearch.lab.campaign_setup.campaign_file import read_campaign_file
    from autoresearch.lab.campaign_setup.preflight import is_running, preflight

    campaign_file = read_campaign_file(str(source), {}, start=source.parent, now=parts.clock(), pairs=pairs)
    proposed = resolve_campaign(campaign_file, parts)
    preflight(proposed)
    if proposed.campaign_dir.controlled:
        raise is_running(proposed.spec.name)
    campaign_dir = create(proposed, parts)
    controller_session.start_and_wait(campaign_dir, parts)
    return campaign_dir


def create(proposed: ProposedCampaign, parts: Parts) -> CampaignDir:
    """Write the campaign down; from then on `campaign resume` can continue it after any crash."""
    campaign_dir, checkout = proposed.campaign_dir, proposed.base.checkout
    check_local(proposed.spec.tmux_socket, parts, checkout)
    make_directory(campaign_dir.path)
    plugins = used_by(proposed.spec, proposed.trainer_settings.trainer.name)
    spec = campaign_registry.register(replace(proposed.spec, plugins=plugins), parts)  # first: it is found at once
    for path in (campaign_dir.path.parent, Path(spec.result_dir)):
        if pattern := pattern_for(checkout, path):
            exclude(checkout, pattern)
    with locked(campaign_dir.path / "begin.lock"):
        if campaign_dir.spec.exists():  # it ended, or another command was quicker
            proposed = replace(proposed, spec=spec)
            refuse_other_terms(proposed)
            refuse_other_code(proposed)
            continue_with(campaign_dir, asdict(spec.rules))
        else:
            failpoint("begin.registered")
            campaign_records.write_spec(campaign_dir, with_base_commit(spec, proposed.base))
    failpoint("begin.begun")
    return campaign_dir
