"""`autoresearch campaign control` and `plan control`: be a controller, in a session of its own."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import NotFoundError
from autoresearch.runner.masking import clean_text

if TYPE_CHECKING:

    pass


def control_campaign(directory: Annotated[str, typer.Argument(metavar="DIR")]) -> int:
    """Control a campaign until it is over (`campaign start` and `resume` call this in a session of its own)."""
    import signal

    from autoresearch.lab.campaign_setup import controller_session
    from autoresearch.lab.runs import detached
    from autoresearch.records.campaign_records import CampaignDir

    campaign_dir = CampaignDir(Path(directory))
    with controller_session.in_control(campaign_dir):
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


def control_plan(
    directory: Annotated[Path, typer.Argument(metavar="DIR")],
    researcher: Annotated[str, typer.Option(metavar="JSON", hidden=True)] = "",
) -> int:
    """Pursue a plan in a session of its own (`plan run --detach` calls this)."""
    import signal

    from autoresearch.commands.plan_agent import rewriting
    from autoresearch.git_repo import checkout as repository
    from autoresearch.lab.plans.plan_dir import PlanDir
    from autoresearch.lab.plans.run_stages import in_pursuit, pursue_alone
    from autoresearch.lab.runs import detached

    checkout = repository.find(directory.parents[3])
    if checkout is None:
        raise NotFoundError(f"{directory} lies in no repository")
    plan_dir, chosen = PlanDir(checkout, directory.name), json.loads(researcher) if researcher else {}
    with in_pursuit(plan_dir):
        os.environ.clear()
        os.environ.update(detached.take_environment(directory))
        os.environ.pop("AUTORESEARCH_RUN_ID", None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal may go, the plan goes on
        detached.reported(directory)
        say = Speaker(plan_dir.log)
        parts, most = real_parts(), int(chosen.pop("most", 0))
        stopped = pursue_alone(plan_dir, parts, say, rewriting(plan_dir, chosen, parts), most)
        say(f"{stopped.state}: {stopped.reason}")
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
