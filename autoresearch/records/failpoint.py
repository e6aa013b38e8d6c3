"""Named places where a test can kill this process, to prove that what is left behind is sound.

`AUTORESEARCH_FAILPOINT="room.NAME:kill"` names one place, `room.NAME:kill:3` its third passing; nothing else
of the product reads or sets it.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

VARIABLE = "AUTORESEARCH_FAILPOINT"
_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """SIGKILL this process where the variable holds `<name>:kill`; otherwise one look at the environment."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None or not wanted.startswith(f"{name}:kill"):
        return
    _passed[name] += 1
    if _passed[name] >= int(wanted.removeprefix(f"{name}:kill").lstrip(":") or 1):
        os.kill(os.getpid(), signal.SIGKILL)
