"""One object with metrics per line: JSON, as verl's file logger and many others write, or a dict, as AgentJet does.

verl (verl/utils/tracking.py, FileLogger): {"step": 3, "data": {"actor/kl_loss": 0.1, "actor/lr": null}}, where null
stands for NaN. Flat objects contain their own step: `step`, `global_step`, `training/global_step` and similar keys.

AgentJet's "markdown" files (`val_print_to_markdown_file_path`, `train_print_to_...`) hold dicts as `str` prints them,
with `np.float64(...)` and bare NaN; no code is evaluated. Lines written before 2026-03-30 name no step: their
validations are counted, and the source maps the count to a step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.python_values import numbers, python_dict
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.readers.chunks import lines
from autoresearch.readers.step_numbers import numbered


def read_jsonl(path: Path, offset: int = 0) -> Iterator[Reading]:
    """The readings of a file from a byte offset on; a missing file has none.

    Lines that are not an object with a number are skipped, including a torn last line. Objects without a step are
    counted.
    """
    return numbered(reading for line, _ in lines(path, offset) for reading in _readings(line))


def read_dict_lines(path: Path, offset: int = 0, validated_at: Callable[[int], int] = lambda n: n) -> Iterator[Reading]:
    """The readings of a file of Python dicts, else like `read_jsonl`.

    Without a named step, training counts from 1, and the n-th validation, from 0, has the step `validated_at(n)`.
    """
    seen = {SignalKind.STEP: 1, SignalKind.VALIDATION: 0}
    for line, _ in lines(path, offset):
        metrics = metric_keys.renamed(numbers(python_dict(line.decode("utf-8", "replace").strip("\0 \t\r")) or {}))
        step = metric_keys.step_of(metrics)
        for reading in metric_keys.readings(metric_keys.NO_STEP if step is None else step, metrics):
            ordinal = seen[reading.kind]
            seen[reading.kind] += 1
            if reading.step < 0:
                step = validated_at(ordinal) if reading.kind is SignalKind.VALIDATION else ordinal
                reading = Reading(reading.kind, step, reading.metrics, ordinal=True)
            yield reading


def _readings(line: bytes) -> tuple[Reading, ...]:
    start = line.lstrip(b"\0 \t\r")  # a file truncated while its writer continues begins with NULs
    if not start.startswith(b"{"):
        return ()
    try:
        found = json.loads(start.decode())
    except (ValueError, RecursionError):
        return ()
    if not isinstance(found, dict):
        return ()
    data = found.get("data")
    metrics = numbers(data if isinstance(data, dict) else found)
    named = found.get("step")
    step = named if type(named) is int and 0 <= named < 1 << 53 else None  # fast path for nearly all lines
    if step is None and "step" in found:
        step = metric_keys.step_of(numbers({"step": named}))
    if step is None:
        step = metric_keys.step_of(metrics)
    if not isinstance(data, dict):
        metrics.pop("step", None)
    return metric_keys.readings(metric_keys.NO_STEP if step is None else step, metrics)
