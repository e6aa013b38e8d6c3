"""What is counted of the files on a disk."""

from __future__ import annotations

import os
from pathlib import Path

from autoresearch.lab.disk.usage import disk_usage, free_bytes


def test_counts_what_is_allocated_once_and_follows_no_link(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "deep").mkdir(parents=True)
    outside.mkdir()
    (outside / "large").write_bytes(b"x" * 1_000_000)
    (inside / "deep" / "file").write_bytes(b"x" * 100_000)
    os.link(inside / "deep" / "file", inside / "again")
    (inside / "link").symlink_to(outside)
    with (inside / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    found = disk_usage([inside])
    assert found.whole and found.entries == 6
    assert 100_000 <= found.bytes < 200_000
    assert disk_usage([inside, tmp_path / "absent"]) == found
    assert disk_usage([inside / "link"]).entries == 1


def test_a_limit_ends_the_counting(tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / f"{n}").write_bytes(b"x")
    assert not disk_usage([tmp_path], 10).whole
    assert disk_usage([tmp_path], 10).entries == 10
    assert disk_usage([tmp_path], 21).whole


def test_the_free_bytes_of_a_directory_that_is_not_there_yet(tmp_path: Path) -> None:
    existing, free = free_bytes(tmp_path / "a" / "b")
    assert existing == tmp_path and free > 0
