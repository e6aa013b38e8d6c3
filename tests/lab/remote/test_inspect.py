"""What the doctor tells about a place: the launcher of the tests runs real Runners, with the faults of places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.targets import Kind, Target
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.inspect import inspect
from autoresearch.records.index import Index

PLACE = Target("yard", Kind.SLURM, 4)


def parts_for(launcher: Any, root: Path) -> Parts:
    environ = {"HOME": str(root), "XDG_STATE_HOME": str(root / "state")}
    return Parts(environ, Index(root / "state"), lambda _: None, launcher_for=lambda place, _: launcher)  # type: ignore[arg-type, return-value]


def test_a_place_that_answers(local_jobs: Any, tmp_path: Path) -> None:
    local_jobs.describe = lambda: [("yard", "42 hens")]
    found = inspect(PLACE, parts_for(local_jobs, tmp_path))
    assert found.latency_s is not None
    assert ("yard", "42 hens") in found.rows and ("files", "seen there under the same paths") in found.rows


def test_a_place_where_nobody_answers(local_jobs: Any, tmp_path: Path) -> None:
    local_jobs.preflight = lambda: [Finding(Severity.WARNING, "unreachable", "the link is down", "wait for it")]
    found = inspect(PLACE, parts_for(local_jobs, tmp_path))
    assert found.latency_s is None
    assert [(one.code, one.message, one.hint) for one in found.findings] == [
        ("unreachable", "yard: the link is down", "wait for it")
    ]
