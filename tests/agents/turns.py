"""One turn from its beginning to its end, as no controller does it: it is waited for."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from autoresearch.core.agents.agent import Agent, Answer, Turn, TurnFault
from autoresearch.lab.agent_work.turn import answer_turn, begin_turn, is_over
from autoresearch.lab.agent_work.turn_dir import TurnEnvironment
from autoresearch.records.order_file import request_stop
from autoresearch.records.rundir import RunDir


def run_turn(agent: Agent, turn: Turn, turn_environment: TurnEnvironment, stop: threading.Event) -> Answer:
    """Ask and wait; `stop` ends it early. A turn that was begun in this directory before is not asked again."""
    rundir = RunDir(Path(turn.directory))
    if not rundir.spec.exists():
        if stop.is_set():
            return Answer(fault=TurnFault.STOPPED)
        if (refused := begin_turn(agent, turn, turn_environment)) is not None:
            return refused
    while not is_over(rundir, turn_environment.printed_bytes):
        if stop.is_set() and not rundir.stop.exists():
            request_stop(rundir, "somebody asked for that", durable=False)
        time.sleep(0.05)
    return answer_turn(agent, turn, turn_environment)
