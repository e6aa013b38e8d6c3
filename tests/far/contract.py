"""What every JobLauncher must do, checked on the real thing.

A test file of a launcher needs one test; the fixture makes it one test for each check below:

    @pytest.mark.real
    def test_the_contract(contract_check, launcher, tmp_path):
        contract_check(launcher, str(tmp_path / "far"))

`root` is a directory of the far side. Options: `python` (the far interpreter), `unknown` (what a job could be called
that never was), `patience_s`, `remembers` False for a place that forgets a job as soon as it is over.
"""

from __future__ import annotations

import contextlib
import json
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from autoresearch.core.blueprint.finding import Severity
from autoresearch.core.run.job_launcher import DirectoryState, Handle, Job, JobLauncher, JobState, Unreachable, Want
from autoresearch.lab.remote_files.upload import runner_files
from tests.waiting import PATIENCE_S, until

GROWING = ("run.log", "events.jsonl", "evaluation.log")
STUBBORN = "trap '' TERM; sh -c \"trap '' TERM; while :; do sleep 0.2; done\" & while :; do sleep 0.2; done"


@dataclass
class Trial:
    """One check's dealings with a launcher."""

    launcher: JobLauncher
    root: str
    python: str = sys.executable
    unknown: str = "999999"
    patience_s: float = PATIENCE_S
    remembers: bool = True
    handles: dict[str, Handle] = field(default_factory=dict)

    def job(self, command: str, *, name: str = "", grace_s: float = 2.0) -> Job:
        """A run in a far directory of its own, with its Runner beside it; each start adds a line to `starts`."""
        run = f"contract-{uuid.uuid4().hex[:6]}"
        directory, runner = f"{self.root}/{name or run}", f"{self.root}/runner_of_contract"
        limits = {"first_step_s": 300.0, "max_s": 300.0, "grace_s": grace_s}
        spec = {
            "run": run,
            "command": f"echo begun >> {directory!r}/starts\n{command}".replace(repr(directory), _quoted(directory)),
            "cwd": self.root,
            "limits": limits,
            "result_dir": directory,
            "journal": f"{directory}/journal.md",
        }
        self.launcher.reach.put(runner, runner_files())
        self.launcher.reach.put(directory, {"spec.json": json.dumps(spec).encode()})
        argv = (self.python, "-S", "-E", "-s", runner, directory)
        return Job(
            run=run,
            name=f"ajet_{run}",
            campaign="contract",
            directory=directory,
            argv=argv,
            cwd=self.root,
            max_s=400.0,
            grace_s=grace_s,
            environment={"AUTORESEARCH_RUN_ID": run, "OF_THE_CONTRACT": "it's here"},
        )

    def submit(self, job: Job) -> Handle:
        """Submit it; it is ended when the check is over."""
        handle = self.launcher.submit(job)
        assert handle.run == job.run and handle.native
        self.handles[f"{job.run} {handle.native}"] = handle
        return handle

    def seen(self, job: Job) -> DirectoryState:
        """What lies in its directory, all of it."""
        return self.launcher.reach.look([Want(job.run, job.directory, dict.fromkeys(GROWING, 0))])[job.run]

    def state(self, handle: Handle) -> JobState:
        """What the launcher says."""
        said = self.launcher.poll([handle]).get(handle.run)
        return said.state if said else JobState.UNKNOWN

    def until(self, true: Callable[[], Any]) -> Any:
        """Ask until it is so; nobody answering is no answer."""

        def answer() -> Any:
            with contextlib.suppress(Unreachable):
                return true()
            return None

        return until(answer, self.patience_s)

    def starts(self, job: Job) -> int:
        """How often its trainer was started."""
        return self.launcher.reach.run(["cat", f"{job.directory}/starts"]).out.count(b"begun")

    def exit(self, job: Job) -> Mapping[str, Any]:
        """Its exit record, waited for."""
        found: Mapping[str, Any] = self.until(lambda: self.seen(job).exit)
        return found

    def over(self, handle: Handle) -> None:
        """Wait until the launcher says that it is over; one that forgets knows it no more."""
        fine = {JobState.OVER} if self.remembers else {JobState.OVER, JobState.UNKNOWN}
        self.until(lambda: self.state(handle) in fine)

    def tidy(self) -> None:
        """End what the check left."""
        for handle in self.handles.values():
            self.launcher.stop(handle, hard=True)
            self.launcher.stop(handle, hard=True)
            self.until(lambda handle=handle: self.state(handle) in (JobState.OVER, JobState.UNKNOWN))
            self.launcher.forget(handle)


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"


