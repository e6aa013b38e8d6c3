"""How many settings that were had before, written otherwise, are refused; nothing is timed."""

from __future__ import annotations

from autoresearch.core.campaign.duplicates import Earlier, twin
from autoresearch.core.campaign.hypothesis import Hypothesis
from tests.bench.result import Result

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
    ]


def _config(attempted: dict[str, object], proposed: dict[str, object]) -> bool:
    old = Earlier(Hypothesis("old", "old", overrides=attempted), "baseline", "discard")
    return bool(twin(Hypothesis("new", "new", overrides=proposed), "baseline", [old], RECIPE))


def _share(what: str, right: list[bool], goal: float) -> Result:
    note = f"{sum(right)} of {len(right)}"
    return Result(what, "", [100 * sum(right) / len(right)], [], goal, "%", at_least=True, note=note)
