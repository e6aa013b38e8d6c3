"""Optuna's own plots of the ideas that were tried: parallel coordinates, and which setting mattered."""

from __future__ import annotations

import functools
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from autoresearch.core.campaign.overrides import canonical
from autoresearch.core.metrics.objective import Objective

FEWEST = 5  # measured ideas
MOST_TRIALS = 250  # each is a line
STEP = 25  # beyond FEW ideas, the newest count when so many have come: until then the plots stay as they are
FEW = 100
MOST_KEYS = 10
WIDE = 20.0  # positive numbers that are so many times apart belong on a logarithmic axis

Tried = tuple[Mapping[str, object], float]  # settings, and what the objective came to
Figures = tuple[dict[str, Any], dict[str, Any]]


def figures(objective: Objective, kept: Sequence[Tried], others: Sequence[Tried]) -> Figures:
    """Parallel coordinates and importances as plotly figures ({data, layout}), or {missing: a sentence}.

    `others` (newest first) are the ideas that were not kept. `about` of a figure says which ideas it leaves out.
    """
    late = len(others) % STEP if len(others) > FEW else 0
    ideas = [*kept, *others[late:]]
    keys = _varied([settings for settings, _ in ideas])
    ideas = [one for one in ideas if one[0].keys() >= set(keys)][:MOST_TRIALS]
    if not keys or len(ideas) < FEWEST:
        some = len(ideas) if keys else 0
        why = f"This plot needs at least {FEWEST} measured ideas that differ in settings; {some} do."
        return {"missing": why}, {"missing": why}
    measured = len(kept) + len(others)
    which = f"kept, else the newest; new ones come {STEP} at a time" if len(others) > FEW else "those that set these"
    about = f"Of {len(ideas)} of the {measured} measured ideas: {which}." if len(ideas) < measured else ""
    points = tuple((*(_point(params[key]) for key in keys), value) for params, value in ideas)
    parallel, importance = _drawn(objective, tuple(keys), points)
    return {**parallel, "about": about}, {**importance, "about": about}


def _point(value: object) -> float | str:
    """A finite number, or a word."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return _word(value)


def _varied(settings: Sequence[Mapping[str, object]]) -> list[str]:
    """The keys with more than one value that most ideas have; those that vary most come first."""
    spread: dict[str, set[str]] = {}
    for params in settings:
        for key, value in params.items():
            spread.setdefault(key, set()).add(canonical(value))
    common = [key for key in spread if len(spread[key]) > 1 and sum(key in p for p in settings) >= len(settings) / 2]
    return sorted(common, key=lambda key: -len(spread[key]))[:MOST_KEYS]


@functools.lru_cache(maxsize=4)  # the page of a campaign that runs is made often, and seldom for other points
def _drawn(objective: Objective, keys: tuple[str, ...], points: tuple[tuple[float | str, ...], ...]) -> Figures:
    """`points`: the values of the keys, and that of the objective."""
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction=objective.direction.value)
    columns = {key: [point[n] for point in points] for n, key in enumerate(keys)}
    scales = {key: _scale(values) for key, values in columns.items()}
    for n, point in enumerate(points):
        own = {key: columns[key][n] if hasattr(scales[key], "low") else _word(columns[key][n]) for key in keys}
        study.add_trial(optuna.trial.create_trial(params=own, distributions=scales, value=float(point[-1])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "experimental"
        parallel = optuna.visualization.plot_parallel_coordinate(study, target_name=objective.metric)
        try:
            importance = _figure(optuna.visualization.plot_param_importances(
                study, evaluator=PedAnovaImportanceEvaluator(), target_name=objective.metric
            ))  # fmt: skip
        except (ValueError, RuntimeError) as error:
            importance = {"missing": f"Optuna cannot tell the importances apart: {error}"}
    return _figure(parallel), importance


def _scale(values: Sequence[float | str]) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    numbers = [value for value in values if isinstance(value, float)]
    if len(numbers) == len(values):
        low, high = min(numbers), max(numbers)
        return FloatDistribution(low, high, log=low > 0 and high / low >= WIDE)
    return CategoricalDistribution(sorted({_word(value) for value in values}))


def _word(value: object) -> str:
    return canonical(value).strip('"')


def _figure(figure: Any) -> dict[str, Any]:
    """Data and layout without the template, which is long and has colours of its own."""
    whole: dict[str, Any] = json.loads(figure.to_json())
    whole["layout"].pop("template", None)
    return {"data": whole["data"], "layout": whole["layout"]}