# -- the checks -------------------------------------------------------------------------------------------------------


def is_usable(t: Trial) -> None:
    assert not [found for found in t.launcher.preflight() if found.severity is Severity.ERROR]


def runs_and_ends(t: Trial) -> None:
    job = t.job("echo step:1; sleep 1; exit 0")
    handle = t.submit(job)
    assert t.exit(job)["ending"] == "finished"
    t.over(handle)
    seen = t.seen(job)
    assert b"step:1" in seen.grown["run.log"] and b'"ended"' in seen.grown["events.jsonl"]
    assert seen.claimed and seen.runner["run"] == job.run and t.starts(job) == 1


def a_failure_is_told_by_the_record(t: Trial) -> None:
    job = t.job("exit 3")
    handle = t.submit(job)
    record = t.exit(job)
    assert (record["ending"], record["returncode"]) == ("crashed", 3)
    t.over(handle)


def is_seen_running(t: Trial) -> None:
    job = t.job("sleep 300")
    handle = t.submit(job)
    t.until(lambda: t.state(handle) is JobState.RUNNING and t.starts(job))
    seen = t.seen(job)
    assert seen.claimed and seen.alive is not False and seen.beat is not None and not seen.exit


def paths_and_values_need_no_care(t: Trial) -> None:
    job = t.job('echo "<$OF_THE_CONTRACT>"', name='it\'s a $RUN; of "ours" &')
    t.submit(job)
    assert t.exit(job)["ending"] == "finished"
    assert b"<it's here>" in t.seen(job).grown["run.log"]


def a_submit_that_got_through_is_found_again(t: Trial) -> None:
    job = t.job("sleep 300")
    first = t.submit(job)  # and the note of it was lost
    second = t.submit(replace(job, again=True))
    assert second.native == first.native
    t.until(lambda: t.state(second) is JobState.RUNNING and t.starts(job))
    third = t.submit(replace(job, again=True))
    assert third.native == first.native and t.starts(job) == 1


def a_submit_that_did_not_get_through_is_made(t: Trial) -> None:
    job = t.job("sleep 300")
    handle = t.submit(replace(job, again=True))
    t.until(lambda: t.state(handle) is JobState.RUNNING and t.starts(job))


def one_that_is_over_is_not_started_again(t: Trial) -> None:
    job = t.job("true")
    handle = t.submit(job)
    t.exit(job)
    t.over(handle)
    again = t.submit(replace(job, again=True))
    t.over(again)
    assert t.starts(job) == 1


def a_soft_stop_leaves_a_record(t: Trial) -> None:
    job = t.job("sleep 300")
    handle = t.submit(job)
    t.until(lambda: t.starts(job))
    t.launcher.stop(handle, hard=False)
    assert t.exit(job)["ending"] == "stopped"
    t.over(handle)


def a_hard_stop_leaves_nothing(t: Trial) -> None:
    job = t.job(STUBBORN, grace_s=300.0)
    handle = t.submit(job)
    t.until(lambda: t.starts(job))
    t.launcher.stop(handle, hard=True)
    t.over(handle)
    t.until(lambda: not t.seen(job).alive)


