"""Cadence as arithmetic."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from autoresearch.core.run.job_launcher import Unreachable
from autoresearch.lab.remote.followed_run import Backoff, PollSchedule, Wakeup


def test_soon_while_something_happens_seldom_while_nothing_does() -> None:
    rhythm, now, gaps = PollSchedule(0.2, 4.0), 0.0, []
    for news in [True, True, *[False] * 12, True]:
        assert rhythm.due(now)
        rhythm.done(now, news=news)
        gaps.append(round(rhythm.at - now, 2))
        now = rhythm.at
    assert gaps[:4] == [0.2, 0.2, 0.3, 0.45] and max(gaps) == 4.0 and gaps[-2:] == [4.0, 0.2]


def test_what_is_costly_is_done_seldom() -> None:
    rhythm = PollSchedule(0.2, 4.0)
    rhythm.done(10.0, news=True, took_s=0.5)
    assert not rhythm.due(19.9) and rhythm.due(20.0)
    rhythm.hurry(11.0)
    assert rhythm.due(11.2)
    rhythm.done(20.0, news=True, took_s=30.0)
    assert not rhythm.due(79.9) and rhythm.due(80.0)


def test_silence_is_asked_less_and_less() -> None:
    silence, now, gaps = Backoff(), 0.0, []
    for n in range(100):
        silence.fell(Unreachable("no"), now, 5000.0 + n)
        gaps.append(silence.again_at - now)
        assert silence.reportable is (n >= 1) and silence.since == 5000.0
        assert silence.holds(silence.again_at - 0.01) and not silence.holds(silence.again_at)
        now = silence.again_at
    assert gaps[:8] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] and max(gaps) == 30.0
    silence.broken()
    assert not silence.holds(now) and not silence.reportable


def test_a_bell_wakes_once_for_what_rang_since(tmp_path: Path) -> None:
    bell = Wakeup(tmp_path / "bell")
    time.sleep(0.02)  # a coarse clock
    (tmp_path / "bell").touch()
    assert bell.wait(60.0) and not bell.wait(0.0)
    time.sleep(0.02)
    timer = threading.Timer(0.05, (tmp_path / "bell").touch)
    timer.start()
    began = time.monotonic()
    assert bell.wait(60.0) and time.monotonic() - began < 30
    timer.join()
