"""What the memory of a run's GPUs shows: its peak, whether they were used at all, whether it was freed."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterable, Mapping

from .basics import NEVER, clock
from .processes import send

ASK_S = 5.0
RETURN_S = 30.0
SLACK_BYTES = 64 << 20
UNUSED_BYTES = 16 << 20  # a CUDA context takes more than this
PAUSE_S, LONGER_S, LONGEST_S = 0.2, 0.1, 60.0  # between looks: each is longer than the one before
LOOKS = 10  # after fewer, CUDA may have started and ended between two of them
COST = 4.0  # a pause is so many times what the answer took: eight GPUs without a persistence daemon take seconds
USED = ("nvidia-smi", "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits")  # MiB


def answer_of(
    question: tuple[str, ...], environ: Mapping[str, str], tick: Callable[[float], None], until: float
) -> str | None:
    """The lines that a program prints; None without it, or without its end by then.

    It runs as a child and is killed after a while, because a hanging driver must not block the Runner. `tick`: sleeps
    until a given time.
    """
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    program = next((path for one in folders if os.access(path := f"{one}/{question[0]}", os.X_OK)), "")
    reader, writer = os.pipe()
    try:
        pid = os.posix_spawn(program, question, environ, file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)])
    except OSError:
        os.close(reader)
        return None
    finally:
        os.close(writer)
    said, ended = b"", False
    while not ended:
        if select.select([reader], [], [], 0)[0]:
            chunk = os.read(reader, 65536)
            said, ended = said + chunk, not chunk  # output may arrive in several pieces
        elif clock() < until:
            tick(clock() + 0.02)
        else:
            break
    os.close(reader)
    if not ended:
        send([pid], signal.SIGKILL)
        return None
    return said.decode("utf-8", "replace")


class Gpus:
    """Memory in use on the leased GPUs, in bytes; None if unknown. `tick`: sleeps until a given time."""

    def __init__(self, uuids: Iterable[str] = (), environ: Mapping[str, str] = os.environ) -> None:
        self.uuids = set(uuids)
        self.environ = environ
        self.before: int | None = None
        self.peak: int | None = None
        self.returned: bool | None = None
        self.next_at = NEVER
        self._pause = PAUSE_S
        self._looks = 0
        self._moved = self._blind = False

    @property
    def used(self) -> bool | None:
        """Whether the memory in use ever differed from what it was before the trainer; None if that is not certain.

        A process that computes on a GPU has memory there, so this sees it from inside a container, too, where
        nvidia-smi lists no processes.
        """
        return True if self._moved else None if self._blind or self._looks < LOOKS else False

    def measure_before(self, tick: Callable[[float], None]) -> None:
        """Measure the memory in use before the run."""
        self.before = self._used(tick, clock() + ASK_S)

    def start(self) -> None:
        """Begin to look: the trainer has started."""
        self.next_at = NEVER if self.before is None else clock() + self._pause

    def look(self, tick: Callable[[float], None], until: float) -> None:
        """Update peak and use. The next look comes a little later each time: a short run may not miss its peak."""
        asked = clock()
        used = self._used(tick, min(until, asked + ASK_S))
        self._pause = min(LONGEST_S, self._pause + LONGER_S)
        self.next_at = clock() + max(self._pause, COST * (clock() - asked))
        if used is None or self.before is None:
            self._blind = self._blind or clock() < until  # at its limit the run does not wait for an answer
            return
        self._looks += 1
        self._moved = self._moved or abs(used - self.before) > UNUSED_BYTES
        self.peak = max(self.peak or 0, used - self.before)

    def wait_for_return(self, tick: Callable[[float], None]) -> None:
        """Wait up to `RETURN_S` until the memory is back to the baseline, and set `returned`: the next run needs it."""
        until = clock() + RETURN_S
        while self.before is not None and not self.returned and clock() < until:
            used = self._used(tick, until)
            if used is not None:
                self.returned = used <= self.before + SLACK_BYTES
            if not self.returned:
                tick(clock() + 0.5)

    def _used(self, tick: Callable[[float], None], until: float) -> int | None:
        said = answer_of(USED, self.environ, tick, until) if self.uuids else None
        pairs = (line.split(",") for line in (said or "").splitlines() if line.count(",") == 1)
        known = [int(used) << 20 for uuid, used in pairs if uuid in self.uuids and used.strip().isdigit()]
        return sum(known) if self.uuids and len(known) == len(self.uuids) else None
