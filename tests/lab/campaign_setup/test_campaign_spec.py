"""What a campaign starts from, which GPUs its runs get, and which of its rules `campaign set` changes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autoresearch.core.campaign.spec import CampaignSpec, Rules
from autoresearch.core.run.targets import LOCAL, Target, parse_pool
from autoresearch.errors import UsageError
from autoresearch.git_repo.checkout import NoCheckout
from autoresearch.lab.campaign_setup.campaign_spec import no_repository
from autoresearch.lab.campaign_setup.run_targets import CampaignTargets, campaign_gpus

TRUST = "git config --global --add safe.directory /x"


@pytest.mark.parametrize(
    ("missing", "hint"),
    [
        (NoCheckout("/x is ignored", "`git init` there"), "`git init` there, or run single blueprints with"),
        (NoCheckout("it is another user's", "trust it", TRUST), "trust it, or run single blueprints with"),
        (NoCheckout("git is not installed"), "run single blueprints with"),
    ],
)
def test_each_lack_of_a_repository_has_its_own_remedy(missing: NoCheckout, hint: str) -> None:
    error = no_repository(missing)
    assert error.message == f"a campaign keeps every idea on a branch, and {missing.reason}"
    assert error.hint.startswith(hint) and error.fix == missing.fix


PARTS: Any = SimpleNamespace(environ={})


def remote(**options: Any) -> Target:
    (target,) = parse_pool("slurm:2", {"slurm": {"kind": "slurm", **options}} if options else {})
    return target


@pytest.mark.parametrize(
    ("keys", "options", "needed", "per_run"),
    [
        ({}, {}, 0, 0),
        ({}, {}, 4, 4),  # what the recipe asks for
        ({}, {"gpus_per_run": 8}, 4, 8),
        ({"gpus_per_run": 2}, {"gpus_per_run": 8}, 4, 2),
    ],
)
def test_remote_runs_get_what_is_given_or_needed(
    keys: dict[str, int], options: dict[str, int], needed: int, per_run: int, campaign_file: Any
) -> None:
    target = Target("slurm", remote().kind, options=options)
    gpus = campaign_gpus(campaign_file(**keys), CampaignTargets((target,), "flag --launcher"), needed, PARTS)
    assert (gpus.uuids, gpus.per_run, gpus.is_set) == ((), per_run, bool(keys))


def test_local_runs_without_a_pool_get_none(campaign_file: Any) -> None:
    targets = CampaignTargets((LOCAL,), "built-in")
    assert campaign_gpus(campaign_file(), targets, 4, PARTS).per_run == 0
    with pytest.raises(UsageError, match="one run needs 2 GPUs, and the pool holds 0"):
        campaign_gpus(campaign_file(gpus_per_run=2), targets, 0, PARTS)


@pytest.mark.parametrize(
    ("rules", "changes"),
    [
        ({"count": 20}, {"count": 20}),
        ({"count": 10, "deadline": 7.0}, {"deadline": 7.0}),
        ({"target": 0.5, "budget_usd": 3.0}, {"target": 0.5, "budget_usd": 3.0}),
        ({"confirm_runs": 24, "count": 10}, {"confirm_runs": 24}),
    ],
)
def test_only_what_differs_is_changed(rules: dict[str, Any], changes: dict[str, Any], spec: CampaignSpec) -> None:
    assert replace(spec, rules=Rules(count=10)).changed_rules(rules) == changes


@pytest.mark.parametrize("rules", [{}, {"count": 10}, {"confirm_runs": 16}])
def test_nothing_to_change_is_refused(rules: dict[str, Any], spec: CampaignSpec) -> None:
    with pytest.raises(UsageError, match="nothing would change"):
        replace(spec, rules=Rules(count=10)).changed_rules(rules)


def test_a_proof_of_too_few_runs_is_refused(spec: CampaignSpec) -> None:
    with pytest.raises(UsageError, match="confirm_runs: 7 are too few: a proof takes four fresh runs of the idea"):
        spec.changed_rules({"confirm_runs": 7})
    assert spec.changed_rules({"confirm_runs": 8}) == {"confirm_runs": 8}
    assert replace(spec, confirm=False).changed_rules({"confirm_runs": 7}) == {"confirm_runs": 7}
