"""Number the readings whose file names no step, and merge repeated readings of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from autoresearch.core.metrics.metric_keys import NO_STEP
from autoresearch.core.metrics.signal import Reading, SignalKind


def numbered(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Number training readings without a step from 1; a validation gets the step of the training reading before it."""
    last, counted = 0, True
    for reading in readings:
        if reading.step == NO_STEP and reading.kind is SignalKind.STEP:
            reading = Reading(reading.kind, last + 1, reading.metrics, ordinal=True)
        elif reading.step == NO_STEP:
            reading = Reading(reading.kind, last, reading.metrics, ordinal=counted)
        if reading.kind is SignalKind.STEP:
            last, counted = reading.step, reading.ordinal
        yield reading


def merged(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """One reading per kind and step, in order of first appearance; later values win.

    Logs repeat steps: Ray prints the tail of a failed job again, AgentJet prints its first validation twice, and a
    resumed run repeats the steps after its checkpoint.
    """
    found: dict[tuple[bool, int], Reading] = {}
    for reading in readings:
        place = reading.kind is SignalKind.STEP, reading.step
        known = found.get(place)
        metrics = {**known.metrics, **reading.metrics} if known else None
        found[place] = replace(reading, metrics=metrics) if metrics else reading
    return tuple(found.values())
