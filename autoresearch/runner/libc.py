"""Functions of the C library that Python does not expose."""

from __future__ import annotations

import ctypes
import os

_C = ctypes.CDLL(None)


def process_control(option: int, value: int) -> None:
    """prctl(2)."""
    _C.prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def join_new_keyring() -> None:
    """Leave the session's keyring, with the keys of whoever logged in, for an empty one; see keyctl(2)."""
    number = {"x86_64": 250, "ppc64le": 271, "s390x": 280}.get(os.uname().machine, 219)
    join_session_keyring = 1
    _C.syscall(*map(ctypes.c_long, (number, join_session_keyring, 0)))  # without keyrings nothing is to be left
