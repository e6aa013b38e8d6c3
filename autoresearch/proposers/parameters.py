"""Points of the space as an optimiser's parameters, and back. Ordered choices are their rank among the values."""

from __future__ import annotations

from autoresearch.core.campaign.overrides import canonical
from autoresearch.core.campaign.space import Choices, Dimension


def ascending(dimension: Choices) -> list[object]:
    """Ordered choices from the smallest to the largest."""
    return sorted(dimension.values, key=lambda value: float(str(value)))


def as_value(dimension: Dimension, param: object) -> object:
    """A parameter of a trial as the recipe's value."""
    if not isinstance(dimension, Choices):
        return dimension.tidy(float(str(param)))
    if dimension.ordered:
        return ascending(dimension)[int(str(param))]
    return next(value for value in dimension.values if canonical(value) == param)


def as_parameter(dimension: Dimension, value: object) -> object:
    """A value of the recipe as a parameter of a trial."""
    if not isinstance(dimension, Choices):
        return dimension.tidy(float(str(value))) if dimension.whole or dimension.step else float(str(value))
    if dimension.ordered:
        return [canonical(v) for v in ascending(dimension)].index(canonical(value))
    return canonical(value)
