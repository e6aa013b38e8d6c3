"""How busy a campaign keeps its slots where an edit takes longer than a run.

A turn of the agent takes EDIT_S, a run half of that, and there are four slots. What is told is the share of the four
slots that trained, from the first run of an idea to the start of the last one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.bench import agent_campaign
from tests.bench.result import Result

SLOTS = 4
EDIT_S, RUN_S = 20.0, 10.0
IDEAS = 36
OFFERED = 9
GOAL = 0.8  # of issue 26, set before anything was measured; 0.06 when one job of the agent ran at a time
MOST_S = 900.0


def run(repeats: int = 5) -> list[Result]:
    """The share of the slots' time in which they train; one campaign, whatever the repeats: it takes minutes."""
    edits, runs = f"edits of {EDIT_S:g} s", f"runs of {RUN_S:g} s"
    what = f"slots that train ({edits}, {runs}, {SLOTS} slots, {IDEAS} ideas)"
    return [Result(what, "", [_busy()], [], GOAL, "of their time", at_least=True, reached=0.84)]


def _busy() -> float:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        place, script = Path(scratch), ("", f"sleep {EDIT_S:g}\n")
        flags = {"sandbox": "off", "prefix": "try/editors", "parallel": SLOTS}
        directory = agent_campaign.declared(
            place, IDEAS, flags, offered=OFFERED, agent=script, trains=f"sleep {RUN_S:g}"
        )
        agent_campaign.run(directory, place / "spans.json", MOST_S)
        return share_of(agent_campaign.trained(directory)[1:])  # without the baseline


def share_of(spans: list[tuple[float, float]]) -> float:
    """The share of the slots that train, between the first beginning and the last one; spans in their order."""
    if len(spans) < IDEAS:
        raise RuntimeError(f"{len(spans)} of {IDEAS} ideas ran")
    first, last = spans[0][0], spans[-1][0]
    return sum(min(ended, last) - began for began, ended in spans) / (SLOTS * (last - first))
