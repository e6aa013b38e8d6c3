"""Ledgers as files of other tools, read back by those tools' own readers; Parquet's is `real`."""

from __future__ import annotations

import json
import math
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pandas
import pytest

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.records.ledger import Ledger

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
EVIL = ['a "quoted" one', "comma, and ; more", "NA", "nan", "=1+1", "'", "<script>", "שלום 🎲", " room ", "1e5", "\\n"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with a row for each evil description, and numbers of all kinds."""
    ledger = Ledger(tmp_path / "results.tsv")
    values = [0.1 + 0.2, None, float("nan"), float("inf"), -0.0, 1e-300]
    for index, text in enumerate(EVIL, 1):
        ledger.append_once(
            LedgerRow(
                index=index,
                run_id=f"evil-{index:07d}",
                description=text,
                metric_name="val/acc",
                metric_value=values[index % len(values)],
                elapsed_min=None if index == 2 else 0.25,
                seed=None if index == 3 else index,
                started=1_700_000_000.125 + index,
                run_dir=str(tmp_path / f"gone-{index}"),
            )
        )
    return ledger.path


def test_csv_reads_back_exactly(bench: Any, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "below" / "ledger.csv"
    assert bench.ask("ledger", "show", path, "--out", out)["rows"] == len(EVIL)
    data, rows = out.read_bytes(), list(Ledger(path).rows())
    exactly: dict[str, Any] = {"keep_default_na": False, "na_values": [""], "engine": "python"}  # C rounds numbers
    frame = pandas.read_csv(out, dtype={"seed": "Int64"}, **exactly)
    assert list(frame["description"]) == [row.description for row in rows] and set(EVIL) >= set(frame["description"])
    for row, cell in zip(rows, frame["metric_value"], strict=True):
        value = math.nan if row.metric_value is None else row.metric_value
        assert str(float(cell)) == str(value)
    assert frame["elapsed_s"].isna().tolist() == [row.elapsed_min is None for row in rows]
    assert frame["seed"].isna().sum() == 1 and pandas.to_datetime(frame["started"])[0].timestamp() == rows[0].started
    bench.ask("ledger", "show", path, "--out", out)
    assert out.read_bytes() == data and [one.name for one in out.parent.iterdir()] == ["ledger.csv"]


def test_what_cannot_be_exported_is_one_sentence(bench: Any, path: Path, tmp_path: Path) -> None:
    full = tmp_path / "full.csv"
    full.mkdir()
    (full / "mine").write_text("")
    cases: list[tuple[Path, Path, str]] = [
        (path, tmp_path / "o.xml", "name FILE.csv or FILE.parquet"),
        (path, tmp_path / "o", "name FILE.csv or FILE.parquet"),
        (tmp_path / "no.tsv", tmp_path / "o.csv", "there is no ledger yet"),
        (path, full, "is a directory"),
        (path, full / "mine" / "o.csv", "cannot be written"),
    ]
    before = sorted(tmp_path.rglob("*"))
    for ledger, out, says in cases:
        code, _, err = bench.here("ledger", "show", ledger, "--out", out)
        assert code and says in err
    assert sorted(tmp_path.rglob("*")) == before


# ------------------------------------------------------------------------------------------ real readers


@pytest.fixture
def python() -> Path:
    """The interpreter of the environment with the readers: `make notebook`."""
    python = ROOT / ".venv-notebook" / "bin" / "python"
    if not python.exists():
        # `make test-real` installs it and says so where it cannot be had
        pytest.skip("the readers of Parquet and event files are not installed: make notebook")
    return python


def _told(python: Path, code: str, *args: object) -> Any:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    words = [python, "-c", textwrap.dedent(code), *map(str, args)]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _exported(python: Path, *args: object) -> dict[str, Any]:
    code = "import sys; from autoresearch.cli import main; main(['ledger', 'show', *sys.argv[1:], '--json'])"
    return dict(_told(python, code, *args))


@pytest.mark.real
def test_parquet_is_read_by_pyarrow(path: Path, tmp_path: Path, python: Path) -> None:
    out = tmp_path / "ledger.parquet"
    assert _exported(python, path, "--out", out)["rows"] == len(EVIL)
    read = """
        import json, sys, pyarrow.parquet as pq
        table = pq.read_table(sys.argv[1])
        types = {field.name: str(field.type) for field in table.schema}
        rows = table.select(["description", "seed", "elapsed_s"]).to_pylist()
        print(json.dumps({"types": types, "rows": rows}))
    """
    found = _told(python, read, out)
    kinds = {"index": "int64", "metric_value": "double", "started": "timestamp[us, tz=UTC]", "gpu_hours": "double"}
    assert {name: found["types"][name] for name in kinds} == kinds
    rows = list(Ledger(path).rows())
    assert [row["description"] for row in found["rows"]] == [row.description for row in rows]
    assert [row["seed"] for row in found["rows"]] == [row.seed for row in rows]
    assert found["rows"][1]["elapsed_s"] is None and found["rows"][0]["elapsed_s"] == 15.0
