"""FIFOs, devices and links in the place of files, in a result directory or named by a user: nothing waits; it is said.

Nobody is sandboxed here. In a campaign's sandbox: tests/commands/campaign/research/test_tricks.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

ENTRIES = ("patches: [%s]", "files: {n.txt: {from: %s}}", "blueprint: %s")
ODD = 'cd "$AUTORESEARCH_RESULT_DIR"; rm -f metrics.jsonl; mkfifo finish.flag metrics.jsonl; '
ODD += "ln -s ../victim results.md; cd - >/dev/null"


def test_no_command_waits_for_a_fifo(bench: Any) -> None:
    results, victim = bench.root / "results", bench.root / "victim"
    victim.write_text("mine")
    path = bench.blueprint("long", command=f"{ODD}; python trainer.py long", notes=f"- source: {results}/metrics.jsonl")
    payload = bench.ask("run", path, "--detach", "--grace", "1s")
    bench.event(payload["run_dir"], "first_step")
    assert bench.ask("status")["runs"][0]["state"] == "running"
    assert any("metrics.jsonl is not read: it is a FIFO" in one for one in bench.ask("metrics")["warnings"])
    assert bench.ask("logs")["lines"]
    assert bench.ask("wait", "--for", "1s")["state"] == "running"
    bench.ask("stop", "--reason", "enough")
    flag = bench.settled(payload, "stopped")
    assert flag["run"] == payload["run"] and victim.read_text() == "mine"
    (row,) = [row for row in bench.ask("ledger", "show")["rows"] if row["run_id"] == payload["run"]]
    assert "finish.flag was a FIFO" in row["flags"] and "results.md was a link" in row["flags"]
    again = bench.ask("run", bench.blueprint("ok"), "--detach")
    bench.settled(again, "finished")
    assert json.loads((results / "finish.flag").read_text())["run"] == again["run"]
    aside = {one.name.partition(".foreign-")[0] for one in Path(results, "earlier").rglob("*.foreign-*")}
    assert aside == {"finish.flag", "results.md"}, "moved aside with that run's records"


ODD_FILES = {"pipe": "a FIFO", "zero": "a device", "big": "larger than the 64 MiB"}


@pytest.mark.parametrize(("name", "what"), ODD_FILES.items())
def test_whoever_names_a_file_is_told_that_it_is_none(bench: Any, name: str, what: str) -> None:
    odd, path = bench.repo / f"{name}.yaml", bench.blueprint("ok")
    if name == "pipe":
        os.mkfifo(odd)
    elif name == "zero":
        odd.symlink_to("/dev/zero")
    else:
        with odd.open("wb") as file:
            file.truncate(1 << 36)
    for number, entry in enumerate(ENTRIES):
        (bench.repo / f"{number}.yaml").write_text(f"- {{slug: a, {entry % odd}}}\n")
    queues = (("campaign", path, "--count", "3", "--dry-run", "--queue", f"{n}.yaml") for n in range(len(ENTRIES)))
    campaigns = (("campaign", odd), ("campaign", path, "--count", "3", "--dry-run", "--queue", odd))
    for words in (("audit", odd), *campaigns, *queues):
        error = json.loads(bench.cli(*words, "--json", check=None).stdout)["error"]
        assert error["code"] in ("not_found", "bad_queue") and f"{odd.name}" in error["message"], error
        assert what in error["message"], error
