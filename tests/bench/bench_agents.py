"""What reaches the model while a coding agent runs one experiment: our skill, our MCP server, the published skill.

Every byte is counted at the scripted model (`tests/agents/model_server.py`); a token is four bytes there. The ways
and their time lapse: `agent_ways.py`. The rows for a run of four hours are computed from what was measured: so many
looks more, each a request of its own whose answer stays in the context of all later ones.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.agents.homes import missing
from tests.agents.model_server import tokens_of
from tests.bench.agent_ways import PUBLISHED_WAITS_S, Told, Way, by_mcp, by_prose, by_skill, measure
from tests.bench.result import Result

HOURS = 4
PAIRS = 2  # each is three experiments; bytes hardly vary
OURS_S = 100


def run(repeats: int = 5) -> list[Result]:
    """Megabytes; empty where Claude Code is not installed."""
    if why := missing("claude"):
        print(f"   left out: {why}", flush=True)
        return []
    told: dict[Way, list[Told]] = {way: [] for way in (by_skill, by_mcp, by_prose)}
    for _ in range(min(repeats, PAIRS)):
        for way, all_told in told.items():
            with tempfile.TemporaryDirectory() as place:
                all_told.append(measure(way, Path(place)))
    theirs = told[by_prose]
    return [row for name, way in (("skill", by_skill), ("MCP", by_mcp)) for row in _rows(name, told[way], theirs)]


def _rows(name: str, ours: list[Told], theirs: list[Told]) -> list[Result]:
    compared = "the published skill"
    long, published = HOURS * 3600 // OURS_S, _published_looks(HOURS * 3600)
    return [
        Result(
            *(f"one experiment by our {name}: bytes to the model", compared),
            *([each.total / 1e6 for each in side] for side in (ours, theirs)),
            **{"goal": 0.8, "unit": "MB"},
            note=f"tokens: {_tokens(ours)} in {_requests(ours)}, {_tokens(theirs)} in {_requests(theirs)}",
        ),
        Result(
            *(f"one look at the run by our {name}: bytes", "a look at the pane"),
            *([each.look_bytes for each in side] for side in (ours, theirs)),
            **{"goal": 0.8, "unit": "B"},
        ),
        Result(
            *(f"a run of {HOURS} h by our {name}: bytes to the model", compared),
            [each.total_with(long) / 1e6 for each in ours],
            [each.total_with(published) / 1e6 for each in theirs],
            **{"goal": 1.0, "unit": "MB"},
            note=f"computed: {long} looks against {published}",
        ),
    ]


def _published_looks(seconds: float) -> int:
    looks = 1  # the first, at once
    while seconds > 0:
        seconds -= PUBLISHED_WAITS_S[min(looks - 1, len(PUBLISHED_WAITS_S) - 1)]
        looks += 1
    return looks


def _tokens(side: list[Told]) -> str:
    return f"{tokens_of(side[0].total):,}"


def _requests(side: list[Told]) -> str:
    return f"{len(side[0].sizes)} requests"
