"""What is damaged, unreadable or refused about one run, or said in the wrong place: it never stops the others."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import Declined, DirectoryState, Unreachable
from autoresearch.core.run.spec import RunState
from autoresearch.lab.remote import follower as follower_module
from autoresearch.records import order_file
from autoresearch.records.index import IndexEntry
from autoresearch.records.order_file import request_stop
from autoresearch.records.rundir import RunDir


def turn(follower: Any, times: int = 3) -> None:
    for _ in range(times):
        follower.rung()
        follower.polls.at_once()
        follower.turn()


@pytest.mark.system
def test_a_directory_that_cannot_be_looked_at_keeps_no_other_run_from_being_found(ground: Any) -> None:
    ground.index.add(IndexEntry("bad-000000", "bad", "", f"/{'x' * 300}", "", created=1.0))
    rundir = ground.order()
    assert ground.ended(ground.follower(), rundir).ending == "finished"


@pytest.mark.parametrize("what", ["poll", "stop"])
def test_a_no_to_another_question_than_submit_ends_nothing(
    ground: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    ground.hold()
    rundir, follower = ground.order("sleep 300"), ground.follower()
    ground.until(follower, lambda: rundir.state() is RunState.PENDING)
    asked = []

    def no(*_: object, **__: object) -> None:
        asked.append(what)
        raise Declined("namespaces not found")

    monkeypatch.setattr(ground.jobs, what, no)
    request_stop(rundir, "enough")
    ground.until(follower, lambda: len(asked) > 2)
    assert not rundir.exit_record.exists()
    monkeypatch.undo()
    assert ground.ended(follower, rundir).reason == "enough"


@pytest.mark.system
@pytest.mark.parametrize("text", ['{"ending": "mad", "run": "x"}', '{"ending": ["x"]}', "{"])
def test_an_exit_record_that_says_no_ending_is_none(ground: Any, text: str) -> None:
    rundir, other = ground.order("sleep 300"), ground.order("exit 0")
    follower = ground.follower()
    ground.until(follower, lambda: ground.starts(rundir))
    (rundir.far / "exit.json").write_text(text)
    turn(follower)
    assert ground.ended(follower, other).ending == "finished"
    assert not rundir.exit_record.exists()


@pytest.mark.system
def test_a_run_that_alone_gets_no_answer_keeps_no_other_waiting(
    ground: Any, monkeypatch: pytest.MonkeyPatch, turned: Any
) -> None:
    """Its code is too large to be compared in time, say; the others are submitted and asked about."""
    before = ground.order("sleep 300")
    follower = ground.follower(turned)
    ground.until(follower, lambda: ground.starts(before))
    bad, good = ground.order(), ground.order()
    real = ground.jobs.submit

    def submit(job: Any) -> Any:
        if job.run == bad.path.name:
            raise Unreachable("compare gave no answer within 300 s")
        return real(job)

    monkeypatch.setattr(ground.jobs, "submit", submit)
    polls = len(ground.jobs.calls("poll"))
    for _ in range(400):
        follower.turn()
        turned.now += 0.5
    assert ground.starts(good) == 1
    assert len(ground.jobs.calls("poll")) > polls + 3
    assert bad.state() is RunState.UNREACHABLE and before.state() is RunState.RUNNING
    seen = order_file.observed(bad)
    assert seen is not None and "compare gave no answer" in seen.reason
    monkeypatch.undo()
    follower.rung()
    ground.until(follower, lambda: ground.starts(bad))


@pytest.mark.system
def test_a_stop_request_passes_a_disk_that_is_full_here(ground: Any, eventually: Any) -> None:
    rundir, follower = ground.order("sleep 300"), ground.follower()
    ground.until(follower, lambda: ground.starts(rundir))
    results = ground.root / "results" / rundir.path.name
    results.rename(results.with_name("away"))
    results.write_text("nothing can be written there")
    request_stop(rundir, "while the disk is full")
    ground.until(follower, lambda: ground.far(rundir))
    assert ground.far(rundir)["ending"] == "stopped" and not rundir.exit_record.exists()
    turn(follower)
    seen = order_file.observed(rundir)
    assert seen is not None and str(results) in seen.reason
    results.unlink()  # and no directory in its place
    assert ground.ended(follower, rundir).reason == "while the disk is full"


@pytest.mark.parametrize("how", ["stopped", "declined"])
def test_no_secret_stays_where_no_runner_came_to_read_it(ground: Any, how: str) -> None:
    if how == "declined":
        (ground.root / "launcher/declines").write_text("no")
    ground.hold()
    rundir, follower = ground.order("sleep 300"), ground.follower()
    if how == "stopped":
        ground.until(follower, lambda: rundir.state() is RunState.PENDING)
        assert (rundir.far / "environment").exists()
        request_stop(rundir, "no time")
    end = ground.ended(follower, rundir)
    declined, stopped = ("launch_failed", "refused_here", "no"), ("stopped", "stop_request", "no time")
    assert (end.ending, end.cause, end.reason) == (declined if how == "declined" else stopped)
    assert not (rundir.far / "environment").exists()


@pytest.mark.system
def test_a_run_whose_project_is_out_of_sight_lives_on(ground: Any, tmp_path: Path) -> None:
    """A file system that is not mounted now, a project that is moved: it may come back."""
    rundir, follower = ground.order("until [ -e go ]; do sleep 0.1; done"), ground.follower()
    ground.until(follower, lambda: ground.starts(rundir))
    project, campaign = tmp_path / "project", tmp_path / "project/campaigns/one"
    campaign.mkdir(parents=True)
    (handle,) = [one.handle for one in follower.runs.values()]
    follower.departures.note(handle, RunDir(campaign / "run"))  # as if it were there
    (campaign / "run").mkdir()
    (campaign / "run/spec.json").touch()
    project.rename(tmp_path / "moved")
    follower.departing = True
    turn(follower)
    assert ground.jobs.lives("1")
    (tmp_path / "moved").rename(project)
    shutil.rmtree(campaign)
    follower.departing = True
    ground.until(follower, lambda: not ground.jobs.lives("1"))


@pytest.mark.system
def test_a_line_that_never_ends_is_no_reason_to_wait_for_ever(ground: Any) -> None:
    rundir = ground.order("yes x | head -c 3000000 | tr -d '\\n' >> $AUTORESEARCH_RUN_DIR/events.jsonl; exit 0")
    assert ground.ended(ground.follower(), rundir).ending == "finished"


@pytest.mark.system
def test_a_run_directory_that_was_removed_is_not_made_again(ground: Any) -> None:
    rundir, follower = ground.order("sleep 300"), ground.follower()
    ground.until(follower, lambda: ground.starts(rundir))
    one = follower.runs[rundir.path.name]
    shutil.rmtree(rundir.path)
    follower._advance(one, DirectoryState(claimed=True, alive=True, grown={"run.log": b"more\n"}))
    assert not rundir.path.exists()


@pytest.mark.system
@pytest.mark.parametrize("text", ['{"events.jsonl": null, "journal.md": "x"}', "["])
def test_damaged_notes_of_what_was_mirrored(ground: Any, text: str) -> None:
    rundir, follower = ground.order("until [ -e go ]; do sleep 0.1; done"), ground.follower()
    ground.until(follower, lambda: "started" in ground.names(rundir))
    (rundir.path / "mirror.json").write_text(text)
    (ground.root / "go").touch()
    assert ground.ended(ground.follower(), rundir).ending == "finished"
    assert ground.names(rundir).count("started") == 1


@pytest.mark.system
def test_a_no_to_sending_again_ends_no_run_that_may_have_a_job(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rundir = ground.order("until [ -e go ]; do sleep 0.1; done")
    ground.killed_at("follower.submitted")
    ground.jobs.poll([])
    follower, asked = ground.follower(), []

    def full(*_: object) -> None:
        asked.append(True)
        raise Declined("the disk there is full", code="disk_full")

    with monkeypatch.context() as patched:
        patched.setattr(follower_module, "ship", full)
        ground.until(follower, lambda: len(asked) > 2)
    assert not rundir.exit_record.exists() and ground.jobs.lives("1")
    seen = order_file.observed(rundir)
    assert seen is not None and (seen.state, seen.reason) == ("unreachable", "the disk there is full")
    (ground.root / "go").touch()
    assert ground.ended(follower, rundir).ending == "finished" and ground.starts(rundir) == 1


@pytest.mark.system
def test_an_order_that_names_the_follower_by_another_path_is_found(ground: Any) -> None:
    """Another shell's HOME, or XDG_STATE_HOME, may lead through a link."""
    rundir = ground.order()
    (ground.root / "linked").symlink_to(ground.folder.parent)
    order = order_file.read(rundir)
    assert order is not None
    order_file.write(rundir, replace(order, follower=str(ground.root / "linked" / ground.folder.name)))
    assert ground.ended(ground.follower(), rundir).ending == "finished"


def test_a_run_that_cannot_be_sent_is_given_up_after_a_while(ground: Any, turned: Any) -> None:
    rundir, follower = ground.order(), ground.follower(turned)
    rundir.far.write_text("a file where the far directory should be")
    for lives in (True, False):
        for _ in range(19):
            follower.turn()
            turned.now += 31.0
        assert rundir.exit_record.exists() is not lives, "ten minutes, and a few tries"
    assert ground.ended(follower, rundir).cause == "not_shipped" and not ground.jobs.records()
