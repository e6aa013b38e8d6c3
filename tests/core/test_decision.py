"""keep, discard or crash, after each run."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from autoresearch.core.campaign.decision import Decision, RunEvidence, decide
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.noise import UNKNOWN, mean, measured, noise_of

KEEP, DISCARD, CRASH = Verdict.KEEP, Verdict.DISCARD, Verdict.CRASH
UP = Objective("reward")
DOWN = Objective("loss", Direction.MINIMIZE)
BASE = [9.0, 10.0, 11.0]  # mean 10, sd 1


def judged(
    values: Sequence[float | None],
    base: Sequence[float | None] = BASE,
    *,
    objective: Objective = UP,
) -> Decision:
    return decide(objective, RunEvidence(values, base, noise_of([base])))


@pytest.mark.parametrize(
    ("values", "status", "retest", "says"),
    [
        ([12.0], DISCARD, True, "being re-tested, run 2 of 4 to 7"),
        ([11.05], DISCARD, True, "being re-tested"),  # 0.9 standard errors, sqrt(1 + 1/3) sd each
        ([11.03], DISCARD, False, "within the noise (1.04 needed)"),
        ([10.0], DISCARD, False, "no better"),
        ([8.0], DISCARD, False, "no better"),
        ([50.0], DISCARD, True, "being re-tested"),  # one run is never enough
        ([12.0, 9.0], DISCARD, False, "within the noise"),
        ([12.0, 12.0], DISCARD, True, "run 3 of 4 to 7"),
        ([12.0, 12.0, 12.0, 12.0], KEEP, False, "better than the noise allows"),
        ([11.0, 13.0, 10.0, 10.5], DISCARD, True, "run 5 of 5 to 7"),
        ([11.0, 13.0, 10.0, 10.5, 11.0, 11.0, 10.5], DISCARD, False, "not shown to be better in 7 runs"),
        ([None], CRASH, False, "no valid metric"),
        ([math.nan], CRASH, False, "no valid metric"),
        ([math.inf], CRASH, False, "no valid metric"),
        ([None, None], CRASH, False, "no valid metric"),
        ([12.0, None], CRASH, True, "being re-tested"),
        ([10.0, None], CRASH, False, "no valid metric"),
        ([12.0, None, 12.0, 12.0], DISCARD, True, "being re-tested"),
        ([12.0, None, 12.0, 12.0, 12.0], KEEP, False, "better"),
        ([12.0, None, 12.0, None, None, None, 12.0], DISCARD, False, "too few of its 7 runs"),
    ],
)
def test_an_idea_over_its_runs(values: list[float | None], status: Verdict, retest: bool, says: str) -> None:
    decision = judged(values)
    assert (decision.status, decision.retest) == (status, retest)
    assert says in decision.reason


@pytest.mark.parametrize("values", [[12.0], [8.0], [12.0] * 4, [11.0, 13.0, 10.0, 10.5], [10.0], [12.0, -90.0, 12.0]])
def test_minimise_is_the_mirror_and_reads_as_lower(values: list[float]) -> None:
    up = decide(UP, RunEvidence(values, BASE, noise_of([BASE]), robust_sd=1.0))
    down = decide(DOWN, RunEvidence([-v for v in values], [-v for v in BASE], noise_of([BASE]), robust_sd=1.0))
    assert (down.status, down.retest, down.delta, down.threshold) == (up.status, up.retest, up.delta, up.threshold)
    signs = {"+": "-", "-": "+"}
    assert down.reason[0] == (signs[up.reason[0]] if up.delta else "+")


def test_the_numbers() -> None:
    first = judged([12.0])
    assert (first.n, first.delta, first.noise, first.threshold) == (1, 2.0, 1.0, pytest.approx(0.9 * math.sqrt(4 / 3)))
    kept = judged([11.0, 13.0, 12.0, 12.0])
    # pooled: squares 2 + 2, degrees of freedom 2 + 3: 0.8. Shrunk: (4 * 0.8 + 2) / (4 + 3) = 0.743, / (4 + 2) = 0.867.
    # Standard error: sqrt(0.743/4 + 0.867/3) = 0.6889; degrees of freedom 11.96; t(0.97, 11.9) = 2.0783
    assert (kept.n, kept.delta, kept.noise) == (4, 2.0, pytest.approx(math.sqrt(0.8)))
    assert kept.threshold == pytest.approx(2.0783 * 0.6889, abs=1e-3)
    assert kept.reason == "+2 from 10 (4 against 3 runs, sd 0.894, 5 df): better than the noise allows (1.43)"


def test_the_noise_of_other_ideas_counts() -> None:
    quiet = noise_of([BASE, *[[5.0, 5.1, 5.2]] * 10])
    assert not judged([10.7]).retest
    assert decide(UP, RunEvidence([10.7], BASE, quiet)).retest


def test_the_baseline_itself() -> None:
    first = decide(UP, RunEvidence([10.0], []))
    assert (first.status, first.noise) == (KEEP, None)
    assert first.reason == "baseline: mean 10 of 1 run, noise unknown"
    third = decide(UP, RunEvidence(BASE, []))
    assert (third.status, third.noise, third.retest) == (KEEP, 1.0, False)
    assert decide(UP, RunEvidence([10.0, None], [])).status is CRASH
    assert decide(UP, RunEvidence([None], [])).status is CRASH


def test_an_incumbent_without_a_metric_is_nothing_to_beat() -> None:
    decision = judged([12.0], [None, math.nan])
    assert (decision.status, decision.retest) == (DISCARD, False)
    assert "incumbent has no valid metric" in decision.reason
    assert judged([12.0, None], [None]).status is CRASH


def test_one_baseline_run_says_so_and_is_conservative() -> None:
    first = judged([12.0], [10.0])
    assert (first.status, first.retest, first.noise, first.threshold) == (DISCARD, True, None, None)
    assert "noise unknown" in first.reason
    assert not judged([10.0], [10.0]).retest
    assert not judged([9.0], [10.0]).retest
    assert judged([11.0, 13.0, 11.0, 13.0], [10.0]).status is DISCARD  # three baseline runs would do for this
    assert judged([11.0, 13.0, 11.0, 13.0]).status is KEEP
    assert judged([19.0, 20.0, 21.0, 20.0], [10.0]).status is KEEP


def test_zero_noise_every_strict_gain_is_real_and_still_re_tested() -> None:
    still = [0.1, 0.1, 0.1]
    first = judged([0.11], still)
    assert (first.status, first.retest, first.noise) == (DISCARD, True, None)
    assert judged([0.11] * 4, still).status is KEEP
    assert not judged([0.1], still).retest
    assert not judged([0.1 + 2e-17], still).retest  # rounding is no gain
    assert judged([0.11, 0.05], still).status is DISCARD


def test_runs_that_collapsed_are_left_out_and_named() -> None:
    noise = noise_of([BASE] * 4)
    values: list[float | None] = [12.0, -40.0, 12.0, 12.0, 12.5]
    kept = decide(UP, RunEvidence(values, BASE, noise, robust_sd=1.0))
    assert kept.status is KEEP and kept.reason.startswith("+2.12 from 10 (4 of 5 against 3 runs")
    assert decide(UP, RunEvidence(values, BASE, noise)).status is DISCARD
    beaten = decide(UP, RunEvidence([12.0] * 4, [*BASE, -40.0], noise, robust_sd=1.0))
    assert beaten.status is KEEP and "against 3 of 4 runs" in beaten.reason
    all_of_them = decide(UP, RunEvidence([-40.0] * 4, BASE, noise, robust_sd=1.0))
    assert all_of_them.delta == -50.0, "an idea that always collapses is no better for it"


def test_an_idea_that_loses_more_runs_than_the_incumbent_is_not_kept() -> None:
    noise, base = noise_of([BASE] * 4), [*BASE, *BASE, *BASE]
    values: list[float | None] = [12.0, None, 12.0, 12.0, None, None, 12.0]
    assert decide(UP, RunEvidence(values, BASE, noise)).status is KEEP, "three runs of the incumbent show little"
    found = decide(UP, RunEvidence(values, base, noise))
    assert (found.status, found.retest) == (DISCARD, False)
    assert found.reason.endswith("it loses 3 of 7 runs, the incumbent 0 of 9")


def test_a_first_run_that_collapsed_has_a_second_where_that_is_luck() -> None:
    noise = noise_of([BASE] * 4)
    assert not decide(UP, RunEvidence([-40.0], BASE, noise)).retest
    assert decide(UP, RunEvidence([-40.0], BASE, noise, fallen=-30.0)).retest
    assert not decide(UP, RunEvidence([0.0], BASE, noise, fallen=-30.0)).retest, "nearer to the incumbent's 10"
    assert not decide(UP, RunEvidence([-40.0, -40.0], BASE, noise, fallen=-30.0)).retest


def test_the_idea_s_own_spread_counts() -> None:
    noise = noise_of([BASE] * 10)
    calm, wild = [11.4, 11.5, 11.6, 11.5], [8.5, 14.5, 9.0, 14.0]
    assert mean(calm) == mean(wild) == 11.5
    assert decide(UP, RunEvidence(calm, BASE, noise)).status is KEEP
    assert decide(UP, RunEvidence(wild, BASE, noise)).status is DISCARD


def test_a_kept_idea_that_is_far_noisier_is_run_again() -> None:
    noise = noise_of([BASE] * 10)
    wild = [11.0, 17.0, 12.0, 19.0]
    found = decide(UP, RunEvidence(wild, BASE, noise, baseline_sd=1.0))
    assert (found.status, found.retest) == (KEEP, True)
    assert not decide(UP, RunEvidence([12.0, 12.5, 11.5, 12.0], BASE, noise, baseline_sd=1.0)).retest
    worse = decide(UP, RunEvidence([*wild, 1.0, 2.0], BASE, noise, kept=True, baseline_sd=1.0))
    assert worse.status is KEEP and worse.retest, "what was kept is measured better; a claim is tested by fresh runs"
    assert not decide(UP, RunEvidence([*wild] * 4, BASE, noise, kept=True, baseline_sd=1.0)).retest


def test_whatever_comes_the_decision_is_coherent() -> None:
    rng = random.Random(3)
    for _ in range(600):
        base = [rng.choice([rng.gauss(0, 1), 0.0, None]) for _ in range(rng.randint(1, 4))]
        values: list[float | None] = []
        while True:
            values.append(rng.choice([rng.gauss(0.7, 1), 1.0, None, math.nan]))
            found = decide(UP, RunEvidence(values, base, rng.choice([UNKNOWN, noise_of([base])]), rng.random() < 0.3))
            if not measured(values[-1:]):
                assert found.status is CRASH
            assert found.status is not KEEP or (found.n >= 4 and not found.retest)
            assert found.reason
            assert "\n" not in found.reason
            if not found.retest:
                break
        assert len(values) <= 7
