"""Faults: kills at named points, full disks, floods, bytes that are no text, a broken Runner."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autoresearch.runner import runner
from autoresearch.runner.basics import parse_object
from autoresearch.runner.event_log import RECORD_BYTES, EventLog


@pytest.mark.system
@pytest.mark.parametrize(
    ("point", "recorded", "started"),
    [
        ("runner.started", False, False),
        ("runner.trainer_started", False, True),
        ("runner.before_exit_record", False, True),
        ("runner.after_exit_record", True, True),
    ],
)
def test_killed_at_a_named_point(yard: Any, living: Any, point: str, recorded: bool, started: bool) -> None:
    live = yard.start("sleep 0.2", env={"AUTORESEARCH_FAILPOINT": f"{point}:kill"})
    assert live.process.wait(120) == -9
    assert (live.dir / "exit.json").exists() is recorded
    assert ("started" in live.names()) is started


@pytest.mark.system
def test_a_fault_of_the_runner_is_recorded_and_the_tree_ended(yard: Any) -> None:
    patch = "limits_and_stops.Stopping.check_limits = lambda self: 1 / 0"
    live, record = yard.ended("setsid sleep 1000 & sleep 1000", patch=patch, cleanup=["echo cleaned"])
    assert (record["ending"], record["cause"]) == ("crashed", "runner_error")
    assert "ZeroDivisionError" in record["reason"] and "in live" in record["reason"]
    assert live.marked() == []
    assert b"\ncleaned\n" in live.log()


@pytest.mark.system
def test_even_a_fault_while_ending_the_tree_is_recorded(yard: Any) -> None:
    _, record = yard.ended("exit 3", patch="processes.ProcessTree.alive = lambda self: 1 / 0")
    assert (record["ending"], record["cause"], record["returncode"]) == ("crashed", "runner_error", 3)


@pytest.mark.system
def test_events_that_cannot_be_written_stop_nothing(yard: Any) -> None:
    live = yard.make("echo 'step:1 - actor/x:1'; exit 6", journal="/dev/full")
    (live.dir / "events.jsonl").symlink_to("/dev/full")
    record = yard.launch(live).record()
    assert (record["returncode"], record["first_step"]) == (6, 1)


def test_a_torn_event_is_not_glued_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event_log = EventLog(str(tmp_path), "")
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:10]))
    event_log.emit("one", "is torn")
    monkeypatch.undo()
    event_log.emit("two", "is whole")
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert '"two"' in lines[1]


def test_a_record_that_is_too_long_is_shortened(tmp_path: Path) -> None:
    event_log = EventLog(str(tmp_path), "")
    event_log.reserve()
    event_log.record_exit({"ending": "crashed", "reason": 'x"\n' * 50_000, "cleanup": [{}] * 900, "n": 1})
    data = (tmp_path / "exit.json").read_bytes()
    assert len(data) == RECORD_BYTES
    assert parse_object(data)["ending"] == "crashed"


@pytest.mark.system
def test_a_limit_on_file_size_ends_the_trainer_only(yard: Any) -> None:
    live = yard.make("yes")
    code = "import resource, os, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (65536,) * 2); "
    code += "os.execv(sys.argv[1], sys.argv[1:])"
    record = yard.launch(live, argv=[sys.executable, "-c", code, *yard.argv(live)]).record()
    assert (record["ending"], record["log_bytes"]) == ("crashed", 65536)


@pytest.mark.system
@pytest.mark.parametrize("kind", ["lines", "binary", "no-newline", "cr", "nul"])
def test_a_hundred_megabytes_of_anything(yard: Any, nasty: Path, kind: str) -> None:
    program = f"{sys.executable} -S {nasty}/noisy.py {kind} 100"
    bar = {"kind": "progress", "pattern": r"\d+%\|", "hold_s": 60.0, "needles": ["%|"]}
    signals = [bar, {"kind": "error", "pattern": "Traceback", "hold_s": 0.0, "needles": ["Traceback"]}]
    step = {"kind": "step", "pattern": r"^step:(?P<step>\d+) - actor/kl_loss:(?P<kl>[\d.]+)", "needles": ["step:"]}
    live, record = yard.ended(program, signals=[*signals, step])
    assert (record["ending"], record["first_step"], record["kl"]) == ("finished", 7, 0.25)
    assert record["log_bytes"] >= 99_000_000
    (live.dir / "run.log").unlink()


SEEN = {"kind": "validation", "pattern": "^all of it$", "hold_s": 0.0}
STEP = {"kind": "step", "pattern": r"^step:(?P<step>\d+) - actor/", "needles": ["step:"]}


@pytest.mark.system
def test_a_log_that_is_truncated_and_replaced_is_followed(yard: Any) -> None:
    # Much before it, little after: a file that grew past the old place again between two looks cannot be told.
    block = "head -c 5000 /dev/zero | tr '\\0' x; echo; echo all of it"
    command = f"{block}; until [ -e go ]; do sleep 0.05; done; echo 'step:3 - actor/x:1'"
    live = yard.start(command, signals=[SEEN, STEP])
    live.event("validation")
    assert len(live.log()) > 5000
    os.truncate(live.dir / "run.log", 0)
    (yard.root / "go").touch()
    assert live.record()["first_step"] == 3


@pytest.mark.system
def test_the_log_is_deleted(yard: Any) -> None:
    command = "echo all of it; until [ -e go ]; do echo some words; sleep 0.05; done; echo 'step:3 - actor/x:1'"
    live = yard.start(command, signals=[SEEN, STEP])
    live.event("validation")  # it is being read
    (live.dir / "run.log").unlink()
    (yard.root / "go").touch()
    assert live.record()["first_step"] == 3


@pytest.mark.system
def test_a_run_whose_directory_is_removed_ends_at_its_limit_and_says_so(yard: Any, tmp_path: Path) -> None:
    journal = tmp_path / "experiment_log.md"
    changes = {"journal": str(journal), "cleanup": ["true"], "evaluate": ["true"], "limits": {"max_s": 0.1}}
    patch = "due = limits_and_stops.Stopping.max_deadline.fget; limits_and_stops.Stopping.max_deadline = property("
    patch += "lambda self: due(self) + 9e9 * runner.os.path.exists(self._log))"  # it is reached once that is removed
    live = yard.start("setsid sleep 1000 & sleep 1000", patch=patch, **changes)
    live.event("started")
    with (live.dir / "stderr").open("rb") as printed:
        shutil.rmtree(live.dir.rename(tmp_path / "gone"))  # at once: the Runner may write there meanwhile
        assert live.process.wait(120) == 143  # the trainer died by TERM
        assert printed.read() == b""
    assert live.marked() == [] and not live.dir.exists()
    assert f"its records were removed while it ran: {live.dir}" in journal.read_text()
    assert "the Runner failed" not in journal.read_text()


@pytest.mark.real
def test_a_full_disk(yard: Any, disk: Any, tmp_path: Path) -> None:
    """A file system of 256 KiB, filled by the trainer: the exit record was reserved before."""
    yard.root = disk(tmp_path / "small", "256k")
    _, record = yard.ended("cat /dev/zero > rest; echo x > more; exit 9")
    assert (record["ending"], record["returncode"]) == ("crashed", 9)


@pytest.mark.real
def test_a_disk_that_is_full_from_the_start(yard: Any, disk: Any, tmp_path: Path) -> None:
    yard.root = disk(tmp_path / "small", "64k")
    live = yard.make("true")
    disk.fill(yard.root)
    assert yard.launch(live).process.wait(120) == 1


@pytest.mark.system
def test_the_runner_is_small_and_imports_nothing_of_ours() -> None:
    place = str(Path(runner.__file__).parents[1])
    code = f"import sys; sys.path.append({place!r}); import runner.runner; print(*sys.modules)"
    argv = [sys.executable, "-S", "-E", "-s", "-c", code]
    out = subprocess.run(argv, capture_output=True, text=True, check=True)
    heavy = {"subprocess", "pathlib", "typing", "dataclasses", "inspect", "logging", "traceback", "threading"}
    assert heavy.isdisjoint(out.stdout.split())
