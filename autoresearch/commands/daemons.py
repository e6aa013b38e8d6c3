"""The controller of a campaign and the Follower of a target, which `campaign start` and a far run start detached."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from autoresearch.commands import Positional
from autoresearch.commands.wiring import job_launcher
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import NotFoundError
from autoresearch.lab.runs import detached
from autoresearch.runner.masking import clean_text


def control_campaign(directory: Annotated[str, Positional(metavar="DIR")]) -> int:
    """Control a campaign until it is over (`campaign start` and `resume` call this in a session of its own)."""
    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.campaigns.context import in_its_shell
    from autoresearch.records.campaign_records import LOG_ONLY, CampaignDir, read_spec

    campaign_dir = CampaignDir(Path(directory))
    with start_campaign.in_control(campaign_dir):
        mark = os.environ.get("AUTORESEARCH_RUN_ID", "")
        environ = detached.take_environment(campaign_dir.path)
        os.environ.clear()
        os.environ.update(in_its_shell(read_spec(campaign_dir), environ))
        os.environ.pop("AUTORESEARCH_RUN_ID", None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal may go, the campaign stays
        detached.reported(campaign_dir.path)
        from autoresearch.lab.campaigns.controller import Controller

        say = Speaker(campaign_dir.log)
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


def follow(directory: Annotated[str, Positional(metavar="DIRECTORY", show_default=False)]) -> int:
    """Follow every run of a target until there is none."""
    from autoresearch.core.run.json_record import from_record
    from autoresearch.core.run.targets import Target
    from autoresearch.lab.remote.follower import Follower
    from autoresearch.lab.remote.start_follower import take_up
    from autoresearch.records.rundir import locked, read_json

    folder = Path(directory)
    record = read_json(folder / "place.json")
    if record is None:
        raise NotFoundError(f"{folder} is no directory of a target")
    target = from_record(Target, record)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # its terminal may go, the runs are followed on
    environ = os.environ
    while True:
        with locked(folder / "lock", blocking=False) as alone:
            if not alone:
                detached.reported(folder)  # somebody follows: nobody waits for us
                return 0
            if detached.handed(folder):
                environ.update(detached.take_environment(folder))
            environ.pop("AUTORESEARCH_RUN_ID", None)  # whatever run it was started in, it is none of that
            with take_up(folder):
                launcher = job_launcher(target, environ)
            follower = Follower(folder, target, launcher, replace(real_parts(), environ=environ))
            follower.run()
        if not follower.find_runs():  # an order may have come while it still looked as if somebody followed
            return 0
