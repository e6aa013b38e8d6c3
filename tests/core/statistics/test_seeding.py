"""What a seed does, as the whole series of runs show it; each with its near miss."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from autoresearch.core.statistics.seeding import (
    Effect,
    Randomness,
    SeededRun,
    copied,
    differs,
    effect,
    from_the_start,
    scatters,
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


def test_where_runs_are_replicates_an_idea_may_not_fix_its_seed() -> None:
    baseline = [run(0, (name, 0.01), n=1) for name in "abc"]
    assert scatters([run(n, (f"{n}", 0.003), n=1) for n in range(4)], baseline).seen  # type: ignore[union-attr]
    copies = [run(n, ("x", 0.01), n=1) for n in range(4)]
    assert not scatters(copies, baseline).seen  # type: ignore[union-attr]


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
    assert not found.seen  # two digits: seven units of the last one
    finer = effect([SeededRun(seed, (*first, (2, value))) for seed, value in ((1, 0.5012), (1, 0.5012), (2, 0.5712))])
    assert finer is not None and finer.seen


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


def test_an_idea_with_a_seed_of_its_own() -> None:
    baseline = three(WORKS["jitter of kernels"])
    lucky = [run(seed, ("x", 0.01), (f"{seed}", 2e-5)) for seed in (1003, 1004, 1005)]
    honest = [run(seed, (f"s{seed}", 0.01)) for seed in (1003, 1004, 1005)]
    bad, good = differs(lucky, baseline), differs(honest, baseline)
    assert bad is not None and not bad.seen
    assert good is not None and good.seen
    assert differs(lucky[:1], baseline) is None


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


def test_an_idea_whose_runs_drift_apart_like_the_baseline_s() -> None:
    baseline = [run(seed, (name, 0.01), n=1) for seed, name in ((7, "a"), (7, "b"), (8, "c"), (9, "d"))]
    found = differs([run(seed, (f"i{seed}", 0.01), n=1) for seed in (1003, 1004, 1005)], baseline)
    assert found is not None and found.seen


def test_copies_of_coarse_numbers() -> None:
    """Where a run differs from another by one unit or two, copies do not differ at all."""
    coarse = three(WORKS["two digits, many values"])
    copied = differs([run(seed, ("x", 0.01), digits=2) for seed in (1003, 1004, 1005)], coarse)
    honest = differs([run(seed, (f"s{seed}", 0.01), digits=2) for seed in (1003, 1004, 1005)], coarse)
    assert copied is not None and not copied.seen
    assert honest is not None and honest.seen


def test_copies_that_are_certain() -> None:
    """In a series of five values or more, written finely enough; a tie of coarse values is no copy."""
    baseline = three(WORKS["jitter of kernels"])
    lucky = [run(seed, ("x", 0.01), (f"{seed}", 2e-5)) for seed in (7, 8)]
    honest = [run(seed, (f"s{seed}", 0.01)) for seed in (7, 8)]
    assert "times less" in copied(lucky, baseline) and not copied(honest, baseline)
    assert "in 12 values" in copied([run(seed, ("x", 0.01)) for seed in (7, 8)], three(WORKS["exact"]))
    assert not copied(lucky[:1], baseline) and not copied(lucky, baseline[:2])  # nothing to compare
    for steps, digits, certain in ((1, 6, False), (4, 6, False), (5, 6, True), (12, 2, False), (12, 3, False)):
        others = [run(seed, (f"s{seed}", 0.02), n=steps, digits=digits) for seed in (7, 7, 8)]
        tied = [run(seed, ("x", 0.02), n=steps, digits=digits) for seed in (7, 8)]
        assert bool(copied(tied, others)) is certain, (steps, digits)


@pytest.mark.parametrize("jitter", [0.0, 2e-5])
def test_honest_runs_are_rarely_so_near(jitter: float) -> None:
    """The worst case: runs that differ by one offset all along; with jitter, 0.64 % at most, and four standard errors.

    Never, where runs of one seed are equal to the last digit.
    """
    chance, campaigns = random.Random(3), 600

    def offset(seed: int, value: float) -> SeededRun:
        points = ((step, 0.3 + 0.02 * step + value + chance.gauss(0, jitter)) for step in range(6))
        return SeededRun(seed, tuple((step, round(value, 8)) for step, value in points))

    false = 0
    for _ in range(campaigns):
        first, *rest = (chance.gauss(0, 0.01) for _ in range(4))
        baseline = [offset(7, first), offset(7, first), offset(8, rest[0])]
        false += bool(copied([offset(7, rest[1]), offset(8, rest[2])], baseline))
    rate = 2 / math.pi * math.atan(1 / 100) if jitter else 0.0
    assert false / campaigns <= rate + 4 * math.sqrt(rate * (1 - rate) / campaigns)


# -- an idea that is steadier than the baseline ------------------------------------------------------------------------

SEEDS = (1004, 1005, 1006, 1007)
NEAR_ITS_CEILING = (0.998, 0.995, 0.998, 0.998)  # accuracies on 1,000 points, of a real campaign
ITS_BASELINE = ((0, 0.827), (0, 0.827), (1, 0.75), (1003, 0.812), (1004, 0.659), (1005, 0.71), (1006, 0.761))


def ended(seed: int, value: float, losses: str = "", sd: float = 0.05) -> SeededRun:
    """A run that logs a final value; with `losses` also twelve losses, which that name decides."""
    others = {"loss": run(seed, (losses, sd), digits=4).series} if losses else {}
    return SeededRun(seed, ((12, value),), others)


def runs_of(idea: tuple[float, ...], *, logged: bool, pinned: bool = False, sd: float = 0.05) -> Effect | None:
    baseline = [ended(seed, value, f"b{seed}" * logged) for seed, value in ITS_BASELINE]
    names = ["x" if pinned else f"i{seed}" for seed in SEEDS]
    own = [ended(seed, value, name * logged, sd) for seed, value, name in zip(SEEDS, idea, names, strict=True)]
    return differs(own, baseline)


@pytest.mark.parametrize("logged", [True, False])
def test_a_winner_near_its_ceiling_is_no_copy(logged: bool) -> None:
    """Its values differ by three units of the last digit, those of the baseline by a hundred."""
    found = runs_of(NEAR_ITS_CEILING, logged=logged, sd=0.001)
    assert found is not None and found.seen, found


@pytest.mark.parametrize(("value", "logged", "seen"), [
    (0.998, True, False),
    (0.998, False, False),
    (1.0, True, False),  # a bound, but its losses are equal, too
    (1.0, False, True),  # any seed may reach it, and nothing else is logged
])  # fmt: skip
def test_equal_runs_are_copies(value: float, logged: bool, seen: bool) -> None:
    found = runs_of((value,) * 4, logged=logged, pinned=True)
    assert found is not None and found.seen is seen
    assert found.values == 0 and "equal to the last digit" in found.reason


def test_equal_accuracies_of_runs_with_losses_of_their_own() -> None:
    found = runs_of((0.998,) * 4, logged=True, sd=0.005)
    assert found is not None and found.seen and "of the other logged metrics" in found.reason


def test_copies_of_a_jittering_training_are_told_by_its_losses() -> None:
    """Runs of one seed nearly agree: so do copies, in the end value as in each loss; honest ones don't."""

    def made(seed: int, fate: str, name: str, sd: float = 0.05) -> SeededRun:
        losses = run(seed, (fate, sd), (name, 1e-5)).series
        value = 0.9 + random.Random(f"end {fate}").gauss(0, sd) + random.Random(f"end {name}").gauss(0, 1e-4)
        return SeededRun(seed, ((12, value),), {"loss": losses})

    baseline = [made(0, "b0", "a"), made(0, "b0", "b"), made(1, "b1", "c"), made(2, "b2", "d")]
    pinned = differs([made(seed, "x", f"{seed}") for seed in SEEDS], baseline)
    honest = differs([made(seed, f"i{seed}", f"{seed}", 0.001) for seed in SEEDS], baseline)
    assert pinned is not None and not pinned.seen
    assert honest is not None and honest.seen


def test_a_loss_near_zero_is_no_copy_of_itself() -> None:
    """A thousand times steadier than the baseline's, and yet each run has its own."""
    baseline = three(WORKS["exact"])
    steady = [run(seed, (f"i{seed}", 1e-5), digits=8) for seed in SEEDS]
    found = differs(steady, baseline)
    assert found is not None and found.seen and not copied(steady[:2], baseline)
