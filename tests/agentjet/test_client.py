"""The client, watched: a real client and server, and the ways in which a swarm run goes wrong unseen."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import Any

import pytest

from autoresearch.agentjet import client as clients
from autoresearch.agentjet.client import RetryStorm
from autoresearch.agentjet.engine import SwarmFault
from autoresearch.runner.text import logical_lines


def run(stand: Any, given: Any) -> int:
    """The exit code; the client's own output goes where pytest takes it."""
    return clients.client(given, stand.said.append)


@pytest.mark.system
def test_steps_are_told_once_with_their_kl(stand: Any, capfd: pytest.CaptureFixture[str]) -> None:
    given = stand.swarm_run("agent_roll.py steps=3")
    stand.serve(given, "--state", "OFFLINE:7")  # an old step is no news
    assert run(stand, given) == 0
    steps = re.findall(r"^\[swarm\] step (\d+)(?: kl (\S+))?$", stand.log, re.MULTILINE)
    assert steps == [("1", "0.001"), ("2", "0.002")]
    assert re.search(r"^\[swarm\] engine ENGINE\.BOOTING for 0 s$", stand.log, re.MULTILINE)
    assert "Training complete!" in capfd.readouterr().out


@pytest.mark.system
def test_an_engine_that_is_not_off_is_not_given_to_a_client(stand: Any) -> None:
    given = stand.swarm_run("agent_roll.py reuse")
    stand.serve(given, "--state", "ROLLING:3")
    with pytest.raises(SwarmFault, match=r"ENGINE\.ROLLING before the client was started"):
        run(stand, given)
    assert given.server().poll().status == "ENGINE.ROLLING"


@pytest.mark.system
def test_a_boot_that_fails_between_two_looks_is_told_by_the_log(stand: Any) -> None:
    given = stand.swarm_run("-c 'import time; time.sleep(600)'")
    stand.serve(given)
    watched = clients.ClientWatch(given, stand.said.append)
    with given.server_dir.log.open("a") as log:
        log.write("07:34 | start_engine :519 | [start_engine] Successfully started training process (PID: 7)\n")
        log.write("ValueError: no such model\n")
    assert not watched.check(0.0)
    with pytest.raises(SwarmFault, match="no such model") as caught:
        for now in range(1, 4):
            watched.check(float(now))
    assert caught.value.kind == "boot_failed"
    watched.close()


@pytest.mark.system
def test_a_client_that_waits_for_an_engine_that_is_off(stand: Any) -> None:
    given = stand.swarm_run()
    stand.serve(given)
    watched = clients.ClientWatch(given, stand.said.append)
    with given.rundir.log.open("a") as log:
        log.write("07:34 | Current engine status (already waited 20.0s): ENGINE.OFFLINE\n")
    assert not watched.check(0.0)
    with given.rundir.log.open("a") as log:
        log.write("07:35 | Current engine status (already waited 60.0s): ENGINE.OFFLINE\n")
    with pytest.raises(SwarmFault, match="waits for an engine that is off") as caught:
        watched.check(1.0)
    assert caught.value.kind == "boot_failed"
    watched.close()


@pytest.mark.system
def test_an_exception_without_end(stand: Any) -> None:
    given = stand.swarm_run("agent_roll.py storm", retries=(5, 0.2))
    given.rundir.log.touch()
    stand.serve(given)
    with given.rundir.log.open("ab") as log:  # the Runner's part: the client's output is the run's log
        done = _as_a_program(given, log)
    text = given.rundir.log.read_text()
    assert done == 3, text
    assert re.search(r"error retry_storm: \d+ times within .*: 'tool_call_\d+'", text)


@pytest.mark.system
def test_an_engine_that_crashes_in_the_middle(stand: Any) -> None:
    given = stand.swarm_run("agent_roll.py steps=9")
    stand.serve(given, "--fault", "crash", "--total", "9")
    assert run(stand, given) == 3
    assert re.search(r"error engine_crashed: the engine went off after step 0: .*CUDA out of memory", stand.log)


@pytest.mark.system
def test_an_engine_that_is_done_ends_a_client_that_hangs(stand: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "OVER_S", 0.2)
    given = stand.swarm_run("agent_roll.py steps=99")  # never begins, as the engine ends at 2
    stand.serve(given, "--total", "2")
    assert run(stand, given) == 0
    assert "off after its last step, and the client does not end by itself" in stand.log


@pytest.mark.system
def test_a_client_that_tidies_up_is_not_one_that_hangs(stand: Any) -> None:
    given = stand.swarm_run("agent_roll.py")
    stand.serve(given)
    watched = clients.ClientWatch(given, stand.said.append)
    try:
        for now, line, hangs in (
            (10.0, "[INFO] Training complete!", False),
            (80.0, "saving the last checkpoint", False),
            (139.0, "Engine not ready. Current status: [ENGINE.OFFLINE]", False),
            (141.0, "Engine not ready. Current status: [ENGINE.OFFLINE]", True),
        ):
            with given.rundir.log.open("a") as log:
                log.write(line + "\n")
            watched.check(now)
            assert watched._hangs(now) is hangs
    finally:
        watched.close()


