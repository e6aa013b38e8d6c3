"""What the noise makes of a campaign: keeps and claims, ours against the greedy ratchet of single runs.

Simulated (`tests/bench/ratchet.py`), with seeds other than those that the defaults were tuned on.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.ratchet import Finds, World, finds, gated, greedy, pure_noise
from tests.bench.result import Result

CAMPAIGNS = 1000  # of pure noise, of each size
BLOCK = 400  # campaigns behind each pair
SEED = 1_000_000
SIZES = (24, 50, 100)
GREEDY = "greedy ratchet of single runs"
WHAT = "10 % true ideas of 2 sd over their parent, 50 ideas, keeps after re-test"


def run(repeats: int = 5) -> list[Result]:
    """Percent of the campaigns that claim what is not there; finds and runs, as ratios of the greedy ratchet's."""
    seeds = range(SEED, SEED + CAMPAIGNS)
    noise = [pure_noise(ideas, seeds) for ideas in SIZES]
    return [
        Result(
            f"pure noise, {CAMPAIGNS} campaigns each of 24, 50 and 100 ideas: `confirmed` claimed",
            "published confidence score of the greedy ratchet: likely real",
            [found.every for found in noise],
            [found.published for found in noise],
            5,
            unit="%",
            absolute=True,
            worst=True,
            note="every kept idea put to confirmation",
        ),
        Result(
            "the same, one idea of each campaign put to confirmation, kept or not",
            "",
            [found.forced for found in noise],
            [],
            5,
            unit="%",
            worst=True,
        ),
        *_finds(max(repeats, 1)),
    ]


def _finds(repeats: int) -> list[Result]:
    pairs = [_pair(SEED + number * BLOCK) for number in range(repeats)]
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    note = f"each pair: {BLOCK} campaigns"

    def result(of: str, value: Callable[[Finds], float], goal: float, *, at_least: bool = False) -> Result:
        sides = [value(found) for found in ours], [value(found) for found in theirs]
        return Result(f"{WHAT}: {of}", GREEDY, *sides, goal, unit="", at_least=at_least, note=note)

    return [
        result("true finds", lambda found: found.true, 0.9, at_least=True),
        result("false keeps", lambda found: found.false, 0.1),
        result("runs", lambda found: found.runs, 1.5),
    ]


def _pair(first: int) -> tuple[Finds, Finds]:
    seeds = range(first, first + BLOCK)
    return finds(gated, World(), seeds), finds(greedy, World(), seeds)
