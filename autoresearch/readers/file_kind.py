"""Sniff: detect the format of a metrics file or directory from its content, and from its name only as a last resort."""

from __future__ import annotations

from pathlib import Path

from autoresearch.core.run.trainer import SUFFIXES, SourceFormat
from autoresearch.errors import NotFoundError, UsageError
from autoresearch.readers import swanlab_run, wandb_run
from autoresearch.readers.registry import recognised
from autoresearch.readers.tensorboard import event_files
from autoresearch.readers.tracker_dirs import newest
from autoresearch.readers.trainer_state import NAME as TRAINER_STATE
from autoresearch.readers.trainer_state import state_file

_HEAD = 1 << 16
_TEXT_CONTROL = frozenset(b"\t\n\r\x0b\x0c\x08\x07\x1b")
_AGENTJET = (b"'global_step", b"'step'", b"task_pass_rate@", b"TGC@")


def sniff(path: Path) -> str:
    """The format of a file or directory: a SourceFormat, or a plug-in's; CONSOLE for any other text, even an empty one.

    NotFoundError if nothing with metrics exists there, UsageError for a file that is neither text nor a supported
    binary format.
    """
    if path.is_dir():
        return _of_directory(path)
    if not path.exists():
        raise NotFoundError(f"{path} is not there", hint="a log, a file of metrics, or a directory of them")
    if not path.is_file():
        raise UsageError(f"{path} is neither a file nor a directory", code="not_a_file")
    if ".tfevents." in path.name:
        return SourceFormat.TENSORBOARD
    if path.name == TRAINER_STATE:
        return SourceFormat.TRAINER_STATE
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(wandb_run.HEAD):
        return SourceFormat.WANDB
    if head.startswith(swanlab_run.HEAD):
        return SourceFormat.SWANLAB
    if name := recognised(path):
        return name
    check_text(path, head)
    return _of_text(path, head.lstrip(b"\0 \t\r\n"))


def check_text(path: Path, head: bytes) -> None:
    """Raise UsageError if these first bytes of a file cannot belong to a log.

    NULs at the start are allowed: they remain when a log is truncated while its writer continues.
    """
    seen = head.lstrip(b"\0")
    odd = sum(byte < 32 and byte not in _TEXT_CONTROL for byte in seen)
    if odd * 20 > len(seen):
        raise UsageError(
            f"{path} is no text: it begins with {head[:8].hex(' ')}",
            hint="give a log as it was printed, not packed; --source reads event files, .wandb and .swanlab",
            code="binary_file",
        )


def _of_directory(path: Path) -> str:
    if event_files(path):
        return SourceFormat.TENSORBOARD
    for kind in (SourceFormat.WANDB, SourceFormat.SWANLAB):
        if newest(kind, path):
            return kind
    if state_file(path):
        return SourceFormat.TRAINER_STATE
    if name := recognised(path):
        return name
    raise NotFoundError(
        f"{path} holds no metrics that can be read",
        hint="event files of TensorBoard, runs of W&B or SwanLab, or a trainer_state.json",
        code="no_metrics",
    )


def _of_text(path: Path, seen: bytes) -> SourceFormat:
    if seen.startswith(b"{'"):
        first = seen.partition(b"\n")[0]  # of other programs, the log is read, whatever their step is called
        return SourceFormat.DICT_LINES if any(name in first for name in _AGENTJET) else SourceFormat.CONSOLE
    if seen.startswith(b"## Step "):
        return SourceFormat.SWARM_VAL
    if path.suffix in SUFFIXES:
        return SourceFormat(SUFFIXES[path.suffix])
    if seen.startswith((b'{"', b'{ "')):
        return SourceFormat.JSONL
    return SourceFormat.CONSOLE
