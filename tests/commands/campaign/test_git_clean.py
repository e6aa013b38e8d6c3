"""`git clean -fdx`, typed while runs live or a campaign is stopped: what it cannot reach is enough to go on."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.commands.rows import ledger_rows

pytestmark = pytest.mark.system
SAID = "somebody removed the records (`git clean`?)"


def clean(bench: Any) -> None:
    """It fails where something is written while it removes."""
    subprocess.run(["git", "clean", "-fdxq"], cwd=bench.repo, check=False, capture_output=True)


def test_a_lone_run_keeps_its_log_and_its_row(bench: Any) -> None:
    text = "step(1)\nwhile not os.path.exists(sys.argv[1]):\n    time.sleep(0.02)\nvalidation(2, 0.7)\nstep(2)"
    go = bench.root / "go"
    started = bench.ask("run", bench.script(text, command=f"python odd.py {go}"), "--detach")
    directory = Path(started["run_dir"])
    bench.until(lambda: "first_step" in (directory / "events.jsonl").read_text())
    bench.git("add", "-A")
    bench.git("commit", "-qm", "mine")
    clean(bench)
    bench.until(lambda: (directory / "runner.json").exists())
    assert bench.ask("status", started["run"])["state"] == "running"
    go.touch()
    ended = bench.ask("wait", started["run"], "--for", "100s")
    while ended["state"] != "ended":
        ended = bench.ask("wait", started["run"], "--for", "100s")
    assert (ended["ending"], ended["metrics"]["task_pass_rate@1"]) == ("finished", 0.7)
    (row,) = ledger_rows(Path(started["ledger"]) if "ledger" in started else directory.parent / "results.tsv")
    assert (row["run_id"], row["status"]) == (started["run"], "keep")
    assert "step:1" in (directory / "run.log").read_text() and "step:2" in (directory / "run.log").read_text()


def test_a_campaign_that_runs_goes_on_and_one_that_is_stopped_can(camp: Any) -> None:
    bench = camp.bench
    camp.recipe(mode="hold")
    ideas = camp.ideas({"slug": "a", "overrides": {"lr": 0.2}})
    camp.file(queue=ideas, baseline=1, retests=0, confirm=False, count=2)
    bench.git("add", "-A")
    bench.git("commit", "-qm", "all")
    camp.known(bench.ask("campaign", "--yes", "--detach"))
    (run,) = camp.until(lambda: [run for _, run in camp.state().live])
    camp.until(lambda: "first_step" in Path(run.run_dir, "events.jsonl").read_text())
    clean(bench)
    assert camp.place.controlled and bench.here("campaign", "control", camp.place.path)[0] == 5  # a second controller
    bench.until(lambda: camp.place.spec.exists() and Path(run.run_dir, "runner.json").exists())
    camp.go.touch()
    state = camp.over()
    assert [row.ending for row in state.rows] == ["finished"] * 2, camp.said()
    assert not any("tampered" in row.flags for row in state.rows)
    assert SAID in camp.said()

    shutil.rmtree(bench.repo / "reports")
    gone = bench.ask("campaign", "status", check=4)["error"]
    assert gone["message"] == "the records of one were removed (`git clean`?)"
    bench.ask("campaign", "resume", camp.place.path, check=5)  # it has ended; but its records are there again
    assert [row.run_id for row in camp.state().rows] == [row.run_id for row in state.rows], camp.said()
    assert SAID in camp.said()  # whoever wrote them again


def test_a_repository_that_was_moved_loses_nothing(camp: Any) -> None:
    """Its campaign is read where it is now, the same line begins another one, and a run is found by its directory."""
    bench = camp.bench
    space = {"space": {"lr": [0.2, 0.3]}, "proposer": "grid", "prefix": None}
    path = camp.file(**space, baseline=1, retests=0, confirm=False)
    camp.known(bench.ask("campaign", path, "--count", 1, "--yes", "--detach"))
    camp.over()
    moved = bench.root / "moved"
    bench.repo.rename(moved)
    before, bench.repo = bench.repo, moved
    assert bench.ask("campaign", "status")["attempted"] == 1
    refused = bench.ask("status", "last", check=4)["error"]
    assert refused["message"].startswith(f"{moved} was moved from {before}")
    assert bench.ask(*refused["fix"].split()[1:3])["ending"] == "finished"
    (moved / "exp.md").write_text((moved / "exp.md").read_text().replace(str(before), str(moved)))
    planned = bench.ask("campaign", "campaign.yaml", "--count", 2, "--dry-run")["plan"]["campaign"]
    assert planned.endswith(f"began when this was {before}")
