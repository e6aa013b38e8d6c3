"""Simulated failures, to test whatever monitors a trainer with real processes that really fail."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import NoReturn

from autoresearch.tinygrpo.recipe import Recipe


class OutOfMemoryError(RuntimeError):
    """Looks like torch's error in a traceback; its message says that it is simulated."""


OutOfMemoryError.__module__ = "torch"

OOM_MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
    "1.13 GiB is free. (simulated by tinygrpo, `fault: oom`; there is no GPU)"
)


def strike(recipe: Recipe, step: int, say: Callable[[str], None]) -> None:
    """Trigger the recipe's `fault` if this is its step; step 0 is just before the first validation.

    A fault that leaves no other trace is announced on the console first.

    `nan` and `slow` are implemented elsewhere: see `poisons` and `seconds_of_sleep`.
    """
    if step != recipe.fault_step:
        return
    match recipe.fault:
        case "oom":
            raise OutOfMemoryError(OOM_MESSAGE)
        case "crash":
            raise RuntimeError(f"simulated by tinygrpo, `fault: crash` at step {step}")
        case "hang":
            say(f"simulated fault: hang at step {step}")
            _sleep_for_ever()
        case "ignore_term":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say(f"simulated fault: SIGTERM ignored and hang at step {step}")
            _sleep_for_ever()
        case "kill":
            say(f"simulated fault: SIGKILL at step {step}")
            os.kill(os.getpid(), signal.SIGKILL)


def poisons(recipe: Recipe, step: int) -> bool:
    """Whether the `nan` fault applies to this step's loss."""
    return recipe.fault == "nan" and step == recipe.fault_step


def seconds_of_sleep(recipe: Recipe, step: int) -> float:
    """Additional sleep of this step in seconds."""
    return recipe.step_sleep if recipe.fault != "slow" or step >= recipe.fault_step else 0.0


def _sleep_for_ever() -> NoReturn:
    while True:
        time.sleep(3600)
