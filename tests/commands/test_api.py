"""The public Python interface: typed frames, and objects to wait on, in a notebook's or a thread's place."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pandas
import pytest

import autoresearch as ar

REPO = Path(__file__).parents[2]


@pytest.fixture
def here(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """This process is the user's: in the bench's repository, with its environment."""
    monkeypatch.chdir(bench.repo)
    with mock.patch.dict(os.environ, bench.env, clear=True):
        yield bench


@pytest.mark.system
def test_a_run_is_started_waited_for_and_read(here: Any, capfd: pytest.CaptureFixture[str]) -> None:
    run = ar.run(here.blueprint())
    assert run.wait(timeout=120) and run.status == "ended"
    result = run.result
    assert result is not None and (result["ending"], result["metrics"]["task_pass_rate@1"]) == ("finished", 0.5)
    assert "0.5" in run.report().read_text()
    assert ar.Run("last").name == run.name and repr(run) == f"<Run {run.name}: ended>"

    frame = run.metrics()
    assert list(frame.columns[:2]) == ["step", "kind"] and frame.attrs["metric"] == "task_pass_rate@1"
    value = frame.set_index(["kind", "step"])["task_pass_rate@1"]
    assert value["validation", 2] == 0.5 and value["step", 1] is pandas.NA

    (row,) = ar.runs().to_dict("records")
    assert (row["run"], row["state"], row["ending"], row["metric_value"]) == (run.name, "ended", "finished", 0.5)
    assert row["returncode"] == 0 and row["gpu_hours"] == 0.0 and pandas.isna(row["agent_usd"])
    assert row["created"] <= row["started"] <= row["ended"] and str(row["created"].tz) == "UTC"
    assert row["elapsed_s"] == pytest.approx((row["ended"] - row["started"]).total_seconds(), abs=0.05)
    ledger = ar.ledger(run.name)
    assert list(ledger["run_id"]) == [run.name] and ledger.attrs["units"]["elapsed_s"] == "s"
    assert {str(kind) for kind in ledger.dtypes} == {"Int64", "Float64", "string", "datetime64[us, UTC]"}
    with pytest.raises(ar.AutoresearchError, match="is over") as caught:
        run.stop("it is enough")
    assert caught.value.code == "conflict"
    assert capfd.readouterr() == ("", "")


@pytest.mark.system
def test_runs_in_threads_time_out_and_are_stopped(here: Any) -> None:
    paths = [here.blueprint("long", name=f"{n}.md", result_dir=str(here.root / f"r{n}")) for n in range(2)]
    with ThreadPoolExecutor() as pool:
        running = list(pool.map(ar.run, paths))
        assert list(pool.map(lambda run: run.wait(timeout=0.2), running)) == [False, False]
        assert [run.result for run in running] == [None, None]
        with pytest.raises(ar.AutoresearchError, match="has not ended"):
            running[0].report()
        with pytest.raises(ar.AutoresearchError, match="needs a reason"):
            running[0].stop(" ")
        for run in running:
            run.stop("seen enough")
        assert list(pool.map(lambda run: run.wait(timeout=120), running)) == [True, True]
    assert set(ar.runs()["ending"]) == {"stopped"}


@pytest.mark.system
def test_bad_input_is_our_error_with_a_hint(here: Any) -> None:
    for call in (
        lambda: ar.run("no.md"),
        lambda: ar.run(here.repo / "trainer.py"),
        lambda: ar.campaign("no.yaml"),
        lambda: ar.metrics("nothing"),
        lambda: ar.ledger("nothing"),
        lambda: ar.Campaign(),
        lambda: ar.run(here.blueprint(), max_time="soon"),
    ):
        with pytest.raises(ar.AutoresearchError) as caught:
            call()
        assert caught.value.message and (caught.value.hint or caught.value.fix), caught.value
    assert len(ar.runs()) == 0 and str(ar.runs()["ended"].dtype) == "datetime64[us, UTC]"
    with pytest.raises(AttributeError, match="no attribute 'rnus'"):
        ar.rnus  # type: ignore[attr-defined]  # noqa: B018
    assert set(dir(ar)) >= {"runs", "ledger", "metrics", "run", "campaign", "Run", "Campaign", "AutoresearchError"}


def test_a_script_of_a_user_is_checked_strictly(tmp_path: Path) -> None:
    from mypy import api as mypy

    from autoresearch import api

    assert set(api.__all__) == set(dir(ar)) - {"__version__"}
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(
        textwrap.dedent("""
        import autoresearch as ar

        run: ar.Run = ar.run("exp.md", max_time="1h")
        if run.wait(timeout=60.0) and run.result:
            print(run.result["metrics"], run.metrics().columns, run.report().name)
        night: ar.Campaign = ar.campaign("campaign.yaml", count=20)
        night.stop(reason="enough")
        print(ar.runs(all=True).head(), night.ledger(), ar.__version__)
        """)
    )
    wrong.write_text("import autoresearch as ar\nar.run('exp.md').wait(timeout='soon')\nar.rnu\n")
    with mock.patch.dict(os.environ, {"MYPYPATH": str(REPO)}):
        said, trouble, _ = mypy.run(["--strict", "--cache-dir", str(tmp_path / "cache"), "--ignore-missing-imports",
                                     "--follow-imports=silent", str(right), str(wrong)])  # fmt: skip
    assert said.count("error:") == said.count("wrong.py:") == 2, said + trouble


@pytest.mark.system
def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import autoresearch; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=REPO, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["autoresearch"]
