"""events.jsonl, as the Runner and we append to it and everybody reads it."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from autoresearch.errors import EnvironmentUnusable
from autoresearch.records import events, files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_an_intervention_has_the_runners_shape(path: Path) -> None:
    events.append(path, "note", text="läuft\n gut 🎉")
    events.append(path, "stop", s=1.5, t=1790000000.12345, how="drain", odd=math.nan, place=Path("/x\udcff"))
    first, second = (json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines())
    assert list(first)[:3] == ["t", "s", "event"]
    assert (first["s"], first["event"], first["text"]) == (None, "note", "läuft\n gut 🎉")
    assert second == {
        "t": 1790000000.123,
        "s": 1.5,
        "event": "stop",
        "how": "drain",
        "odd": None,
        "place": "/x\udcff",
    }


def test_events_are_numbered_by_line_from_one(path: Path) -> None:
    for n in range(1, 6):
        events.append(path, "step", step=n)
    found, upto = events.read(path)
    assert [(e.seq, e["step"]) for e in found] == [(n, n) for n in range(1, 6)]
    assert upto == 5
    found, upto = events.read(path, since=3)
    assert ([e.seq for e in found], upto) == ([4, 5], 5)
    assert events.read(path, since=5) == ([], 5)
    assert events.read(path, since=99) == ([], 99)
    assert found[0].record() == {"seq": 4, "t": found[0].t, "s": None, "event": "step", "step": 4}
    assert (found[0].get("x", 1), "step" in found[0], "x" in found[0]) == (1, True, False)
    assert [e.seq for e in events.last(path, 2)] == [4, 5] and events.last(path, 0) == []


def test_what_a_killed_writer_left_costs_only_its_own_line(path: Path) -> None:
    path.write_bytes(b'{"t": 1, "s": 2, "event": "a"}\n{"t": 1, "ev')
    events.append(path, "b")
    found, upto = events.read(path)
    assert [(e.seq, e.event) for e in found] == [(1, "a"), (3, "b")]
    assert upto == 3


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[]", b"5", b"null", b'"x"', b"\xff\0", b'{"event": 5}', b'{"t": NaN', b'{"t": 1}']
)
def test_a_line_that_is_no_event_keeps_its_number(path: Path, line: bytes) -> None:
    path.write_bytes(line + b'\n{"event": "a"}\n')
    assert [(e.seq, e.event, e.t, e.s) for e in events.read(path)[0]] == [(2, "a", 0.0, None)]
    assert [e.seq for e in events.last(path, 5)] == [2]


@pytest.mark.system
def test_several_writers_do_not_mix(path: Path) -> None:
    pids = []
    for writer in range(4):
        pid = os.fork()
        if pid == 0:
            try:
                for n in range(50):
                    events.append(path, "w", writer=writer, n=n, text="x" * 200)
            finally:
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    found = events.read(path)[0]
    assert len(found) == 200
    assert [[e["n"] for e in found if e["writer"] == w] for w in range(4)] == [list(range(50))] * 4


def test_an_unwritable_file_gives_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnusable, match="cannot be written"):
        events.append(tmp_path / "gone" / "events.jsonl", "note")


@pytest.mark.parametrize("block", [1, 5, 7, 1 << 18])
def test_lines_with_a_needle_are_found_wherever_a_block_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(files, "BLOCK", block)
    lines = [b"\n", b"ab\n", b"\n", b"xaby\n", b"a\n", b"b\n", b"long" * 9 + b"ab\n", b"ab"]
    path.write_bytes(b"".join(lines))
    with files.reading(path) as fd:
        assert fd is not None
        assert list(files.lines_from(fd)) == lines
        assert list(files.lines_from(fd, 1)) == lines[1:]
        near = [line for line in files.lines_from(fd, needle=b"ab") if b"ab" in line]
        assert near == [line for line in lines if b"ab" in line]
