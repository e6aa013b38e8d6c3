"""The Follower with real Runners: submitted once, mirrored whole, ended truly, whatever is killed or silent."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import Unreachable
from autoresearch.core.run.spec import RunState
from autoresearch.lab.remote import follower as follower_module
from autoresearch.records import order_file
from autoresearch.records.order_file import request_stop

POINTS = (
    "follower.submitting",
    "follower.submitted",
    "follower.noted",
    "follower.before_exit_record",
    "follower.after_exit_record",
)


@pytest.mark.system
def test_a_run_is_submitted_mirrored_and_ended(ground: Any) -> None:
    rundir = ground.order("echo one; echo two >&2; exit 0")
    end = ground.ended(ground.follower(), rundir)
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
    end = ground.ended(ground.follower(), rundir)
    assert end.ending == "finished"
    assert len(ground.jobs.records()) == 1 and ground.starts(rundir) == 1
    assert len([n for n in ground.names(rundir) if n == "started"]) == 1
    assert not rundir.environment.exists()


@pytest.mark.system
def test_killed_again_and_again(ground: Any) -> None:
    rundir = ground.order("echo done; exit 3")
    for point in POINTS[:4]:
        ground.killed_at(point)
    end = ground.ended(ground.follower(), rundir)
    assert (end.ending, end.returncode) == ("crashed", 3)
    assert ground.starts(rundir) == 1 and len(ground.jobs.records()) == 1
    lines = rundir.events.read_text().splitlines()
    far = (rundir.far / "events.jsonl").read_text().splitlines()
    assert [line for line in lines if line in far] == far, "a line was lost, doubled or moved"


@pytest.mark.system
def test_a_job_that_is_over_before_it_was_noted_is_not_started_again(ground: Any, eventually: Any) -> None:
    rundir = ground.order("exit 0")
    ground.killed_at("follower.submitted")
    eventually(lambda: ground.far(rundir))
    ground.jobs.purge("1")  # and its launcher has forgotten it: another one is submitted, whose Runner refuses
    end = ground.ended(ground.follower(), rundir)
    assert end.ending == "finished" and ground.starts(rundir) == 1
    eventually(lambda: not ground.jobs.lives("1"))
    assert "over: it has an exit record" in (ground.root / "launcher/jobs/1.out").read_text()


def test_stopped_before_it_was_submitted(ground: Any) -> None:
    rundir = ground.order()
    request_stop(rundir, "changed my mind")
    end = ground.ended(ground.follower(), rundir)
    assert (end.ending, end.cause, end.reason) == ("stopped", "stop_request", "changed my mind")
    assert not ground.jobs.records() and not rundir.environment.exists()


def test_stopped_in_the_queue(ground: Any) -> None:
    ground.hold()
    rundir, follower = ground.order("sleep 300"), ground.follower()
    ground.until(follower, lambda: rundir.state() is RunState.PENDING)
    request_stop(rundir, "no time")
    assert rundir.state() is RunState.STOPPING
    end = ground.ended(follower, rundir)
    assert (end.ending, end.reason) == ("stopped", "no time")
    assert ground.starts(rundir) == 0
    ground.release()
    ground.jobs.poll([])
    assert not ground.jobs.lives("1")


@pytest.mark.system
def test_stopped_while_it_runs_and_twice(ground: Any) -> None:
    rundir, follower = ground.order("sleep 300"), ground.follower()
    ground.until(follower, lambda: ground.starts(rundir))
    request_stop(rundir, "first", how="drain")
    request_stop(rundir, "enough", cause="superseded")
    end = ground.ended(follower, rundir)
    assert (end.ending, end.cause, end.reason) == ("stopped", "superseded", "enough")


def test_pending_tells_why_and_has_a_limit(ground: Any, turned: Any) -> None:
    ground.options["pending_limit"] = "2h"
    ground.hold("Resources")
    rundir, follower = ground.order(), ground.follower(turned)
    ground.until(follower, lambda: rundir.state() is RunState.PENDING)
    seen = order_file.observed(rundir)
    assert seen is not None and (seen.reason, seen.word) == ("Resources", "WAITING")
    ground.hold("Priority")
    ground.until(follower, lambda: ground.names(rundir).count("pending") == 2)
    turned.now += 7100
    for _ in range(3):
        follower.rung()
        follower.turn()
    assert rundir.state() is RunState.PENDING
    turned.now += 200
    end = ground.ended(follower, rundir)
    assert (end.ending, end.cause) == ("launch_failed", "pending_limit") and "Priority" in end.reason
    ground.release()
    ground.jobs.poll([])
    assert ground.starts(rundir) == 0


def test_the_pending_limit_survives_a_kill(ground: Any) -> None:
    ground.options["pending_limit"] = "1h"
    ground.hold()
    rundir, follower = ground.order(), ground.follower()
    ground.until(follower, lambda: rundir.state() is RunState.PENDING)
    end = ground.ended(ground.follower(wall=lambda: time.time() + 3700), rundir)
    assert end.cause == "pending_limit"


@pytest.mark.system
def test_nobody_answers_and_then_they_do(ground: Any) -> None:
    rundir, follower = ground.order("sleep 300"), ground.follower()
    ground.until(follower, lambda: ground.starts(rundir) and rundir.state() is RunState.RUNNING)
    ground.silence("the link is down")
    ground.until(follower, lambda: rundir.state() is RunState.UNREACHABLE)
    for _ in range(5):
        follower.rung()
        follower.polls.at_once()
        follower.turn()
    seen = order_file.observed(rundir)
    assert seen is not None and seen.reason == "the link is down"
    assert dict(seen.more) == {"code": "no_answer", "hint": "wait for it"} and seen.since <= seen.t
    request_stop(rundir, "while nobody answers")
    assert rundir.state() is RunState.UNREACHABLE
    ground.answers()
    end = ground.ended(follower, rundir)
    assert (end.ending, end.reason) == ("stopped", "while nobody answers")
    names = ground.names(rundir)
    assert names.count("unreachable") == names.count("recovered") == 1


@pytest.mark.system
def test_a_run_that_began_and_ended_while_nobody_answered(ground: Any, eventually: Any) -> None:
    ground.hold()
    rundir, follower = ground.order("exit 0"), ground.follower()
    ground.until(follower, lambda: rundir.state() is RunState.PENDING)
    ground.silence()
    ground.until(follower, lambda: rundir.state() is RunState.UNREACHABLE)
    ground.release()
    ground.jobs._schedule({})
    eventually(lambda: ground.far(rundir))
    ground.answers()
    assert ground.ended(follower, rundir).ending == "finished"
    names = ground.names(rundir)
    assert names.count("unreachable") == names.count("recovered") == 1


@pytest.mark.system
def test_a_silent_launcher_says_nothing_about_what_its_files_say(ground: Any) -> None:
    rundir, follower = ground.order("until [ -e go ]; do sleep 0.1; done"), ground.follower()
    ground.until(follower, lambda: rundir.state() is RunState.RUNNING and ground.starts(rundir))
    ground.silence("slurmctld is down", ".jobs")
    for _ in range(4):
        follower.rung()
        follower.polls.at_once()
        follower.turn()
    assert follower.no_launcher.tries >= 2 and rundir.state() is RunState.RUNNING
    other = ground.order()
    ground.until(follower, lambda: other.state() is RunState.UNREACHABLE)
    (ground.root / "go").touch()
    assert ground.ended(follower, rundir).ending == "finished"
    ground.answers()
    assert ground.ended(follower, other).ending == "finished"
    assert ground.starts(other) == 1


@pytest.mark.system
def test_silence_is_asked_less_and_less_and_then_at_once(ground: Any, turned: Any) -> None:
    ground.order("sleep 300")
    follower = ground.follower(turned)
    ground.silence()
    times = []
    for _ in range(400):
        before = follower.no_launcher.tries
        follower.turn()
        if follower.no_launcher.tries > before:
            times.append(turned.now)
        turned.now += 0.5
    gaps = [round(b - a, 1) for a, b in itertools.pairwise(times)]
    assert gaps == sorted(gaps) and gaps[0] <= 1.0 and gaps[-1] == 30.0
    ground.answers()
    follower.rung()  # somebody looks: no waiting
    follower.turn()
    assert follower.no_launcher.tries == 0 and len(ground.jobs.records()) == 1


@pytest.mark.system
def test_a_runner_that_is_killed_with_everything_is_lost(ground: Any, turned: Any) -> None:
    rundir, follower = ground.order("echo step:1; sleep 300"), ground.follower(turned)
    ground.until(follower, lambda: b"step:1" in rundir.log.read_bytes())
    ground.jobs.kill("1")
    ground.until(follower, lambda: follower.runs[rundir.path.name].memory.over_since)
    turned.now += 100
    end = ground.ended(follower, rundir)
    assert (end.ending, end.cause) == ("lost", "no_exit_record") and end.duration_s < 60


@pytest.mark.system
def test_the_trouble_of_one_run_is_not_the_others(ground: Any) -> None:
    damaged, unshipped, good = ground.order(), ground.order(), ground.order()
    damaged.spec.write_text("{")
    unshipped.far.write_text("a file where the far directory should be")
    follower = ground.follower()
    assert ground.ended(follower, good).ending == "finished"
    assert not damaged.exit_record.exists() and unshipped.state().lives
    unshipped.far.unlink()
    follower.runs[unshipped.path.name].trouble.again_at = 0.0
    assert ground.ended(follower, unshipped).ending == "finished"


@pytest.mark.system
def test_a_run_whose_directory_is_removed_is_ended(ground: Any, eventually: Any) -> None:
    gone, stays = ground.order("sleep 300"), ground.order("sleep 300")
    follower = ground.follower()
    ground.until(follower, lambda: ground.starts(gone) and ground.starts(stays))
    follower = ground.follower()  # one that never saw it with its directory
    shutil.rmtree(gone.path)
    ground.until(follower, lambda: not ground.jobs.lives("1") and ground.jobs.calls("forget"))
    assert ground.jobs.lives("2") and set(follower.runs) == {stays.path.name}
    assert not (ground.folder / "jobs" / gone.path.name).exists()


@pytest.mark.system
def test_clocks_that_differ_by_an_hour(ground: Any) -> None:
    ground.jobs.ahead_s = ground.jobs.reach.offset_s = 3600.0
    rundir = ground.order("echo hello; exit 0")
    before = time.time()
    end = ground.ended(ground.follower(), rundir)
    far = ground.far(rundir)
    assert far["ended"] - time.time() > 3000, "the far clock was not another one"
    assert before - 5 < end.started <= end.ended < time.time() + 5
    from autoresearch.records import events

    assert all(abs(event.t - time.time()) < 600 for event in events.read(rundir.events)[0])
    text = (ground.root / "results" / rundir.path.name / "experiment_log.md").read_text()
    hour = time.strftime("%Y-%m-%d %H", time.gmtime(far["ended"]))
    assert "the trainer exited with 0" in text and hour not in text


@pytest.mark.system
def test_one_question_for_all_runs(ground: Any) -> None:
    rundirs = [ground.order("sleep 300") for _ in range(5)]
    follower = ground.follower()
    ground.until(follower, lambda: all(map(ground.starts, rundirs)))
    polls, looks = len(ground.jobs.calls("poll")), len(ground.jobs.calls("look"))
    follower.rung()
    follower.polls.at_once()
    follower.turn()
    assert ground.jobs.calls("poll")[polls:] == ["poll 5"] and ground.jobs.calls("look")[looks:] == ["look 5"]


@pytest.mark.system
@pytest.mark.parametrize(("poll", "polls"), [(None, range(6, 21)), ("40s", range(2, 5))])
def test_the_launcher_is_asked_now_and_then_and_the_files_often(
    ground: Any, turned: Any, poll: str | None, polls: range
) -> None:
    ground.options |= {"poll": poll} if poll else {}
    rundir = ground.order("sleep 300")
    follower = ground.follower(turned)
    ground.until(follower, lambda: rundir.state() is RunState.RUNNING)
    follower.parts = ground.follower(wall=lambda: time.time() + 3600).parts  # it is young no more
    began, before = turned.now, (len(ground.jobs.calls("poll")), len(ground.jobs.calls("look")))
    while turned.now < began + 120:
        follower.turn()
        turned.now += 0.1
    assert len(ground.jobs.calls("poll")) - before[0] in polls
    assert len(ground.jobs.calls("look")) - before[1] in range(25, 91)


@pytest.mark.system
def test_it_leaves_when_there_is_nothing(ground: Any, turned: Any) -> None:
    follower = ground.follower(turned)
    real = follower.turn

    def turn() -> None:
        real()
        turned.now += 30.0

    follower.turn = turn
    follower.run()
    follower.turn = real
    rundir = ground.order()
    assert follower.find_runs(), "an order that came while it left is not lost"
    assert ground.ended(follower, rundir).ending == "finished"


@pytest.mark.system
def test_unreachable_in_the_middle_of_a_submit(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It got through, and the answer did not."""
    rundir, follower = ground.order("sleep 0.2"), ground.follower()
    real, tries = ground.jobs.submit, []

    def submit(job: Any) -> Any:
        handle = real(job)
        tries.append(job.again)
        if len(tries) == 1:
            raise Unreachable("the answer was lost")
        return handle

    monkeypatch.setattr(ground.jobs, "submit", submit)
    assert ground.ended(follower, rundir).ending == "finished"
    assert tries == [False, True] and len(ground.jobs.records()) == 1 and ground.starts(rundir) == 1


