"""Wait for what other processes do, which no clock of ours can move."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

# Far more than a loaded machine needs (CI once took six times as long as a quiet one), and less than pytest's own
# timeout, whose message does not say what was waited for.
PATIENCE_S = 500.0


def until(condition: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """Ask until the answer is true, and return it; asking takes a twentieth of a core at most.

    Many tests wait at the same time: had each of them asked as often as it can, they would wait for each other.
    """
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if answer := condition():
            return answer
        now = time.monotonic()
        assert now < deadline, f"it never became true: {condition}"
        time.sleep(min(max(0.02, 19 * (now - began)), 1.0))
