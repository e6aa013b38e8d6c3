"""A failpoint kills where it is named, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

HOUSE = Path(__file__).parents[2]
CODE = "from autoresearch.records.failpoint import failpoint; failpoint('room.name'); print('alive')"


@pytest.mark.parametrize(
    ("value", "status"),
    [("room.name:kill", -9), ("room.name", 0), ("room.nam:kill", 0), ("", 0), ("room.name2:kill", 0)],
)
def test_it_kills_only_where_it_is_named(value: str, status: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(HOUSE), "AUTORESEARCH_FAILPOINT": value}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True)
    assert done.returncode == status
