"""Evidence: a campaign's rows as autoresearch wrote them, out of reach of the training code.

    <state>/evidence/<hash of the ledger's path>.tsv   a second ledger

A row is first written, once, to the second ledger, and then to the campaign's own `results.tsv`. Decisions are based
on the second ledger. A line of `results.tsv` that differs from it is moved to `results.tsv.foreign`, and the original
is restored. In the sandbox, training code cannot write here; without a sandbox it could, so this detects only code
that does not know of the second ledger.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from autoresearch.core.run.ending import TAMPERED
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.records.index import state_home
from autoresearch.records.ledger import Ledger


def path_of(ledger: Path) -> Path:
    """Path of the second ledger that belongs to a ledger."""
    name = sha256(os.path.realpath(ledger).encode()).hexdigest()[:24]
    return state_home() / "evidence" / f"{name}.tsv"


def read_from(ledger: Path) -> Path:
    """The ledger whose rows count: the evidence if it exists (older campaigns have none), else `ledger`."""
    found = path_of(ledger)
    return found if found.exists() else ledger


def record(ledger: Path, row: LedgerRow) -> bool:
    """Write the row of a run, once; returns whether the ledger changed. Safe to repeat after any kill.

    If the ledger already has a foreign row of that run, it is moved aside, and the new row is flagged as TAMPERED.
    """
    ours, theirs = Ledger(path_of(ledger)), Ledger(ledger)
    if not ours.path.exists():
        take_in(ledger, {other.run_id for other in theirs.rows()} - {row.run_id})
    if theirs.holds(row.run_id) and not ours.holds(row.run_id):
        text = f"{TAMPERED}a row of this run stood in the ledger before it was measured"
        row = replace(row, flags="; ".join(filter(None, (text, row.flags))))
    ours.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    ours.append_once(row)
    return theirs.replace(ours.find(row.run_id)[0])


def restore_row(ledger: Path, run: str) -> bool:
    """Restore a run's row from the evidence, and move other rows of that run aside; whether anything changed."""
    return Ledger(ledger).replace(Ledger(path_of(ledger)).find(run)[0])


def restore(ledger: Path) -> list[str]:
    """Restore every run's row from the evidence, and move other rows aside; returns the runs whose rows changed."""
    theirs = Ledger(ledger)
    return [row.run_id for row in theirs.lacking(Ledger(path_of(ledger)).rows()) if theirs.replace(row)]


def take_in(ledger: Path, over: Iterable[str]) -> None:
    """Adopt the ledger's rows of these runs if the evidence has none: they were recorded by another account."""
    ours = Ledger(path_of(ledger))
    known = {row.run_id for row in ours.rows()}
    wanted = set(over) - known
    for row in Ledger(ledger).rows() if wanted else ():
        if row.run_id in wanted:
            ours.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            ours.append_once(row)
