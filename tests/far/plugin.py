"""Fixtures for far runs: `contract_check`, a test for each check of the contract; `local_jobs`, a small launcher."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.far.contract")

from tests.far.contract import CHECKS, Trial  # noqa: E402
from tests.far.jobs import LocalJobs  # noqa: E402


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each check."""
    if "contract_check" in metafunc.fixturenames:
        metafunc.parametrize("contract_check", CHECKS, ids=lambda check: check.__name__, indirect=True)


@pytest.fixture
def contract_check(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Call it with a launcher, a directory of the far side, and options: see `tests/far/contract.py`."""

    def check(launcher: Any, root: str, **options: Any) -> None:
        trial = Trial(launcher, root, **options)
        launcher.reach.put(root, {"here": b""})
        try:
            request.param(trial)
        finally:
            trial.tidy()

    return check


@pytest.fixture
def local_jobs(tmp_path: Path) -> LocalJobs:
    """A launcher whose jobs are processes of this machine; what it is told to do lies in `tmp_path`/jobs_of."""
    return LocalJobs(tmp_path / "launcher")
