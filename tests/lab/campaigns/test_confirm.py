"""`confirm`: what it refuses before anything is asked of a campaign."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.commands.campaign_control import confirm
from autoresearch.errors import ConflictError

pytestmark = pytest.mark.system

WORDS = {
    "baseline": "the baseline is what ideas are measured against: it cannot be confirmed",
    "best": "#9 lr=0.3 (on #2) is confirmed already",
    "": "#9 lr=0.3 (on #2) is confirmed already",  # the default is the best one
    "oom": "#4 Twice the batch (on #2) has no result that could be confirmed (crash)",
}


@pytest.mark.parametrize("slug", WORDS)
def test_what_cannot_be_confirmed(lived: Any, slug: str) -> None:
    with pytest.raises(ConflictError) as caught:
        confirm([slug] if slug else [], campaign=str(lived.place.path))
    assert (caught.value.message, int(caught.value.exit_code)) == (WORDS[slug], 5)
    assert not lived.state().requested
