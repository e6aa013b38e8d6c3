"""Which numbers in an agent's words are the ledger's, at the precision that they are said with."""

from __future__ import annotations

import pytest

from autoresearch.core.agents.quoted_numbers import IdeaNumbers, KnownNumbers, unproven

FACTS = KnownNumbers(
    ideas={
        "lr-3e-3": IdeaNumbers([0.70333, 0.59], [0.11333, 0.02, 0.72, 0.3, 0.1, 35.0]),
        "lr": IdeaNumbers([0.42, 0.5], [-0.08, 0.05]),
    },
    common=IdeaNumbers([0.5], [0.0213, 0.8]),
    names={"pass@1.5", "optim.lr"},
)


@pytest.mark.parametrize(
    "sentence",
    [
        "lr-3e-3 reached 0.703, up from 0.59",
        "lr-3e-3 reached 0.70, a gain of +0.11 over its parent",
        "lr-3e-3 gained 0.2033 over the baseline's 0.5",
        "lr-3e-3 is 40.7% better than the baseline and 19.2 % better than its parent",
        "lr-3e-3 set 0.3 instead of 0.1; one run scatters by 0.02",
        "lr-3e-3 ended at 70.3 %",
        "lr lost −0.08",
        "lr fell to 4.2e-1",
        "lr-3e-3 won in 3 of 4 runs, after 35 minutes",
        "pass@1.5 starts at 0.5",
        "pass@1.5 rose to 0.70 at best, target 0.8",
        "nothing known: 0.987 everywhere",
        "lrx is at 0.99 and my-lr too",
        "",
    ],
)
def test_these_are_in_the_ledger(sentence: str) -> None:
    assert unproven(sentence, FACTS) == []


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        ("lr-3e-3 reached 0.91", ["0.91"]),
        ("lr-3e-3 reached 0.704", ["0.704"]),
        ("lr-3e-3 gained 55% over the baseline", ["55%"]),
        ("lr reached 0.72", ["0.72"]),  # another idea's
        ("lr-3e-3 and lr differ by 0.5123 of 0.70333", ["0.5123"]),
        ("pass@1.5 of 0.9999 at best", ["0.9999"]),
        ("lr: (0.61), [0.62] and 0.63.", ["0.61", "0.62", "0.63"]),
        ("lr is at 1.5e-3", ["1.5e-3"]),
    ],
)
def test_these_are_not(sentence: str, numbers: list[str]) -> None:
    assert unproven(sentence, FACTS) == numbers
