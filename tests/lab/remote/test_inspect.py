"""What the doctor tells about a place: the launcher of the tests runs real Runners, with the faults of places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.job_launcher import Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import UsageError
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.inspect import inspect
from autoresearch.records.index import Index

PLACE = Target("yard", Kind.SLURM, 4)


def parts_for(launcher: Any, root: Path) -> Parts:
    environ = {"HOME": str(root), "XDG_STATE_HOME": str(root / "state")}
    return Parts(environ, Index(root / "state"), lambda _: None, launcher_for=lambda place, _: launcher)  # type: ignore[arg-type, return-value]


def test_a_place_that_answers(local_jobs: Any, tmp_path: Path) -> None:
    local_jobs.reach.offset_s = 3600.0
    local_jobs.describe = lambda: [("yard", "42 hens")]
    found = inspect(PLACE, parts_for(local_jobs, tmp_path))
    assert found.fit and found.answers and found.latency_s is not None and found.clock_offset_s == 3600.0
    assert ("yard", "42 hens") in found.rows and ("files", "seen there under the same paths") in found.rows


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
