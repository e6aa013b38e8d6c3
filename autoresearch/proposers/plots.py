"""Two plots of the ideas that were tried, as numbers: parallel coordinates, and which setting mattered (by Optuna)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from autoresearch.core.campaign.overrides import canonical
from autoresearch.core.metrics.objective import Objective

FEWEST = 5  # measured ideas
FEWEST_RANKED = 20  # below which chance decides which setting seems to matter
MOST_TRIALS = 250  # each is a line
MOST_KEYS = 10
MOST_TICKS = 12  # of words on one axis
WIDE = 20.0  # positive numbers that are so many times apart belong on a logarithmic axis

Tried = tuple[Mapping[str, object], float]  # settings, and what the objective came to
Column = tuple[float | str, ...]
Figure = dict[str, Any] | None
Figures = tuple[Figure, Figure]


def figures(objective: Objective, kept: Sequence[Tried], others: Sequence[Tried]) -> Figures:
    """Parallel coordinates, {axes}, and importances, {keys, values}; None where too few ideas tell.

    The first axis is the objective's. `others` (newest first) are the ideas that were not kept. `about` says which
    ideas a figure leaves out.
    """
    ideas = [*kept, *others]
    keys = _varied([settings for settings, _ in ideas])
    ideas = [one for one in ideas if one[0].keys() >= set(keys)][:MOST_TRIALS]
    if not keys or len(ideas) < FEWEST:
        return None, None
    measured = len(kept) + len(others)
    which = "kept, else the newest" if measured > MOST_TRIALS else "those that set these"
    about = f"Of {len(ideas)} of the {measured} measured ideas: {which}." if len(ideas) < measured else ""
    columns = tuple(_column([params[key] for params, _ in ideas]) for key in keys)
    parallel, importance = _drawn(objective, tuple(keys), columns, tuple(float(value) for _, value in ideas))
    return parallel and parallel | {"about": about}, importance and importance | {"about": about}


def _column(values: Sequence[object]) -> Column:
    """The values of one setting: finite numbers if all of them are, else words."""
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)]
    return tuple(numbers) if len(numbers) == len(values) else tuple(canonical(value).strip('"') for value in values)


def _varied(settings: Sequence[Mapping[str, object]]) -> list[str]:
    """The keys with more than one value that most ideas have; those that vary most come first."""
    spread: dict[str, set[str]] = {}
    for params in settings:
        for key, value in params.items():
            spread.setdefault(key, set()).add(canonical(value))
    common = [key for key in spread if len(spread[key]) > 1 and sum(key in p for p in settings) >= len(settings) / 2]
    return sorted(common, key=lambda key: -len(spread[key]))[:MOST_KEYS]


def _drawn(objective: Objective, keys: tuple[str, ...], columns: tuple[Column, ...], results: Column) -> Figures:
    """`columns`: for each key its value in each idea."""
    import optuna  # not its `visualization`, whose import takes longer than all that is drawn

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize" if objective.better(1.0, 0.0) else "minimize")
    scales = [_scale(values) for values in columns]
    axes = [_axis(objective.metric, results, _scale(results)), *map(_axis, keys, columns, scales)]
    for result, *values in zip(results, *columns, strict=True):
        params, distributions = (dict(zip(keys, each, strict=True)) for each in (values, scales))
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=float(result)))
    if len(results) < FEWEST_RANKED:
        return {"axes": axes}, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "experimental"
        try:
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        except (ValueError, RuntimeError):  # it cannot tell them apart
            return {"axes": axes}, None
    return {"axes": axes}, {"keys": list(found), "values": list(found.values())}


def _axis(name: str, values: Column, scale: Any) -> dict[str, Any]:
    """The values, where each lies on the axis, from 0 to 1, and what is written beside it: [where, text]."""
    if hasattr(scale, "low"):
        length = math.log if scale.log else float
        low, span = length(scale.low), length(scale.high) - length(scale.low)
        places = [(length(float(value)) - low) / (span or 1.0) for value in values]
        ticks = [[0.0, f"{scale.low:.4g}"], [1.0, f"{scale.high:.4g}"]]
    else:
        where = {word: n / max(1, len(scale.choices) - 1) for n, word in enumerate(scale.choices)}
        places = [where[value] for value in values]
        ticks = [[place, word] for word, place in where.items()][:: math.ceil(len(where) / MOST_TICKS)]
    return {"name": name, "values": values, "places": places, "ticks": ticks}


def _scale(values: Column) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    numbers = [value for value in values if isinstance(value, float)]
    if len(numbers) == len(values):
        low, high = min(numbers), max(numbers)
        return FloatDistribution(low, high, log=low > 0 and high / low >= WIDE)
    return CategoricalDistribution(sorted({str(value) for value in values}))