@pytest.mark.system
def test_a_full_disk_keeps_the_last_word_waiting(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rundir, follower = ground.order("echo words; exit 0"), ground.follower()
    real, full = follower_module.write_json, [True]

    def write(path: Any, value: Any, **more: Any) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, value, **more)

    monkeypatch.setattr(follower_module, "write_json", write)
    ground.until(follower, lambda: ground.far(rundir))
    for _ in range(5):
        follower.rung()
        follower.turn()
    assert not rundir.exit_record.exists() and rundir.state().lives
    full[0] = False
    assert ground.ended(follower, rundir).ending == "finished"


@pytest.mark.system
def test_an_interpreter_of_the_place_may_lie_below_the_home(
    ground: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home/py").symlink_to(sys.executable)
    ground.options["python"] = "~/py"
    assert ground.ended(ground.follower(), ground.order()).ending == "finished"
    (record,) = ground.jobs.records()
    assert record["argv"][0] == str(tmp_path / "home/py")


@pytest.mark.system
def test_a_second_job_of_a_run_is_refused_by_its_runner(ground: Any, eventually: Any) -> None:
    """As on a file system whose locks do not cross machines: the lock is another one, the claim is the same."""
    rundir, follower = ground.order("sleep 300"), ground.follower()
    ground.until(follower, lambda: "started" in ground.names(rundir))  # runner.json is written no more
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
    rundir, follower = ground.order("sleep 300"), ground.follower()
    ground.until(follower, lambda: ground.starts(rundir))
    pid = ground.jobs.pid("1")
    os.kill(pid, signal.SIGSTOP)
    (rundir.far / "stop").write_text('{"how": "now", "reason": "superseded by a better one", "cause": "superseded"}')
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGCONT)
    end = ground.ended(follower, rundir)
    assert (end.ending, end.cause) == ("stopped", "superseded")


