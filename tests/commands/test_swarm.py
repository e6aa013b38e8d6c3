"""AgentJet's swarm mode through the command: two real sessions, real processes, and a server without a model."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autoresearch.runner.basics import is_locked
from tests.engines.ports import free_port

pytestmark = pytest.mark.system

SAMPLES = Path(__file__).parents[1] / "samples" / "swarm"
PORT = "--swarm-port=$AJET_SWARM_PORT"

Blueprint = Callable[..., Path]


@pytest.fixture
def swarm(bench: Any) -> Blueprint:
    """Write a blueprint of a swarm run; what is left out is a server and client that do well."""
    for path in SAMPLES.glob("*.py"):
        shutil.copy(path, bench.repo)
    bench.git("add", "-A")
    bench.git("commit", "-qm", "the client")

    def write(client: str = "steps=3", server: str = "", debug: str | None = None, notes: str = "") -> Path:
        lines = [f"- swarm_server: python fake_swarm_server.py {PORT} {server}", "- swarm_poll: 0.1 s", notes]
        if debug is not None:
            lines.append(f"- swarm_debug: python agent_roll_one_episode_debug.py {debug}")
        given = {"title": "Try swarm", "command": f"python agent_roll.py {client}", "trainer": "agentjet_swarm"}
        path = bench.blueprint("swarm", **given, notes="\n".join(lines))
        text = re.sub(r"^- (?:metric|direction): .*\n", "", path.read_text(), flags=re.MULTILINE)
        path.write_text(text)
        return Path(path)

    return write


def log_of(payload: dict[str, Any]) -> str:
    return Path(payload["run_dir"], "run.log").read_text()


def port_of(payload: dict[str, Any]) -> int:
    url = json.loads(Path(payload["run_dir"], "swarm.json").read_text())["url"]
    return int(url.rpartition(":")[2])


def with_fakes() -> str:
    return f"{SAMPLES / 'bin'}{os.pathsep}{os.environ['PATH']}"


def is_free(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) != 0


@contextlib.contextmanager
def server_elsewhere(bench: Any, port: int, *words: str) -> Iterator[None]:
    """A server that is not ours: it stands before the run, and after it."""
    argv = [sys.executable, "fake_swarm_server.py", f"--swarm-port={port}", *words]
    server = subprocess.Popen(argv, cwd=bench.repo, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        bench.until(lambda: not is_free(port))
        yield
        assert not is_free(port)
    finally:
        server.kill()
        server.wait()


def sessions_of(bench: Any) -> list[str]:
    return sorted(bench.tmux("list-sessions", "-F", "#{session_name}").stdout.split())


def ended(bench: Any, payload: dict[str, Any], ending: str) -> dict[str, Any]:
    """What holds after every ending, the server's half included; gives the flag."""
    flag = bench.settled(payload, ending)
    if Path(payload["run_dir"], "swarm.json").exists():
        assert is_free(port_of(payload))
    return dict(flag)


def test_a_good_run_has_two_sessions_that_end_together(bench: Any, swarm: Blueprint) -> None:
    begun = bench.ask("run", swarm("steps=3 evals", debug=""), "--detach")
    both = [begun["session"], f"{begun['session']}_srv"]
    bench.until(lambda: "server_session" in bench.ask("status", begun["run"]))
    assert bench.ask("status", begun["run"])["server_session"] == both[1]
    assert sessions_of(bench) == both
    assert bench.ask("attach", begun["run"], "--server")["attach"].endswith(f"'={both[1]}'")
    done = bench.ask("wait", begun["run"], "--for", "240s") if begun["state"] != "ended" else begun
    while done["state"] != "ended":
        done = bench.ask("wait", begun["run"], "--for", "240s")
    log = log_of(done)
    assert done["ending"] == "finished", log
    # the mean of both data sets at the last step
    assert done["metrics"]["swarm/task_pass_rate@1"] == pytest.approx((0.7 + 0.45) / 2)
    events = Path(done["run_dir"], "events.jsonl").read_text()
    assert '"event": "first_step"' in events
    assert '"kl": 0.001' in events
    assert "one episode worked: reward 1" in log
    assert "the engine that the check has booted is stopped" in log
    assert re.search(r"\[swarm\] engine ENGINE\.\w+ global_step 1 completed \d/2 episodes", log)
    assert re.search(r"\[swarm\] the engine has booted, in \d+ s", log)
    (row,) = bench.ask("ledger", "show")["rows"]
    # the client ends when step 3 begins, but the server may print one more
    last = re.findall(r"step:(\d+) - critic", Path(done["run_dir"], "server/run.log").read_text())[-1]
    assert str(row["steps"]) == last
    assert re.search(rf"^\| {last} \|", Path(done["result_dir"], "results.md").read_text(), re.MULTILINE)
    ended(bench, done, "finished")
    server = json.loads(Path(done["run_dir"], "server/exit.json").read_text())
    assert (server["ending"], server["returncode"]) == ("finished", 0)
    assert sessions_of(bench) == both  # to be looked at
    bench.ask("stop", begun["run"])
    assert sessions_of(bench) == []


