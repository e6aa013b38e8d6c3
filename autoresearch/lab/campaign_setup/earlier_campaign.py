"""The same line typed again, on another day or after a change: does it go on with its campaign, or begin another one?

Without a `prefix`, the name of a campaign begins with the day. The newest campaign of the same blueprint goes on if its
stop rules leave something to try and nothing else differs; in any other case a new one begins, under a free name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace

from autoresearch.core.campaign.spec import CampaignPhase, CampaignSpec
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.rules import stand_at
from autoresearch.core.text.counted import counted
from autoresearch.errors import NotFoundError
from autoresearch.lab.campaign_setup.campaign_registry import with_own_results
from autoresearch.lab.campaign_setup.campaign_spec import ProposedBase, free_prefix, named
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.parts import Parts
from autoresearch.records.campaign_records import CampaignDir

# What must not differ when a campaign is continued, and what to call it.
_SAME = {
    **{"blueprint_text": "blueprint text", "objective": "objective", "recipe": "recipe", "interpreter": "interpreter"},
    **{"proposer": "source of ideas", "research": "researcher, or other terms for it", "include": "list of `include`"},
    **{"places": "--launcher", "resolution": "`resolution`"},
    **{"timeout_s": "--timeout", "min_steps": "min_steps", "prune": "`prune`", "warmup": "`warmup`"},
}


def with_earlier_name(campaign_spec: CampaignSpec, base: ProposedBase, parts: Parts) -> tuple[CampaignSpec, str]:
    """The campaign under the name of the one that it goes on with, or under a free one; and which, in a sentence.

    "" for the first campaign of its blueprint, and for one whose prefix was given. Its results have a directory of
    their own.
    """
    if "prefix" in campaign_spec.sources:
        return with_own_results(campaign_spec, parts), ""
    spec, words = _with_earlier_name(campaign_spec, base, parts)
    return with_own_results(spec, parts), words


def _with_earlier_name(campaign_spec: CampaignSpec, base: ProposedBase, parts: Parts) -> tuple[CampaignSpec, str]:
    newest = max(_of_same_line(campaign_spec, base), key=lambda one: one[1].spec.created, default=None)
    if newest is None:
        return campaign_spec, ""
    campaign_dir, state = newest
    old = state.spec
    met = stand_at(replace(state, spec=replace(old, rules=campaign_spec.rules)), campaign_spec.created).met
    over = met if state.phase is CampaignPhase.ENDED and met else ""
    moved = "" if os.path.realpath(old.repository) == os.path.realpath(base.checkout.root) else old.repository
    differs = over or moved or other_terms(old, campaign_spec) or other_code(old.base_commit, campaign_spec, base)
    if not differs:
        goes_on = replace(
            campaign_spec, name=old.name, prefix=old.prefix, directory=str(campaign_dir.path), trees=old.trees,
            result_dir=old.result_dir,
        )  # fmt: skip
        does = "runs already" if campaign_dir.controlled else "goes on"
        return goes_on, f"{old.name} {does}, after {counted(state.attempted, 'idea')}"
    why = f"is over: {over}" if over else f"began when this was {moved}" if moved else f"had another {differs}"
    fresh = named(campaign_spec, free_prefix(campaign_spec.prefix, base.checkout), base.checkout, parts)
    return fresh, f"{fresh.name} begins, as {old.name} {why}"


def _of_same_line(campaign_spec: CampaignSpec, base: ProposedBase) -> Iterator[tuple[CampaignDir, CampaignState]]:
    """The campaigns of the same blueprint in this repository that no `prefix` named."""
    for path in (base.checkout.root / "reports" / "auto_research").glob("*/campaign.json"):
        campaign_dir = CampaignDir(path.parent)
        try:
            state = CampaignHistory(campaign_dir).state()
        except NotFoundError:  # damaged: not to be touched
            continue
        one = state.spec
        line = [(each.slug, os.path.relpath(each.blueprint, each.repository)) for each in (one, campaign_spec)]
        if line[0] == line[1] and "prefix" not in one.sources:
            yield campaign_dir, state


def other_terms(campaign_spec: CampaignSpec, other_spec: CampaignSpec) -> str:
    """What else differs than the stop rules; "" if nothing does."""
    both = ((words, _recorded(campaign_spec, name), _recorded(other_spec, name)) for name, words in _SAME.items())
    return next((words for words, one, other in both if one != other), "")


def other_code(commit: str, campaign_spec: CampaignSpec, base: ProposedBase) -> str:
    """How the code differs from the base commit of an earlier campaign; "" if it does not.

    A campaign that goes on would do so from its old base, without the changes.
    """
    checkout = base.checkout
    now = base.with_commit(campaign_spec).base_commit
    changed = os.fsdecode(checkout.git.run("diff-tree", "-r", "-z", "--name-only", commit, now)).split("\0")
    root = os.path.realpath(checkout.root)
    own = {os.path.relpath(os.path.realpath(path), root) for path in base.own_files}  # compared, or free to change
    code = [name for name in changed if name and name not in own]
    return f"state of the code ({', '.join(code[:3])}{' ...' if len(code) > 3 else ''})" if code else ""


def _recorded(campaign_spec: CampaignSpec, name: str) -> str:
    """A value as campaign.json holds it, with lists for tuples. Targets are the same with other slots."""
    if name == "places":
        return json.dumps(
            [[target.name, target.kind, target.options] for target in campaign_spec.places], sort_keys=True
        )
    return json.dumps(asdict(campaign_spec)[name], sort_keys=True, default=str)
