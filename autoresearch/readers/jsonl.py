"""One object with metrics per line: JSON, as verl's file logger and many others write, or a dict, as AgentJet does.

verl (verl/utils/tracking.py, FileLogger): {"step": 3, "data": {"actor/kl_loss": 0.1, "actor/lr": null}}, where null
stands for NaN. Flat objects contain their own step: `step`, `global_step`, `training/global_step` and similar keys.

AgentJet's "markdown" files (`val_print_to_markdown_file_path`, `train_print_to_...`) hold dicts as `str` prints them,
with `np.float64(...)` and bare NaN; no code is evaluated.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from autoresearch.core.metrics.signal import NO_STEP, Reading, numbers, step_of
from autoresearch.core.metrics.signal import readings as split
from autoresearch.core.text.regex import later
from autoresearch.readers.console import lines, numbered
from autoresearch.records.hostile import read_readable
from autoresearch.runner.metric_lines import object_of, step_rank

_LONGEST = 1 << 28  # bytes of a JSON document


def read_jsonl(path: Path, offset: int = 0) -> Iterator[Reading]:
    """The readings of a file from a byte offset on; a missing file has none.

    Lines that are not an object with a number are skipped, including a torn last line. Objects without a step are
    counted; one that names a coarser step than others did, such as an epoch beside updates, is of their last.
    """
    finest, last = 0, NO_STEP

    def readings() -> Iterator[Reading]:
        nonlocal finest, last
        for line, _ in lines(path, offset):
            fields = object_of(line.decode("utf-8", "replace").strip("\0 \t\r"))  # NULs of a truncated file
            if fields is None:
                continue
            rank, step = _step_of(fields)
            if last == NO_STEP or rank <= finest:
                finest, last = rank, step
            yield from _of_object(fields, last)

    return numbered(readings())


def read_json(path: Path, offset: int = 0) -> Iterator[Reading]:
    """The readings of a JSON document, an object or a list of objects; of a file that is none, those of its lines."""
    try:
        document = json.loads(read_readable(path, _LONGEST))
    except (OSError, ValueError, RecursionError):
        return read_jsonl(path, offset)
    entries = document if isinstance(document, list) else [document]
    flat = [_flat(entry) for entry in entries if isinstance(entry, dict)]
    return numbered(one for fields in flat for one in _of_object(fields, _step_of(fields)[1]))


def _flat(entry: Mapping[str, object], above: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in entry.items():
        flat |= _flat(value, f"{above}{key}/") if isinstance(value, dict) else {f"{above}{key}": value}
    return flat


def read_csv(path: Path, offset: int = 0) -> Iterator[Reading]:
    """The readings of a table's rows from a byte offset on; cells that are empty or hold a text are left out.

    A row that a writer has not ended yet is skipped. Rows without a step are counted.
    """
    head = next((line.decode("utf-8-sig", "replace") for line, _ in lines(path)), "")
    separator = max(",;\t", key=head.count)
    columns = [name.strip() for name in next(csv.reader([head], delimiter=separator), [])]
    steps = sorted((rank, name) for name in columns if (rank := step_rank(name)) is not None)
    columns = ["step" if steps and name == steps[0][1] else name for name in columns]
    whole = (line.decode("utf-8", "replace") for line, ended in lines(path, offset) if ended)
    rows = csv.reader(whole, delimiter=separator)
    cells = (dict(zip(columns, row, strict=False)) for row in rows if len(row) == len(columns))
    return numbered(one for row in cells for one in _of_object(row, _step_of(row)[1]))


def _step_of(fields: Mapping[str, object]) -> tuple[int, int]:
    """How fine the step is that an object names, 0 the finest, and the step; NO_STEP if it names none."""
    named = fields.get("step")
    if type(named) is int and 0 <= named < 1 << 53:  # fast path for nearly all lines
        return 0, named
    data = fields.get("data")
    metrics = numbers({**(data if isinstance(data, dict) else fields), "step": named}, strings=True)
    if (step := step_of(metrics)) is not None:
        return 0, step
    ranks = sorted((rank, name) for name in metrics if (rank := step_rank(name)) is not None)
    for rank, name in ranks:
        if metrics[name] >= 0 and metrics[name].is_integer():
            return rank, int(metrics[name])
    return 0, NO_STEP


def _of_object(fields: Mapping[str, object], step: int) -> tuple[Reading, ...]:
    data = fields.get("data")
    metrics = numbers(data if isinstance(data, dict) else fields, strings=True)
    if not isinstance(data, dict):
        metrics.pop("step", None)
    return split(step, metrics)


# Trainer state: the history that Hugging Face's Trainer and TRL save with every checkpoint.
#
# `<output_dir>/checkpoint-N/trainer_state.json`, and `<output_dir>/trainer_state.json` if a script calls
# `trainer.save_state()` (transformers/trainer_callback.py, TrainerState): {"log_history": [{"step": 3, "epoch": 0.1,
# "loss": 0.2, ...}, {"step": 3, "eval_loss": ...}, ...]}. Its steps are the optimiser's, which the console does not
# print.

TRAINER_STATE = "trainer_state.json"
_CHECKPOINT = later(r"checkpoint-(\d{1,12})\Z")
_SUMMARY = "train_runtime"  # the last entry is a summary of the run, not a step


def state_file(where: Path) -> Path | None:
    """The newest state file below an output directory (or `where` itself if it is a file); None if there is none."""
    if where.is_file():
        return where
    if not where.is_dir():
        return None
    numbered = [(int(found[1]), path) for path in where.iterdir() if (found := _CHECKPOINT.search(path.name))]
    checkpoints = [pair for pair in numbered if (pair[1] / TRAINER_STATE).is_file()]
    own = where / TRAINER_STATE
    last = max(checkpoints)[1] / TRAINER_STATE if checkpoints else None
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
        step = step_of({"step": metrics.pop("step", -1.0)})
        if step is not None:
            yield from split(step, metrics)
