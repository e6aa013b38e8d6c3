"""A row and its cells."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest

from autoresearch.core.run.ledger_row import COLUMNS, NEMO_COLUMNS, NUMERIC_COLUMNS, LedgerRow, shown_statuses


def test_nemo_rls_columns_come_first_and_ours_after_description() -> None:
    assert " ".join(NEMO_COLUMNS) == (
        "index branch parent_commit commit recipe metric_name metric_value memory_gb elapsed_min launcher "
        "job_id command log_path status description"
    )
    assert " ".join(COLUMNS[15:22]) == "run_id replicate ending returncode seed parent_branch metric_noise"
    assert COLUMNS[-1] == "schema"


def test_a_full_row_reads_back_the_same() -> None:
    kinds = {f.name: str(f.type) for f in fields(LedgerRow)}
    sample = {"int": 3, "int | None": -7, "float | None": 0.1 + 0.2, "str": " as\tit is "}
    full = LedgerRow(**{name: sample[kind] for name, kind in kinds.items()})  # type: ignore[arg-type]
    assert LedgerRow.from_cells(full.cells()) == full
    assert tuple(full.cells()) == COLUMNS


def test_an_empty_row_reads_back_the_same_and_none_is_an_empty_cell() -> None:
    empty = LedgerRow(index=1)
    assert LedgerRow.from_cells(empty.cells()) == empty
    assert {v for k, v in empty.cells().items() if k not in ("index", "schema")} == {""}


@pytest.mark.parametrize("value", [0.1 + 0.2, 1e-07, 3.0, 1e22, -0.0, math.inf, -math.inf, 5e-324, math.nan])
def test_numbers_read_back_the_same_and_nan_is_not_unknown(value: float) -> None:
    cells = LedgerRow(index=1, metric_value=value).cells()
    assert cells["metric_value"] == repr(value)
    assert repr(LedgerRow.from_cells(cells).metric_value) == repr(value)


@pytest.mark.parametrize(
    ("cell", "index", "seed"),
    [
        ("3", 3, 3),
        ("3.0", 3, 3),
        (" 4 ", 4, 4),
        ("", 0, None),
        ("three", 0, None),
        ("3.5", 0, None),
        ("nan", 0, None),
        ("inf", 0, None),
        ("9" * 5000, 0, None),
    ],
)
def test_hand_edited_integers(cell: str, index: int, seed: int | None) -> None:
    row = LedgerRow.from_cells({"index": cell, "seed": cell})
    assert (row.index, row.seed) == (index, seed)


def test_a_row_is_shown_as_pending_only_while_its_idea_is() -> None:
    rows = [
        LedgerRow(1, status="keep", standing="keep"),
        LedgerRow(2, status="discard", standing="pending"),
        LedgerRow(2, status="crash", standing="pending"),
        LedgerRow(3, status="discard", standing="pending"),
        LedgerRow(3, status="crash", standing="pending"),
    ]
    assert shown_statuses(rows) == ["keep", "pending", "pending", "pending", "pending"]
    rows += [LedgerRow(2, status="keep", standing="keep"), LedgerRow(4, status="discard")]  # of an older ledger
    assert shown_statuses(rows) == ["keep", "keep", "crash", "pending", "pending", "keep", "discard"]


def test_unknown_columns_are_ignored_and_missing_ones_are_empty() -> None:
    row = LedgerRow.from_cells({"index": "2", "metric_value": "0.5?", "my_remark": "good"})
    assert row == LedgerRow(index=2, schema=None)


def test_numeric_columns_are_those_that_hold_numbers() -> None:
    assert {"index", "metric_value", "returncode", "started", "schema"} <= NUMERIC_COLUMNS
    assert not {"commit", "run_id", "status"} & NUMERIC_COLUMNS
