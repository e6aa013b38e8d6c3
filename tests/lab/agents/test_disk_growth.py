"""What a turn writes is counted, and little else is done for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.lab.agent_work.turn import ENTRY_BYTES, Growth, bytes_below

Eventually = Callable[[Callable[[], object]], None]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty directory."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def test_bytes_below(place: Path) -> None:
    assert bytes_below(place) == bytes_below(place / "missing") == 0
    (place / "deep/er").mkdir(parents=True)
    (place / "deep/er/file").write_bytes(b"x" * (1 << 20))
    (place / "empty").touch()
    with (place / "sparse").open("wb") as file:
        file.truncate(1 << 40)  # takes nothing
    (place / "link").symlink_to("/usr")
    assert 1 << 20 <= bytes_below(place) <= (1 << 20) + 16 * ENTRY_BYTES


def test_growth_is_what_was_added(place: Path, eventually: Eventually) -> None:
    """A directory within another counts once; what was there before does not."""
    (place / "in").mkdir()
    (place / "in/old").write_bytes(b"x" * (4 << 20))
    growth = Growth((place, place / "in", place / "missing"), 1 << 20)
    (place / "in/new").write_bytes(b"x" * (600 << 10))
    growth._walked = 0.0  # it is time to walk again
    assert not growth.exceeded()
    (place / "in/newer").write_bytes(b"x" * (600 << 10))
    eventually(growth.exceeded)


def test_never_more_than_half_of_what_is_free(place: Path) -> None:
    numbers = os.statvfs(place)
    assert Growth((place,), 1 << 60).most <= numbers.f_bavail * numbers.f_frsize * 0.6


def test_what_cannot_be_read_is_nothing(place: Path) -> None:
    growth = Growth((place / "missing",), 1000)
    assert growth.most == 1000 and not growth.exceeded()
