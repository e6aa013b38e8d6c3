"""The rows of a ledger as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.commands import ledger as views
from autoresearch.core.run.ledger_row import COLUMNS, LedgerRow
from autoresearch.records.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path, row: Callable[..., LedgerRow]) -> Ledger:
    ledger = Ledger(tmp_path / "results.tsv")
    ledger.append_once(row("r-1", description="a | pipe\nand a line", metric_value=0.5))
    ledger.append_once(row("r-2", metric_value=math.nan, description="x" * 200, seed=None))
    return ledger


def test_json_has_numbers_and_no_nan(ledger: Ledger) -> None:
    first, second = map(views.as_object, ledger.records())
    assert tuple(first) == COLUMNS
    assert (first["metric_value"], first["index"], first["seed"], first["commit"]) == (0.5, 1, 7, "0123abc")
    assert first["description"] == "a | pipe\nand a line"
    assert (second["metric_value"], second["seed"]) == (None, None)


def test_json_keeps_unknown_columns_as_text(ledger: Ledger) -> None:
    assert views.as_object({**next(ledger.records()), "mine": "1"})["mine"] == "1"


def test_people_see_no_pending_row_of_a_decided_idea() -> None:
    rows = [LedgerRow(2, status="discard", standing="pending"), LedgerRow(2, status="keep", standing="keep")]
    assert [record["status"] for record in views.as_shown([row.cells() for row in rows])] == ["keep", "keep"]
    assert [record["status"] for record in views.as_shown([rows[0].cells()])] == ["pending"]
