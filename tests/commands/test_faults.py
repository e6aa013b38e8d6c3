"""Faults, injected for real. After each: no process left, one ledger row, one finish.flag, the true ending."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.ledger import Ledger
from tests.processes import is_dead

pytestmark = pytest.mark.system


def living(bench: Any, mode: str = "long", **values: str) -> dict[str, Any]:
    """A detached run whose first step has been seen."""
    payload = bench.ask("run", bench.blueprint(mode, **values), "--detach", "--grace", "1s")
    bench.event(payload["run_dir"], "first_step")
    return dict(payload)


def flagged(bench: Any, payload: dict[str, Any]) -> None:
    bench.until(lambda: (Path(payload["run_dir"]) / "collected.json").exists())
    bench.until(lambda: not bench.carriers())


@pytest.mark.parametrize(
    ("point", "ending"),
    [
        ("launch.claimed", "launch_failed"),
        ("launch.branch_made", "launch_failed"),
        ("launch.written", "launch_failed"),
        ("launch.started", "finished"),
    ],
)
def test_kill_9_of_the_command_while_it_launches(bench: Any, point: str, ending: str) -> None:
    blueprint = bench.blueprint("ok")
    bench.cli("run", blueprint, check=-9, AUTORESEARCH_FAILPOINT=f"{point}:kill")
    (entry,) = [json.loads(p.read_text()) for p in (bench.root / "repo").rglob("spec.json")]
    run_dir = Path(entry["run_dir"])
    if ending == "launch_failed":  # no Runner was started that could write anything down
        os.utime(run_dir / "spec.json", (1, 1))  # long enough ago: no Runner is coming
        bench.ask("status")
    else:
        bench.until(lambda: (run_dir / "collected.json").exists())
    bench.settled(entry, ending)
    assert not (run_dir / "environment").exists()
    assert (run_dir / "run.log").exists() is (ending == "finished")
    again = bench.ask("run", blueprint)
    assert again["ending"] == "finished"


@pytest.mark.parametrize(
    "point", ["collect.measured", "collect.results_written", "collect.row_written", "collect.flag_written"]
)
def test_kill_9_while_collecting_is_mended_by_the_next_look(bench: Any, point: str) -> None:
    payload = bench.ask("run", bench.blueprint("ok"), "--detach", AUTORESEARCH_FAILPOINT=f"{point}:kill")
    bench.until(lambda: (Path(payload["run_dir"]) / "exit.json").exists())
    bench.until(lambda: not bench.carriers())
    assert not (Path(payload["run_dir"]) / "collected.json").exists()
    assert bench.ask("status", payload["run"])["ending"] == "finished"
    bench.settled(payload, "finished")
    assert bench.ask("status")["runs"] == []


def test_kill_9_of_the_foreground_command(bench: Any) -> None:
    process = bench.spawn("run", bench.blueprint("long"), "--grace", "1s")
    (entry,) = bench.until(lambda: bench.ask("status")["runs"])
    bench.runner(entry["run_dir"])  # before that it is a launch that is killed, which ends in `launch_failed`
    payload = bench.ask("status", entry["run"])
    process.kill()
    process.wait()
    adopted = bench.ask("status")
    assert adopted["living"] == 1
    assert bench.ask("status", payload["run"])["state"] == "running"
    bench.ask("stop", payload["run"], "--reason", "enough")
    bench.settled(payload, "stopped")


@pytest.mark.smoke
def test_kill_9_of_the_runner(bench: Any) -> None:
    payload = living(bench, "tree")
    runner = bench.runner(payload["run_dir"])
    os.kill(runner["pid"], signal.SIGKILL)
    bench.until(lambda: is_dead(runner["pid"]))  # tmux 3.3a may leave its dead pane a zombie
    assert len(bench.carriers()) >= 2  # the trainer and its child live on, unwatched
    adopted = bench.ask("status")
    assert [r["ending"] for r in adopted["runs"]] == ["lost"]
    flag = bench.settled(payload, "lost")
    assert flag["returncode"] is None and flag["verdict"] == "crash"


def test_the_user_kills_the_session(bench: Any) -> None:
    payload = living(bench, "tree")
    assert bench.tmux("kill-session", "-t", f"={payload['session']}").returncode == 0
    flagged(bench, payload)
    assert "session" in bench.settled(payload, "stopped")["reason"]


def test_a_run_outlasts_a_hangup_and_its_tmux_server(bench: Any) -> None:
    payload = living(bench)
    run, runner = payload["run"], bench.runner(payload["run_dir"])

    def goes_on() -> None:
        before = bench.ask("status", run)["step"]
        bench.until(lambda: bench.ask("status", run)["step"] > before)

    os.kill(runner["pid"], signal.SIGHUP)
    goes_on()
    os.kill(int(bench.tmux("display-message", "-p", "#{pid}").stdout), signal.SIGKILL)
    goes_on()
    assert "--reason" in bench.ask("stop", run, check=2)["error"]["message"]
    done = bench.ask("stop", run, "--reason", "room needed")
    assert done["ending"] == "stopped" and "room needed" in done["reason"]
    bench.settled(payload, "stopped")


def test_no_tmux_is_one_sentence_and_loses_nothing(bench: Any, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("git", "bash", "env"):
        os.symlink(f"/usr/bin/{tool}", tools / tool)
    refused = bench.ask("run", bench.blueprint("ok"), check=6, PATH=str(tools))
    assert refused["error"]["code"] == "no_tmux" and "tmux" in refused["error"]["message"]
    assert not (bench.root / "results").exists()
    assert bench.ask("status")["count"] == 0


def test_no_git_goes_on_without_a_branch(bench: Any, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("tmux", "bash", "env", "sleep"):
        os.symlink(f"/usr/bin/{tool}", tools / tool)
    payload = bench.ask("run", bench.blueprint("ok"), PATH=str(tools))
    assert payload["ending"] == "finished" and payload["branch"] is None


SLOW_SPEC = """
import os, time
from autoresearch.records import recorded_run
write = recorded_run.write
def slow(*args, **more):
    open({reached!r}, "w").close()
    while not os.path.exists({gate!r}): time.sleep(0.02)
    return write(*args, **more)
