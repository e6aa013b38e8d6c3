"""The controller of a campaign, and the session of a run at another target, which are started detached."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

from autoresearch.commands import Positional, output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.lab.runs import detached
from autoresearch.runner.masking import clean_text


def control_campaign(directory: Annotated[str, Positional(metavar="DIR")]) -> int:
    """Control a campaign until it is over (`campaign start` and `resume` call this in a session of its own)."""
    from autoresearch.lab.campaign_report.how_it_ran import keep_packages
    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.campaigns.context import in_its_shell
    from autoresearch.records.campaign_records import LOG_ONLY, CampaignDir, read_spec

    campaign_dir = CampaignDir(Path(directory))
    with start_campaign.in_control(campaign_dir):
        mark = os.environ.get("AUTORESEARCH_RUN_ID", "")
        environ, spec = detached.take_environment(campaign_dir.path), read_spec(campaign_dir)
        os.environ.clear()
        os.environ.update(in_its_shell(spec, environ))
        os.environ.pop("AUTORESEARCH_RUN_ID", None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal may go, the campaign stays
        detached.reported(campaign_dir.path)
        from autoresearch.lab.campaigns.controller import Controller

        say = Speaker(campaign_dir.log)
        keep_packages(campaign_dir.path, Path(spec.interpreter))
        say(f"{LOG_ONLY}controller {os.getpid()} {mark} took {campaign_dir.path}")
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
            with self.log.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(line)
        except OSError:
            pass  # a full disk; the journal and the ledger are the truth
        try:
            sys.stdout.write(line)
            sys.stdout.flush()
        except OSError:
            pass  # the terminal is gone


def follow(run_dir: Annotated[Path, Positional(show_default=False)]) -> int:
    """Show the log of a run at another target, and look at it until it is recorded (its session calls this)."""
    from autoresearch.commands.run_view import grown
    from autoresearch.lab.runs.adopt import adopt
    from autoresearch.records.files import locked
    from autoresearch.records.recorded_run import RecordedRun
    from autoresearch.records.rundir import RunDir

    rundir = RunDir(run_dir)
    with locked(rundir.watched, blocking=False):
        os.environ.update(detached.take_environment(rundir.path))
        os.environ.pop("AUTORESEARCH_RUN_ID", None)  # it is no process of the run
        detached.reported(rundir.path)
        parts = real_parts()
        for line in grown(RecordedRun.read(rundir), parts, offset=0):
            output.log_text(line)
        adopt(rundir, parts)
    return 0
