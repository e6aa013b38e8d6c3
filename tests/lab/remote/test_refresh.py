"""Looks at runs with real Runners: submitted once, mirrored whole, ended truly, whatever is killed or silent."""

from __future__ import annotations

import errno
import fcntl
import functools
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import Unreachable
from autoresearch.core.run.spec import RunState
from autoresearch.lab.remote import refresh as refresh_module
from autoresearch.lab.remote.refresh import Refresher, kept_fresh, refresh
from autoresearch.records import order_file
from autoresearch.records.order_file import request_stop
from tests.waiting import PATIENCE_S

POINTS = (
    "refresh.submitting",
    "refresh.submitted",
    "refresh.noted",
    "refresh.before_exit_record",
    "refresh.after_exit_record",
)


@pytest.mark.system
def test_a_run_is_submitted_mirrored_and_ended(ground: Any) -> None:
    rundir = ground.order("echo one; echo two >&2; exit 0")
    end = ground.ended(rundir)
    assert (end.ending, end.returncode, end.job, end.node) == ("finished", 0, "1", "here")
    assert end.queue_s is not None and end.queue_s < 60
    assert rundir.log.read_bytes() == (rundir.far / "run.log").read_bytes()
    assert rundir.log.read_text().endswith("one\ntwo\n")
    assert {"submitted", "started", "ended"} <= set(ground.names(rundir))
    assert rundir.state() is RunState.ENDED and not rundir.environment.exists()
    assert "submitted to yard as 1" in (ground.root / "results" / rundir.path.name / "experiment_log.md").read_text()


@pytest.mark.system
@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_the_next_one_finds_exactly_one_job(ground: Any, point: str) -> None:
    rundir = ground.order("sleep 0.3; exit 0")
    ground.killed_at(point)
    end = ground.ended(rundir)
    assert end.ending == "finished"
    assert len(ground.jobs.records()) == 1 and ground.starts(rundir) == 1
    lines, far = (
        [{**json.loads(line), "far": 0} for line in path.read_text().splitlines()]
        for path in (rundir.events, rundir.far / "events.jsonl")
    )
    came = [line for line in lines if line in far]  # the Runner's last word may come after its exit record
    assert came in (far, far[:-1]), "a line was lost, doubled or moved"
    assert not rundir.environment.exists()


@pytest.mark.system
def test_a_job_that_is_over_before_it_was_noted_is_not_started_again(ground: Any, eventually: Any) -> None:
    rundir = ground.order("exit 0")
    ground.killed_at("refresh.submitted")
    eventually(lambda: ground.far(rundir) and not ground.jobs.lives("1"))
    ground.jobs.purge("1")  # and its launcher has forgotten it: another one is submitted, whose Runner refuses
    end = ground.ended(rundir)
    assert end.ending == "finished" and ground.starts(rundir) == 1
    eventually(lambda: not ground.jobs.lives("1"))
    assert "over: it has an exit record" in (ground.root / "launcher/jobs/1.out").read_text()


def test_stopped_before_it_was_submitted(ground: Any) -> None:
    rundir = ground.order()
    request_stop(rundir, "changed my mind")
    end = ground.ended(rundir)
    assert (end.ending, end.cause, end.reason) == ("stopped", "stop_request", "changed my mind")
    assert not ground.jobs.records() and not rundir.environment.exists()


def test_stopped_in_the_queue(ground: Any) -> None:
    ground.hold()
    rundir = ground.order("sleep 300")
    ground.until(lambda: rundir.state() is RunState.PENDING)
    request_stop(rundir, "no time")
    assert rundir.state() is RunState.STOPPING
    end = ground.ended(rundir)
    assert (end.ending, end.reason) == ("stopped", "no time")
    assert ground.starts(rundir) == 0
    ground.release()
    ground.jobs.poll([])
    assert not ground.jobs.lives("1")


