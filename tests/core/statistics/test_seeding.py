"""What a seed does, as the whole series of runs show it; each with its near miss."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from autoresearch.core.statistics.seeding import (
    Randomness,
    SeededRun,
    effect,
    from_the_start,
    same_program,
    same_trace,
)

N = 12


def run(seed: int, *sources: tuple[str, float], n: int = N, digits: int = 6) -> SeededRun:
    """A rising curve and deviations: (what decides them, sd)."""
    chances = [(random.Random(name), sd) for name, sd in sources]
    series = []
    for step in range(n):
        value = 0.3 + 0.02 * step + sum(chance.gauss(0, sd) for chance, sd in chances)
        series.append((step, round(value, digits)))
    return SeededRun(seed, tuple(series))


def three(make: Callable[[int, str], SeededRun]) -> tuple[SeededRun, ...]:
    return make(7, "a"), make(7, "b"), make(8, "c")


WORKS = {
    "exact": lambda seed, _: run(seed, (f"s{seed}", 0.01)),
    "jitter of kernels": lambda seed, name: run(seed, (f"s{seed}", 0.01), (name, 2e-5)),
    "two digits, many values": lambda seed, _: run(seed, (f"s{seed}", 0.01), digits=2),
    "one value, written finely": lambda seed, _: run(seed, (f"s{seed}", 0.01), n=1),
}
DOES_NOTHING = {
    "copies": lambda *_: run(0, ("x", 0.01)),
    "copies with jitter": lambda _, name: run(0, ("x", 0.01), (name, 2e-5)),
    "copies with jitter, rounded": lambda _, name: run(0, ("x", 0.01), (name, 2e-5), digits=4),
    "no seed at all": lambda _, name: run(0, (name, 0.01)),
    "one value, rounded": lambda _, name: run(0, ("x", 0.01), (name, 5e-5), n=1, digits=4),
}


@pytest.mark.parametrize("name", WORKS)
def test_a_seed_that_works(name: str) -> None:
    found = effect(three(WORKS[name]))
    assert found is not None and found.seen, found


@pytest.mark.parametrize("name", DOES_NOTHING)
def test_a_seed_that_does_nothing(name: str) -> None:
    made = three(DOES_NOTHING[name])
    found = effect([SeededRun(seed, one.series) for seed, one in zip((7, 7, 8), made, strict=True)])
    assert found is not None and not found.seen, found


@pytest.mark.parametrize(("other", "seen"), [(0.5155, False), (0.5255, True)])
def test_a_single_value_has_to_differ_by_twenty_times(other: float, seen: bool) -> None:
    found = effect([SeededRun(seed, ((9, value),)) for seed, value in ((7, 0.5), (7, 0.501), (8, other))])
    assert found is not None and 10 < found.times < 30 and found.seen is seen


def walk(name: str, *, sd: float = 0.01, memory: float = 0.9, grows: bool = False) -> SeededRun:
    """A curve whose deviations last, by a hidden seed and by `name`, whose share may grow from a millionth."""
    hidden, own = random.Random("hidden"), random.Random(name)
    fate, other, series = 0.0, 0.0, []
    for step in range(30):
        fate, other = memory * fate + hidden.gauss(0, 0.01), memory * other + own.gauss(0, sd)
        share = min(1.0, 1e-6 * math.exp(0.6 * step)) if grows else 1.0
        series.append((step, round(0.3 + 0.02 * step + fate + share * other, 7)))
    return SeededRun(0, tuple(series))


@pytest.mark.parametrize(
    ("make", "known"),
    [
        (lambda name: run(0, (name, 0.01)), Randomness.RANDOM),
        (lambda name: run(0, (name, 0.01), digits=3), Randomness.RANDOM),
        (lambda name: run(0, ("x", 0.01), (name, 2e-5)), Randomness.FIXED),
        (lambda name: run(0, ("x", 0.01), (name, 2e-5), digits=4), Randomness.FIXED),
        (lambda name: walk(name, grows=True), Randomness.FIXED),
        (lambda name: walk(name, sd=1e-5), Randomness.FIXED),
        (lambda name: walk(name), Randomness.RANDOM),
        (lambda name: run(0, (name, 0.01), n=1), Randomness.UNKNOWN),
        (lambda name: run(0, (name, 0.01), n=8), Randomness.UNKNOWN),
    ],
)
def test_copies_start_alike_and_replicates_do_not(make: Callable[[str], SeededRun], known: Randomness) -> None:
    assert from_the_start([make(name) for name in "abc"]) is known
    few = [SeededRun(0, make(name).series[-1:], {"loss": make(name).series}) for name in "abc"]
    assert from_the_start(few) is known, "what else is logged tells it"


def test_one_rounded_number_would_have_lied() -> None:
    """The last values of the first two are equal, the third's is not: by rounding alone."""
    ends = [((0, 0.5101), (1, 0.5101)), ((0, 0.5102), (1, 0.5101)), ((0, 0.5101), (1, 0.5102))]
    found = effect([SeededRun(seed, series) for seed, series in zip((0, 0, 1), ends, strict=True)])
    assert found is not None and not found.seen


