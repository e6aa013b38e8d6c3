"""Records that were damaged, deleted or written on a full disk still say what happened."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.index import Index
from tests.commands.rows import ledger_rows

pytestmark = pytest.mark.system


def test_a_row_that_was_torn_off_is_written_again_by_collect(bench: Any) -> None:
    payload = bench.ask("run", bench.blueprint("ok"))
    bench.until(lambda: not bench.carriers())  # its Runner's own collector would write the row again
    ledger = Path(payload["ledger"])
    (before,) = ledger_rows(ledger)
    data = ledger.read_bytes()
    ledger.write_bytes(data[:-40])
    assert bench.ask("ledger", "show", payload["ledger"])["count"] == 0
    bench.ask("collect", payload["run_dir"])
    (after,) = ledger_rows(ledger)
    assert after == before
    assert Path(f"{ledger}.torn").read_bytes().endswith(data[-60:-40] + b"\n")


def test_a_run_directory_that_is_deleted_while_it_runs_has_a_row(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started = bench.ask("run", bench.blueprint("long"), "--detach")
    runner = bench.runner(started["run_dir"])
    shutil.rmtree(started["run_dir"])
    monkeypatch.setattr("autoresearch.lab.runs.adopt.STARTING_S", -1.0)
    assert bench.ask("status")["runs"] == []  # it trains on: what becomes of it is not known yet
    assert [e.run for e in Index(environ=bench.env).live()] == [started["run"]]
    for process in bench.carriers():
        if process.pid in (runner["pid"], runner["trainer_pid"]):
            process.end()
    bench.until(lambda: not bench.carriers())
    (told,) = bench.ask("status")["runs"]
    assert (told["run"], told["ending"]) == (started["run"], "lost")
    (row,) = ledger_rows(Path(started["run_dir"]).parent / "results.tsv")
    assert (row["run_id"], row["ending"], row["status"]) == (started["run"], "lost", "crash")
    assert "was deleted while it ran" in row["description"]
    flag = json.loads((Path(started["result_dir"]) / "finish.flag").read_text())
    assert (flag["run"], flag["ending"]) == (started["run"], "lost")
    assert bench.ask("status")["runs"] == []


@pytest.mark.real
def test_a_disk_that_filled_up_is_named(bench: Any, disk: Any) -> None:
    """The log lies on it, so that the trainer's own last words found no room."""
    disk(bench.repo / "reports")
    path = bench.script("step(1)\nwhile True: print('x' * 60000)\n", title="Try flood")
    assert bench.ask("run", path, check=6)["error"]["code"] == "disk_full"  # there is no room for a row now
    explained = bench.ask("explain", "last")
    assert explained["failure"] == "machine"
    assert "reports" in explained["failure_line"] and "is full" in explained["failure_line"]


def test_pages_hold_no_html_and_nothing_that_turns_the_reading(bench: Any) -> None:
    evil = "<img src=x onerror=alert(1)> \u202eedoc live <!-- a -- b -->"
    text = f"""
        step(1)
        print({evil!r}, flush=True)
        raise RuntimeError({evil!r})
    """
    notes = f"\n{evil}\n| a | <b>bold</b> | 1 < 2 |"
    path = bench.script(text, title="Try evil", purpose=f"See {evil}", notes=notes)
    payload = bench.ask("run", path, check=None)
    assert "secret" not in json.dumps(bench.ask("blueprint", "check", path))
    assert payload["verdict"] == "crash" and "\u202e" not in json.dumps(payload, ensure_ascii=False)
    place = Path(payload["result_dir"])
    for path in (place / "experiment_log.md", place / "results.md"):
        page = path.read_text()
        outside = "".join(page.split("```")[::2])  # in a block of code nothing is HTML
        assert "&lt;img src=x" in outside and "1 < 2" in outside
        assert not any(tag in outside for tag in ("<img", "<b>", "<!--")), page
    assert "1 step." in (place / "results.md").read_text()
    for path in (*place.iterdir(), *Path(payload["run_dir"]).iterdir(), Path(payload["ledger"])):
        if path.is_file() and path.name not in ("run.log", "spec.json"):
            assert "\u202e" not in path.read_text(), path
    for words in (("explain", payload["run"]), ("logs", payload["run"]), ("ledger", "show", payload["ledger"])):
        assert "\u202e" not in bench.here(*words)[1]
