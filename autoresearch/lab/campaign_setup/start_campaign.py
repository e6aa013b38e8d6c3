"""Create a campaign from a proposed one, or continue one that ended; `controller_session` starts its controller."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.finding import Finding, errors
from autoresearch.core.campaign.spec import CampaignPhase, CampaignSpec, Rules
from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.git_repo import branches
from autoresearch.git_repo.exclude import exclude, pattern_for
from autoresearch.git_repo.includes import check_includes
from autoresearch.git_repo.missing_inputs import lacking
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaign_setup.campaign_spec import Charter, named_base, with_base
from autoresearch.lab.campaign_setup.checks import refuse, refuse_queue
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.slots import slots_of
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.host_check import check_local
from autoresearch.lab.resolve.overrides import LaunchSettings
from autoresearch.records import campaign_records
from autoresearch.records.appending import make_directory
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.failpoint import failpoint
from autoresearch.records.rundir import locked


def preflight(plan: Charter) -> tuple[Finding, ...]:
    """What speaks for or against starting it here; nothing is touched. ConflictError where the prefix is taken."""
    resolved = plan.resolved
    launch = LaunchSettings(
        plan.trainer, resolved.inherited if resolved.recipe else None, resolved.blueprint.launch_command
    )
    doubts = refuse(plan.spec, launch)
    campaign_dir = CampaignDir(Path(plan.spec.directory))
    if campaign_dir.controlled:
        raise ConflictError(
            f"the campaign {plan.spec.name} is running", fix=f"autoresearch campaign status {plan.spec.name}"
        )
    refuse_queue(plan.spec, launch, CampaignHistory(campaign_dir).state() if campaign_dir.spec.exists() else None)
    if campaign_dir.spec.exists():
        _same_again(plan, campaign_dir)
    elif taken := branches.branch_commit(plan.checkout, plan.spec.branch("baseline")):
        raise ConflictError(
            f"the branch {plan.spec.branch('baseline')} exists already (at {taken[:12]}), and its campaign does not",
            hint="another prefix keeps both",
            fix=_beside(plan),
            code="prefix_taken",
        )
    for one in slots_of(plan.spec, plan.checkout):
        one.check_owner()
    commit = named_base(plan) if plan.campaign_file["base"] else plan.checkout.head
    found = [*plan.findings, *doubts, *check_includes(plan.checkout, plan.spec.include, commit)]
    if bad := errors(found):
        raise EnvironmentUnusable(bad[0].message, hint=bad[0].hint, code=bad[0].code)
    return (*found, *lacking(plan.checkout, commit, plan.spec.include))


def _same_again(plan: Charter, campaign_dir: CampaignDir) -> None:
    """A campaign that ended may go on under new rules, and then its baseline is used again."""
    old = CampaignHistory(campaign_dir).state()
    if old.phase is not CampaignPhase.ENDED:
        raise ConflictError(
            f"the campaign {plan.spec.name} was begun and has not ended",
            hint="or begin another one under another prefix",
            fix=f"autoresearch campaign resume {plan.spec.name}",
        )
    if differs := [words for name, words in _SAME.items() if _plain(old.spec, name) != _plain(plan.spec, name)]:
        raise _taken(plan, differs[0])


_SAME = {
    **{"blueprint_text": "blueprint text", "objective": "objective", "recipe": "recipe", "interpreter": "interpreter"},
    **{"proposer": "source of ideas", "research": "researcher, or other terms for it", "include": "list of `include`"},
    **{"places": "--launcher"},
    **{"timeout_s": "--timeout", "min_steps": "min_steps", "prune": "`prune`", "warmup": "`warmup`"},
}


def _beside(plan: Charter) -> str:
    words = ("autoresearch", "campaign", str(plan.campaign_file.blueprint), "--set", f"prefix={plan.spec.prefix}-2")
    return shlex.join(words)


def _plain(spec: CampaignSpec, name: str) -> str:
    """As it reads in campaign.json, where tuples are lists. Places are the same with other slots."""
    if name == "places":
        return json.dumps([[target.name, target.kind, target.options] for target in spec.places], sort_keys=True)
    return json.dumps(spec.to_json()[name], sort_keys=True, default=str)


def _taken(plan: Charter, differs: str) -> ConflictError:
    name = plan.spec.name
    return ConflictError(
        f"a campaign {name} ended here with another {differs}",
        hint=f"begin another one; or go on with that one as it was: autoresearch campaign set {name} count=N",
        fix=_beside(plan),
        code="prefix_taken",
    )


def _same_code(plan: Charter, campaign_dir: CampaignDir) -> None:
    """What goes on, goes on from its own base: code that was changed since would be left out without a word."""
    base = campaign_records.read_spec(campaign_dir).base_commit
    now = with_base(plan).base_commit
    differs = os.fsdecode(plan.checkout.git.run("diff-tree", "-r", "-z", "--name-only", base, now)).split("\0")
    terms = (
        plan.campaign_file.path,
        plan.campaign_file.blueprint,
        plan.spec.proposer.queue,
    )  # compared, or free to change
    root = os.path.realpath(plan.checkout.root)
    own = {os.path.relpath(os.path.realpath(name), root) for name in terms if name}
    if code := [name for name in differs if name and name not in own]:
        raise _taken(plan, f"state of the code ({', '.join(code[:3])}{' ...' if len(code) > 3 else ''})")


def create(plan: Charter, parts: Parts) -> CampaignDir:
    """Write the campaign down; from then on `campaign resume` can continue it after any crash."""
    check_local(plan.spec.tmux_socket, parts, plan.checkout)
    campaign_dir = CampaignDir(Path(plan.spec.directory))
    make_directory(campaign_dir.path)
    plan = replace(
        plan, spec=campaign_registry.register(plan.spec, parts)
    )  # first: it can be found as soon as it exists
    for path in (campaign_dir.path.parent, Path(plan.spec.result_dir)):
        if pattern := pattern_for(plan.checkout, path):
            exclude(plan.checkout, pattern)
    with locked(campaign_dir.path / "begin.lock"):
        if campaign_dir.spec.exists():
            _same_again(plan, campaign_dir)  # another command may have been quicker
            _same_code(plan, campaign_dir)
            continue_with(campaign_dir, asdict(plan.spec.rules))
        else:
            failpoint("begin.registered")
            campaign_records.write_spec(campaign_dir, with_base(plan))
    failpoint("begin.begun")
    return campaign_dir


def continue_with(campaign_dir: CampaignDir, rules: Mapping[str, Any]) -> None:
    """An ended campaign goes on under other rules."""
    campaign_dir.flag.unlink(missing_ok=True)
    campaign_records.add(campaign_dir.journal, "rules", **rules)
    campaign_records.add(campaign_dir.journal, "told", how="")
    campaign_records.add(campaign_dir.journal, "state", state=CampaignPhase.RUNNING.value, reason="continued")


def changed_rules(spec: CampaignSpec, rules: Rules) -> dict[str, Any]:
    """The rules that differ, for `campaign set`. UsageError where none does."""
    old, new = asdict(spec.rules), asdict(rules)
    changes = {name: value for name, value in new.items() if value is not None and value != old[name]}
    if not changes:
        raise UsageError("nothing would change", hint="such as count=40, deadline=10h or budget_usd=20")
    return changes
