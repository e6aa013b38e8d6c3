"""Notices of lone runs: that one is over, or that its records cannot be written; and whom a project tells."""

from __future__ import annotations

import os
from pathlib import Path

from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import AutoresearchError
from autoresearch.lab import settings as project
from autoresearch.lab.notices.sending import Notice, NoticeKind, Recipients, hand_over, recipients_of
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.recorded_run import Outcome


def project_recipients(directory: Path) -> Recipients:
    """The recipients of the project in a directory; settings that cannot be read are a problem, no error."""
    if project.find_file(directory.absolute()) is None:
        return Recipients()
    try:
        settings = project.load(directory, environ={})
    except AutoresearchError as error:
        return Recipients(problems=(error.message,))
    return recipients_of(settings.notify, settings.file)


def announce_end(outcome: Outcome) -> None:
    """Hand over the notice of a lone run's end; safe to repeat. Returns at once and raises nothing."""
    _hand_over(outcome.spec, end_notice(outcome, os.uname().nodename))


def announce_full_disk(spec: RunSpec, error: Exception) -> None:
    """Hand over that a run is over, and that its records cannot be written, if it is a lone one."""
    if CampaignDir(Path(spec.ledger).parent).spec.exists():
        return  # its controller says so
    lines = (
        f"{spec.run} is over, and its records cannot be written: {error}",
        f"next: free some space, then: autoresearch status {spec.run}",
        f"on {os.uname().nodename}: {spec.run_dir}",
    )
    _hand_over(spec, Notice(NoticeKind.DISK_FULL, "disk_full", f"{spec.slug}: the disk is full", lines))


def end_notice(outcome: Outcome, host: str) -> Notice:
    """Its ending, its number, and what to type next."""
    from autoresearch.core.text.numbers import span

    spec, end, row = outcome.spec, outcome.exit, outcome.row
    code = "unknown" if end.returncode is None else end.returncode
    crashed = row.status == "crash"
    lines = [
        f"{spec.run}: {end.ending.wording} after {span(end.duration_s)}, return code {code}",
        _number(outcome),
        f"{row.failure}: {outcome.failure_line or end.reason}" if row.failure else "",
        *outcome.warnings[:1],
        f"next: autoresearch {f'explain {spec.run}' if crashed else f'ledger show {spec.run}'}",
        f"on {host}: {spec.run_dir}",
    ]
    title = f"{spec.slug}: {end.ending.wording.partition(':')[0]}; verdict {row.shown_status}"
    return Notice(NoticeKind.RUN_END, "run_end", title, tuple(filter(None, lines)))


def _number(outcome: Outcome) -> str:
    """One run has a value and no interval, and it is said so."""
    row = outcome.row
    if not row.metric_name:
        return ""
    if row.metric_value is None:
        return f"{row.metric_name} could not be read"
    best = "" if row.best_value is None else f", best {row.best_value:.4g}"
    step = "" if row.metric_step is None else f" at step {row.metric_step}"
    return f"{row.metric_name} = {row.metric_value:.4g}{step}{best} (one run: its noise is not known)"


def _hand_over(spec: RunSpec, notice: Notice) -> None:
    hand_over(Path(spec.run_dir), notice, project_recipients(Path(spec.blueprint).parent))
