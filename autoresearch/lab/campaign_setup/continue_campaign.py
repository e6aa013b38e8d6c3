"""An ended campaign continues under other stop rules, as long as everything else is the same."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from autoresearch.core.campaign.spec import LEAST_CONFIRM_RUNS, CampaignPhase, CampaignSpec, too_few_to_confirm
from autoresearch.core.controller.rules import stand_at
from autoresearch.errors import ConflictError, UsageError
from autoresearch.lab.campaign_setup.base_commit import with_base_commit
from autoresearch.lab.campaign_setup.campaign_spec import free_prefix
from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir

# What must not differ when a campaign that ended is continued, and what to call it.
_SAME = {
    **{"blueprint_text": "blueprint text", "objective": "objective", "recipe": "recipe", "interpreter": "interpreter"},
    **{"proposer": "source of ideas", "research": "researcher, or other terms for it", "include": "list of `include`"},
    **{"places": "--launcher", "resolution": "`resolution`"},
    **{"timeout_s": "--timeout", "min_steps": "min_steps", "prune": "`prune`", "warmup": "`warmup`"},
}


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
    """Raise ConflictError unless the existing campaign has ended and differs in its stop rules alone.

    It then continues under the new rules, and its baseline is used again.
    """
    spec, old = proposed.spec, CampaignHistory(proposed.campaign_dir).state()
    if old.phase is not CampaignPhase.ENDED:
        raise ConflictError(
            f"the campaign {spec.name} was started and has not ended",
            hint="or start another one under another prefix",
            fix=f"autoresearch campaign resume {spec.name}",
        )
    if differs := [words for name, words in _SAME.items() if _recorded(old.spec, name) != _recorded(spec, name)]:
        raise _taken(proposed, differs[0])
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
    base, checkout = proposed.base, proposed.base.checkout
    old = campaign_records.read_spec(proposed.campaign_dir).base_commit
    now = with_base_commit(proposed.spec, base).base_commit
    differs = os.fsdecode(checkout.git.run("diff-tree", "-r", "-z", "--name-only", old, now)).split("\0")
    root = os.path.realpath(checkout.root)
    own = {os.path.relpath(os.path.realpath(path), root) for path in base.own_files}  # compared, or free to change
    if code := [name for name in differs if name and name not in own]:
        raise _taken(proposed, f"state of the code ({', '.join(code[:3])}{' ...' if len(code) > 3 else ''})")


def _recorded(campaign_spec: CampaignSpec, name: str) -> str:
    """A value as campaign.json holds it, with lists for tuples. Targets are the same with other slots."""
    if name == "places":
        return json.dumps(
            [[target.name, target.kind, target.options] for target in campaign_spec.places], sort_keys=True
        )
    return json.dumps(campaign_spec.to_json()[name], sort_keys=True, default=str)


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
