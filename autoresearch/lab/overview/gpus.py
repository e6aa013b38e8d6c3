"""The GPUs of this machine, queried rarely and in the background: nvidia-smi may take seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from autoresearch.core.run.overview import GpuUse
from autoresearch.launchers import gpus
from autoresearch.launchers.gpus import Gpu

ASK_S = 15.0


class GpuWatch:
    """The last answer of nvidia-smi."""

    def __init__(self, find: Callable[[], tuple[Gpu, ...]] = gpus.find) -> None:
        self._find = find
        self._found: tuple[Gpu, ...] = ()
        self._asked = float("-inf")
        self._thread: threading.Thread | None = None

    def look(self, *, wait_s: float = 0.0) -> dict[str, GpuUse]:
        """GPU use by UUID; queried again if the answer is old. `wait_s`: how long to wait for an answer."""
        if self._thread is None and time.monotonic() - self._asked >= ASK_S:
            self._asked = time.monotonic()
            self._thread = threading.Thread(target=self._ask, daemon=True)
            self._thread.start()
        if self._thread is not None and wait_s:
            self._thread.join(wait_s)
        return {gpu.uuid: GpuUse(gpu.uuid, gpu.index, gpu.used_mib) for gpu in self._found}

    def _ask(self) -> None:
        self._found = self._find()
        self._thread = None

    def leased(self, environ: Mapping[str, str]) -> tuple[int, int]:
        """(number of GPUs, number of leased GPUs)."""
        found = self._found
        return len(found), sum(gpus.is_leased(gpu.uuid, environ) for gpu in found)