def test_pending_tells_why_and_has_a_limit(ground: Any) -> None:
    ground.options["pending_limit"] = "2h"
    ground.hold("Resources")
    rundir = ground.order()
    ground.until(lambda: rundir.state() is RunState.PENDING)
    seen = order_file.observed(rundir)
    assert seen is not None and seen.reason == "Resources"
    ground.hold("Priority")
    ground.until(lambda: ground.names(rundir).count("pending") == 2)
    ground.ahead_s += 7100
    for _ in range(3):
        ground.look()
    assert rundir.state() is RunState.PENDING
    ground.ahead_s += 200
    end = ground.ended(rundir)
    assert (end.ending, end.cause) == ("launch_failed", "pending_limit") and "Priority" in end.reason
    ground.release()
    ground.jobs.poll([])
    assert ground.starts(rundir) == 0


@pytest.mark.system
def test_nobody_answers_and_then_they_do(ground: Any) -> None:
    rundir = ground.order("sleep 300")
    ground.until(lambda: ground.starts(rundir) and rundir.state() is RunState.RUNNING)
    ground.silence("the link is down")
    ground.until(lambda: rundir.state() is RunState.UNREACHABLE)
    for _ in range(5):
        ground.look()
    seen = order_file.observed(rundir)
    assert seen is not None and seen.reason == "the link is down"
    assert seen.hint == "wait for it" and seen.since <= time.time()
    request_stop(rundir, "while nobody answers")
    assert rundir.state() is RunState.UNREACHABLE
    ground.answers()
    end = ground.ended(rundir)
    assert (end.ending, end.reason) == ("stopped", "while nobody answers")
    names = ground.names(rundir)
    assert names.count("unreachable") == names.count("recovered") == 1


@pytest.mark.system
def test_a_run_that_began_and_ended_while_nobody_answered(ground: Any, eventually: Any) -> None:
    ground.hold()
    rundir = ground.order("exit 0")
    ground.until(lambda: rundir.state() is RunState.PENDING)
    ground.silence()
    ground.until(lambda: rundir.state() is RunState.UNREACHABLE)
    ground.release()
    ground.jobs._schedule({})
    eventually(lambda: ground.far(rundir))
    ground.answers()
    assert ground.ended(rundir).ending == "finished"
    names = ground.names(rundir)
    assert names.count("unreachable") == names.count("recovered") == 1


@pytest.mark.system
def test_clocks_that_differ_by_an_hour(ground: Any) -> None:
    ground.jobs.ahead_s = ground.jobs.reach.ahead_s = 3600.0
    rundir = ground.order("echo hello; exit 0")
    before = time.time()
    end = ground.ended(rundir)
    far = ground.far(rundir)
    assert far["ended"] - time.time() > 3000, "the far clock was not another one"
    assert before - 5 < end.started <= end.ended < time.time() + 5
    from autoresearch.records import events

    assert all(abs(event.t - time.time()) < 600 for event in events.read(rundir.events)[0])
    text = (ground.root / "results" / rundir.path.name / "experiment_log.md").read_text()
    minute = time.strftime("%Y-%m-%d %H:%M", time.gmtime(far["ended"]))
    assert "the trainer exited with 0" in text and minute not in text


