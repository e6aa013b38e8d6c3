"""Stripping: escapes, Ray's nested prefixes, bars that return the carriage, repeat marks."""

from __future__ import annotations

import pytest

from autoresearch.runner.text import clean_line, logical_lines


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (b"\x1b[36m(TaskRunner pid=5)\x1b[0m step:1 - a:1\n", ["step:1 - a:1"]),
        (b"[rank0]: Traceback\n[default12]:step:1\n(T pid=7) [rank3]:   File\n", ["Traceback", "step:1", "  File"]),
        (b"(raylet, ip=10.0.0.1) low\n(autoscaler +1m2s) up\n(pid=7) x\n", ["low", "up", "x"]),
        (b"(Worker[rank=0] pid=17, ip=10.0.0.9) (EngineCore_DP0 pid=2) (Ray pid=3) INFO x", ["INFO x"]),
        (b"freed 1 GiB [repeated 4x across cluster] (Ray deduplicates logs by default.)\n", ["freed 1 GiB"]),
        (b"a\rb\r\nc\r", ["a", "b", "c"]),
        (b"(T pid=5) \rBar:  0%|  | 0/3\rBar: 33%|# | 1/3\n", ["Bar:  0%|  | 0/3", "Bar: 33%|# | 1/3"]),
        (b"\xff\xfe bad\n", ["\ufffd\ufffd bad"]),
        (b'(T pid=5)   File "x.py", line 1\n', ['  File "x.py", line 1']),
        (b"\x1b]0;title\x07text\x07\n", ["text"]),
        (b"\n\n  \n", []),
        ("\x9b31mred\n".encode(), ["red"]),
    ],
)
def test_logical_lines(raw: bytes, wanted: list[str]) -> None:
    assert list(logical_lines(raw)) == wanted


@pytest.mark.parametrize(
    "line",
    ["(see pid file) x", "(pid=many) x", "f(x pid=5) y", "x [repeated twice]", "(1) killed by the OOM killer"],
)
def test_what_is_no_prefix_stays(line: str) -> None:
    assert clean_line(line) == line


def test_stripping_twice_is_stripping_once() -> None:
    once = clean_line("\x1b[36m(A pid=1)\x1b[0m   (B pid=2) text  ")
    assert once == "text"
    assert clean_line(once) == once
