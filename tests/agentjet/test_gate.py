"""Before the client starts: health, an engine that is off, one episode that works and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoresearch.agentjet import gate
from autoresearch.agentjet.engine import SwarmFault

DEBUG = "agent_roll_one_episode_debug.py"


def fault_of(act: Any) -> SwarmFault:
    with pytest.raises(SwarmFault) as caught:
        act()
    return caught.value


@pytest.mark.system
def test_a_server_that_is_slow_to_be_healthy_is_waited_for(stand: Any) -> None:
    given = stand.swarm_run()
    stand.serve(given, "--fault", "slow_health", "--after", "0.4")
    assert gate.await_health(given) > 0.0


@pytest.mark.system
def test_an_engine_that_rolls_is_refused_and_goes_on(stand: Any) -> None:
    given = stand.swarm_run()
    stand.serve(given, "--state", "ROLLING:3")
    fault = fault_of(lambda: gate.require_offline(given, stand.said.append))
    assert (fault.kind, "at global_step 3" in str(fault)) == ("engine_busy", True)
    assert given.server().poll().status == "ENGINE.ROLLING"


@pytest.mark.system
def test_an_engine_that_rolls_is_stopped_where_that_was_asked_for(stand: Any) -> None:
    given = stand.swarm_run(on_busy="stop")
    stand.serve(given, "--state", "WEIGHT_SYNCING:3")
    gate.require_offline(given, stand.said.append)
    poll = given.server().poll()
    assert (poll.status, poll.step) == ("ENGINE.OFFLINE", 3)  # the stale step stays, as in AgentJet's


@pytest.mark.system
def test_a_server_that_answers_with_errors_is_not_taken_for_one_that_is_off(stand: Any) -> None:
    given = stand.swarm_run()
    stand.serve(given, "--fault", "errors", "--errors-for", "1")
    fault = fault_of(lambda: gate.require_offline(given, stand.said.append))
    assert "HTTP 500" in str(fault)
    gate.require_offline(given, stand.said.append)


@pytest.mark.system
def test_one_episode_works_and_is_remembered(stand: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = stand.root / "runs"
    monkeypatch.setenv("GATE_RUNS", str(runs))
    given = stand.swarm_run(debug=DEBUG)
    stand.serve(given)
    given = stand.swarm_run(debug=DEBUG, url=given.url())
    gate.up(given, stand.services, stand.said.append)
    assert "one episode worked: reward 1" in stand.log
    assert "the engine that the check has booted is stopped" in stand.log
    assert given.server().poll().status == "ENGINE.OFFLINE"
    gate.check(given, stand.services, stand.said.append)
    assert runs.read_text() == "ran\n"
    assert "has worked before" in stand.log
    script = Path(stand.root, DEBUG)
    script.write_text(script.read_text() + "# changed\n")
    gate.check(given, stand.services, stand.said.append)
    assert runs.read_text() == "ran\nran\n"


@pytest.mark.system
@pytest.mark.parametrize(
    ("mode", "kind", "says"),
    [
        ("broken", "gate_failed", "ValueError: the agent cannot read its task"),
        ("silent", "gate_failed", "printed none"),
        ("nan", "gate_failed", "printed nan"),
        ("trains", "gate_trained", "added 1 episodes"),
    ],
)
def test_a_check_that_does_not_pass(stand: Any, mode: str, kind: str, says: str) -> None:
    given = stand.swarm_run(debug=f"{DEBUG} {mode}")
    stand.serve(given)
    fault = fault_of(lambda: gate.check(given, stand.services, stand.said.append))
    assert (fault.kind, says in str(fault)) == (kind, True), fault
    assert not list((stand.root / "state").rglob("*.json"))


@pytest.mark.system
def test_an_engine_that_dies_under_the_check(stand: Any) -> None:
    given = stand.swarm_run(debug=DEBUG)
    stand.serve(given, "--fault", "boot_failure")
    fault = fault_of(lambda: gate.check(given, stand.services, stand.said.append))
    assert (fault.kind, "No module named 'verl'" in str(fault)) == ("boot_failed", True)


@pytest.mark.system
def test_a_check_that_takes_too_long(stand: Any) -> None:
    given = stand.swarm_run(debug=DEBUG, debug_timeout_s=0.3)
    stand.serve(given, "--fault", "stuck")
    fault = fault_of(lambda: gate.check(given, stand.services, stand.said.append))
    assert fault.kind == "gate_timeout"


def test_what_makes_a_check_another_one(stand: Any) -> None:
    first = gate.fingerprint(stand.swarm_run(debug=DEBUG), stand.services)
    assert first == gate.fingerprint(stand.swarm_run(debug=DEBUG), stand.services)
    others = [
        stand.swarm_run(debug=f"{DEBUG} x"),
        stand.swarm_run(debug=DEBUG, server="ajet-swarm start"),
        stand.swarm_run("a.py"),
    ]
    assert len({first, *(gate.fingerprint(one, stand.services) for one in others)}) == 4
    Path(stand.root, DEBUG).write_text("print('reward: 1')\n")
    assert gate.fingerprint(stand.swarm_run(debug=DEBUG), stand.services) != first


@pytest.mark.parametrize(
    ("lines", "reward"),
    [
        (["reward: 0.5"], 0.5),
        (["Reward = np.float64(0.25)", "done"], 0.25),
        (["{'reward': 1.0, 'x': 2}"], 1.0),
        (["reward: 0.1", "final reward is 0.9"], 0.9),
        (["mean_reward: 3"], None),  # another word
        (["reward: none"], None),
        ([], None),
    ],
)
def test_the_reward_that_a_check_prints(lines: list[str], reward: float | None) -> None:
    assert gate.reward_of(lines) == reward
