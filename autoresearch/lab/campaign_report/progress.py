"""What a campaign says while it runs, and the documents that follow each row."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autoresearch.core.campaign.spec import Stand
from autoresearch.core.campaign.state import CampaignState, Idea, IdeaRun
from autoresearch.core.controller.standing import KEPT, counts, standing, standings
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_report.memory import update_memory
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.records import campaign_records, journal
from autoresearch.records.campaign_records import CampaignDir


def write_documents(campaign_dir: CampaignDir, state: CampaignState, stand: Stand) -> None:
    """What people and agents read; a disk that is full takes nothing else down."""
    with contextlib.suppress(OSError, AutoresearchError):
        update_memory(campaign_dir, state, stand)


def write_end(
    campaign_dir: CampaignDir, state: CampaignState, stand: Stand, why: str, say: Callable[[str], None]
) -> None:
    """The documents of the end and the campaign's own finish.flag."""
    from autoresearch.lab.campaign_report.report import write_report

    write_documents(campaign_dir, state, stand)
    try:
        written = write_report(campaign_dir, state, stand)
        say(f"wrote {written.markdown.name} and {written.page.name}")
    except (OSError, AutoresearchError) as error:
        say(f"the report could not be written: {error}")
    best, found = standing(state, state.winner) if state.winner else None, counts(standings(state))
    journal.write_flag(
        campaign_dir.path,
        {
            "schema": 1,
            "run": state.spec.name,
            "campaign": state.spec.name,
            "ending": why,
            "attempted": state.attempted,
            "kept": sum(found[word] for word in KEPT),
            "confirmed": [idea.slug for idea in state.ideas if idea.confirmed == "confirmed"],
            "best": best.slug if best else None,
            "value": best.value if best else None,
            "search_mean": best.search_mean if best else None,
            "best_is": best.sentence if best else None,
            "metric": state.spec.objective.metric,
            "ledger": str(campaign_dir.ledger),
        },
    )


def unmade_row(builder: CommitBuilder, idea: Idea, idea_run: IdeaRun, reason: str, now: float) -> LedgerRow:
    """The row of a run that could not be made."""
    said = " ".join(reason.split())
    row = _bare_row(builder, idea, idea_run, said if len(said) <= 300 else f"{said[:120]} ... {said[-170:]}", now)
    return replace(row, elapsed_min=0.0, failure="launch")


def record_lost(builder: CommitBuilder, idea: Idea, idea_run: IdeaRun, reason: str, now: float) -> None:
    """The row of a run whose records are gone, so that nobody knows what became of it."""
    row = _bare_row(builder, idea, idea_run, reason, now)
    lost = replace(row, run_dir=idea_run.run_dir, ending="lost", failure="runner_died")
    campaign_records.append_row(CampaignDir(Path(builder.spec.directory)), lost)


def _bare_row(builder: CommitBuilder, idea: Idea, idea_run: IdeaRun, reason: str, now: float) -> LedgerRow:
    """The row of a run that nothing else tells of."""
    spec = builder.spec
    return LedgerRow(
        index=idea.index,
        branch=idea.branch,
        parent_commit=idea.parent_commit,
        commit=idea_run.commit or idea.commit,
        metric_name=spec.objective.metric,
        launcher="tmux" if all(place.is_local for place in spec.places) else "",
        status="crash",
        description=f"{idea.hypothesis.sentence[:200]} [{reason}]"[:500],
        reason=reason,
        run_id=idea_run.run,
        replicate=idea_run.replicate,
        ending="launch_failed",
        trainer=builder.trainer.name,
        campaign=spec.name,
        started=now,
        ended=now,
    )
