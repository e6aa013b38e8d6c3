"""The C library's functions, called the cheap way and the public way: both must say the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import autoresearch.runner
from autoresearch.runner import libc

HAYSTACK = b"a" * 5_000 + b"\0step:1 - actor/" + bytes(range(256))


@pytest.mark.parametrize("make", [libc._bare, libc._whole])
@pytest.mark.parametrize("needle", [b"step:", b"\0s", b"a" * 5_000, b"\xff", b"steps:", b"a" * 5_001, b"\xff\xff"])
def test_a_needle_is_found_where_it_is(make: object, needle: bytes) -> None:
    assert callable(make)
    find = make("memmem", "P", "zLzL")
    assert (find(HAYSTACK, len(HAYSTACK), needle, len(needle)) is not None) == (needle in HAYSTACK)


def test_an_older_or_newer_python_gets_the_public_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_ctypes_gone", None)
    monkeypatch.setattr(libc, "_bare", lambda *_: __import__("_ctypes_gone"))
    assert libc.function("prctl", "i", "iLLLL")(37, 0, 0, 0, 0) == -1  # PR_GET_CHILD_SUBREAPER to nowhere


@pytest.mark.system
def test_a_runner_is_spared_the_dear_half() -> None:
    place = str(Path(autoresearch.runner.__file__).parents[1])
    code = f"import sys; sys.path.append({place!r}); import runner.runner; sys.exit('ctypes' in sys.modules)"
    assert subprocess.run([sys.executable, "-S", "-E", "-s", "-c", code]).returncode == 0
