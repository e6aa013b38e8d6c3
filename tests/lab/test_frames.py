"""Readings as a frame."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.lab.results import frames

READINGS = (
    Reading(SignalKind.VALIDATION, 0, {"val/acc": 0.25}),
    Reading(SignalKind.STEP, 1, {"loss": 0.1 + 0.2, "kl": math.nan, "step": 7.0}),
    Reading(SignalKind.STEP, 2, {"loss": math.inf}),
)


def test_every_digit_is_kept() -> None:
    table = frames.of_readings(READINGS)
    assert list(table.columns) == ["step", "kind", "val/acc", "loss", "kl"]
    assert [str(kind) for kind in table.dtypes[["step", "loss"]]] == ["Int64", "Float64"]
    assert table["loss"][1] == 0.1 + 0.2 and table["val/acc"].isna().tolist() == [False, True, True]


def test_a_step_beyond_all_reason_is_the_largest_there_is() -> None:
    table = frames.of_readings([Reading(SignalKind.STEP, 10**30, {"loss": 1.0})])
    assert table["step"].tolist() == [(1 << 63) - 1]


def test_nothing_is_a_frame_too(tmp_path: Path) -> None:
    assert list(frames.of_readings(()).columns) == ["step", "kind"]
    frames.save(frames.of_readings(()), tmp_path / "empty.csv")
    assert (tmp_path / "empty.csv").read_text() == "step,kind\n"


def test_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="or FILE"):
        frames.check_name(tmp_path / "m.xlsx")
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentUnusable, match="cannot be written"):
        frames.save(frames.of_readings(READINGS), tmp_path / "file" / "m.csv")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.setitem(__import__("sys").modules, "fastparquet", None)
    with pytest.raises(EnvironmentUnusable, match="pyarrow"):
        frames.save(frames.of_readings(READINGS), tmp_path / "m.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
