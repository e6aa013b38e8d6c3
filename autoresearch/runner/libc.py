"""Functions of the C library that Python does not expose.

They are called through `_ctypes`, the C part of ctypes, because its Python part costs every Runner 0.3 MB. `_ctypes`
is not a stable API, so where it has changed, ctypes itself is used.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_C = {"i": "c_int", "L": "c_ulong", "z": "c_char_p", "P": "c_void_p"}


def _bare(name: str, result: str, arguments: str) -> Callable[..., Any]:
    import _ctypes

    types = {code: type(_C[code], (_ctypes._SimpleCData,), {"_type_": code}) for code in {result, *arguments}}
    own = {"_flags_": _ctypes.FUNCFLAG_CDECL, "_restype_": types[result]}
    this_program: Any = None
    made: Any = type(name, (_ctypes.CFuncPtr,), own)(_ctypes.dlsym(_ctypes.dlopen(this_program, 0), name))
    made.argtypes = tuple(types[code] for code in arguments)
    return made  # type: ignore[no-any-return]


def _whole(name: str, result: str, arguments: str) -> Callable[..., Any]:
    import ctypes

    made = ctypes.CDLL(None)[name]
    made.restype, made.argtypes = getattr(ctypes, _C[result]), [getattr(ctypes, _C[code]) for code in arguments]
    return made


def function(name: str, result: str, arguments: str) -> Callable[..., Any]:
    """Load a function of the C library; type codes: i int, L unsigned long, z bytes, P pointer (None for null)."""
    try:
        return _bare(name, result, arguments)
    except (ImportError, AttributeError, TypeError, OSError):
        return _whole(name, result, arguments)


find = function("memmem", "P", "zLzL")
"""find(text, len(text), part, len(part)): where it stands, None if nowhere; twice as fast as bytes.find."""

process_control = function("prctl", "i", "iLLLL")
"""prctl(2)."""


def join_new_keyring() -> None:
    """Leave the session's keyring, with the keys of whoever logged in, for an empty one; see keyctl(2)."""
    number = {"x86_64": 250, "ppc64le": 271, "s390x": 280}.get(os.uname().machine, 219)
    function("syscall", "i", "LLL")(number, 1, 0)  # KEYCTL_JOIN_SESSION_KEYRING; without keyrings nothing is to be left
