"""How the runs of a campaign failed, alike ones together, each with the words that prove it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.run.ending import EXCUSED
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.comparable import NO_SIGNAL
from autoresearch.core.statistics.pruning import PRUNED
from autoresearch.errors import AutoresearchError
from autoresearch.records.recorded_run import Outcome
from autoresearch.records.rundir import RunDir

_SAYS_NOTHING = EXCUSED | {PRUNED, NO_SIGNAL}


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Runs that failed alike: the class, the slugs of their ideas, and the line that proves the last one."""

    kind: str
    slugs: tuple[str, ...]
    line: str = ""


def failure_groups(state: CampaignState) -> list[FailureGroup]:
    """By class, the most frequent first."""
    found: dict[str, list[tuple[Idea, LedgerRow]]] = {}
    for idea in state.ideas:
        for row in idea.rows:
            if row.failure and row.failure not in _SAYS_NOTHING:
                found.setdefault(row.failure, []).append((idea, row))
    told = []
    for kind, cases in sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        last, row = cases[-1]
        line = _proof(row) or _last_lines(last.hypothesis.why_unmade)
        told.append(FailureGroup(kind, tuple(dict.fromkeys(idea.slug for idea, _ in cases)), line))
    return told


def _last_lines(why_unmade: str) -> str:
    """Of what a failed guard printed, without the rulers around it."""
    lines = [line for line in why_unmade.splitlines() if not line.startswith(("=", "_"))]
    return "\n".join(lines[-2:])


def _proof(row: LedgerRow) -> str:
    """The line of the log that proves the failure of a run."""
    if not row.run_dir:
        return ""
    try:
        done = Outcome.load(RunDir(Path(row.run_dir)))
    except (OSError, ValueError, KeyError, AutoresearchError):
        return ""
    return done.failure_line if done else ""
