"""The code that a campaign starts from."""

from __future__ import annotations

import pytest

from autoresearch.git_repo.checkout import NoCheckout
from autoresearch.lab.campaign_setup.campaign_spec import no_repository

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
