"""The launcher of the tests keeps the contract that the real ones keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system


def test_the_launcher_of_the_tests(contract_check: Callable[..., None], local_jobs: Any, tmp_path: Path) -> None:
    contract_check(local_jobs, str(tmp_path / "far"))
