"""A source of metrics that is one of several files, in directories that a trainer names after the date."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

SCRIPT = Path(__file__).parents[1] / "samples/first_contact/dated-output-dir/train.py"


@pytest.mark.parametrize("source", ["jsonl outputs/*/*/metrics.jsonl", "outputs/*/*/metrics.jsonl", "jsonl outputs"])
def test_the_newest_file_since_the_start_is_read(bench: Any, source: str) -> None:
    old = bench.repo / "outputs/2031-01-01/00-00-00"
    old.mkdir(parents=True)
    (old / "metrics.jsonl").write_text(json.dumps({"step": 9, "reward": 0.9}) + "\n")
    done = bench.ask("run", bench.unknown(SCRIPT.read_text(), metric="reward", notes=f"- source: {source}"), check=0)
    assert (done["verdict"], done["metrics"]["reward"], done["metrics"]["step"]) == ("keep", 0.5, 5)
    assert not any("was not written" in one for one in bench.ask("metrics", done["run"])["warnings"])
