"""`autoresearch campaign control`: be a controller, in a session of its own."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.runner.masking import clean_text


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
