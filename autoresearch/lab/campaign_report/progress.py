"""What a campaign says while it runs, and the documents that follow each row."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea, IdeaRun
from autoresearch.core.campaign.stop_rules import Stand, span
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_report.memory import update_memory
from autoresearch.lab.campaigns.commit_builder import CommitBuilder
from autoresearch.records import evidence, finish_flag
from autoresearch.records.campaign_records import CampaignDir


def row_line(state: CampaignState, idea: Idea, run: str) -> str:
    """One row in words: `[3/24] lr-0-003 (run 1): discard, pass@1 0.312; best 0.35 (idea 2)`."""
    row = next((r for r in idea.rows if r.run_id == run), None)
    count = state.spec.rules.count
    where = f"[{state.attempted}{f'/{count}' if count else ''}]"
    if row is None:
        return f"{where} {idea.slug}: no row"
    value = "no metric" if row.metric_value is None else f"{row.metric_name} {row.metric_value:.4g}"
    noise = "" if row.metric_noise is None else f" (noise {row.metric_noise:.2g})"
    failure = f" [{row.failure}]" if row.failure else ""
    best = state.best
    top = f"; best {best.value:.4g} (idea {best.index}, {best.slug})" if best and best.value is not None else ""
    return f"{where} {idea.slug}, run {row.replicate}: {row.status}, {value}{noise}{failure}{top}"


def eta(state: CampaignState) -> str:
    """When the count will be reached, if ideas go on as they went; "" where there is no count."""
    count = state.spec.rules.count
    spans = [60 * row.elapsed_min for row in state.rows if row.elapsed_min]
    if not count or not spans:
        return ""
    left = max(0, count - state.attempted)
    each = len(state.rows) / max(1, state.attempted) * sum(spans) / len(spans)
    return f"; about {span(left * each / state.spec.parallel)} to go" if left else ""


def why_none(state: CampaignState) -> str:
    """Why the baseline has no metric, from its rows."""
    baseline = state.baseline
    rows = baseline.rows if baseline else []
    endings = sorted({f"{row.ending}{f' ({row.failure})' if row.failure else ''}" for row in rows})
    log = rows[-1].log_path if rows else "its log"
    return f"{', '.join(endings) or 'it never ran'}; see {log}"


def add_line(state: CampaignState) -> str:
    """The command that adds an idea."""
    return f"autoresearch campaign add {state.spec.name} --set KEY=VALUE"


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
        say(f"wrote {written.markdown} and {written.page}")
    except (OSError, AutoresearchError) as error:
        say(f"the report could not be written: {error}")
    best = state.best
    finish_flag.write(
        campaign_dir.path,
        {
            "schema": 1,
            "run": state.spec.name,
            "campaign": state.spec.name,
            "ending": why,
            "attempted": state.attempted,
            "kept": sum(idea.kept and idea.index > 1 for idea in state.ideas),
            "confirmed": [idea.slug for idea in state.ideas if idea.confirmed == "confirmed"],
            "best": best.slug if best else None,
            "value": best.value if best else None,
            "metric": state.spec.objective.metric,
            "ledger": str(campaign_dir.ledger),
        },
    )


def unmade_row(builder: CommitBuilder, idea: Idea, run: IdeaRun, reason: str, now: float) -> LedgerRow:
    """The row of a run that could not be made."""
    said = " ".join(reason.split())
    row = _bare_row(builder, idea, run, said if len(said) <= 300 else f"{said[:120]} ... {said[-170:]}", now)
    return replace(row, elapsed_min=0.0, ending="launch_failed", failure="launch")


def never_tried_row(spec: CampaignSpec, slug: str, reason: str, now: float) -> LedgerRow:
    """The row of an entry of a queue that could not be used; its index is 0, as no idea was attempted."""
    return LedgerRow(
        index=0,
        metric_name=spec.objective.metric,
        elapsed_min=0.0,
        status="crash",
        description=f"{slug} [never tried: {reason}]"[:500],
        run_id=f"{slug}-never-tried",
        ending="launch_failed",
        failure="bad_entry",
        campaign=spec.name,
        started=now,
        ended=now,
    )


def record_lost(builder: CommitBuilder, idea: Idea, run: IdeaRun, reason: str, now: float) -> None:
    """The row of a run whose records are gone, so that nobody knows what became of it."""
    row = _bare_row(builder, idea, run, reason, now)
    lost = replace(row, run_dir=run.run_dir, ending="lost", failure="runner_died")
    evidence.record(Path(builder.spec.directory) / "results.tsv", lost)


def _bare_row(builder: CommitBuilder, idea: Idea, run: IdeaRun, reason: str, now: float) -> LedgerRow:
    spec = builder.spec
    return LedgerRow(
        index=idea.index,
        branch=idea.branch,
        parent_commit=idea.parent_commit,
        commit=run.commit or idea.commit,
        metric_name=spec.objective.metric,
        launcher="tmux" if all(place.is_local for place in spec.places) else "",
        status="crash",
        description=f"{idea.hypothesis.sentence[:200]} [{reason}]"[:500],
        run_id=run.run,
        replicate=run.replicate,
        trainer=builder.trainer.name,
        campaign=spec.name,
        started=now,
        ended=now,
    )
