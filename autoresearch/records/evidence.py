"""Evidence: the rows of a campaign as we wrote them, out of reach of the code that is trained.

    <state>/evidence/<hash of the ledger's path>.tsv   a second ledger
    <state>/evidence/<run>.key                         what its Runner seals the exit record with, until it is collected

A row is written to the second ledger first, once, and then into the campaign's own `results.tsv`. Decisions are made
from the second. A line of `results.tsv` that differs from it is set aside, to
`results.tsv.foreign`, and ours comes back. In the sandbox, training code cannot write here; without one it could, and
then this finds whoever does not know of it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.records.index import state_home
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import write_atomically

TAMPERED = "tampered: "  # how a flag begins that says so


def path_of(ledger: Path) -> Path:
    """Where the evidence of a ledger lies."""
    name = hashlib.sha256(os.path.realpath(ledger).encode()).hexdigest()[:24]
    return state_home() / "evidence" / f"{name}.tsv"


def read_from(ledger: Path) -> Path:
    """The file that says which rows count: the evidence, where there is any (a campaign of before has none)."""
    found = path_of(ledger)
    return found if found.exists() else ledger


def new_key(run: str) -> str:
    """A key for the exit record of a run, kept until `forget_key`."""
    path, key = _key_path(run), secrets.token_hex(16)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, key.encode(), mode=0o600, durable=False)
    return key


def key_of(run: str) -> str:
    """The key of a run; "" where it has none (any more)."""
    try:
        return _key_path(run).read_text()
    except OSError:
        return ""


def forget_key(run: str) -> None:
    """Its records are written."""
    _key_path(run).unlink(missing_ok=True)


def _key_path(run: str) -> Path:
    return state_home() / "evidence" / f"{run}.key"


def record(ledger: Path, row: LedgerRow) -> bool:
    """Write the row of a run, once; whether the ledger lacked it. Safe to repeat after any kill.

    A row of that run which stands there already, and is not ours, is set aside, and ours says so.
    """
    ours, theirs = Ledger(path_of(ledger)), Ledger(ledger)
    if not ours.path.exists():
        take_in(ledger, {other.run_id for other in theirs.rows()} - {row.run_id})
    if not ours.holds(row.run_id):
        if theirs.find(row.run_id):
            text = f"{TAMPERED}a row of this run stood in the ledger before it was measured"
            row = replace(row, flags="; ".join(filter(None, (text, row.flags))))
        ours.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        ours.append_once(row)
    return restore_row(ledger, row.run_id)


def restore_row(ledger: Path, run: str) -> bool:
    """Give a run the row that we wrote, and set aside what else says it is that; whether anything changed."""
    return Ledger(ledger).replace(Ledger(path_of(ledger)).find(run)[0])


def restore(ledger: Path) -> list[str]:
    """Give every run the row that we wrote, and set aside what else says it is theirs; whose rows changed."""
    theirs = Ledger(ledger)
    return [row.run_id for row in Ledger(path_of(ledger)).rows() if theirs.replace(row)]


def take_in(ledger: Path, over: Iterable[str]) -> None:
    """Take the rows of these runs as ours, where nothing is known of them: they were recorded by another account."""
    ours = Ledger(path_of(ledger))
    known = {row.run_id for row in ours.rows()}
    wanted = set(over) - known
    for row in Ledger(ledger).rows() if wanted else ():
        if row.run_id in wanted:
            ours.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            ours.append_once(row)