recorded_run.write = slow
"""


def test_a_claim_holds_before_the_run_has_its_spec(bench: Any) -> None:
    """The first of two is known to the index, and its run directory is empty yet: the second comes too late."""
    gate, reached = bench.root / "gate", bench.root / "reached"
    patch = SLOW_SPEC.format(gate=str(gate), reached=str(reached))
    first, second = (bench.blueprint("ok", name=f"b{n}.md", title=f"Race {n}") for n in range(2))
    process = bench.spawn("run", first, "--detach", "--json", stdout=subprocess.PIPE, patch=patch)
    try:
        bench.until(reached.exists)
        refused = bench.ask("run", second, "--detach", check=5)
    finally:
        gate.touch()
    won = bench.answer(process)
    assert refused["error"]["code"] == "result_dir_in_use" and won["run"] in refused["error"]["message"]
    bench.settled(won, "finished")


def test_a_cli_that_is_killed_before_the_branch_leaves_nothing_in_git_status(bench: Any) -> None:
    bench.cli(
        *("run", bench.blueprint("ok", result_dir=str(bench.repo / "results"))),
        check=-9,
        AUTORESEARCH_FAILPOINT="launch.claimed:kill",
    )
    assert bench.git("status", "--porcelain", "--untracked-files=all") in ("", "?? exp.md")
    (spec,) = (bench.repo / "reports").rglob("spec.json")
    os.utime(spec, (1, 1))  # long enough ago: no Runner is coming
    bench.ask("status")
    (row,) = Ledger(Path(json.loads(spec.read_text())["ledger"])).rows()
    assert (row.ending, row.branch) == ("launch_failed", "")


def test_a_log_that_is_removed_while_the_run_writes_it_leaves_it_unmeasured(bench: Any) -> None:
    wait = "import os, time\nstep(1)\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n"
    payload = bench.ask("run", bench.script(wait + "step(2)\nvalidation(2, 0.75)\n"), "--detach")
    bench.event(payload["run_dir"], "first_step")
    (Path(payload["run_dir"]) / "run.log").unlink()
    (bench.repo / "go").touch()
    flagged(bench, payload)
    assert bench.settled(payload, "finished")["metrics"]["task_pass_rate@1"] is None
    assert bench.ask("status", payload["run"])["verdict"] != "keep"