def stopping_what_is_over_is_no_error(t: Trial) -> None:
    job = t.job("true")
    handle = t.submit(job)
    t.exit(job)
    t.over(handle)
    t.launcher.stop(handle, hard=False)
    t.launcher.stop(handle, hard=True)
    t.launcher.forget(handle)
    t.launcher.forget(handle)


def unknown_jobs_are_no_error(t: Trial) -> None:
    job = t.job("sleep 300")
    handle = t.submit(job)
    t.until(lambda: t.starts(job))  # its directory says whose it is
    nobody = replace(handle, run="nobody-000000", native=t.unknown)
    said = t.launcher.poll([nobody, handle])
    assert job.run in said
    assert "nobody-000000" not in said or said["nobody-000000"].state is JobState.UNKNOWN
    t.launcher.stop(nobody, hard=False)
    t.launcher.stop(nobody, hard=True)
    t.launcher.forget(nobody)
    assert not t.launcher.poll([])


def many_are_asked_about_at_once(t: Trial) -> None:
    jobs = [t.job("sleep 300") for _ in range(3)]
    handles = [t.submit(job) for job in jobs]
    assert len({handle.native for handle in handles}) == 3
    assert set(t.launcher.poll(handles)) == {job.run for job in jobs}


def files_get_there_and_back(t: Trial) -> None:
    reach, place = t.launcher.reach, f"{t.root}/files of {uuid.uuid4().hex[:6]}"
    every = bytes(range(256)) * 8
    reach.put(place, {"plain": every, "a/b/deep": b"x", "secret": b"s"}, private=("secret",))
    reach.put(place, {"plain": every + b"2"})
    assert reach.run(["cat", f"{place}/plain"]).out == every + b"2"
    assert reach.run(["cat", f"{place}/a/b/deep"]).out == b"x"
    reach.run(["rm", f"{place}/a/b/deep"])
    assert reach.run(["cat", f"{place}/a/b/deep"]).returncode, "it was written once"
    assert reach.run(["stat", "-c", "%a", f"{place}/secret"]).text.strip() == "600"
    reach.put(place, {"run.log": b"0123456789", "spec.json": b"{}"})
    wants = [Want("one", place, {"run.log": 4}), Want("two", place, {}), Want("gone", f"{place}/gone", {"run.log": 0})]
    seen = reach.look(wants)
    assert seen["one"].grown == {"run.log": b"456789"} and not seen["two"].grown
    assert seen["one"].there and not seen["one"].claimed and not seen["one"].alive and not seen["one"].exit
    assert not seen["gone"].there


def programs_are_run_without_a_shell(t: Trial) -> None:
    reach = t.launcher.reach
    said = reach.run([t.python, "-c", "import sys; sys.stdout.write(sys.argv[1]); sys.exit(7)", "a b'c\"$d\n*"])
    assert (said.returncode, said.text) == (7, "a b'c\"$d\n*")
    assert reach.run(["cat"], stdin=b"\x00\xff in").out == b"\x00\xff in"
    assert reach.run(["sh", "-c", "echo no >&2; exit 255"]).returncode == 255
    assert reach.run(["no-such-program-of-ours"]).returncode == 127
    assert reach.run(["pwd"], cwd=t.root).text.strip() == t.root
    with pytest.raises(Unreachable):
        reach.run(["sleep", "30"], timeout_s=0.5)


CHECKS: tuple[Callable[[Trial], None], ...] = (
    is_usable,
    runs_and_ends,
    a_failure_is_told_by_the_record,
    is_seen_running,
    paths_and_values_need_no_care,
    a_submit_that_got_through_is_found_again,
    a_submit_that_did_not_get_through_is_made,
    one_that_is_over_is_not_started_again,
    a_soft_stop_leaves_a_record,
    a_hard_stop_leaves_nothing,
    stopping_what_is_over_is_no_error,
    unknown_jobs_are_no_error,
    many_are_asked_about_at_once,
    files_get_there_and_back,
    programs_are_run_without_a_shell,
)
