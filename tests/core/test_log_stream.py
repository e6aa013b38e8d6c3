"""A job's log taken apart: frames of its Runner, and what only looks like one."""

from __future__ import annotations

import json

from autoresearch.launchers import ray

ALL = {"run.log": 0, "events.jsonl": 0, "evaluation.log": 0}


def frame(name: str, run: str = "r1", **what: object) -> bytes:
    return b"\x1e" + json.dumps({"told": run, "file": name, **what}).encode() + b"\n"


def test_frames_leave_the_log_as_it_was() -> None:
    stream = b"Running entrypoint\nepoch 1: 50" + frame("events.jsonl", text="{}\n") + b"% done\n"
    stream += frame("events.jsonl", text="{}\n") + frame("exit.json", record={"ending": "finished"})
    seen = ray.read(stream, "r1").seen(ALL, 100)
    assert seen.grown == {"run.log": b"Running entrypoint\nepoch 1: 50% done\n", "events.jsonl": b"{}\n{}\n"}
    assert seen.exit == {"ending": "finished"} and not seen.claimed


def test_what_only_looks_like_a_frame_is_the_log() -> None:
    """Another run's, broken JSON, no object: all of it was printed by a trainer."""
    stream = frame("exit.json", "r2", record={}) + b"\x1e{oops\n" + b"\x1e[1]\n" + b'\x1e{"told": "r1"}\n'
    assert ray.read(stream, "r1") == ray.JobLog("r1", {"run.log": stream}, {})


def test_a_frame_that_is_not_whole_yet_is_waited_for() -> None:
    whole = b"step 1\n" + frame("runner.json", record={"pid": 7})
    for cut in range(len(b"step 1\n"), len(whole)):
        assert ray.read(whole[:cut], "r1") == ray.JobLog("r1", {"run.log": b"step 1\n"}, {})
    assert ray.read(whole, "r1").seen({}, 1).claimed


def test_a_broken_frame_hides_none() -> None:
    found = ray.read(b"\x1e{ no end" + frame("exit.json", record={"ending": "finished"}), "r1")
    assert found.records and found.files["run.log"] == b"\x1e{ no end"


def test_pieces_are_bounded() -> None:
    seen = ray.read(b"0123456789", "r1").seen({"run.log": 4}, 3)
    assert seen.grown == {"run.log": b"456"} and seen.more
    assert not ray.read(b"0123456789", "r1").seen({"run.log": 10}, 3).more
