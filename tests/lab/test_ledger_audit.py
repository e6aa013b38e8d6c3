"""Ledgers of other loops: nothing in them is read by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoresearch.core.metrics.objective import Direction
from autoresearch.errors import AutoresearchError
from autoresearch.lab.results.ledger_audit import read_ledger

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
e4,13,81.0%,REVERT,deeper
"""
IN_WORDS = """commit\trmse\tr2\tdescription
aaaaaa1\t224508\t0.66\tkeep - trees
aaaaaa2\t470087\t-0.48\tdiscard - dart
aaaaaa3\t212126\t0.70\tkeep - features
aaaaaa4\t213632\t0.69\tdiscard - encoding
"""
NO_HEADER = "HEAD\tmodel\t3.3\tkeep\tfirst\nHEAD\tmodel\t2.1\tdiscard\tmmap\nHEAD\tmodel\t3.5\tkeep\tfused\n"
OURS = """index\trun_id\tmetric_value\tsteps\tstatus\tdescription
1\tr1\t0.50\t10\tkeep\tbaseline
2\tr2\t0.45\t10\tdiscard\ta
3\tr3\t0.61\t10\tkeep\tb
4\tr4\t\t2\tcrash\tc
"""


@pytest.mark.parametrize(
    ("text", "metric", "direction", "values", "kept"),
    [
        (KARPATHY, '"val_bpb"', Direction.MINIMIZE, [0.9979, 1.005, None, 0.9932, 0.995], [0, 3]),
        (UPPER, '"accuracy"', Direction.MAXIMIZE, [81.5, 80.9, 82.4, 81.0], [0, 2]),
        (IN_WORDS, '"rmse"', Direction.MINIMIZE, [224508, 470087, 212126, 213632], [0, 2]),
        (NO_HEADER, '"column 3"', Direction.MAXIMIZE, [3.3, 2.1, 3.5], [0, 2]),
        (OURS, '"metric_value"', Direction.MAXIMIZE, [0.5, 0.45, 0.61, None], [0, 2]),
    ],
)
def test_the_metric_is_what_the_verdicts_follow(
    tmp_path: Path, text: str, metric: str, direction: Direction, values: list[float | None], kept: list[int]
) -> None:
    (tmp_path / "results.tsv").write_text(text + "\n\nwords of somebody\n")
    found = read_ledger(tmp_path / "results.tsv")
    assert (found.objective.metric, found.objective.direction) == (metric, direction)
    assert [one.value for one in found.attempts] == values
    assert [at for at, one in enumerate(found.attempts) if one.kept] == kept
    assert found.unread == 1 and found.agreeing == sum(value is not None for value in values[1:])


def test_of_a_ledger_of_ours_the_metric_is_known(tmp_path: Path) -> None:
    text = OURS.replace("0.61\t10", "0.61\t11") + "5\tr5\t0.62\t10\tdiscard\twithin the noise\n"  # steps follow, too
    (tmp_path / "results.tsv").write_text(text)
    assert read_ledger(tmp_path / "results.tsv").objective.metric == '"metric_value"'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\tb\n1\t2\n", "no column that says what was kept"),
        ("", "results.tsv is empty"),
        (",,\n", "results.tsv is empty"),
        ("commit\tloss\tstatus\n", "results.tsv holds no attempts"),
        ("{nope", "is no JSON that can be read"),
        ("a\tb\r\x00c\rd", "no column that says what was kept"),
        (f'commit\tstatus\n"{"x" * 200_000}', "is no table that can be read"),
        ("commit\tloss\tstatus\nx1\t0.5\tkeep\n", "one attempt with a verdict"),
        ("commit\tloss\tstatus\nx1\t0.5\tdiscard\nx2\t0.4\tcrash\n", "nothing was kept"),
        ("commit\tstatus\nx1\tkeep\nx2\tdiscard\n", "no column of"),
    ],
)
def test_what_cannot_be_looked_at(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "results.tsv").write_text(text)
    with pytest.raises(AutoresearchError, match=told):
        read_ledger(tmp_path / "results.tsv")


def test_records_of_json_are_read_in_the_order_of_their_time(tmp_path: Path) -> None:
    """As evo writes them (one graph of nodes) and CORAL (a file for each attempt, named by its commit)."""
    values, kept = [0.5, 0.4, 0.6, None], ["committed", "discarded", "committed", "failed"]
    nodes = {"root": {"id": "root", "children": ["exp_0"], "status": "root", "score": None, "gates": []}}
    attempts = tmp_path / "attempts"
    attempts.mkdir()
    for n, (value, status) in enumerate(zip(values, kept, strict=True)):
        commit, when = f"{9 - n}" * 40, f"2026-04-01T01:0{n}:00+00:00"
        node = {"id": f"exp_{n}", "hypothesis": f"try this {n}", "score": value, "created_at": when, "commit": commit}
        nodes[f"exp_{n}"] = node | {"status": status, "children": [], "gates": [{"name": "x"}]}
        record = {"title": f"try this {n}", "score": value, "timestamp": when, "agent_id": "agent-1"}
        (attempts / f"{commit}.json").write_text(json.dumps({"commit_hash": commit, "status": status, **record}))
    (tmp_path / "graph.json").write_text(json.dumps({"root": "root", "nodes": nodes}))
    for path in (attempts, tmp_path / "graph.json"):
        found = read_ledger(path)
        assert (found.objective.metric, found.objective.direction) == ('"score"', Direction.MAXIMIZE)
        assert [(one.name[0], one.value, one.kept, one.words) for one in found.attempts] == [
            *(("9", 0.5, True, "try this 0"), ("8", 0.4, False, "try this 1")),
            *(("7", 0.6, True, "try this 2"), ("6", None, False, "try this 3")),
        ]


def test_a_column_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "results.tsv").write_text(IN_WORDS)
    found = read_ledger(tmp_path / "results.tsv", metric="r2")
    assert (found.objective.metric, found.objective.direction) == ('"r2"', Direction.MAXIMIZE)
    with pytest.raises(AutoresearchError, match="no column mae"):
        read_ledger(tmp_path / "results.tsv", metric="mae")
