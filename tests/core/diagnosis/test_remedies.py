"""What to try: for every class, and in a trainer's own words where it has some."""

from __future__ import annotations

import pytest

from autoresearch.core.diagnosis.failure_kinds import FailureKind, table
from autoresearch.core.diagnosis.remedies import suggestions


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_class_has_something_to_try(kind: FailureKind) -> None:
    assert suggestions(kind)[0] == table().remedy(kind)
    assert set(suggestions(kind)) <= set(suggestions(kind, "verl"))


def test_a_trainers_own_knobs() -> None:
    assert any("ppo_micro_batch_size_per_gpu" in text for text in suggestions(FailureKind.CUDA_OOM, "verl"))
    assert any("ppo_micro_batch_size_per_gpu" in text for text in suggestions(FailureKind.CUDA_OOM, "agentjet_swarm"))
    assert any("mem-fraction-static" in text for text in suggestions(FailureKind.KV_CACHE, "slime"))
    assert not any("ppo_micro" in text for text in suggestions(FailureKind.CUDA_OOM, "slime"))


def test_proxychains_only_for_the_network_and_only_where_it_is_installed() -> None:
    assert any("proxychains" in text for text in suggestions(FailureKind.NETWORK, proxychains=True))
    assert not any("proxychains" in text for text in suggestions(FailureKind.NETWORK))
    assert not any("proxychains" in text for text in suggestions(FailureKind.AUTH, proxychains=True))