@pytest.mark.system
def test_unreachable_in_the_middle_of_a_submit(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It got through, and the answer did not."""
    rundir = ground.order("sleep 0.2")
    real, tries = ground.jobs.submit, []

    def submit(job: Any) -> Any:
        handle = real(job)
        tries.append(job.again)
        if len(tries) == 1:
            raise Unreachable("the answer was lost")
        return handle

    monkeypatch.setattr(ground.jobs, "submit", submit)
    assert ground.ended(rundir).ending == "finished"
    assert tries == [False, True] and len(ground.jobs.records()) == 1 and ground.starts(rundir) == 1


@pytest.mark.system
def test_an_interpreter_of_the_place_may_lie_below_the_home(
    ground: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home/py").symlink_to(sys.executable)
    ground.options["python"] = "~/py"
    assert ground.ended(ground.order()).ending == "finished"
    (record,) = ground.jobs.records()
    assert record["argv"][0] == str(tmp_path / "home/py")


@pytest.mark.system
def test_a_second_job_of_a_run_is_refused_by_its_runner(ground: Any, eventually: Any) -> None:
    """As on a file system whose locks do not cross machines: the lock is another one, the claim is the same."""
    rundir = ground.order("sleep 300")
    ground.until(lambda: "started" in ground.names(rundir))  # runner.json is written no more
    (rundir.far / "lock").rename(rundir.far / "lock of another machine")
    (rundir.far / "runner.json").unlink()
    (record,) = ground.jobs.records()
    second = ground.jobs._new({**{k: v for k, v in record.items() if k != "native"}, "state": "pending"})
    ground.jobs.poll([])
    eventually(lambda: not ground.jobs.lives(second))
    assert "started before, by another Runner" in (ground.root / f"launcher/jobs/{second}.out").read_text()
    assert ground.starts(rundir) == 1 and ground.jobs.lives("1")


@pytest.mark.system
def test_a_signal_because_of_a_stop_request_is_that_request(ground: Any) -> None:
    """A launcher's signal may come before the request is seen."""
    rundir = ground.order("sleep 300")
    ground.until(lambda: ground.starts(rundir))
    pid = ground.jobs.pid("1")
    os.kill(pid, signal.SIGSTOP)
    (rundir.far / "stop").write_text('{"how": "now", "reason": "superseded by a better one", "cause": "superseded"}')
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGCONT)
    end = ground.ended(rundir)
    assert (end.ending, end.cause) == ("stopped", "superseded")


@pytest.mark.system
def test_a_silent_launcher_says_nothing_about_what_its_files_say(ground: Any) -> None:
    rundir = ground.order("until [ -e go ]; do sleep 0.1; done")
    ground.until(lambda: rundir.state() is RunState.RUNNING and ground.starts(rundir))
    ground.silence("slurmctld is down", ".jobs")
    ground.ahead_s += 60
    ground.look(4)
    assert rundir.state() is RunState.RUNNING
    other = ground.order()
    ground.until(lambda: other.state() is RunState.UNREACHABLE)
    (ground.root / "go").touch()
    assert ground.ended(rundir).ending == "finished"
    ground.answers()
    assert ground.ended(other).ending == "finished"
    assert ground.starts(other) == 1


@pytest.mark.system
def test_a_runner_that_is_killed_with_everything_is_lost(ground: Any) -> None:
    rundir = ground.order("echo step:1; sleep 300")
    ground.until(lambda: b"step:1" in rundir.log.read_bytes())
    ground.jobs.kill("1")
    ground.until(lambda: order_file.observed(rundir).memory["job_state"] == "over")
    ground.ahead_s += 100
    end = ground.ended(rundir)
    assert (end.ending, end.cause) == ("lost", "no_exit_record") and end.duration_s < 60


@pytest.mark.system
def test_the_trouble_of_one_run_is_not_the_others(ground: Any) -> None:
    damaged, unshipped, good = ground.order(), ground.order(), ground.order()
    damaged.spec.write_text("{")
    unshipped.far.write_text("a file where the far directory should be")
    assert ground.ended(good).ending == "finished"
    assert not damaged.exit_record.exists()
    end = ground.ended(unshipped)
    assert end.ending == "launch_failed" and "far" in end.reason and not ground.starts(unshipped)


