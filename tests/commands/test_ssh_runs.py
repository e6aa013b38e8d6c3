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
    common = f"host: far, config: {sshd.config}, ssh_options: [ServerAliveInterval=1]"
    (bench.repo / "autoresearch.yaml").write_text(
        f"launchers:\n  far: {{kind: ssh, {common}, shared: true}}\n"
        f"  copied: {{kind: ssh, {common}, root: {bench.root}/elsewhere, setup: echo hello}}\n"
    )
    bench.git("add", "-A")
    bench.git("commit", "-qm", "a place")
    return sshd


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


def test_a_host_gets_what_the_notes_include(bench: Any, far: Any) -> None:
    (bench.repo / ".gitignore").write_text("data/\nreports/\n")
    (bench.repo / "data").mkdir()
    (bench.repo / "data/set.txt").write_text("the ignored data\n")
    blueprint = bench.blueprint(command="cat data/set.txt && python trainer.py ok")
    blueprint.write_text(f"{blueprint.read_text()}\n## Other Notes\n- include: data/\n")
    begun = bench.ask("run", blueprint, "--launcher", "copied", "--detach")
    over(bench, begun, "finished")
    assert "the ignored data" in Path(begun["run_dir"], "run.log").read_text()


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
    ("lines", "said"),
    [
        ((), "Connection refused"),
        (("PubkeyAuthentication no", "PasswordAuthentication yes"), "Permission denied (password)"),
    ],
)
def test_a_host_that_lets_nobody_in_is_told_before_anything_is_written(
    bench: Any, far: Any, lines: tuple[str, ...], said: str
) -> None:
    far.stop()
    if lines:
        far.start(*lines)
    path = bench.blueprint()
    before = bench.picture("/state", "/sshd"), bench.git("branch", "--list", "--all")
    told = bench.ask("run", path, "--launcher", "far", check=6)["error"]
    assert told["message"].startswith("far: ") and said in told["message"] and "`ssh far true`" in told["hint"]
    assert (bench.picture("/state", "/sshd"), bench.git("branch", "--list", "--all")) == before
    assert not bench.tmux("list-sessions").stdout


SMI = """#!/bin/sh
echo '0, GPU-aaaa, A card, 81559, 0'
echo '1, GPU-bbbb, A card, 81559, 0'
"""
SEES = """
import os
print("sees", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
for step in range(1, 4):
    print(f"step {step} | loss 0.{step}", flush=True)
"""


@pytest.mark.parametrize("place", ["local", "copied"])
def test_what_the_blueprint_says_of_gpus_is_leased_and_shown(bench: Any, far: Any, place: str) -> None:
    smi = bench.root / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI)
    smi.chmod(0o755)
    path = f"{smi.parent}:{os.environ['PATH']}"
    far.stop()
    far.environment["PATH"] = path
    far.start()
    blueprint = bench.unknown(SEES, metric="loss", notes="- env: CUDA_VISIBLE_DEVICES=1\n")
    begun = bench.ask("run", blueprint, "--launcher", place, "--gpus", "1", "--detach", PATH=path)
    over(bench, begun, "finished")
    assert "sees 1\n" in Path(begun["run_dir"], "run.log").read_text()
    assert json.loads(Path(begun["run_dir"], "runner.json").read_text())["gpus"] == ["GPU-bbbb"]
