"""What `campaign set` changes of the stop rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.campaign.spec import CampaignSpec, Rules
from autoresearch.errors import UsageError
from autoresearch.lab.campaign_setup.continue_campaign import changed_rules


@pytest.mark.parametrize(
    ("rules", "changes"),
    [
        (Rules(count=20), {"count": 20}),
        (Rules(count=10, deadline=7.0), {"deadline": 7.0}),
        (Rules(target=0.5, budget_usd=3.0), {"target": 0.5, "budget_usd": 3.0}),
    ],
)
def test_only_what_differs_is_changed(rules: Rules, changes: dict[str, Any], spec: CampaignSpec) -> None:
    assert changed_rules(replace(spec, rules=Rules(count=10)), rules) == changes


@pytest.mark.parametrize("rules", [Rules(), Rules(count=10)])
def test_nothing_to_change_is_refused(rules: Rules, spec: CampaignSpec) -> None:
    with pytest.raises(UsageError, match="nothing would change"):
        changed_rules(replace(spec, rules=Rules(count=10)), rules)
