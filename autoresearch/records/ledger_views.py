"""A ledger's rows as `ledger show` prints them: TSV as it is, JSON with numbers, markdown for people."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from autoresearch.core.run.ledger_row import NUMERIC_COLUMNS, LedgerRow, integer
from autoresearch.records import tsv

BRIEF = ("index", "run_id", "status", "ending", "metric_name", "metric_value", "elapsed_min", "description")
CLAIM = "claim"
CELL_MAX = 80  # characters of a cell in markdown


def with_claims(
    records: Iterable[Mapping[str, str]], verdicts: Iterable[Mapping[str, object]]
) -> Iterator[dict[str, str]]:
    """The same rows with a column `claim`: what was said of them later, in verdicts.jsonl.

    A verdict that names a run is about that row, one that names an index about all rows of the idea. Of
    confirmed, demoted and undecided the last one stands.
    """
    later = list(verdicts)
    for record in records:
        yield {**record, CLAIM: _claim(record, later)}


def _claim(record: Mapping[str, str], verdicts: Sequence[Mapping[str, object]]) -> str:
    claim, marks = "", dict[str, None]()
    for verdict in verdicts:
        word = str(verdict.get("do", ""))
        run, index = verdict.get("run"), verdict.get("index")
        of_idea = not run and index is not None and integer(str(index)) == integer(record.get("index", ""))
        if not (of_idea or (run and run == record.get("run_id"))):
            continue
        if word in ("confirmed", "demoted", "undecided"):
            claim = word
        elif word == "smoke":
            marks["smoke"] = None
        elif word == "marked":
            marks[f"built on demoted {verdict.get('of', '')}".strip()] = None
    return ", ".join([*([claim] if claim else []), *marks])


def as_tsv(columns: Sequence[str], records: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Lines without their ends, the header first, escaped as in the file."""
    yield tsv.join(columns).decode().rstrip("\n")
    for record in records:
        yield tsv.join(record.get(name, "") for name in columns).decode().rstrip("\n")


def as_objects(records: Iterable[Mapping[str, str]]) -> Iterator[dict[str, str | int | float | None]]:
    """One flat JSON-ready object a row: numbers as numbers, an empty or not-finite number as None.

    Columns that are not ours stay text.
    """
    for record in records:
        row = LedgerRow.from_cells(record)
        numbers = {name: _plain(getattr(row, name)) for name in NUMERIC_COLUMNS & record.keys()}
        yield {**record, **numbers}


def as_json(records: Iterable[Mapping[str, str]]) -> str:
    """A JSON array of those objects."""
    return json.dumps(list(as_objects(records)), allow_nan=False, ensure_ascii=False)


def as_markdown(records: Iterable[Mapping[str, str]], columns: Sequence[str] = BRIEF) -> Iterator[str]:
    """The lines of a markdown table; long cells are cut, nothing in a cell breaks the table."""
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
