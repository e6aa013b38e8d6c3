"""Named places where a test can kill this process, to prove that what is left behind is sound.

`AUTORESEARCH_FAILPOINT="room.NAME:kill"` names one place; nothing else of the product reads or sets it.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "AUTORESEARCH_FAILPOINT"


def failpoint(name: str) -> None:
    """SIGKILL this process where the variable holds `<name>:kill`; otherwise one look at the environment."""
    if os.environ.get(VARIABLE) == f"{name}:kill":
        os.kill(os.getpid(), signal.SIGKILL)
