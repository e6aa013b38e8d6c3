"""Steps for readings whose file names none, and one reading per step where a file repeats itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autoresearch.core.metrics.metric_keys import NO_STEP
from autoresearch.core.metrics.signal import Reading, SignalKind


def numbered(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Training readings without a step count from 1; a validation belongs to the training before it."""
    last = 0
    for reading in readings:
        if reading.step == NO_STEP:
            step = last + 1 if reading.kind is SignalKind.STEP else last
            reading = Reading(reading.kind, step, reading.metrics)
        if reading.kind is SignalKind.STEP:
            last = reading.step
        yield reading


def merged(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """One reading per kind and step, where it came first; what came later wins.

    Logs repeat steps: Ray prints the tail of a failed job again, AgentJet its first validation twice, a
    resumed run the steps after its checkpoint.
    """
    found: dict[tuple[bool, int], Reading] = {}
    for reading in readings:
        place = reading.kind is SignalKind.STEP, reading.step
        known = found.get(place)
        metrics = {**known.metrics, **reading.metrics} if known else None
        found[place] = Reading(reading.kind, reading.step, metrics) if metrics else reading
    return tuple(found.values())
