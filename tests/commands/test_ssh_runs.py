"""Runs and a campaign by ssh through the command, with a real sshd, and what happens to the connection meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real


@pytest.fixture
def far(sshd: Any, bench: Any) -> Any:
    """The bench's project with a place `far`; `far.copied` does not see this machine's files."""
    common = f"host: far, config: {sshd.config}, keepalive: 1"
    (bench.repo / "autoresearch.yaml").write_text(
        f"launchers:\n  far: {{kind: ssh, {common}, shared: true}}\n"
        f"  copied: {{kind: ssh, {common}, root: {bench.root}/elsewhere, setup: echo hello}}\n"
    )
    bench.git("add", "-A")
    bench.git("commit", "-qm", "a place")
    yield sshd
    for place in (bench.root, Path(bench.env["XDG_STATE_HOME"])):
        for record in place.glob("**/places/*/lock"):
            end_holder(record)


def end_holder(lock: Path) -> int:
    """Kill whoever holds a lock, which /proc/locks names by inode; 0 where nobody does."""
    inode = lock.stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        cells = line.split()
        if "FLOCK" in cells and cells[-3].endswith(f":{inode}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(cells[-4]), signal.SIGKILL)
            return int(cells[-4])
    return 0


def over(bench: Any, begun: dict[str, Any], ending: str) -> dict[str, Any]:
    """Its exit record, once it is recorded: one row, of that ending."""
    bench.until(lambda: Path(begun["run_dir"], "collected.json").exists())
    rows = [line.split("\t") for line in Path(begun["ledger"]).read_text().splitlines()]
    mine = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    assert [row["ending"] for row in mine if row["run_id"] == begun["run"]] == [ending]
    return dict(json.loads(Path(begun["run_dir"], "exit.json").read_bytes()))


def events(run_dir: str, word: str) -> int:
    lines = Path(run_dir, "events.jsonl").read_text().splitlines()
    return sum(json.loads(line)["event"] == word for line in lines)


@pytest.mark.parametrize("place", ["far", "copied"])
def test_a_run_by_ssh_has_the_same_records(bench: Any, far: Any, place: str) -> None:
    begun = bench.ask("run", bench.blueprint(), "--launcher", place, "--detach")
    over(bench, begun, "finished")
    assert events(begun["run_dir"], "started") == 1 and events(begun["run_dir"], "submitted") == 1
    log = Path(begun["run_dir"], "run.log").read_text()
    assert log.count("hello from the trainer") == 1 and "task_pass_rate@1:0.5" in log


def test_cuts_and_kills_while_it_trains_cost_nothing(bench: Any, far: Any) -> None:
    begun = bench.ask("run", bench.blueprint("long"), "--launcher", "far", "--detach")
    log = Path(begun["run_dir"], "run.log")
    bench.until(lambda: "step:3 " in log.read_text())
    assert far.cut()
    steps = len(log.read_text())
    bench.until(lambda: len(log.read_text()) > steps + 300)
    assert end_holder(Path(begun["run_dir"], "watched"))  # kill -9 of its session; whoever looks starts it again
    far.cut()
    steps = len(log.read_text())

    def goes_on() -> bool:
        assert bench.ask("status", begun["run"])["state"] in ("running", "unreachable")
        return len(log.read_text()) > steps + 300

    bench.until(goes_on)
    bench.ask("stop", begun["run"], "--reason", "seen enough")
    over(bench, begun, "stopped")
    found = [int(n) for n in re.findall(r"^step:(\d+) - actor", log.read_text(), re.MULTILINE)]
    assert found == list(range(1, len(found) + 1))
    assert events(begun["run_dir"], "started") == 1


def test_a_host_that_is_gone_is_unreachable_and_its_run_ends_as_it_ended(bench: Any, far: Any) -> None:
    begun = bench.ask("run", bench.blueprint("long"), "--launcher", "far", "--detach")
    bench.until(lambda: "step:2 " in Path(begun["run_dir"], "run.log").read_text())
    far.cut()
    far.stop()
    bench.until(lambda: bench.ask("status", begun["run"])["state"] == "unreachable")
    assert events(begun["run_dir"], "unreachable") == 1
    record = json.loads(Path(begun["run_dir"], "far", "runner.json").read_bytes())
    os.kill(record["trainer_pid"], signal.SIGKILL)  # it ends while nobody can be told
    far.start()
    done = over(bench, begun, "crashed")
    assert done["returncode"] == 137


@pytest.mark.parametrize(
    ("lines", "code"), [((), "refused"), (("PubkeyAuthentication no", "PasswordAuthentication yes"), "asks_password")]
)
def test_a_host_that_lets_nobody_in_is_told_before_anything_is_written(
    bench: Any, far: Any, lines: tuple[str, ...], code: str
) -> None:
    far.stop()
    if lines:
        far.start(*lines)
    path = bench.blueprint()
    before = bench.picture("/state", "/sshd"), bench.git("branch", "--list", "--all")
    told = bench.ask("run", path, "--launcher", "far", check=6)["error"]
    assert told["code"] == code and told["message"].startswith("far: ") and told["hint"]
    assert (bench.picture("/state", "/sshd"), bench.git("branch", "--list", "--all")) == before
    assert not bench.tmux("list-sessions").stdout
