"""A name on the command line that may be a run's, a campaign's or a plan's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from autoresearch.errors import NotFoundError

if TYPE_CHECKING:
    from autoresearch.lab.parts import Parts
    from autoresearch.lab.plans.plan_dir import PlanDir
    from autoresearch.records.campaign_records import CampaignDir
    from autoresearch.records.rundir import RunDir

    Named: TypeAlias = RunDir | CampaignDir | PlanDir


def resolve(name: str, parts: Parts) -> Named:
    """The run, campaign or plan that a name means; of several that answer to it, one that lives, else the run.

    `last`, `last-campaign` and `last-plan` are the newest of each in this project. NotFoundError for none.
    """
    from autoresearch.lab.campaign_setup.campaign_registry import LAST_CAMPAIGN
    from autoresearch.lab.plans.plan_dir import LAST_PLAN
    from autoresearch.lab.runs import sessions

    if name in (LAST_CAMPAIGN, LAST_PLAN):
        return report_of(name, parts)
    no_run = None
    try:
        rundir = sessions.find(name, parts)
    except NotFoundError as error:
        if name == "last":
            raise
        no_run = error
    else:
        if name == "last" or "/" in name or rundir.state().lives or parts.index.by_id(name):
            return rundir
    campaign, plan = (_campaign(name, parts), _plan(name, parts)) if name else (None, None)
    if campaign and (campaign.controlled or (no_run and not (plan and plan.pursued))):
        return campaign
    if plan and (plan.pursued or no_run):
        return plan
    if no_run is None:
        return rundir
    message = no_run.message.replace("no run of", "no run, campaign or plan of", 1)
    raise NotFoundError(message, hint=no_run.hint, fix=no_run.fix)


def report_of(name: str, parts: Parts) -> CampaignDir | PlanDir:
    """The campaign or the plan that a name means; "" is a campaign that runs, else the newest, else a plan.

    A plan has one name; a campaign also answers to its slug, which then means the plan.
    """
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.lab.plans.plan_dir import LAST_PLAN, find_plan

    if name == LAST_PLAN:
        return find_plan(name, parts)
    plan = None if name == campaign_registry.LAST_CAMPAIGN else _plan(name, parts)
    try:
        campaign = campaign_registry.find(name, parts)
    except NotFoundError:
        if plan is None:
            raise
        return plan
    named = (one.name for one in campaign_registry.known(parts) if one.campaign_dir == campaign)
    by_slug = name and name not in (*named, campaign.path.name) and "/" not in name
    return plan if plan and by_slug else campaign


def campaign_instead(name: str, parts: Parts, not_found: NotFoundError, command: str) -> NotFoundError:
    """The same error for a command about runs; where a campaign has that name, with the command that is about it."""
    campaign = _campaign(name, parts) if name else None
    if campaign is None:
        return not_found
    return NotFoundError(f"{name} is a campaign", hint=not_found.hint, fix=f"autoresearch {command} {name}")


def _campaign(name: str, parts: Parts) -> CampaignDir | None:
    from autoresearch.lab.campaign_setup import campaign_registry

    try:
        return campaign_registry.find(name, parts)
    except (NotFoundError, OSError, ValueError):  # too long, or not a path
        return None


def _plan(name: str, parts: Parts) -> PlanDir | None:
    from autoresearch.lab.plans.draft import slug_of
    from autoresearch.lab.plans.plan_dir import find_plan

    try:
        return find_plan(slug_of(Path(name)) if name.endswith((".yaml", ".yml")) else name, parts)
    except (NotFoundError, OSError, ValueError):
        return None