@pytest.mark.system
def test_a_drain_is_left_to_the_runner(ground: Any, turned: Any) -> None:
    rundir, follower = ground.order("sleep 300"), ground.follower(turned)
    ground.until(follower, lambda: ground.starts(rundir))
    os.kill(ground.jobs.pid("1"), signal.SIGSTOP)  # it takes its time
    request_stop(rundir, "after this step", how="drain")
    for _ in range(5):
        turned.now += 300
        follower.rung()
        follower.turn()
    assert not ground.jobs.calls("stop")
    request_stop(rundir, "now, then")
    for seconds in (0, 6, 300):
        turned.now += seconds
        follower.rung()
        follower.turn()
    assert [call.split()[1] for call in ground.jobs.calls("stop")] == ["soft", "hard"]


@pytest.mark.system
def test_after_a_long_silence_everything_is_fetched_at_once(ground: Any, turned: Any) -> None:
    rundir, follower = ground.order("head -c 7000000 /dev/zero | tr '\\0' y; sleep 300"), ground.follower(turned)
    ground.silence("", ".files")
    ground.silence("", "")
    follower.turn()
    ground.answers()
    ground.until(follower, lambda: (rundir.far / "run.log").exists())
    eventually_s = time.monotonic() + 60
    while (rundir.far / "run.log").stat().st_size < 7_000_000 and time.monotonic() < eventually_s:
        time.sleep(0.02)
    turned.now += 100
    for _ in range(12):
        follower.turn()  # and no time passes
    assert rundir.log.stat().st_size >= 7_000_000
