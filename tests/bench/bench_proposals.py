"""How many ideas that were had before are refused, and how many that nearly were are let through; nothing is timed.

The pairs are `tests/samples/proposals/pairs.tsv`: two titles with reasons about the same file, which mean the same or
do not. The threshold was found on the part `tune`; the part `held` was written after that and changed nothing. They
were all made up for this, and most near misses share their reason word for word: they are harder than those of an
agent that looks for something else. Ideas that only set recipe keys are compared by their values, which is exact.
"""

from __future__ import annotations

import csv
from pathlib import Path

from autoresearch.core.campaign.duplicates import earlier, twin
from autoresearch.core.campaign.hypothesis import Hypothesis
from tests.bench.result import Result

PAIRS = Path(__file__).parents[1] / "samples" / "proposals" / "pairs.tsv"
RECIPE = {"optim": {"lr": 1e-6, "betas": [0.9, 0.95]}, "group": 8, "sched": "cosine", "clip": {"low": 0.2, "high": 0.2}}
CONFIGS: list[tuple[dict[str, object], dict[str, object], bool]] = [  # attempted, proposed, whether they are one
    ({"optim.lr": 3e-6}, {"optim.lr": "3e-6"}, True),
    ({"optim.lr": 3e-6}, {"optim": {"lr": 0.000003}}, True),
    ({"optim.lr": 3e-6}, {"optim.lr": 3.0e-6, "group": 8}, True),
    ({"group": 16}, {"group": 16.0, "sched": "cosine"}, True),
    ({"clip.low": 0.1, "clip.high": 0.3}, {"clip.high": 0.3, "clip.low": 0.1}, True),
    ({"optim.betas": [0.9, 0.99]}, {"optim.betas": (0.9, 0.99)}, True),
    ({"optim.lr": 3e-6}, {"optim.lr": 3.1e-6}, False),
    ({"group": 16}, {"group": 17}, False),
    ({"clip.low": 0.1, "clip.high": 0.3}, {"clip.low": 0.3, "clip.high": 0.1}, False),
    ({"optim.lr": 3e-6}, {"optim.lr": 3e-6, "group": 16}, False),
    ({"sched": "linear"}, {"sched": "Linear"}, False),
    ({"optim.betas": [0.9, 0.99]}, {"optim.betas": [0.99, 0.9]}, False),
]


def run(repeats: int = 5) -> list[Result]:
    """Shares as percentages."""
    values = [(_config(a, b), same) for a, b, same in CONFIGS]
    return [
        _share("the same values, written otherwise: refused", [refused for refused, same in values if same], 100),
        _share("other values: let through", [not refused for refused, same in values if not same], 100),
        *(
            result
            for part, name in (("tune", "pairs for tuning"), ("held", "held-out pairs"))
            for result in (
                _share(f"code ideas in other words ({name}): refused", _words(part, "same"), 50),
                _share(f"near misses in alike words ({name}): let through", [not r for r in _words(part, "other")], 90),
            )
        ),
    ]


def _config(attempted: dict[str, object], proposed: dict[str, object]) -> bool:
    old = earlier(Hypothesis("old", "old", overrides=attempted), "baseline", "discard")
    return bool(twin(Hypothesis("new", "new", overrides=proposed), "baseline", [old], RECIPE))


def _words(part: str, same: str) -> list[bool]:
    with PAIRS.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if (row["part"], row["same"]) == (part, same)]
    return [
        bool(
            twin(
                _code(row["b"], row["paths_b"]), "baseline", [earlier(_code(row["a"], row["paths_a"]), "baseline", "x")]
            )
        )
        for row in rows
    ]


def _code(sentence: str, path: str) -> Hypothesis:
    return Hypothesis("x", sentence, kind="code", paths=(path,))


def _share(what: str, right: list[bool], goal: float) -> Result:
    note = f"{sum(right)} of {len(right)}"
    return Result(what, "", [100 * sum(right) / len(right)], [], goal, "%", at_least=True, note=note)
