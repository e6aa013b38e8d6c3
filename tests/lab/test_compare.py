"""Rows are found by any name; two of them are compared by key, code, environment, limits and numbers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.errors import NotFoundError
from autoresearch.lab.parts import Parts
from autoresearch.lab.results import row_lookup
from autoresearch.lab.results.compare import compare
from autoresearch.records.index import Index

pytestmark = pytest.mark.system


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    def none(socket: str) -> Any:
        raise AssertionError(socket)

    return Parts(environ=os.environ, index=Index(tmp_path / "index"), launcher=none)


def test_a_row_answers_to_campaign_index_and_replicate(lived: Any, parts: Parts) -> None:
    where = str(lived.place.path)
    assert row_lookup.find(f"{where}:1.2", parts).row.run_id == "baseline-000002"
    found = row_lookup.find(f"{where}:9", parts)
    assert (found.row.run_id, len(found.values)) == ("best-000001", 3)  # a confirmation is apart
    assert row_lookup.find(str(lived.place.path / "best-1"), parts).row.run_id == "best-000001"


@pytest.mark.parametrize("name", ["{}:99", "{}:1.9", "nothing", "nothing:1", ":", "a:b", "", "x" * 5000, "\0:1"])
def test_what_is_not_there_is_said(lived: Any, parts: Parts, name: str) -> None:
    with pytest.raises(NotFoundError):
        row_lookup.find(name.format(lived.place.path), parts)


def test_two_ideas_differ_where_they_do(lived: Any, parts: Parts) -> None:
    where = lived.place.path
    found = compare(row_lookup.find(f"{where}:1.1", parts), row_lookup.find(f"{where}:9.2", parts))
    assert found["config"] == {"lr": (0.1, 0.3)}
    assert found["code"].endswith("2 insertions(+)") and "best.py" in found["diff"]
    assert ".autoresearch" not in found["diff"] and "lr: 0.3" not in found["diff"]
    assert found["environment"] == {"$MODE": ("baseline", "best")}
    assert found["limits"] == {"max_s": (600.0, 900.0)}
    assert found["command_line"] is None
    assert found["metrics"]["difference"] == pytest.approx(0.20333, abs=1e-4)
    assert found["metrics"]["b"]["last"] == 0.72 and found["metrics"]["b"]["sd"]
    assert found["next"][0].startswith("git -C ")


def test_replicates_of_one_idea_are_the_same(lived: Any, parts: Parts) -> None:
    where = lived.place.path
    found = compare(row_lookup.find(f"{where}:1.1", parts), row_lookup.find(f"{where}:1.2", parts))
    assert (found["config"], found["code"], found["limits"], found["environment"]) == ({}, "the same commit", {}, {})


def test_a_run_directory_that_is_gone_still_has_its_row(lived: Any, parts: Parts) -> None:
    shutil.rmtree(lived.place.path / "best-1")
    where = lived.place.path
    found = compare(row_lookup.find(f"{where}:1.1", parts), row_lookup.find(f"{where}:9.1", parts))
    assert found["limits"] == {} and found["config"] == {"lr": (0.1, 0.3)}
    shutil.rmtree(lived.root)
    found = compare(row_lookup.find(f"{where}:1.1", parts), row_lookup.find(f"{where}:9.1", parts))
    assert found["code"] == "unknown: the commits are not in one repository"


def test_other_metrics_are_not_subtracted(campaign: Callable[..., Any], parts: Parts) -> None:
    made = campaign()
    made.idea("other")
    made.run("other", 3.0, metric_name="loss")
    where = made.place.path
    found = compare(row_lookup.find(f"{where}:1", parts), row_lookup.find(f"{where}:2", parts))
    assert found["metrics"]["difference"] is None and found["not_comparable"]