@pytest.mark.system
def test_an_engine_that_was_stopped_under_a_client(stand: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "OVER_S", 0.2)
    given = stand.swarm_run("agent_roll.py steps=99")
    stand.serve(given, "--total", "99")
    told = stand.said.append

    def stop_at_the_second_step(line: str) -> None:
        told(line)
        if "global_step 2" in line:
            given.server()._ask("/stop_engine", {})

    assert clients.client(given, stop_at_the_second_step) == 3
    assert "error engine_offline: the engine went off after step" in stand.log


@pytest.mark.system
def test_an_engine_that_goes_on_from_an_old_checkpoint_is_told(stand: Any) -> None:
    given = stand.swarm_run("agent_roll.py steps=6")
    stand.serve(given, "--fault", "resume", "--total", "6")
    assert run(stand, given) == 0
    assert "error resumed: the engine goes on from an earlier run: Resuming from" in stand.log


@pytest.mark.system
def test_a_signal_is_passed_on(stand: Any) -> None:
    given = stand.swarm_run("-c 'import os; os.kill(os.getpid(), 11)'")
    stand.serve(given)
    given.rundir.log.touch()
    with given.rundir.log.open("ab") as log:
        assert _as_a_program(given, log) == 128 + signal.SIGSEGV


def _as_a_program(given: Any, log: Any) -> int:
    """`autoresearch swarm client RUN_DIR`, as the Runner starts it."""
    from autoresearch.records import recorded_run

    recorded_run.write(given.rundir, given.spec, {})
    argv = [sys.executable, "-m", "autoresearch", "swarm", "client", str(given.rundir.path)]
    return subprocess.run(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, timeout=120).returncode


def test_a_storm_is_the_same_exception_again_and_again() -> None:
    storm = RetryStorm(3, 10.0)
    for n in range(3):
        storm.line(5.0 * n, f"KeyError: 'call_{n}'")
    assert storm.active(9.0) == ""
    assert storm.active(10.0).startswith("3 times within 10 s, and nothing moved meanwhile: KeyError: 'call_2'")
    storm.reset()
    assert storm.active(99.0) == ""


@pytest.mark.parametrize("end", [". Retrying...", ""])  # a message of several lines ends in the next one
def test_a_retry_as_ajet_logs_it_has_no_traceback(end: str) -> None:
    storm = RetryStorm(3, 10.0)
    for n in range(3):
        line = f"\x1b[32m23:4{n}\x1b[0m | \x1b[36m   retry_wrapper    \x1b[0m:\x1b[36m71 \x1b[0m | \x1b[31m\x1b[1m"
        line += f"[PeriodicDrainThreadPoolExecutor] Error executing episode: 'call_{n}'{end}\x1b[0m\n"
        for text in logical_lines(line.encode()):
            storm.line(5.0 * n, text)
    assert storm.active(9.0) == ""
    assert storm.active(10.0) == "3 times within 10 s, and nothing moved meanwhile: 'call_2'"


def test_retries_of_claims_are_no_storm() -> None:
    storm = RetryStorm(1, 0.0)
    prefix = "23:49 | retry_wrapper :71 | [PeriodicDrainThreadPoolExecutor] Error executing episode: "
    storm.line(0.0, f"{prefix}SwarmClient error 404: Episode 7 is claimed by different client. Retrying...")
    storm.line(0.0, "RuntimeError: No available episodes to claim. Try again (maybe 1 minute) later.")
    storm.line(0.0, "23:49 | begin_episode :643 | Failed to claim episode: No available episodes. Retrying ...")
    assert storm.active(1.0) == ""
    storm.line(0.0, f"{prefix}. Retrying...")
    assert storm.active(1.0).endswith(": an exception without a message")


def test_an_evaluation_that_gets_on_is_no_storm() -> None:
    storm = RetryStorm(2, 0.0)
    for done in (1, 2, 3):
        storm.line(0.0, "openai.APITimeoutError: Request timed out.")
        storm.line(0.0, f"EVAL AIME-2025 @ step 0:  33%|███ | {done}/3840 [20:20<23:47, 1.81it/s]")
    assert storm.active(9.0) == ""
    for _ in range(2):
        storm.line(0.0, "openai.APITimeoutError: Request timed out.")
        storm.line(0.0, "EVAL AIME-2025 @ step 0:  33%|███ | 3/3840 [20:20<23:47, 1.81it/s]")
    assert storm.active(9.0)


def test_lines_that_are_no_exception() -> None:
    storm = RetryStorm(1, 0.0)
    for line in ("INFO: no error", "def f(): raise ValueError", "Errors: 3", "retrying after ValueError"):
        storm.line(0.0, line)
    assert storm.active(1.0) == ""
