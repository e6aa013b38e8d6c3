"""A run by any name, with its row in a ledger and what is known of its idea."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.campaign.judgement import search_values
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import measured
from autoresearch.core.controller.standing import Standing, standing
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import NotFoundError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.parts import Parts
from autoresearch.lab.recipes.recipe_of_run import CommittedRun
from autoresearch.lab.runs import lookup
from autoresearch.records import campaign_records, recorded_run
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.ledger import Ledger


@dataclass(frozen=True, slots=True)
class LedgerMatch(CommittedRun):
    """A run with the rows of its idea. The row of one that is not over has no status, and no values."""

    name: str  # as requested
    values: tuple[float, ...]  # the metric of each run that counts for the idea
    shown: Standing | None  # how the idea stands; None without a campaign


def find(name: str, parts: Parts) -> LedgerMatch:
    """The run of that name, with its idea; raises NotFoundError, with existing names, if there is none.

    Of the idea's runs, in a campaign, unjudged ones and those of a confirmation do not count, nor those that collapsed.
    """
    rundir = lookup.find_run(name, parts)
    spec = recorded_run.read_if_whole(rundir)
    campaign_dir = CampaignDir(Path(spec.ledger).parent if spec else rundir.path.parent)
    campaign_records.write_ledger(campaign_dir)
    rows, of_spec = list(Ledger(campaign_dir.ledger).rows()), LedgerRow.of_spec(spec) if spec else None
    own = (one for one in rows if (one.run_id == spec.run if spec else Path(one.run_dir) == rundir.path))
    if (row := next(own, of_spec)) is None:
        raise NotFoundError(f"{rundir.path}: the run directory is gone, and no row tells of it")
    campaign = campaign_records.spec_of(campaign_dir)
    values = tuple(v for one in rows if one.index == row.index and (v := measured(one)) is not None)
    shown = None
    if campaign is not None:
        from autoresearch.lab.campaigns.campaign_history import CampaignHistory

        now = CampaignHistory(campaign_dir).state()
        if idea := next((one for one in now.ideas if one.index == row.index), None):
            values, shown = tuple(search_values(now, idea)), standing(now, idea)
    return LedgerMatch(row, spec, campaign, _checkout(row, spec, campaign), name, values, shown)


def _checkout(row: LedgerRow, spec: RunSpec | None, campaign: CampaignSpec | None) -> repository.Checkout | None:
    places = [campaign.repository] if campaign else []
    places += [spec.cwd, spec.run_dir] if spec else []
    for path in map(Path, places):
        if path.is_dir() and (found := repository.find(path)):
            return found
    above = Path(row.run_dir).parents if row.run_dir else ()
    return next((repository.find(one) for one in above if (one / ".git").exists()), None)
