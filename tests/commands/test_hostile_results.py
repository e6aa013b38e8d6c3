"""A result directory in which training put FIFOs and links in the place of files: nothing waits, and it is said.

Nobody is sandboxed here. In a campaign's sandbox: tests/commands/campaign/research/test_tricks.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

ODD = 'cd "$AUTORESEARCH_RESULT_DIR"; rm -f .finish.flag.reserve metrics.jsonl; mkfifo finish.flag metrics.jsonl; '
ODD += "ln -s ../victim .finish.flag.reserve; cd - >/dev/null"


def test_no_command_waits_for_a_fifo(bench: Any) -> None:
    results, victim = bench.root / "results", bench.root / "victim"
    victim.write_text("mine")
    path = bench.blueprint("long", command=f"{ODD}; python trainer.py long", notes=f"- source: {results}/metrics.jsonl")
    payload = bench.ask("run", path, "--detach", "--grace", "1s")
    bench.event(payload["run_dir"], "first_step")
    assert bench.ask("status")["runs"][0]["state"] == "running"
    assert any("metrics.jsonl is not read: it is a FIFO" in one for one in bench.ask("metrics")["warnings"])
    assert bench.ask("queue")["runs"] and bench.ask("logs")["lines"]
    assert bench.ask("wait", "--for", "1s")["state"] == "running"
    bench.ask("stop", "--reason", "enough")
    flag = bench.settled(payload, "stopped")
    assert flag["run"] == payload["run"] and victim.read_text() == "mine"
    (row,) = [row for row in bench.ask("ledger", "show", "--format", "json")["rows"] if row["run_id"] == payload["run"]]
    assert "finish.flag was a FIFO" in row["flags"] and ".finish.flag.reserve was a link" in row["flags"]
    again = bench.ask("run", bench.blueprint("ok"), "--detach")
    bench.settled(again, "finished")
    assert json.loads((results / "finish.flag").read_text())["run"] == again["run"]
    aside = {one.name.partition(".foreign-")[0] for one in Path(results, "earlier").rglob("*.foreign-*")}
    assert aside == {"finish.flag", ".finish.flag.reserve"}, "moved aside with that run's records"
