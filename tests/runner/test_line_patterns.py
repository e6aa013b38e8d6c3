"""Patterns: the literal prefilter may make them faster, never different."""

from __future__ import annotations

import pytest

from autoresearch.runner import line_patterns
from autoresearch.runner.line_patterns import LinePattern, LogReader
from autoresearch.runner.text import plain

STEPS = r"step:(?P<step>\d+) - "


def found(patterns: list[LinePattern], text: bytes) -> list[tuple[str, int | None, float | None]]:
    return [(one.kind, one.step, one.kl) for one in LogReader(patterns).feed(text) if one.kind != "nan"]


def test_what_was_seen_in_an_unfinished_line_is_not_told_again() -> None:
    reader = LogReader([LinePattern("step", STEPS)])
    assert len(reader.peek(b"step:1 - actor/kl_loss:0.5", 100)) == 1
    assert len(reader.peek(b"step:1 - actor/kl_loss:0.5 - x", 100)) == 0
    assert len(reader.feed(b"step:1 - actor/kl_loss:0.5 - x\nstep:2 - actor/x:1\n", 100)) == 1
    assert len(reader.feed(b"step:1 - actor/kl_loss:0.5\n", 1 << 48)) == 1  # the log began again


def test_progress_is_told_once_a_second_and_steps_always(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(line_patterns, "clock", lambda: now[0])
    progress = [LinePattern("progress", r"\d+%\|", 60.0), LinePattern("progress", "step", 30.0)]
    longer = LinePattern("progress", "actor/", 90.0)
    reader = LogReader([*progress, LinePattern("step", STEPS), longer])
    text = b"".join(b"\r%d%%|\nstep:%d - actor/x:1\n" % (i, i) for i in range(50))

    def counts(start: int) -> tuple[int, int]:
        kinds = [one.kind for one in reader.feed(text, start)]
        return kinds.count("progress"), kinds.count("step")

    assert counts(0) == (2, 50)  # the longest hold is not hidden by the others
    assert counts(10_000) == (0, 50)
    now[0] += 1.5
    assert counts(20_000)[0] >= 1


def test_plain_is_bounded_and_clean() -> None:
    dirty = b"\x1b[31mboom\x1b[0m\x00\x07 \x1b]0;title\x07" + "é".encode() + b"\xff" + b"x" * 10_000
    clean = plain(dirty)
    assert clean.startswith("boom é")
    assert len(clean) == 300
    assert clean.isprintable()
