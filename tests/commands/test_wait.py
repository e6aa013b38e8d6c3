"""`autoresearch wait`: what it tells on a tick, on news, and while a run is ending."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoresearch.commands import status
from autoresearch.core.run.spec import RunState
from autoresearch.records.events import append

pytestmark = pytest.mark.system

if TYPE_CHECKING:
    from autoresearch.lab.parts import Parts
    from autoresearch.records.recorded_run import Outcome
    from autoresearch.records.rundir import RunDir
    from tests.commands.conftest import Bench


def test_a_tick_is_brief_and_news_are_not(bench: Bench) -> None:
    run = bench.ask("run", bench.blueprint("long"), "--detach")["run"]
    first = bench.ask("wait", run, "--for", "240s", "--since", 0)
    assert first["event"] == "first_step" and first["metrics"] and first["tail"] and first["log_path"]
    tick = bench.ask("wait", run, "--for", "0s", "--since", 1000)
    assert (tick["event"], tick["state"], tick["metric_name"]) == ("tick", "running", "task_pass_rate@1")
    assert tick["step"] >= 1 and not {"metrics", "tail", "log_path"} & set(tick)
    assert len(json.dumps(tick)) < 600
    assert tick["next"] == [f"autoresearch wait {run} --for 0s --since {tick['seq']} --json"]  # the patience asked for
    assert len(bench.ask("wait", run, "--for", "0s", "--since", 1000, "--tail", 2)["tail"]) == 2
    assert bench.ask("wait", run, "--for", "240s", "--since", 0, "--tail", 0)["tail"] == []
    assert "  | " in bench.here("wait", run, "--for", "0s", "--since", 1000)[1]  # a person is shown the log
    bench.ask("stop", run, "--reason", "seen enough")


def test_a_bad_duration_is_told_with_a_line_that_works(bench: Bench) -> None:
    assert bench.ask("wait", "--for", "soon", check=2)["error"]["fix"] == "autoresearch wait --for 100s --json"


def test_a_slip_in_the_name_of_a_run_is_answered_with_the_nearest(bench: Bench) -> None:
    run = bench.ask("run", bench.blueprint("ok"))["run"]
    for slip in (run[:-1] + "_", run[1:]):
        error = bench.ask("explain", slip, check=4)["error"]
        assert (error["hint"], error["fix"]) == (f"did you mean {run}?", f"autoresearch status {run} --json")
    few = bench.ask("logs", run, "--tail", 2)
    (older, _) = few["next"]
    assert few["left_off"] >= 1 and "--out run.log" in older
    rows = bench.ask("ledger", "show", run)
    assert (len(rows["rows"]), rows["left_off"], rows["next"]) == (1, 0, [])


def test_an_end_that_is_not_yet_recorded_is_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = bench.ask("run", bench.blueprint("long"), "--detach")
    bench.ask("wait", begun["run"], "--for", "240s", "--since", 0)
    append(Path(begun["run_dir"]) / "events.jsonl", "ended")  # as the Runner does before it writes the record
    looks = []

    def adopt(rundir: RunDir, parts: Parts) -> tuple[RunState, Outcome | None]:
        if not looks:  # the record comes after the first look
            looks.append(bench.ask("stop", begun["run"], "--reason", "enough")["state"])
            return RunState.RUNNING, None
        return real(rundir, parts)

    real = status.adopt
    monkeypatch.setattr(status, "adopt", adopt)
    said = bench.ask("wait", begun["run"], "--for", "200s", "--since", 2)
    assert looks and (said["state"], said["ending"]) == ("ended", "stopped")


def test_any_tmux_session_is_waited_for_as_the_published_script_does(bench: Bench) -> None:
    """`wait NAME SECONDS`: 0 while it works, also through `bash run.sh`; 1 when it ended, or there is none."""
    (bench.repo / "run.sh").write_text("until [ -e go ]; do sleep 0.05; done\n")
    bench.tmux("new-session", "-d", "-s", "ajet_mine", "-c", str(bench.repo), "bash", "--norc")
    bench.tmux("send-keys", "-t", "=ajet_mine:", "bash run.sh", "Enter")
    bench.until(lambda: bench.ask("wait", "ajet_mine", 0, check=None)["state"] == "running")
    code, out, _ = bench.here("wait", "ajet_mine", 1)
    assert (code, out.splitlines()[0]) == (0, "session ajet_mine: running")
    assert bench.ask("wait", "ajet_min", 0, check=1)["state"] == "none", "a name is exact"
    assert bench.ask("wait", "ajet_min", check=4)["error"]["code"] == "not_found"
    (bench.repo / "go").touch()
    assert bench.ask("wait", "ajet_mine", 240, check=1)["state"] == "ended", "its shell is still there"
    bench.tmux("kill-session", "-t", "=ajet_mine")
    bench.until(lambda: bench.tmux("new-session", "-d", "-s", "ajet_mine", "sleep 1000").returncode == 0)  # it was left
    assert bench.ask("wait", "ajet_mine", 0, check=0)["state"] == "running"
    bench.tmux("kill-session", "-t", "=ajet_mine")
    assert bench.ask("wait", "ajet_mine", 0, check=1)["state"] == "none"


def test_of_a_run_too_seconds_ask_for_an_exit_code(bench: Bench) -> None:
    run = bench.ask("run", bench.blueprint("ok"))
    assert bench.here("wait", run["run"], 30)[0] == 1
    assert bench.here("wait", run["session"], 30)[0] == 1
