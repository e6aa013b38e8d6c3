"""`autoresearch follow DIRECTORY`: follow the runs of one target (started when a run is submitted there)."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands.wiring import job_launcher
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import NotFoundError


def follow(directory: Annotated[str, typer.Argument(metavar="DIRECTORY", show_default=False)]) -> int:
    """Follow every run of a target until there is none."""
    from autoresearch.core.run.json_record import from_record
    from autoresearch.core.run.targets import Target
    from autoresearch.lab.remote.follower import Follower
    from autoresearch.lab.remote.start_follower import take_up
    from autoresearch.lab.runs import detached
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
