"""A first search space for a launch whose settings are known: the numbers that look like hyperparameters, the usual
suspects of reinforcement learning first, each with a range around its value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite

from autoresearch.core.agents.protection import why_protected
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.text.regex import later

MOST = 4  # keys; a campaign of one night tells little about more
_RATE = later(r"(?i)(?:^|[_.\W])(?:\w*[_-])?(?:lr|learning[_-]?rate|step[_-]?size)$|^(?:\w+[_-])?lr(?:[_-]\w+)?$")
_RANKS = (
    _RATE,
    later(r"(?i)(?:^|[_-])(?:kl|beta|ent|entropy)(?:$|[_-](?:\w*[_-])?(?:coef\w*|loss|weight|penalty|beta|ctrl|reg)$)"),
    later(r"(?i)clip"),
    later(r"(?i)temp(?:erature)?$"),
    later(r"(?i)(?:^|[_-])(?:weight[_-]?decay|wd|l2|vf|value)(?:$|[_-]coef\w*$|[_-]loss[_-]coef\w*$)|coef\w*$|alpha$"),
    later(r"(?i)gamma$|lam(?:bda)?$|momentum$|tau$|dropout$|noise$"),
    later(r"(?i)(?:group|batch|minibatch|mini[_-]batch)[_-]?size$|num[_-]generations$|rollout[_.-]?n$|^n[_-]rollouts$"),
)
_NOT = later(r"(?i)schedul|decay_(?:steps|iters)|steps?$|iters?$|interval|freq|every|port$|rank$|world|device|gpu"
             r"|worker|threads?$|version|verbos|max_len|eval|log|save"
             r"|target_kl|min_lr|lr_min|eps(?:ilon)?$|warm")  # fmt: skip


def usual_space(settings: Mapping[str, object]) -> dict[str, dict[str, object] | list[int]]:
    """The keys worth searching and what they may be, as a campaign file has it; {} if no number looks like one."""
    ranked = sorted(
        (rank, n, key, number)
        for n, (key, value) in enumerate(flatten(settings).items())
        if (number := _number(value)) is not None and (rank := _rank(key)) is not None and not why_protected(key)
    )
    space: dict[str, dict[str, object] | list[int]] = {}
    for _, _, key, number in ranked:
        if len(space) < MOST:
            space[key] = around(key, number)
    return space


def on_one_line(value: object) -> str:
    """A value on one line of YAML, with numbers that YAML 1.1 takes for numbers: 1.0e-05."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {on_one_line(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(on_one_line, value))}]"
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        return mantissa + (".0" if exponent and "." not in mantissa else "") + exponent + power
    return json.dumps(value)


def _rank(key: str) -> int | None:
    """How promising a key is, 0 the most; None for one that is no hyperparameter."""
    last = key.lstrip("$-").rpartition(".")[2]
    if _NOT.search(last):
        return None
    return next((rank for rank, words in enumerate(_RANKS) if words.search(last)), None)


def _number(value: object) -> float | int | None:
    """The number above 0 that a value is; YAML reads `1e-6` as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9 else None


def around(key: str, value: float | int) -> dict[str, object] | list[int]:
    """What to try around a number: a factor of three to both sides, within what a probability may be."""
    assert isfinite(value)
    name = key.lower()
    if isinstance(value, int) and not _RATE.search(name):
        return list(dict.fromkeys((max(1, value // 2), value, value * 2)))
    if 0.8 <= value < 1:  # a discount, a momentum: what is missing to 1 counts
        return {"low": _rounded(1 - 3 * (1 - value)), "high": _rounded(1 - (1 - value) / 3)}
    if name.endswith(("temp", "temperature", "alpha")):
        return {"low": _rounded(value * 0.6), "high": _rounded(value * 1.4)}
    if name.endswith("dropout") or "clip" in name:
        return {"low": _rounded(value / 2), "high": _rounded(min(value * 2, 0.9) if value < 0.9 else value * 2)}
    return {"low": _rounded(value / 3), "high": _rounded(value * 3), "log": True}


def _rounded(value: float) -> float:
    return float(f"{value:.2g}") if value < 0.9 or value > 1 else float(f"{value:.3g}")
