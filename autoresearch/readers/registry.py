"""Readers that are plug-ins, by the name of their format; those of ours are chosen in `readers.read`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Protocol

from autoresearch.core.metrics.signal import Reading
from autoresearch.core.run.trainer import SourceFormat
from autoresearch.plugins import PluginGroup, PluginWarning


class MetricReader(Protocol):
    """Reads the files of one format. Instances are stateless."""

    def recognises(self, path: Path) -> bool:
        """Whether this existing file or directory has the format; asked by `metrics FILE` where none of ours fits."""
        return False

    def read(self, path: Path, offset: int) -> Iterable[Reading]:
        """The readings in order of their steps; those in the first `offset` bytes of a file are an earlier run's.

        The file may be missing, or end in the middle of a record that is being written: then it has fewer readings.
        """


PLUGINS = PluginGroup("readers", tuple(SourceFormat))


def read_by_plugin(source_format: str, path: Path, offset: int) -> tuple[Reading, ...]:
    """The readings of a file in a format that is not ours; with a warning, () where no plug-in can read it."""
    reader: MetricReader | None = PLUGINS.usable().get(source_format)
    if reader is None:
        warnings.warn(f"no reader {source_format} can be used here: {path} is not read", PluginWarning, stacklevel=2)
        return ()
    return PLUGINS.answer(source_format, lambda: tuple(reader.read(path, offset)), ())


def recognised(path: Path) -> str:
    """The format of the first plug-in that recognises a file or directory; "" if there is none."""
    readers: dict[str, MetricReader] = PLUGINS.usable()
    found = (name for name, one in readers.items() if PLUGINS.answer(name, partial(one.recognises, path), False))
    return next(found, "")
