"""The second ledger: what counts, whatever becomes of the campaign's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.records import evidence
from autoresearch.records.ledger import Ledger

Row = Callable[..., LedgerRow]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "results.tsv"


def test_a_row_is_written_once_to_both_and_comes_back(ledger: Path, row: Row) -> None:
    one, other = row(), row("sort-bbbbbb", metric_value=0.5)
    assert evidence.record(ledger, one) and evidence.record(ledger, other)
    before = ledger.read_text()
    assert not evidence.record(ledger, replace(one, metric_value=9.0)), "the first one counts"
    assert ledger.read_text() == before
    ledger.write_text("".join(line for line in before.splitlines(keepends=True) if one.run_id not in line))
    assert evidence.record(ledger, one), "somebody took it out of the campaign's own"
    assert {found.run_id: found.metric_value for found in Ledger(ledger).rows()} == {
        one.run_id: one.metric_value,
        other.run_id: 0.5,
    }
    ledger.unlink()
    assert set(evidence.restore(ledger)) == {one.run_id, other.run_id}
    assert len(list(Ledger(ledger).rows())) == 2


def test_a_row_that_stood_there_before_it_was_measured_is_moved_aside(ledger: Path, row: Row) -> None:
    evidence.record(ledger, row("sort-bbbbbb"))
    Ledger(ledger).append_once(row(metric_value=0.99))
    assert evidence.record(ledger, row(metric_value=0.4))
    (found,) = [one for one in Ledger(ledger).rows() if one.run_id == "sort-aaaaaa"]
    assert found.metric_value == 0.4 and "tampered: " in found.flags
    assert "0.99" in ledger.with_name("results.tsv.foreign").read_text()
