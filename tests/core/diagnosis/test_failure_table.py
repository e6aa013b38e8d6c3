"""The table of kinds: complete, matched by its own examples, and found by its needles."""

from __future__ import annotations

import re

import pytest

from autoresearch.core.diagnosis.failure_kinds import FailureKind, FailurePattern, FailurePolicy, needle, table

OF_RECORDS = {FailureKind.KILLED_BY_AUTOKILL, FailureKind.EVALUATION_FAILED}
OF_RECORDS |= {FailureKind.METRIC_UNREAD, FailureKind.NO_STEP, FailureKind.ENDED_EARLY, FailureKind.LEFT_TRAINING}


@pytest.mark.parametrize(("kind", "line"), table().examples)
def test_an_example_matches_its_own_kind(kind: FailureKind, line: str) -> None:
    pattern = table().match(line)
    assert pattern is not None
    assert pattern.kind is kind
    assert any(common in line for common in table().needles)


def test_every_kind_has_a_policy_and_a_remedy_and_a_pattern() -> None:
    assert set(table().kinds) == set(FailureKind)
    assert {kind for kind, _ in table().examples} == set(FailureKind) - OF_RECORDS
    for kind in FailureKind:
        assert table().policy(kind) in FailurePolicy
        assert len(table().remedy(kind)) > 10
        assert set(table().kinds[kind]) <= {"policy", "remedy", "more", "trainers"}


@pytest.mark.parametrize("pattern", table().patterns, ids=lambda pattern: pattern.regex.pattern)
def test_a_needle_is_long_enough_to_be_rare(pattern: FailurePattern) -> None:
    re.compile(pattern.regex.pattern)
    assert len(pattern.needle) >= 4
    assert pattern.origin in ("", "outside", "report")


@pytest.mark.parametrize(
    ("regex", "text"),
    [
        (r"^@KeyErrors?\b", "KeyError"),
        (r"CUDA (?:driver )?error: out of memory", "error: out of memory"),
        (r"Out of .{1,40}memory\. x", "memory. x"),
        (r"[Aa]ddress already", "ddress already"),
        (r"ab+cd", "ab"),
    ],
)
def test_needle(regex: str, text: str) -> None:
    assert needle(regex) == text


def test_a_choice_on_the_outermost_level_has_no_needle() -> None:
    with pytest.raises(ValueError, match="outermost"):
        needle("one|two")


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_class_has_something_to_try(kind: FailureKind) -> None:
    assert table().suggestions(kind)[0] == table().remedy(kind)
    assert set(table().suggestions(kind)) <= set(table().suggestions(kind, "verl"))


def test_a_trainers_own_knobs() -> None:
    for trainer in ("verl", "agentjet_swarm"):
        assert any("ppo_micro_batch_size" in text for text in table().suggestions(FailureKind.CUDA_OOM, trainer))
    assert any("mem-fraction-static" in text for text in table().suggestions(FailureKind.KV_CACHE, "slime"))
    assert not any("ppo_micro" in text for text in table().suggestions(FailureKind.CUDA_OOM, "slime"))


def test_proxychains_only_for_the_network_and_only_where_it_is_installed() -> None:
    assert any("proxychains" in text for text in table().suggestions(FailureKind.NETWORK, proxychains=True))
    assert not any("proxychains" in text for text in table().suggestions(FailureKind.NETWORK))
    assert not any("proxychains" in text for text in table().suggestions(FailureKind.AUTH, proxychains=True))


@pytest.mark.parametrize(
    "line",
    [
        '(SGLangEngine pid=3302) INFO:     10.0.0.5:57752 - "GET /health HTTP/1.1" 200 OK',
        "(WorkerDict pid=3) step:1 - actor/pg_loss:0.1 - actor/kl_loss:0.001",
    ],
)
def test_lines_that_are_printed_by_the_million_hold_no_needle(line: str) -> None:
    assert not [common for common in table().needles if common in line]