def test_an_engine_that_dies_while_it_boots_ends_the_run_at_once(bench: Any, swarm: Blueprint) -> None:
    done = bench.ask("run", swarm(server="--fault boot_failure"), check=10)
    assert done["ending"] == "crashed"
    assert done["failure"] == "program"  # the cause in the server's log, not the symptom in the client's
    record = json.loads(Path(done["run_dir"], "exit.json").read_text())
    assert (record["error_kind"], record["returncode"]) == ("boot_failed", 3)
    assert "from BOOTING to OFFLINE" in record["error"]
    assert "No module named 'verl'" in record["error"]
    ended(bench, done, "crashed")


def test_a_server_that_dies_takes_its_client_along(bench: Any, swarm: Blueprint) -> None:
    done = bench.ask("run", swarm(server="--fault dies"), check=10)
    assert done["ending"] == "crashed"
    assert json.loads(Path(done["run_dir"], "exit.json").read_text())["error_kind"] == "server_died"
    assert "the server's own fault" in log_of(done)
    ended(bench, done, "crashed")


def test_a_runner_that_is_killed_leaves_no_server_and_a_free_port(bench: Any, swarm: Blueprint) -> None:
    begun = bench.ask("run", swarm("steps=900", server="--total 900 --fault orphan --fault deaf"), "--detach")
    bench.event(begun["run_dir"], "first_step")
    os.kill(bench.runner(begun["run_dir"])["pid"], signal.SIGKILL)
    bench.until(lambda: not is_locked(Path(begun["run_dir"], "lock")))  # a killed process needs a moment to be dead
    (found,) = bench.ask("status")["runs"]
    assert found["ending"] == "lost"
    assert is_free(port_of(begun))
    ended(bench, begun, "lost")


def test_a_server_ends_by_itself_when_nobody_adopts_its_run(bench: Any, swarm: Blueprint) -> None:
    begun = bench.ask("run", swarm("steps=900", server="--total 900"), "--detach")
    bench.event(begun["run_dir"], "first_step")
    os.kill(bench.runner(begun["run_dir"])["pid"], signal.SIGKILL)
    bench.until(lambda: Path(begun["run_dir"], "server/exit.json").exists())
    bench.until(lambda: is_free(port_of(begun)))
    bench.ask("status")
    ended(bench, begun, "lost")


def test_stop_ends_both_halves(bench: Any, swarm: Blueprint) -> None:
    begun = bench.ask("run", swarm("steps=900", server="--total 900 --fault orphan"), "--detach")
    bench.event(begun["run_dir"], "first_step")
    done = bench.ask("stop", begun["run"], "--reason", "enough")
    assert done["ending"] == "stopped"
    log = log_of(done)
    assert re.search(r"the engine was ENGINE\.\w+: stopped", log)
    assert f"port {port_of(done)} is free" in log
    ended(bench, done, "stopped")


def test_a_port_that_somebody_has_is_refused_before_anything_is_written(bench: Any, swarm: Blueprint) -> None:
    given = swarm()
    with socket.create_server(("127.0.0.1", 0)) as held:
        given.write_text(given.read_text().replace("$AJET_SWARM_PORT", str(held.getsockname()[1])))
        before = bench.picture("state", "index")
        refused = bench.ask("run", given, check=5)
        assert refused["error"]["code"] == "port_taken"
        assert bench.picture("state", "index") == before


