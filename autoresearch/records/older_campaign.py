"""The files of a campaign that was begun before there was events.jsonl, as its events.

    campaign.json                           the spec
    journal.jsonl                           what happened to ideas
    results.tsv, <state>/evidence/*.tsv     the rows; the second ledger counted, where there is one
    verdicts.jsonl, requests.jsonl          later claims; requests of users
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from autoresearch.records import lines
from autoresearch.records.index import state_home
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import read_json


def events_of_before(path: Path) -> list[dict[str, Any]]:
    """All that these files of a directory tell, in an order in which it can be folded."""
    ledger = path / "results.tsv"
    name = sha256(os.path.realpath(ledger).encode()).hexdigest()[:24]
    second = state_home() / "evidence" / f"{name}.tsv"
    rows = Ledger(second if second.exists() else ledger).rows()
    cells = ({name: cell for name, cell in row.cells().items() if cell} for row in rows)
    return [
        {"do": "campaign", "spec": read_json(path / "campaign.json") or {}},
        *_objects(path / "journal.jsonl"),
        *({"do": "ran", "row": one} for one in cells),
        *_objects(path / "verdicts.jsonl"),
        *({"do": "requested", "request": one, "t": one.get("t")} for one in _objects(path / "requests.jsonl")),
    ]


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    with lines.reading(path) as fd:
        for line in () if fd is None else lines.forwards(fd):
            with contextlib.suppress(ValueError):  # half of one, from a killed writer
                if isinstance(record := json.loads(line), dict) and "do" in record:
                    yield record
