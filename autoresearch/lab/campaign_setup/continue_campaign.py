"""An ended campaign continues under other stop rules, as long as everything else is the same."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from autoresearch.core.campaign.spec import LEAST_CONFIRM_RUNS, CampaignPhase, CampaignSpec, too_few_to_confirm
from autoresearch.core.controller.rules import stand_at
from autoresearch.errors import ConflictError, UsageError
from autoresearch.lab.campaign_setup.campaign_spec import free_prefix
from autoresearch.lab.campaign_setup.earlier_campaign import other_code, other_terms
from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir


def continue_with(campaign_dir: CampaignDir, changes: Mapping[str, Any]) -> None:
    """Let a campaign that ended continue under other rules."""
    campaign_dir.flag.unlink(missing_ok=True)
    campaign_records.add(campaign_dir.journal, "rules", **changes)
    campaign_records.add(campaign_dir.journal, "told", how="")
    campaign_records.add(campaign_dir.journal, "state", state=CampaignPhase.RUNNING.value, reason="continued")


def changed_rules(campaign_spec: CampaignSpec, rules: Mapping[str, Any]) -> dict[str, Any]:
    """The named rules that differ, for `campaign set`. UsageError if none does, or if nothing could be confirmed."""
    old = asdict(campaign_spec.rules)
    changes = {name: value for name, value in rules.items() if value != old[name]}
    if campaign_spec.confirm and (runs := changes.get("confirm_runs", LEAST_CONFIRM_RUNS)) < LEAST_CONFIRM_RUNS:
        raise UsageError(too_few_to_confirm(runs))
    if not changes:
        raise UsageError("nothing would change", hint="such as count=40, deadline=10h or budget_usd=20")
    return changes


def refuse_other_terms(proposed: ProposedCampaign) -> None:
    """Raise ConflictError unless the existing campaign differs in its stop rules alone, and has ended if it was named.

    It then continues under the new rules, and its baseline is used again.
    """
    spec, old = proposed.spec, CampaignHistory(proposed.campaign_dir).state()
    if old.phase is not CampaignPhase.ENDED and "prefix" in spec.sources:
        raise ConflictError(
            f"the campaign {spec.name} was started and has not ended",
            hint="or start another one under another prefix",
            fix=f"autoresearch campaign resume {spec.name}",
        )
    if differs := other_terms(old.spec, spec):
        raise _taken(proposed, differs)
    old.spec = replace(old.spec, rules=spec.rules)
    if (stood := stand_at(old, spec.created)).met:
        raise needs_other_prefix(
            proposed,
            f"the campaign {spec.name} has ended, and nothing would be tried: {stood.met}",
            hint="start another one; or let that one go on: "
            f"autoresearch campaign set {spec.name} count={(spec.rules.count or old.attempted) + 10}",
            code="nothing_to_try",
        )


def refuse_other_code(proposed: ProposedCampaign) -> None:
    """Raise ConflictError if the code changed: the campaign would continue from its old base, without the changes."""
    old = campaign_records.read_spec(proposed.campaign_dir).base_commit
    if differs := other_code(old, proposed.spec, proposed.base):
        raise _taken(proposed, differs)


def _taken(proposed: ProposedCampaign, differs: str) -> ConflictError:
    return needs_other_prefix(
        proposed,
        f"a campaign {proposed.spec.name} ended here with another {differs}",
        hint="start another one; or continue that one as it was: "
        f"autoresearch campaign set {proposed.spec.name} count=N",
    )


def needs_other_prefix(
    proposed: ProposedCampaign, message: str, *, hint: str, code: str = "prefix_taken"
) -> ConflictError:
    """The error of a campaign that could start under another prefix; it names one that is free."""
    fix = shlex.join(("autoresearch", "campaign", "start", str(proposed.file)))
    prefix = free_prefix(proposed.spec.prefix, proposed.base.checkout)
    return ConflictError(message, hint=hint, fix=fix, setting=f"prefix={prefix}", code=code)
