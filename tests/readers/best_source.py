"""Several sources read and judged as a run's are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.trainer import Source, Trainer
from autoresearch.readers.read import Best, best_of, read_source


def read_best(
    sources: Sequence[Source],
    offsets: Mapping[str, int],
    *,
    trainer: Trainer,
    objective: Objective | None,
    base: Path = Path(),
) -> Best:
    """offsets: bytes at the start of a source, by path, that are not this run's."""
    ranked = sorted(sources, key=lambda source: source.authority)
    return best_of([read_source(one, base, offsets.get(one.path, 0), trainer) for one in ranked], objective)
