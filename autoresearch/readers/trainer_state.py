"""Trainer state: the history that Hugging Face's Trainer and TRL save with every checkpoint.

`<output_dir>/checkpoint-N/trainer_state.json`, and `<output_dir>/trainer_state.json` if a script calls
`trainer.save_state()` (transformers/trainer_callback.py, TrainerState): {"log_history": [{"step": 3, "epoch": 0.1,
"loss": 0.2, ...}, {"step": 3, "eval_loss": ...}, ...]}. Its steps are the optimiser's, which the console does not
print.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.python_values import numbers
from autoresearch.core.metrics.signal import Reading
from autoresearch.core.text.regex import later
from autoresearch.records.hostile import read_readable

NAME = "trainer_state.json"
_CHECKPOINT = later(r"checkpoint-(\d{1,12})\Z")
_LONGEST = 1 << 28  # bytes; a million steps have less
_SUMMARY = "train_runtime"  # the last entry is a summary of the run, not a step


def state_file(where: Path) -> Path | None:
    """The newest state file below an output directory (or `where` itself if it is a file); None if there is none."""
    if where.is_file():
        return where
    if not where.is_dir():
        return None
    numbered = [(int(found[1]), path) for path in where.iterdir() if (found := _CHECKPOINT.search(path.name))]
    checkpoints = [pair for pair in numbered if (pair[1] / NAME).is_file()]
    own = where / NAME
    last = max(checkpoints)[1] / NAME if checkpoints else None
    if own.is_file() and (last is None or own.stat().st_mtime >= last.stat().st_mtime):
        return own
    return last


def read_trainer_state(where: Path) -> Iterator[Reading]:
    """The history in order; empty if there is no state file or it is truncated."""
    path = state_file(where)
    if path is None:
        return
    try:
        state = json.loads(read_readable(path, _LONGEST))
    except (OSError, ValueError, RecursionError):
        return
    history = state.get("log_history") if isinstance(state, dict) else None
    for entry in history if isinstance(history, list) else ():
        if not isinstance(entry, dict) or _SUMMARY in entry:
            continue
        metrics = numbers(entry, strings=True)
        step = metric_keys.step_of({"step": metrics.pop("step", -1.0)})
        if step is not None:
            yield from metric_keys.readings(step, metrics)
