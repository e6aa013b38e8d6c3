"""A ledger as TSV, JSON and markdown."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.core.run.ledger_row import COLUMNS, LedgerRow
from autoresearch.records import ledger_views as views
from autoresearch.records.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path, row: Callable[..., LedgerRow]) -> Ledger:
    ledger = Ledger(tmp_path / "results.tsv")
    ledger.append_once(row("r-1", description="a | pipe\nand a line", metric_value=0.5))
    ledger.append_once(row("r-2", metric_value=math.nan, description="x" * 200, seed=None))
    return ledger


def test_tsv_is_the_file(ledger: Ledger) -> None:
    assert "\n".join(views.as_tsv(ledger.header(), ledger.records())) + "\n" == ledger.path.read_text()


def test_json_has_numbers_and_no_nan(ledger: Ledger) -> None:
    first, second = views.as_objects(ledger.records())
    assert tuple(first) == COLUMNS
    assert (first["metric_value"], first["index"], first["seed"], first["commit"]) == (0.5, 1, 7, "0123abc")
    assert first["description"] == "a | pipe\nand a line"
    assert (second["metric_value"], second["seed"]) == (None, None)


def test_json_keeps_unknown_columns_as_text(ledger: Ledger) -> None:
    assert next(views.as_objects({**r, "mine": "1"} for r in ledger.records()))["mine"] == "1"


def test_markdown_is_a_table_whatever_the_cells_hold(ledger: Ledger) -> None:
    lines = list(views.as_markdown(ledger.records()))
    assert len(lines) == 4
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert "a \\| pipe and a line" in lines[2]
    assert max(map(len, lines)) < 300


def test_claims_are_joined_by_run_or_by_idea(tmp_path: Path, row: Callable[..., LedgerRow]) -> None:
    ledger = Ledger(tmp_path / "results.tsv")
    for run, index in (("a-1", 1), ("b-1", 2), ("b-2", 2), ("c-1", 3)):
        ledger.append_once(row(run, index=index))
    verdicts = [
        {"do": "undecided", "index": 2},
        {"do": "confirmed", "index": 2},
        {"do": "smoke", "index": 2, "run": "b-2"},
        {"do": "marked", "index": 3, "of": "b"},
        {"do": "demoted", "index": "3"},
        {"do": "confirmed", "index": "?"},
        {"do": "anything", "index": 1},
        {},
    ]
    joined = list(views.with_claims(ledger.records(), verdicts, {2: "b: confirmed, loss 0.3"}))
    assert [r["claim_note"] for r in joined] == ["", "b: confirmed, loss 0.3", "b: confirmed, loss 0.3", ""]
    found = [r["claim"] for r in joined]
    assert found == ["", "confirmed", "confirmed, smoke", "demoted, built on demoted b"]


def test_people_see_no_pending_row_of_a_decided_idea() -> None:
    rows = [LedgerRow(2, status="discard", standing="pending"), LedgerRow(2, status="keep", standing="keep")]
    assert [record["status"] for record in views.for_people(row.cells() for row in rows)] == ["keep", "keep"]
    assert [record["status"] for record in views.for_people([rows[0].cells()])] == ["pending"]
