"""Ledgers as files of other tools, read back by those tools' own readers; TensorBoard's and Parquet's are `real`."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pandas
import pytest

from autoresearch.commands.wiring import parts
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import AutoresearchError
from autoresearch.lab.results import ledger_export
from autoresearch.records.ledger import Ledger

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


def test_csv_is_rfc_4180_and_reads_back_exactly(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "below" / "ledger.csv"
    done = ledger_export.export(str(path), out, parts())
    assert (done.rows, done.remarks) == (len(EVIL), ())
    data = out.read_bytes()
    assert data.count(b"\r\n") == len(EVIL) + 1 and b"\n" not in data.replace(b"\r\n", b"")
    rows = list(Ledger(path).rows())
    with out.open(newline="", encoding="utf-8") as file:
        assert [record["description"] for record in csv.DictReader(file)] == [row.description for row in rows]
    exactly: dict[str, Any] = {"keep_default_na": False, "na_values": [""], "engine": "python"}  # C rounds numbers
    frame = pandas.read_csv(out, dtype={"seed": "Int64"}, **exactly)
    assert list(frame["description"]) == [row.description for row in rows] and set(EVIL) >= set(frame["description"])
    for row, cell in zip(rows, frame["metric_value"], strict=True):
        value = math.nan if row.metric_value is None else row.metric_value
        assert str(float(cell)) == str(value)
    assert frame["elapsed_s"].isna().tolist() == [row.elapsed_min is None for row in rows]
    assert frame["seed"].isna().sum() == 1 and pandas.to_datetime(frame["started"])[0].timestamp() == rows[0].started
    ledger_export.export(str(path), out, parts())
    assert out.read_bytes() == data and [one.name for one in out.parent.iterdir()] == ["ledger.csv"]


def test_what_cannot_be_exported_is_one_sentence(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for module in ("pyarrow", "tensorboardX"):
        monkeypatch.setitem(sys.modules, module, None)  # what an environment without it looks like
    full = tmp_path / "full.csv"
    full.mkdir()
    (full / "mine").write_text("")
    cases: list[tuple[str, Path, str, str]] = [
        (str(path), tmp_path / "o.xml", "name FILE.csv, FILE.parquet, or a directory", ""),
        (str(tmp_path / "no.tsv"), tmp_path / "o.csv", "there is no ledger yet", ""),
        (str(path), full, "is a directory", ""),
        (str(path), full / "mine" / "o.csv", "cannot be written", ""),
        (str(path), tmp_path / "o.parquet", "parquet needs pyarrow", "pip install pyarrow"),
        (str(path), tmp_path / "o", "tensorboard needs tensorboardX", "pip install tensorboardX"),
    ]
    before = sorted(tmp_path.rglob("*"))
    for name, out, says, fix in cases:
        with pytest.raises(AutoresearchError, match=says) as caught:
            ledger_export.export(name, out, parts())
        assert caught.value.fix == fix
    assert sorted(tmp_path.rglob("*")) == before


def test_a_directory_is_replaced_only_if_it_is_ours(tmp_path: Path) -> None:
    out = tmp_path / "board"
    for text in ("first", "second"):
        with ledger_export._directory(out) as temporary:
            (temporary / text).write_text("")
    assert sorted(one.name for one in out.iterdir()) == [ledger_export.MARK, "second"]
    with pytest.raises(ZeroDivisionError), ledger_export._directory(out):
        raise ZeroDivisionError
    assert (out / "second").exists() and list(tmp_path.iterdir()) == [out]
    (out / ledger_export.MARK).unlink()
    with pytest.raises(AutoresearchError, match="no earlier export"), ledger_export._directory(out):
        pass


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


BOARD = """
    import json, sys, pathlib
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2
    found = {}
    for folder in sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_dir()):
        board = EventAccumulator(str(folder)).Reload()
        scalars = {tag: [[one.step, one.value] for one in board.Scalars(tag)] for tag in board.Tags()["scalars"]}
        content = board.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        info = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info.hparams
        found[folder.name] = {"scalars": scalars, "hparams": sorted(info)}
    print(json.dumps(found))
"""


@pytest.mark.real
def test_event_files_are_read_by_tensorboard(path: Path, tmp_path: Path, python: Path) -> None:
    out = tmp_path / "board"
    told = _exported(python, path, "--out", out)
    assert len(told["remarks"]) == len(EVIL)  # the runs of this ledger are gone, and each is named
    found = _told(python, BOARD, out)
    assert len(found) == len(EVIL)
    assert found["0006-evil-0000006"]["scalars"] == {"result/val/acc": [[0, pytest.approx(0.3)]]}
    assert set(found["0001-evil-0000001"]["hparams"]) == {"idea", "seed", "status"}
