"""What Runners, followers and controllers call, and nobody needs to type; `collect` and `swarm down` are safe to."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import AutoresearchError
from autoresearch.records.rundir import RunDir
from autoresearch.runner.masking import clean_text


def before_training(run_dir: Annotated[Path, typer.Argument(show_default=False)]) -> int:
    """See that the worktree holds the run's commit, and note what `prepare:` has changed in it."""
    from autoresearch.lab.ideas import worktree_check
    from autoresearch.records.recorded_run import RecordedRun
    from autoresearch.records.rundir import RunDir

    recorded = RecordedRun.read(RunDir(run_dir))
    worktree_check.before(recorded)
    output.say(f"trains in {recorded.spec.worktree}: {recorded.spec.commit[:12]}")
    return 0


def evaluation_place(
    path: Annotated[Path, typer.Argument(show_default=False)],
    repository: Annotated[Path, typer.Option(show_default=False)],
    commit: Annotated[str, typer.Option(show_default=False)],
    include: Annotated[list[str] | None, typer.Option(show_default=False)] = None,
) -> int:
    """Leave exactly the files of a commit there, whatever a run may have done to them."""
    from autoresearch.lab.ideas.worktree_paths import make_place

    make_place(repository, path, commit, include or ())
    output.say(f"evaluated in {path}: {commit[:12]}, as it was committed")
    return 0


def collect(
    run: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Write the records of a run that is over; does nothing twice."""
    from autoresearch.commands.outcome import show_outcome
    from autoresearch.lab.results.collect import collect as write_records
    from autoresearch.lab.runs import sessions

    parts = real_parts()
    rundir = sessions.find(run, parts)
    try:
        outcome = write_records(rundir, parts.index)
    except (AutoresearchError, OSError) as error:
        _announce_full_disk(rundir, error)
        raise
    show_outcome("collect", outcome, as_json=as_json)
    return 0


def _announce_full_disk(rundir: RunDir, error: Exception) -> None:
    """The Runner calls this once, and nobody reads what it prints."""
    from autoresearch.lab.campaigns.trouble import is_full
    from autoresearch.lab.notices.run_notices import announce_full_disk
    from autoresearch.lab.runs.sessions import spec_of

    if is_full(error):
        announce_full_disk(spec_of(rundir), error)


def control_campaign(directory: Annotated[str, typer.Argument(metavar="DIR")]) -> int:
    """Control a campaign until it is over (`campaign start` and `resume` call this in a session of its own)."""
    import signal

    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.runs import detached
    from autoresearch.records.campaign_records import CampaignDir

    campaign_dir = CampaignDir(Path(directory))
    with start_campaign.in_control(campaign_dir):
        mark = os.environ.get("AUTORESEARCH_RUN_ID", "")
        os.environ.clear()
        os.environ.update(detached.take_environment(campaign_dir.path))
        os.environ.pop("AUTORESEARCH_RUN_ID", None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal may go, the campaign stays
        detached.reported(campaign_dir.path)
        from autoresearch.lab.campaigns.controller import Controller

        say = Speaker(campaign_dir.log)
        say(f"controller {os.getpid()} {mark} took {campaign_dir.path}")
        controller = Controller(campaign_dir, real_parts(), say)
        controller.run()
        controller.close_pane()
    return 0


class Speaker:
    """Says it in the log, and in the pane as long as there is one."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __call__(self, text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {clean_text(' '.join(text.split()))}\n"
        try:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError:
            pass  # a full disk; the journal and the ledger are the truth
        try:
            sys.stdout.write(line)
            sys.stdout.flush()
        except OSError:
            pass  # the terminal is gone
