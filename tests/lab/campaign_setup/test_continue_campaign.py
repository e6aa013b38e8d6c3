"""What `campaign set` changes of the stop rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.campaign.spec import CampaignSpec, Rules
from autoresearch.errors import UsageError


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
