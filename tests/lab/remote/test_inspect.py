"""What the doctor tells about a place: the launcher of the tests runs real Runners, with the faults of places."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.job_launcher import Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import UsageError
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote import inspect as inspection
from autoresearch.lab.remote.inspect import inspect, send_canary
from autoresearch.lab.remote_files.remote_host import InterpreterSearch
from autoresearch.records.index import Index
from autoresearch.records.rundir import locked

PLACE = Target("yard", Kind.SLURM, 4)


def parts_for(launcher: Any, root: Path) -> Parts:
    environ = {"HOME": str(root), "XDG_STATE_HOME": str(root / "state")}
    return Parts(environ, Index(root / "state"), lambda _: None, launcher_for=lambda place, _: launcher)  # type: ignore[arg-type, return-value]


class Turning:
    """A clock that goes on by itself, a second with each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_a_place_that_answers(local_jobs: Any, tmp_path: Path) -> None:
    local_jobs.reach.offset_s = 3600.0
    local_jobs.describe = lambda: [("yard", "42 hens")]
    found = inspect(PLACE, parts_for(local_jobs, tmp_path))
    assert found.fit and found.answers and found.latency_s is not None and found.clock_offset_s == 3600.0
    assert ("yard", "42 hens") in found.rows and ("files", "seen there under the same paths") in found.rows
    assert (found.followed.alive, found.followed.runs) == (False, 0)


def test_a_place_where_nobody_answers(local_jobs: Any, tmp_path: Path) -> None:
    def silent() -> Sequence[tuple[str, str]]:
        raise Unreachable("the link is down", code="no_answer", hint="wait for it")

    local_jobs.describe = silent
    doubt = Finding(Severity.WARNING, "unreachable", "does not answer")
    local_jobs.preflight = lambda: [doubt]
    found = inspect(PLACE, parts_for(local_jobs, tmp_path))
    assert not found.fit and not found.answers and found.latency_s is None
    assert [(one.code, one.message, one.hint) for one in found.findings] == [
        ("no_answer", "the link is down", "wait for it")
    ]


def test_options_that_make_no_sense_are_findings(tmp_path: Path) -> None:
    def no_launcher(place: Target, environ: Any) -> Any:
        raise UsageError("port: 0 is no port", code="bad_launcher")

    found = inspect(PLACE, replace(parts_for(None, tmp_path), launcher_for=no_launcher))
    assert not found.fit and [one.code for one in found.findings] == ["bad_launcher"]


def test_who_follows_it(local_jobs: Any, tmp_path: Path) -> None:
    from autoresearch.lab.remote.start_follower import directory_of

    parts = parts_for(local_jobs, tmp_path)
    folder = directory_of(PLACE, parts)
    folder.mkdir(parents=True)
    (folder / "controller.sessions.json").write_text('{"sessions": ["ajet_follow-yard_1"]}')
    with locked(folder / "lock"):
        assert inspect(PLACE, parts).followed.sentence == "lives, follows 0 runs, in ajet_follow-yard_1"
    assert not inspect(PLACE, parts).followed.alive


@pytest.mark.system
def test_a_canary_comes_back(local_jobs: Any, tmp_path: Path) -> None:
    home = tmp_path / "reports"
    found = inspect(PLACE, parts_for(local_jobs, tmp_path), canary=home)
    row = dict(found.rows)["canary"]
    assert found.fit and "it read our file, and we its words" in row
    assert list(home.iterdir()) == []
    assert [one["state"] for one in local_jobs.records()] and local_jobs.calls("forget")


@pytest.mark.system
def test_a_canary_starts_the_interpreter_of_the_blueprint(local_jobs: Any, tmp_path: Path) -> None:
    for path, codes in ((sys.executable, []), (f"{tmp_path}/not there", ["missing_interpreter"])):
        search = InterpreterSearch(PLACE, path, "")
        found = inspect(PLACE, parts_for(local_jobs, tmp_path), canary=tmp_path / "reports", search=search)
        row = dict(found.rows)["canary"]
        assert [one.code for one in found.findings] == codes and found.fit is not bool(codes) and path in row
        assert codes or f"started {path} (3.{sys.version_info[1]})" in row


@pytest.mark.system
def test_a_canary_that_cannot_see_our_files(local_jobs: Any, tmp_path: Path) -> None:
    put = local_jobs.reach.put

    def blind(directory: str, files: Any, **more: Any) -> None:
        put(directory, {name: data for name, data in files.items() if name != "here"}, **more)

    local_jobs.reach.put = blind
    sent = send_canary(PLACE, local_jobs, tmp_path / "reports")
    assert [one.code for one in sent.findings] == ["canary_blind"]


@pytest.mark.parametrize("why", ["all nodes are busy", ""])
def test_a_canary_in_a_long_queue(local_jobs: Any, tmp_path: Path, why: str) -> None:
    (local_jobs.directory / "held").write_text(why)
    sent = send_canary(PLACE, local_jobs, tmp_path / "reports", clock=Turning(), sleep=lambda _: None)
    (finding,) = sent.findings
    assert (finding.code, finding.severity) == ("canary_waits", Severity.WARNING) and why in finding.message
    assert [one["state"] for one in local_jobs.records()] == ["cancelled"]


@pytest.mark.system
def test_a_canary_whose_files_never_come(local_jobs: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """A job that ran where our directory is not: its launcher says that it is over, and nothing is there."""
    monkeypatch.setattr(inspection, "runner_files", dict)
    clock: Callable[[], float] = Turning()
    sent = send_canary(PLACE, local_jobs, tmp_path / "reports", clock=clock, sleep=lambda _: None)
    assert [one.code for one in sent.findings] == ["canary_lost"]
    assert "nodes must see" in sent.findings[0].hint


def test_a_place_that_declines_it(local_jobs: Any, tmp_path: Path) -> None:
    (local_jobs.directory / "declines").write_text("no such partition")
    found = inspect(PLACE, parts_for(local_jobs, tmp_path), canary=tmp_path / "reports")
    assert not found.fit and found.answers and found.findings[0].message == "no such partition"
    assert list((tmp_path / "reports").iterdir()) == []
