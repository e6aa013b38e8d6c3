"""A ledger's rows as `ledger show` prints them: TSV as in the file, JSON with numbers, markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from autoresearch.core.run.ledger_row import NUMERIC_COLUMNS, LedgerRow, shown_statuses
from autoresearch.records import tsv

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState

BRIEF = ("index", "run_id", "status", "ending", "metric_name", "metric_value", "elapsed_min", "description")
"""The columns that people are shown first."""
CLAIM, NOTE = "claim", "claim_note"
CELL_MAX = 80  # characters of a cell in markdown


def with_claims(
    records: Iterable[Mapping[str, str]], state: CampaignState, notes: Mapping[int, str]
) -> Iterator[dict[str, str]]:
    """Yield the rows with a column `claim`, what was said of run and idea later, and with a note by the index."""
    ideas = {str(idea.index): idea for idea in state.ideas}
    removed = {str(line.get("run")) for line in state.said_later if line["do"] == "outputs_removed"}
    for record in records:
        idea, run = ideas.get(record.get("index", "")), record.get("run_id", "")
        smoke = idea is not None and run in idea.smoke
        built = f"built on demoted {idea.marked}" if idea and idea.marked else ""
        marks = ("smoke" if smoke else "", "its outputs were removed" if run in removed else "", built)
        claim = ", ".join(filter(None, (idea.confirmed if idea else "", *marks)))
        yield {**record, CLAIM: claim, NOTE: notes.get(idea.index, "") if idea else ""}


def for_people(records: Iterable[Mapping[str, str]]) -> Iterator[dict[str, str]]:
    """Yield the rows of a whole ledger with `pending` as the status of a run whose idea is still owed more runs."""
    known = list(records)
    statuses = shown_statuses([LedgerRow.from_cells(record) for record in known])
    for record, status in zip(known, statuses, strict=True):
        yield {**record, "status": status}


def as_tsv(columns: Sequence[str], records: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Yield lines without newlines, the header first, escaped as in the file."""
    yield tsv.join(columns).decode().rstrip("\n")
    for record in records:
        yield tsv.join(record.get(name, "") for name in columns).decode().rstrip("\n")


def as_objects(records: Iterable[Mapping[str, str]]) -> Iterator[dict[str, str | int | float | None]]:
    """Yield one flat JSON-ready object per row: numbers as numbers, empty or non-finite ones as None.

    Columns unknown to autoresearch stay text.
    """
    for record in records:
        row = LedgerRow.from_cells(record)
        numbers = {name: _plain(getattr(row, name)) for name in NUMERIC_COLUMNS & record.keys()}
        yield {**record, **numbers}


def as_markdown(records: Iterable[Mapping[str, str]], columns: Sequence[str] = BRIEF) -> Iterator[str]:
    """Yield the lines of a markdown table; cells are escaped, and cut to CELL_MAX characters."""
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for record in records:
        yield "| " + " | ".join(_markdown(record.get(name, "")) for name in columns) + " |"


def _plain(value: str | int | float | None) -> str | int | float | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _markdown(text: str) -> str:
    line = " ".join(text.split())
    if len(line) > CELL_MAX:
        line = line[: CELL_MAX - 1] + "…"
    return line.replace("\\", "\\\\").replace("|", "\\|")