@pytest.mark.system
def test_ten_looks_at_once_ask_once_and_for_all_runs(ground: Any) -> None:
    rundirs = [ground.order("sleep 300") for _ in range(5)]
    ground.until(lambda: all(map(ground.starts, rundirs)))
    now = ground.wall() + 60
    ground.wall = lambda: now  # what was looked at within a second is not looked at again
    polls, looks = len(ground.jobs.calls("poll")), len(ground.jobs.calls("look"))
    look = functools.partial(refresh, rundirs, ground.parts(), at_most_s=PATIENCE_S)
    threads = [threading.Thread(target=look) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ground.jobs.calls("poll")[polls:] == ["poll 5"] and ground.jobs.calls("look")[looks:] == ["look 5"]


@pytest.mark.system
def test_who_is_overtaken_by_the_look_of_another_makes_none(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rundir, real = ground.order("sleep 300"), fcntl.flock
    ground.look()
    looks = len(ground.jobs.calls("look"))

    def overtaken(fd: int, how: int) -> None:
        if os.path.samestat(os.fstat(fd), rundir.looked.stat()):
            monkeypatch.undo()
            ground.look()
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", overtaken)
    Refresher(ground.parts()).look([rundir], within_s=600.0)
    assert len(ground.jobs.calls("look")) == looks + 1


@pytest.mark.system
@pytest.mark.parametrize(("poll", "polls"), [(None, range(6, 21)), ("40s", range(2, 5))])
def test_who_waits_asks_the_launcher_now_and_then(ground: Any, poll: str | None, polls: range) -> None:
    ground.options |= {"poll": poll} if poll else {}
    rundir = ground.order("sleep 300")
    ground.until(lambda: rundir.state() is RunState.RUNNING)
    ground.ahead_s += 3600
    before, refresher = len(ground.jobs.calls("poll")), Refresher(ground.parts())
    for _ in range(120):
        refresher.look([rundir], patient=True)
        ground.ahead_s += 1.0
    assert len(ground.jobs.calls("poll")) - before in polls


@pytest.mark.system
def test_who_waits_looks_at_once_when_it_is_woken(ground: Any, eventually: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(refresh_module, "LOOKS_S", (300.0, 300.0))
    rundir = ground.order("exit 0")
    with kept_fresh(lambda: [rundir], ground.parts()) as look_now:
        eventually(lambda: ground.far(rundir))
        assert not rundir.exit_record.exists()
        look_now()
        eventually(rundir.exit_record.exists)


@pytest.mark.system
def test_a_target_that_does_not_answer_holds_up_nobody(ground: Any, monkeypatch: Any) -> None:
    rundir, answer = ground.order(), threading.Event()

    def submit(job: Any) -> Any:
        answer.wait(60)
        raise Unreachable("too late")

    monkeypatch.setattr(ground.jobs, "submit", submit)
    began = time.monotonic()
    refresh([rundir], ground.parts(), at_most_s=0.3)
    assert time.monotonic() - began < 30 and rundir.state() is RunState.STARTING
    answer.set()


@pytest.mark.system
def test_a_full_disk_keeps_the_last_word_waiting(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rundir = ground.order("echo words; exit 0")
    real, full = refresh_module.write_json, [True]

    def write(path: Any, value: Any, **more: Any) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, value, **more)

    monkeypatch.setattr(refresh_module, "write_json", write)
    ground.until(lambda: ground.far(rundir))
    ground.look(5)
    assert not rundir.exit_record.exists() and rundir.state().lives
    full[0] = False
    assert ground.ended(rundir).ending == "finished"


@pytest.mark.system
def test_after_a_long_silence_everything_is_fetched_at_once(ground: Any, eventually: Any) -> None:
    rundir = ground.order("head -c 7000000 /dev/zero | tr '\\0' y; sleep 300")
    ground.look()
    eventually(lambda: (rundir.far / "run.log").exists() and (rundir.far / "run.log").stat().st_size >= 7_000_000)
    ground.look()
    assert rundir.log.stat().st_size >= 7_000_000


@pytest.mark.system
def test_who_was_stopped_in_a_look_keeps_nobody_from_looking(ground: Any, eventually: Any) -> None:
    go = ground.root / "go"
    rundir = ground.order(f"until [ -e '{go}' ]; do sleep 0.05; done")
    ground.look()
    with rundir.looked.open() as held:  # as by `wait` and Ctrl-Z
        fcntl.flock(held, fcntl.LOCK_EX)
        go.touch()
        eventually(lambda: ground.far(rundir))
        ground.look()
        assert not rundir.exit_record.exists()
        ground.ahead_s += 4000
        assert ground.ended(rundir).ending == "finished"
