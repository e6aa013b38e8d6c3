"""What is damaged, unreadable or refused about one run, or said in the wrong place: it never stops the others."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import Declined, DirectoryState, Unreachable
from autoresearch.core.run.spec import RunState
from autoresearch.lab.remote import refresh as refresh_module
from autoresearch.lab.remote.far_run import FarRun
from autoresearch.records import order_file
from autoresearch.records.order_file import request_stop


@pytest.mark.parametrize("what", ["poll", "stop"])
def test_a_no_to_another_question_than_submit_ends_nothing(
    ground: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    ground.hold()
    rundir = ground.order("sleep 300")
    ground.until(lambda: rundir.state() is RunState.PENDING)
    asked = []

    def no(*_: object, **__: object) -> None:
        asked.append(what)
        raise Declined("namespaces not found")

    monkeypatch.setattr(ground.jobs, what, no)
    request_stop(rundir, "enough")
    ground.until(lambda: len(asked) > 2)
    assert not rundir.exit_record.exists()
    monkeypatch.undo()
    assert ground.ended(rundir).reason == "enough"


@pytest.mark.system
@pytest.mark.parametrize("text", ['{"ending": "mad", "run": "x"}', '{"ending": ["x"]}', "{"])
def test_an_exit_record_that_says_no_ending_is_none(ground: Any, text: str) -> None:
    rundir, other = ground.order("sleep 300"), ground.order("exit 0")
    ground.until(lambda: ground.starts(rundir))
    (rundir.far / "exit.json").write_text(text)
    ground.look(3)
    assert ground.ended(other).ending == "finished"
    assert not rundir.exit_record.exists()


@pytest.mark.system
def test_a_run_that_alone_gets_no_answer_keeps_no_other_waiting(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code is too large to be compared in time, say; the others are submitted and asked about."""
    before = ground.order("sleep 300")
    ground.until(lambda: ground.starts(before))
    bad, good = ground.order(), ground.order()
    real = ground.jobs.submit

    def submit(job: Any) -> Any:
        if job.run == bad.path.name:
            raise Unreachable("compare gave no answer within 300 s")
        return real(job)

    monkeypatch.setattr(ground.jobs, "submit", submit)
    polls = len(ground.jobs.calls("poll"))
    for _ in range(10):
        ground.look()
        ground.ahead_s += 5
    assert ground.until(lambda: ground.starts(good)) == 1
    assert len(ground.jobs.calls("poll")) > polls + 3
    assert bad.state() is RunState.UNREACHABLE and before.state() is RunState.RUNNING
    seen = order_file.observed(bad)
    assert seen is not None and "compare gave no answer" in seen.reason
    monkeypatch.undo()
    ground.until(lambda: ground.starts(bad))


@pytest.mark.system
def test_a_stop_request_passes_a_disk_that_is_full_here(ground: Any, eventually: Any) -> None:
    rundir = ground.order("sleep 300")
    ground.until(lambda: ground.starts(rundir))
    results = ground.root / "results" / rundir.path.name
    results.rename(results.with_name("away"))
    results.write_text("nothing can be written there")
    request_stop(rundir, "while the disk is full")
    ground.until(lambda: ground.far(rundir))
    assert ground.far(rundir)["ending"] == "stopped" and not rundir.exit_record.exists()
    ground.look(3)
    seen = order_file.observed(rundir)
    assert seen is not None and str(results) in seen.reason
    results.unlink()  # and no directory in its place
    assert ground.ended(rundir).reason == "while the disk is full"


@pytest.mark.parametrize("how", ["stopped", "declined"])
def test_no_secret_stays_where_no_runner_came_to_read_it(ground: Any, how: str) -> None:
    if how == "declined":
        (ground.root / "launcher/declines").write_text("no")
    ground.hold()
    rundir = ground.order("sleep 300")
    if how == "stopped":
        ground.until(lambda: rundir.state() is RunState.PENDING)
        assert (rundir.far / "environment").exists()
        request_stop(rundir, "no time")
    end = ground.ended(rundir)
    declined, stopped = ("launch_failed", "refused_here", "no"), ("stopped", "stop_request", "no time")
    assert (end.ending, end.cause, end.reason) == (declined if how == "declined" else stopped)
    assert not (rundir.far / "environment").exists()


@pytest.mark.system
def test_a_line_that_never_ends_is_no_reason_to_wait_for_ever(ground: Any) -> None:
    rundir = ground.order("yes x | head -c 3000000 | tr -d '\\n' >> $AUTORESEARCH_RUN_DIR/events.jsonl; exit 0")
    assert ground.ended(rundir).ending == "finished"


@pytest.mark.system
def test_a_run_directory_that_was_removed_is_not_made_again(ground: Any) -> None:
    rundir = ground.order("sleep 300")
    ground.until(lambda: ground.starts(rundir))
    refresher = refresh_module._Look(ground.parts(), ground.jobs, patient=False)
    with rundir.looked.open() as lock:
        run = FarRun.open(rundir, order_file.read(rundir), None, lock.fileno(), 0.0)
        shutil.rmtree(rundir.path)
        refresher._settle(run, DirectoryState(claimed=True, alive=True, grown={"run.log": b"more\n"}))
    assert not rundir.path.exists()


@pytest.mark.system
def test_a_no_to_sending_again_ends_no_run_that_may_have_a_job(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rundir = ground.order("until [ -e go ]; do sleep 0.1; done")
    ground.killed_at("refresh.submitted")
    ground.jobs.poll([])
    asked = []

    def full(*_: object) -> None:
        asked.append(True)
        raise Declined("the disk there is full", code="disk_full")

    with monkeypatch.context() as patched:
        patched.setattr(refresh_module, "ship", full)
        ground.until(lambda: len(asked) > 2)
    assert not rundir.exit_record.exists() and ground.jobs.lives("1")
    seen = order_file.observed(rundir)
    assert seen is not None and (seen.state, seen.reason) == ("unreachable", "the disk there is full")
    (ground.root / "go").touch()
    assert ground.ended(rundir).ending == "finished" and ground.starts(rundir) == 1
