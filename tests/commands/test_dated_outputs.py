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


APPENDS = """\
import json, os
os.makedirs("outputs/one/run", exist_ok=True)
with open("outputs/one/run/metrics.jsonl", "a") as file:
    for s in range(1, 4):
        file.write(json.dumps({"step": s, "reward": s * .1}) + "\\n")
"""


def test_what_an_earlier_run_wrote_into_the_same_file_is_not_this_runs(bench: Any) -> None:
    path = bench.repo / "outputs/one/run/metrics.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"step": 9, "reward": 0.9}) + "\n")
    notes = "- source: jsonl outputs/*/*/metrics.jsonl"
    done = bench.ask("run", bench.unknown(APPENDS, metric="reward", notes=notes), check=0)
    assert done["metrics"] == {"reward": pytest.approx(0.3), "step": 3, "best": pytest.approx(0.3)}


def test_files_that_no_run_wrote_are_no_measurement(bench: Any) -> None:
    path = bench.repo / "outputs/one/run/metrics.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"step": 9, "reward": 0.9}) + "\n")
    notes = "- source: jsonl outputs/*/*/metrics.jsonl"
    done = bench.ask("run", bench.unknown("print('over')", metric="reward", notes=notes), check=13)
    assert done["failure"] == "metric_unread"
