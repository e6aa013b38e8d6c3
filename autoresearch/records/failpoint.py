"""Named points where a test can kill this process, to prove that what is left behind is consistent.

`AUTORESEARCH_FAILPOINT="room.NAME:kill"` selects one point, `room.NAME:kill:3` its third execution; only the
failpoints read the variable, and only tests set it.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

VARIABLE = "AUTORESEARCH_FAILPOINT"
_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """SIGKILL this process if the variable is `<name>:kill`; otherwise costs one lookup in the environment."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None or not wanted.startswith(f"{name}:kill"):
        return
    _passed[name] += 1
    if _passed[name] >= int(wanted.removeprefix(f"{name}:kill").lstrip(":") or 1):
        os.kill(os.getpid(), signal.SIGKILL)
