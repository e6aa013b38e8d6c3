"""JSON among noise."""

from __future__ import annotations

import json

from autoresearch.agents.events import count, events, inside, money, one_line, plain, words


def test_events_are_the_lines_that_are_objects() -> None:
    out = b'npm warn x\n{"a": 1}\n[1]\n{"b": \n  {"c": 2}\r\n{"d": NaN\xff}\n{"e": "\xff"}\n{}\n{"half": 1'
    assert list(events(out)) == [{"a": 1}, {"c": 2}, {"e": "\ufffd"}, {}]


def test_of_a_flood_the_beginning_and_the_end_are_read() -> None:
    flood = b'{"first": 1}\n' + b"x" * (20 << 20) + b'\n{"last": 1}\n'
    assert list(events(flood)) == [{"first": 1}, {"last": 1}]


def test_no_text_makes_the_search_long() -> None:
    assert list(events(b'{"a":' * 200_000 + b"}" * 200_000 + b"\n")) == []


def test_values_that_cannot_be_are_nothing() -> None:
    assert [count(value) for value in (5, True, -1, 1.5, "5", None, 1 << 60)] == [5, *[None] * 6]
    assert [money(value) for value in (0.5, 2, True, -1.0, float("nan"), float("inf"), "1")] == [0.5, 2.0, *[None] * 5]
    assert inside({"a": {"b": {"c": 1}}}, "a", "b") == {"c": 1} and inside([1], "a") == {}
    assert words(json.loads('"\\ud800 x"')).encode() == b"? x" and words(5) == ""


def test_one_line_is_one_and_has_no_colours() -> None:
    assert one_line("\x1b[91m\x1b[1mError: \x1b[0ma\r\n  b\x00") == "Error: a b"
    long = one_line("begin " + "x" * 5000 + " end")
    assert len(long) <= 300 and long.startswith("begin") and long.endswith("end")
    assert plain("a\r\nb") == "a\nb"
