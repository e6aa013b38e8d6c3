"""Ledgers of other loops: their columns by header and verdicts, and how many gains noise alone gives."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.errors import AutoresearchError
from autoresearch.lab.results.ledger_audit import LoopRow, gains_by_noise, read_ledger, steps_of

DOWN = Objective("loss", Direction.MINIMIZE)
KARPATHY = """commit\tval_bpb\tmemory_gb\tstatus\tdescription
0a1b2c3\t0.9979\t44.0\tkeep\tbaseline
1a1b2c3\t1.0050\t44.1\tdiscard\tgelu
2a1b2c3\t0.000000\t0.0\tcrash\tdouble width
3a1b2c3\t0.9932\t44.2\tkeep\thigher lr
4a1b2c3\t0.9950\t44.2\tdiscard\tlonger warmup
"""
UPPER = """id,params_m,accuracy,verdict,notes
e1,12,81.5%,BASELINE,start
e2,14,80.9%,REVERT,wider
e3,12,82.4%,KEEP,more data
e4,13,81.0%,neutral,deeper
"""
IN_WORDS = """commit\trmse\tr2\tdescription
aaaaaa1\t224508\t0.66\tkeep - trees
aaaaaa2\t470087\t-0.48\tdiscard - dart
aaaaaa3\t212126\t0.70\tkeep - features
aaaaaa4\t213632\t0.69\tdiscard - encoding
"""


@pytest.mark.parametrize(
    ("text", "metric", "direction", "values", "kept"),
    [
        (KARPATHY, "val_bpb", Direction.MINIMIZE, [0.9979, 1.005, None, 0.9932, 0.995], [0, 3]),
        (UPPER, "accuracy", Direction.MAXIMIZE, [81.5, 80.9, 82.4, 81.0], [0, 2]),
    ],
)
def test_the_metric_is_the_only_column_whose_name_is_one(
    tmp_path: Path, text: str, metric: str, direction: Direction, values: list[float | None], kept: list[int]
) -> None:
    (tmp_path / "results.tsv").write_text(text + "\n\nwords of somebody\n")
    objective, rows = read_ledger(tmp_path / "results.tsv")
    assert (objective.metric, objective.direction) == (metric, direction)
    assert [one.value for one in rows] == values
    assert [at for at, one in enumerate(rows) if one.kept] == kept


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\tb\n1\t2\n", "no column that says what was kept"),
        ("", "holds no attempts"),
        ("commit\tloss\tstatus\n", "holds no attempts"),
        ("HEAD\t3.3\tkeep\nHEAD\t2.1\tdiscard\n", "has no header"),
        (f'commit\tstatus\n"{"x" * 200_000}', "is no table that can be read"),
        ("commit\tloss\tstatus\nx1\t0.5\tkeep\n", "nothing that was kept beside others"),
        ("commit\tloss\tstatus\nx1\t0.5\tdiscard\nx2\t0.4\tcrash\n", "nothing that was kept"),
        ("commit\tloss\tstatus\nx1\t-\tkeep\nx2\t-\tdiscard\n", "which column of .* counts cannot be told"),
        (IN_WORDS, "which column of .* counts cannot be told"),
    ],
)
def test_what_cannot_be_known_is_said(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "results.tsv").write_text(text)
    with pytest.raises(AutoresearchError, match=told):
        read_ledger(tmp_path / "results.tsv")


def test_a_column_and_its_direction_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "results.tsv").write_text(IN_WORDS)
    assert read_ledger(tmp_path / "results.tsv", metric="r2")[0] == Objective("r2", Direction.MAXIMIZE)
    (tmp_path / "results.tsv").write_text(IN_WORDS.replace("r2", "quality"))
    assert read_ledger(tmp_path / "results.tsv")[0].metric == "rmse"
    named = read_ledger(tmp_path / "results.tsv", "quality", "maximize")[0]
    assert named == Objective("quality", Direction.MAXIMIZE)
    for metric, told in (("quality", "which way is better"), ("mae", "no column mae"), ("description", "no numbers")):
        with pytest.raises(AutoresearchError, match=told):
            read_ledger(tmp_path / "results.tsv", metric)


def loop(values: list[float]) -> list[LoopRow]:
    """A greedy loop that minimises, over these values in turn."""
    best, rows = float("inf"), []
    for number, value in enumerate(values):
        rows.append(LoopRow(f"c{number}", value, value < best))
        best = min(best, value)
    return rows


def test_as_many_gains_as_noise_gives_by_whatever_distribution() -> None:
    draws, (expected, at_most) = random.Random(1), gains_by_noise(50)
    assert expected == pytest.approx(3.5, abs=0.01) and at_most == 6
    for draw in (lambda: draws.gauss(1.0, 0.01), lambda: draws.expovariate(1.0)):
        found = [len(steps_of(DOWN, loop([draw() for _ in range(50)]))) for _ in range(400)]
        assert fmean(found) == pytest.approx(expected, abs=0.25)
        assert fmean(one > at_most for one in found) <= 0.08


def test_gains_are_steps_over_the_best_so_far() -> None:
    rows = loop([1.0, 1.1, 0.8, 0.9, 0.7])
    rows[3] = LoopRow("c3", 0.9, kept=True)  # it was kept though it is no better
    rows.insert(2, LoopRow("failed", None, kept=False))
    assert [(over.name, row.name, round(gain, 6)) for row, over, gain in steps_of(DOWN, rows)] == [
        ("c0", "c2", 0.2), ("c2", "c4", 0.1),
    ]  # fmt: skip
