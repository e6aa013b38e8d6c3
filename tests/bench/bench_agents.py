"""What reaches the model while a coding agent runs one experiment: our skill, our MCP server, the published skill.

Every byte is counted at the scripted model (`tests/agents/model_server.py`); a token is four bytes there. The ways
and their time lapse: `agent_ways.py`. The rows for a run of four hours are computed from what was measured: so many
looks more, each a request of its own whose answer stays in the context of all later ones. The larger part of each
request is Claude Code's own prompt and tools, sent again each time (providers cache it and charge it less): the ratios
are for the most part those of the numbers of requests. Our skill is charged with both topics that it names for this;
for the published skill stands filler of its length, one byte a character, which favours it, while its two documents
are written by hand, which favours ours.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.agents.homes import missing
from tests.agents.model_server import tokens_of
from tests.bench.agent_ways import LATER_S, PUBLISHED_WAITS_S, Told, Way, by_mcp, by_prose, by_skill, measure
from tests.bench.result import Result

HOURS = 4
REACHED = {"skill": (0.53, 0.32, 0.99), "MCP": (0.25, 0.29, 0.77)}
PAIRS = 2  # each is three experiments; bytes hardly vary


def run(repeats: int = 5) -> list[Result]:
    """Megabytes; empty where Claude Code is not installed."""
    if why := missing("claude"):
        print(f"   Claude Code is missing, so that nothing of this is measured: {why}", flush=True)
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
    whole_reached, look_reached, hours_reached = REACHED[name]
    long, short = HOURS * 3600 // LATER_S + 2, _published_looks(HOURS * 3600)

    def total(side: list[Told]) -> list[float]:
        return [each.total / 1e6 for each in side]

    def look(side: list[Told]) -> list[float]:
        return [each.look_bytes for each in side]

    said = f"tokens: {_tokens(ours)} in {_requests(ours)}, {_tokens(theirs)} in {_requests(theirs)}"
    whole = f"one experiment by our {name}: bytes to the model"
    hours = f"a run of {HOURS} h by our {name}: bytes to the model"
    one = f"one look at the run by our {name}: bytes"
    computed = f"computed: {long} looks against {short}"
    ours_long = [each.total_with(long) / 1e6 for each in ours]
    theirs_long = [each.total_with(short) / 1e6 for each in theirs]
    return [
        Result(whole, compared, total(ours), total(theirs), 0.8, "MB", note=said, reached=whole_reached),
        Result(one, "a look at the pane", look(ours), look(theirs), 0.8, "B", reached=look_reached),
        Result(hours, compared, ours_long, theirs_long, 1.0, "MB", note=computed, reached=hours_reached),
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
