"""What a turn writes is counted, and little else is done for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autoresearch.lab.research.growth import ENTRY_BYTES, Growth, bytes_below

Eventually = Callable[[Callable[[], object]], None]


def test_bytes_below(tmp_path: Path) -> None:
    assert bytes_below(tmp_path) == bytes_below(tmp_path / "missing") == 0
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "deep/er/file").write_bytes(b"x" * (1 << 20))
    (tmp_path / "empty").touch()
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)  # takes nothing
    (tmp_path / "link").symlink_to("/usr")
    assert 1 << 20 <= bytes_below(tmp_path) <= (1 << 20) + 16 * ENTRY_BYTES


def test_growth_is_what_was_added(tmp_path: Path, eventually: Eventually) -> None:
    """A directory within another counts once; what was there before does not."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/old").write_bytes(b"x" * (4 << 20))
    growth = Growth((tmp_path, tmp_path / "in", tmp_path / "missing"), 1 << 20)
    (tmp_path / "in/new").write_bytes(b"x" * (600 << 10))
    growth._walked = 0.0  # it is time to walk again
    assert not growth.exceeded()
    (tmp_path / "in/newer").write_bytes(b"x" * (600 << 10))
    eventually(growth.exceeded)


def test_never_more_than_half_of_what_is_free(tmp_path: Path) -> None:
    import os

    numbers = os.statvfs(tmp_path)
    assert Growth((tmp_path,), 1 << 60).most <= numbers.f_bavail * numbers.f_frsize * 0.6


def test_what_cannot_be_read_is_nothing(tmp_path: Path) -> None:
    growth = Growth((tmp_path / "missing",), 1000)
    assert growth.most == 1000 and not growth.exceeded()