def test_runs_of_one_seed_begin_alike_and_drift_apart() -> None:
    """On GPUs: only the first third of the values shows the seed."""

    def drifting(seed: int, name: str) -> SeededRun:
        fate, own = random.Random(f"s{seed}"), random.Random(name)
        series = []
        for step in range(30):
            share = min(1.0, 1e-6 * 4.0**step)
            series.append((step, 0.3 + (1 - share) * fate.gauss(0, 0.01) + share * own.gauss(0, 0.01)))
        return SeededRun(seed, tuple(series))

    found = effect(three(drifting))
    assert found is not None and found.seen


def test_what_all_seeds_share_says_nothing() -> None:
    """A validation before the first step is the same for every run."""
    first = ((0, 0.1), (1, 0.1))
    runs = [SeededRun(seed, (*first, (2, value))) for seed, value in ((1, 0.5), (1, 0.5), (2, 0.57))]
    found = effect(runs)
    assert found is not None and (found.values, found.exact) == (1, True)
    assert not found.seen and "may be chance: more digits" in found.reason  # two digits: seven units of the last one
    finer = effect([SeededRun(seed, (*first, (2, value))) for seed, value in ((1, 0.5012), (1, 0.5012), (2, 0.5712))])
    assert finer is not None and finer.seen and "chance" not in finer.reason


def test_there_is_nothing_to_compare() -> None:
    a, b, c = three(WORKS["exact"])
    assert effect([a, b]) is None and effect([a, c]) is None and effect([]) is None
    nan = SeededRun(7, ((0, float("nan")),))
    assert effect([a, nan, c]) is None


def test_runs_that_ended_at_different_steps_are_compared_by_order() -> None:
    ends = ((1, 90, 0.5012), (1, 91, 0.5012), (2, 95, 0.61))
    runs = [SeededRun(seed, ((step, value),)) for seed, step, value in ends]
    found = effect(runs)
    assert found is not None and found.seen and found.values == 1


def logged(seed: int, name: str, objective: tuple[str, float], losses: tuple[str, float]) -> SeededRun:
    """A run that is evaluated once, at its end, and logs its training."""
    last = run(seed, objective, n=1)
    clock = random.Random(f"clock {seed} {name}")
    others = {
        "train/loss": run(seed, losses, (name, 1e-6)).series,
        "timing_s/step": tuple((step, clock.random()) for step in range(N)),
        "perf/throughput": tuple((step, seed * 1000.0) for step in range(N)),
    }
    return SeededRun(seed, last.series, others)


def test_one_value_is_no_series() -> None:
    """Evaluated once, after runs of one seed have drifted apart: the training shows the seed, times do not."""
    works = [logged(seed, name, (name, 0.01), (f"s{seed}", 0.01)) for seed, name in ((7, "a"), (7, "d"), (8, "c"))]
    found = effect(works)
    assert found is not None and found.seen and found.others and "of the other logged metrics" in found.reason
    copied = [logged(seed, name, (name, 1e-5), ("x", 0.01)) for seed, name in ((7, "a"), (7, "b"), (8, "c"))]
    found = effect(copied)
    assert found is not None and not found.seen and not found.others
    long = [SeededRun(one.seed, run(0, ("x", 0.01), (name, 2e-5)).series, works[n].others)
            for n, (one, name) in enumerate(zip(works, "abc", strict=True))]  # fmt: skip
    found = effect(long)
    assert found is not None and not found.seen  # a whole series of the objective has the say


def test_runs_that_are_equal_in_all_that_they_log() -> None:
    """Times apart; what is written too coarsely to differ is told by what else is logged."""
    equal = [logged(seed, "a", ("x", 0.01), ("x", 0.01)) for seed in (1003, 1004, 1005)]
    assert same_trace(equal) and not same_trace(equal[:1]) and not same_trace([])
    coarse = [logged(seed, "a", ("x", 0.01), (f"s{seed}", 0.01)) for seed in (1003, 1004, 1005)]
    assert not same_trace(coarse)
    assert not same_trace([*equal, logged(1006, "a", ("y", 0.01), ("x", 0.01))])
    other = logged(1004, "b", ("z", 0.01), ("z", 0.01))
    assert same_program(equal[:2], other) and not same_program(equal[:2], equal[2]) and not same_program(coarse, other)
