"""Dict lines: AgentJet's "markdown" files, which hold one Python dict per line as printed by `str`.

{'global_steps': 20, 'task_pass_rate@1': 0.63, 'std_reward': np.float64(0.482), 'target_dataset_name': 'main'}

Written in append mode by ajet's trainer (`val_print_to_markdown_file_path`, `train_print_to_...`). Lines written before
2026-03-30 name no step: their validations are counted, and the source maps the count to a step. The pass rates were
formerly called TGC@k. numpy 2 prints `np.float64(...)`, numpy 1 plain numbers; NaN and infinities are printed as bare
words. The lines are parsed without evaluating any code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.python_values import numbers, python_dict
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.readers.chunks import lines


def read_dict_lines(
    path: Path, offset: int = 0, validated_at: Callable[[int], int] = lambda n: n
) -> Iterator[Reading]:
    """The readings of a file from a byte offset on; a missing file has none.

    Lines that are not a complete dict are skipped (a torn last line, headings). Without a named step, training counts
    from 1, and the n-th validation, counted from 0, has the step `validated_at(n)`.
    """
    seen = {SignalKind.STEP: 1, SignalKind.VALIDATION: 0}
    for line, _ in lines(path, offset):
        for reading in _readings(line):
            ordinal = seen[reading.kind]
            seen[reading.kind] += 1
            if reading.step < 0:
                step = validated_at(ordinal) if reading.kind is SignalKind.VALIDATION else ordinal
                reading = Reading(reading.kind, step, reading.metrics, ordinal=True)
            yield reading


def _readings(line: bytes) -> tuple[Reading, ...]:
    found = python_dict(line.decode("utf-8", "replace").strip("\0 \t\r"))
    if found is None:
        return ()
    metrics = metric_keys.renamed(numbers(found))
    step = metric_keys.step_of(metrics)
    return metric_keys.readings(metric_keys.NO_STEP if step is None else step, metrics)
