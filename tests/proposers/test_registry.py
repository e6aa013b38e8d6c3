"""Proposers by name, and what each says when something that it needs is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.campaign.proposer import ProposerInputs
from autoresearch.core.campaign.space import read_space
from autoresearch.core.metrics.objective import Objective
from autoresearch.errors import AutoresearchError
from autoresearch.proposers.registry import NAMES, proposer


@pytest.fixture
def given(read_yaml: Callable[[bytes, str], object]) -> Callable[..., ProposerInputs]:
    def make(**more: Any) -> ProposerInputs:
        return ProposerInputs(**{"objective": Objective("x"), "read_yaml": read_yaml, **more})

    return make


@pytest.mark.parametrize("name", NAMES)
def test_every_proposer_proposes(name: str, given: Any, tmp_path: Path) -> None:
    (tmp_path / "queue.yaml").write_text("- overrides: {lr: 2}\n")
    space = read_space({"lr": [1, 2, 3]})
    found = proposer(name, given(space=space, queue=str(tmp_path / "queue.yaml"), baseline={"lr": 1}))
    assert found.name == name
    idea = found.ask([])
    assert idea is not None
    assert idea.proposer == name
    assert idea.overrides["lr"] in (2, 3)


@pytest.mark.parametrize(
    ("name", "more", "code", "says"),
    [
        ("gird", {}, "unknown_proposer", "no proposer 'gird'"),
        ("queue", {"queue": "gone"}, "no_queue", "gone: there is no such queue"),
    ],
)
def test_what_is_missing_is_said(name: str, more: dict[str, Any], code: str, says: str, given: Any) -> None:
    with pytest.raises(AutoresearchError) as caught:
        proposer(name, given(**more))
    assert caught.value.code == code
    assert says in caught.value.message
    assert caught.value.hint