def test_a_server_behind_ssh_is_reached_through_a_forward_that_is_started_again(
    bench: Any, swarm: Blueprint, tmp_path: Path
) -> None:
    far = free_port()
    calls, drop = tmp_path / "ssh-calls", tmp_path / "drop"
    given = swarm("steps=5 evals", notes=f"- swarm_ssh: -p 22 user@gpu7\n- swarm_url: http://127.0.0.1:{far}")
    given.write_text(re.sub(r"^- swarm_server: .*\n", "", given.read_text(), flags=re.MULTILINE))
    with server_elsewhere(bench, far, "--total", "5"):
        env = {"PATH": with_fakes(), "SSH_CALLS": str(calls), "SSH_DROP": str(drop)}
        begun = bench.ask("run", given, "--detach", **env)
        bench.event(begun["run_dir"], "first_step")
        drop.touch()
        bench.until(lambda: Path(begun["run_dir"], "exit.json").exists())
        done = bench.ask("status", begun["run"])
        assert done["ending"] == "finished", log_of(done)
        first, again = calls.read_text().splitlines()
        assert first == again
        options = r"-N (?:-o \w+=\w+ )+-L 127\.0\.0\.1:\d+:127\.0\.0\.1:(\d+) -p 22 user@gpu7"
        assert re.findall(options, first) == [str(far)]
    ended(bench, done, "finished")


def test_a_server_elsewhere_gives_the_rewards_of_its_pool(bench: Any, swarm: Blueprint) -> None:
    port = free_port()
    given = swarm("steps=99", notes=f"- swarm_url: http://127.0.0.1:{port}")  # the engine ends before, at step 3
    metric = "- metric: swarm/collected_reward/mean"
    given.write_text(re.sub(r"^- swarm_server: .*$", metric, given.read_text(), flags=re.MULTILINE))
    with server_elsewhere(bench, port):
        done = bench.ask("run", given)
        steps = re.findall(r"^\[swarm\] step (.*)$", log_of(done), re.MULTILINE)
        assert steps == [f"{n} reward 0.5" for n in (1, 2, 3)]
        (row,) = bench.ask("ledger", "show")["rows"]
        assert (row["metric_name"], row["metric_value"], row["steps"]) == ("swarm/collected_reward/mean", 0.5, 3)
        assert (done["ending"], done["verdict"]) == ("finished", "keep"), done
        assert "end_unseen: the engine went off after the batch of step 3" in str(done["warnings"]), done


@pytest.mark.real
def test_a_real_ssh_carries_the_port_and_a_cut_link_is_made_again(bench: Any, swarm: Blueprint, sshd: Any) -> None:
    port = free_port()
    given = swarm("steps=12 evals", notes=f"- swarm_ssh: -F {sshd.config} far\n- swarm_url: http://127.0.0.1:{port}")
    given.write_text(re.sub(r"^- swarm_server: .*\n", "", given.read_text(), flags=re.MULTILINE))
    with server_elsewhere(bench, port, "--total", "12"):
        begun = bench.ask("run", given, "--detach")
        bench.event(begun["run_dir"], "first_step")
        assert sshd.cut(), "nobody came by ssh"
        bench.until(lambda: Path(begun["run_dir"], "exit.json").exists())
        done = bench.ask("status", begun["run"])
        assert done["ending"] == "finished", log_of(done)
        said = Path(done["run_dir"], "server", "run.log").read_text()
        assert said.count("$ ssh -N") == 2 and "the forward ended (255); again in" in said, said
    ended(bench, done, "finished")


@pytest.mark.waits
def test_a_server_in_a_container_is_stopped_by_its_name(bench: Any, swarm: Blueprint, tmp_path: Path) -> None:
    port = free_port()
    inside = f"{sys.executable} {bench.repo}/fake_swarm_server.py --swarm-port={port} --total 900"
    given = swarm("steps=900")
    line = f"- swarm_server: docker run --rm -p 127.0.0.1:{port}:{port} IMAGE {inside}"
    given.write_text(re.sub(r"^- swarm_server: .*$", line, given.read_text(), flags=re.MULTILINE))
    begun = bench.ask("run", given, "--detach", PATH=with_fakes(), DOCKER_PLACE=str(tmp_path))
    bench.event(begun["run_dir"], "first_step")
    done = bench.ask("stop", begun["run"], "--reason", "enough")
    name = f"{begun['session']}_srv"
    assert (tmp_path / "calls").read_text().splitlines()[:2] == [
        f"run --name {name} --rm -p 127.0.0.1:{port}:{port} IMAGE {inside}",
        f"stop -t 10 {name}",
    ]
    ended(bench, done, "stopped")
