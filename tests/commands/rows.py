"""Rows of a ledger as a second reader finds them; in a campaign's, what nobody is to blame for was tried again."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from autoresearch.core.run.ending import EXCUSED


def ledger_rows(ledger: str | Path, run: str = "") -> list[dict[str, str]]:
    """All of them, or those of one run."""
    with open(ledger, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in rows if not run or row["run_id"] == run]


def rows_of(place: Any) -> list[dict[str, str]]:
    """The rows of a CampaignDir; none while there is no ledger."""
    return ledger_rows(place.ledger) if place.ledger.exists() else []


def counted(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Those that say something of their ideas. Every run has one row, and what says nothing was run again."""
    assert len({row["run_id"] for row in rows}) == len(rows)
    for number, row in enumerate(rows, 1):
        if row["failure"] in EXCUSED:
            again = [r for r in rows[number:] if (r["index"], r["replicate"]) == (row["index"], row["replicate"])]
            assert again, f"{row['run_id']} ({row['failure']}) was not run again"
    return [row for row in rows if row["failure"] not in EXCUSED]
