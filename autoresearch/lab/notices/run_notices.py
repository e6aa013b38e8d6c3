"""Notices of lone runs: that one is over, or that its records cannot be written; and whom a project tells.

A lone run is recorded by whoever comes first: its collector, a `wait` in another terminal, a follower. So the variables
that `notify:` refers to are kept from the launch until then, readable by this account alone.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import AutoresearchError
from autoresearch.lab import settings as project
from autoresearch.notifiers.notice import Notice, NoticeKind, Recipients, parse_recipients
from autoresearch.notifiers.sending import hand_over
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.index import state_home
from autoresearch.records.recorded_run import Outcome
from autoresearch.records.rundir import read_json, write_atomically


def recipients_in(settings: project.Settings, environ: Mapping[str, str]) -> Recipients:
    """The recipients that the settings name."""
    return parse_recipients(settings.notify, settings.notify_source, environ)


def project_recipients(directory: Path, environ: Mapping[str, str]) -> Recipients:
    """The recipients of the project in a directory; settings that cannot be read are a problem, no error."""
    if not environ.get(project.NOTIFY_VARIABLE) and project.find_file(directory.absolute()) is None:
        return Recipients()
    try:
        return recipients_in(project.load(directory, environ=environ), environ)
    except AutoresearchError as error:
        return Recipients(problems=(error.message,))


def keep_variables(run: str, settings: project.Settings, environ: Mapping[str, str]) -> None:
    """Keep the variables that `notify:` refers to until the run is recorded. Raises OSError."""
    names = {project.NOTIFY_VARIABLE, *recipients_in(settings, environ).variables}
    if values := {name: environ[name] for name in sorted(names) if environ.get(name)}:
        path = _variables_of(run)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, json.dumps(values).encode(), mode=0o600, durable=False)


def _variables_of(run: str) -> Path:
    return state_home() / "notify" / f"{run}.json"


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


def forget(run: str) -> None:
    """Delete what was kept for the notice of a run, when it is recorded."""
    with contextlib.suppress(OSError):
        _variables_of(run).unlink(missing_ok=True)


def end_notice(outcome: Outcome, host: str) -> Notice:
    """Its ending, its number, and what to type next."""
    from autoresearch.core.campaign.stop_rules import span

    spec, end = outcome.spec, outcome.exit
    code = "unknown" if end.returncode is None else end.returncode
    crashed = outcome.verdict.value == "crash"
    lines = [
        f"{spec.run}: {end.ending.wording} after {span(end.duration_s)}, return code {code}",
        _number(outcome),
        f"{outcome.failure}: {outcome.failure_line or end.reason}" if outcome.failure else "",
        *outcome.warnings[:1],
        f"next: autoresearch {f'explain {spec.run}' if crashed else f'ledger show {spec.run}'}",
        f"on {host}: {spec.run_dir}",
    ]
    title = f"{spec.slug}: {end.ending.wording.partition(':')[0]}; verdict {outcome.standing}"
    return Notice(NoticeKind.RUN_END, "run_end", title, tuple(filter(None, lines)))


def _number(outcome: Outcome) -> str:
    """One run has a value and no interval, and it is said so."""
    objective = outcome.spec.objective
    if objective is None:
        return ""
    if not outcome.measured:
        return f"{objective.metric} could not be read"
    best = "" if outcome.best_value is None else f", best {outcome.best_value:.4g}"
    step = "" if outcome.metric_step is None else f" at step {outcome.metric_step}"
    return f"{objective.metric} = {outcome.metric_value:.4g}{step}{best} (one run: its noise is not known)"


def _hand_over(spec: RunSpec, notice: Notice) -> None:
    kept = read_json(_variables_of(spec.run)) or {}
    environ = {**os.environ, **{name: str(value) for name, value in kept.items()}}
    hand_over(Path(spec.run_dir), notice, project_recipients(Path(spec.blueprint).parent, environ), environ)
