"""A directory that training can write: what it puts in the place of our files does no harm, and nothing waits."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.spec import RunSpec
from autoresearch.records import hostile, journal
from autoresearch.records.files import read_json, write_page
from autoresearch.records.hostile import write_atomically

SECRET = "export PATH\n" * 500
CONTENT: dict[str, Any] = {"schema": 1, "run": "sort-aaaaaa", "ending": "finished", "verdict": "keep"}
Trick = Callable[[Path, Path], None]


def bind(path: Path, _: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)  # the path may be longer than a socket's name may be
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as one:
        one.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


TRICKS: dict[str, Trick] = {
    "link": lambda path, victim: path.symlink_to(victim),
    "link to nothing": lambda path, victim: path.symlink_to(victim.with_name("new")),
    "second name": lambda path, victim: path.hardlink_to(victim),
    "FIFO": lambda path, victim: os.mkfifo(path),
    "socket": bind,
    "directory": lambda path, victim: (path / "deep").mkdir(parents=True),
    "link to a device": lambda path, victim: path.symlink_to("/dev/zero"),
}


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """What waits for a FIFO is ended."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waited"))
    signal.alarm(120)
    yield
    signal.alarm(0)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    path = tmp_path / "home" / ".bashrc"
    path.write_text(SECRET)
    return path


@pytest.mark.parametrize("trick", TRICKS)
def test_the_flag_is_written_and_nothing_else_is(tmp_path: Path, victim: Path, trick: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    TRICKS[trick](out / journal.FLAG, victim)
    assert journal.read_flag(out) == {}
    journal.write_flag(out, CONTENT)
    assert (journal.read_flag(out) or {})["run"] == "sort-aaaaaa"
    assert victim.read_text() == SECRET and [path.name for path in victim.parent.iterdir()] == [".bashrc"]


@pytest.mark.parametrize("name", journal.NAMES)
@pytest.mark.parametrize("trick", TRICKS)
def test_the_documents_are_written_and_it_is_said(
    tmp_path: Path, victim: Path, spec: RunSpec, name: str, trick: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    TRICKS[trick](out / name, victim)
    ours = trick == "directory" and name == journal.EARLIER
    (said,) = journal.clear_the_way(out) or [""]
    assert journal.clear_the_way(out) == ([said] if said else []), "as often as it is asked, until the next run"
    assert said.startswith(f"{name} was a") or ours, said
    journal.claim(out, spec.run, lambda _: False)
    journal.begin(out, spec)
    journal.append(out, "a line")
    write_page(out / journal.RESULTS, "results")
    journal.write_flag(out, CONTENT)
    assert journal.owner(out) == spec.run and journal.holds(out, "a line")
    assert (out / journal.RESULTS).read_text() == "results"
    assert victim.read_text() == SECRET and [path.name for path in victim.parent.iterdir()] == [".bashrc"]
    assert journal.clear_the_way(out) == [], "the next run is not told of it"


@pytest.mark.parametrize("trick", TRICKS)
def test_a_line_is_appended_to_ours_only(tmp_path: Path, victim: Path, spec: RunSpec, trick: str) -> None:
    """Training may replace the log at any moment of its run; then what is said of it is lost, and no more."""
    out = tmp_path / "out"
    journal.create(out, spec)
    (out / journal.NAME).unlink()
    TRICKS[trick](out / journal.NAME, victim)
    with contextlib.suppress(Exception):
        journal.append(out, "a line")
    assert victim.read_text() == SECRET and [path.name for path in victim.parent.iterdir()] == [".bashrc"]


def test_a_temporary_name_cannot_be_known(tmp_path: Path, victim: Path) -> None:
    for name in (f".results.md.{os.getpid()}.tmp", ".results.md.tmp"):
        (tmp_path / name).symlink_to(victim)
    write_atomically(tmp_path / "results.md", b"ours")
    assert (tmp_path / "results.md").read_text() == "ours" and victim.read_text() == SECRET
    assert len(list(tmp_path.glob(".results*"))) == 2, "nothing of ours is left"


def test_a_directory_below_that_is_a_link_is_not_entered(tmp_path: Path, victim: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "recipes").symlink_to(victim.parent)
    with pytest.raises(OSError, match="link"):
        hostile.read_own(out / "recipes/.bashrc", root=out)
    with pytest.raises(OSError, match="not below"):
        hostile.read_own(out / "a/../../home/.bashrc", root=out)
    assert journal.move(out, [out / "recipes/.bashrc"]) == [], "nor is somebody else's file moved out of it"
    assert victim.read_text() == SECRET


def test_the_way_to_the_directory_may_be_a_link(tmp_path: Path, spec: RunSpec) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "big")
    journal.begin(tmp_path / "out", spec)
    journal.write_flag(tmp_path / "out", CONTENT)
    assert {path.name for path in (tmp_path / "big").iterdir()} == {journal.NAME, journal.FLAG}
    assert journal.clear_the_way(tmp_path / "out") == []


@pytest.mark.parametrize("trick", TRICKS)
def test_records_are_read_from_plain_files(tmp_path: Path, victim: Path, trick: str) -> None:
    victim.write_text(json.dumps({"a": 1}))
    TRICKS[trick](tmp_path / "collected.json", victim)
    assert read_json(tmp_path / "collected.json") == ({"a": 1} if trick == "second name" else None)


def test_permissions_that_training_took_are_given_back(tmp_path: Path, spec: RunSpec) -> None:
    out = tmp_path / "out"
    journal.create(out, spec)
    (out / journal.NAME).chmod(0)
    out.chmod(0o555)
    said = journal.clear_the_way(out)
    assert [text.partition(" had lost")[0] for text in said] == ["out", journal.NAME]
    assert (out.stat().st_mode & 0o777, (out / journal.NAME).stat().st_mode & 0o777) == (0o755, 0o600)
    assert journal.owner(out) == spec.run and journal.clear_the_way(out) == []
