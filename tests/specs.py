"""The spec of a run that nobody launched, for tests of what is made of its records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.spec import Limits, RunSpec


def run_spec(run: str, run_dir: Path, **given: Any) -> RunSpec:
    """A lone run that trains nothing; its results and its ledger lie two directories above its own."""
    root = run_dir.parents[1]
    usual = {
        **dict.fromkeys(("slug", "experiment"), run),
        **dict.fromkeys(("purpose", "blueprint", "blueprint_sha", "recipe"), ""),
        **{"campaign": "lone", "index": 1, "replicate": 1, "trainer": "generic", "command": "true"},
        **{"cwd": str(root), "interpreter": "/p", "limits": Limits(), "session": f"ajet_{run}"},
        **{"result_dir": str(root / "results" / run_dir.name), "ledger": str(root / "results.tsv"), "created": 0.0},
    }
    return RunSpec(run=run, run_dir=str(run_dir), **{**usual, **given})


def events(
    journal: Iterable[Mapping[str, Any]], rows: Iterable[LedgerRow] = (), verdicts: Iterable[Mapping[str, Any]] = ()
) -> list[Mapping[str, Any]]:
    """The events of a campaign: what happened to its ideas, the rows of their runs, what was said of them later."""
    return [*journal, *({"do": "ran", "row": row.cells()} for row in rows), *verdicts]
