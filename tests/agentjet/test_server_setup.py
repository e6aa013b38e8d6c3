"""What swarm mode adds to a run before it starts, and the names and addresses of its two halves."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.agentjet import swarm_run
from autoresearch.agentjet.serve import forward_words
from autoresearch.agentjet.swarm_trainer import AgentJetSwarm
from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.swarm import Swarm
from autoresearch.core.run.targets import LOCAL, parse_pool
from autoresearch.core.run.trainer import SourceFormat
from autoresearch.core.text.branch_and_run_names import SESSION
from autoresearch.errors import ConflictError
from autoresearch.trainers import ask, registry

SWARM = AgentJetSwarm()
SECTIONS = """# t
## [exp_purpose]
why
## [exp_codebase_dir]
/c
## [exp_venv_exe]
auto
## [exp_yaml_path]
NA
## [exp_launch_command]
{command}
## [exp_result_dir]
/r
## [exp_max_time]
1h
## Other Notes
"""


def blueprint(*notes: str, command: str = "python agent_roll.py") -> Blueprint:
    return parse_blueprint((SECTIONS.format(command=command) + "\n".join(notes)).encode(), "b.md")


def errors(findings: Iterable[Finding]) -> list[str]:
    return [finding.code for finding in findings if finding.severity == "error"]


def spec(stand: Any, metric: str = "", trainer: str = SWARM.name) -> RunSpec:
    from dataclasses import replace

    objective = Objective(metric, Direction.MAXIMIZE) if metric else None
    return replace(stand.swarm_run().spec, swarm=None, objective=objective, trainer=trainer, cleanup=("theirs",))


def test_the_client_stands_between_up_and_down(stand: Any) -> None:
    made = SWARM.with_server(spec(stand), blueprint("- swarm_server: ajet-swarm start"))
    assert made.prepare[-1].endswith('-m autoresearch swarm up "$AUTORESEARCH_RUN_DIR"')
    assert made.cleanup[0].endswith('-m autoresearch swarm down "$AUTORESEARCH_RUN_DIR"')
    assert made.cleanup[1] == "theirs"  # what they brought up is taken down after what we did
    assert SWARM.start_command(made).startswith("exec ")
    assert made.command == spec(stand).command  # the record says what the blueprint says


def test_other_trainers_are_left_alone(stand: Any) -> None:
    other, verl = spec(stand, trainer="verl"), ask.server(registry.by_name("verl"))
    assert verl.with_server(other, blueprint()) == other
    assert verl.start_command(other) == ""
    assert verl.with_server_metrics(other) == other
    assert verl.recorded_metric("task_pass_rate@1", blueprint().notes) == "task_pass_rate@1"
    assert not verl.server_elsewhere(blueprint().notes)
    assert [f.code for f in verl.check_server(blueprint("- swarm_server: x"))] == ["swarm_ignored"]
    verl.check_port(other)
    assert verl.stop_server("/no/run", lambda run, grace_s: 0, stand.said.append) and stand.said == []


@pytest.mark.parametrize(
    ("notes", "command", "name", "trainer"),
    [
        (["- swarm_server: x"], "python mine.py", "", "agentjet_swarm"),
        (["- swarm_url: http://gpu7:1"], "python -m verl.trainer.main_ppo", "", "agentjet_swarm"),
        (["- swarm_server: x", "- trainer: trl"], "python mine.py", "", "trl"),
        (["- swarm_server: x"], "python mine.py", "verl", "verl"),
        ([], "python agent_roll.py", "", "agentjet_swarm"),
        ([], "python mine.py", "", "generic"),
    ],
)
def test_a_trainer_is_named_or_declared_by_its_server_or_recognised(
    notes: list[str], command: str, name: str, trainer: str
) -> None:
    assert registry.for_blueprint(blueprint(*notes, command=command), name).name == trainer


@pytest.mark.parametrize(
    ("notes", "metric", "recorded"),
    [
        (["- metric: task_pass_rate@1"], "task_pass_rate@1", "swarm/task_pass_rate@1"),
        (["- metric: mean_reward", "- source: swarm_val v.md"], "mean_reward", "swarm/mean_reward"),
        (["- metric: mean_reward", "- source: dict_lines v.md"], "mean_reward", "mean_reward"),
        (["- metric: swarm/mean_reward"], "swarm/mean_reward", "swarm/mean_reward"),
        (["- metric: critic/rewards/mean"], "critic/rewards/mean", "critic/rewards/mean"),
        (["- metric: max(task_pass_rate@1)"], "max(task_pass_rate@1)", "max(swarm/task_pass_rate@1)"),
        (["- metric: AIME/mean_reward"], "AIME/mean_reward", "AIME/mean_reward"),
    ],
)
def test_the_pass_rate_of_swarm_mode_never_has_the_name_of_classic_mode(
    stand: Any, notes: list[str], metric: str, recorded: str
) -> None:
    given = blueprint(*notes, "- swarm_server: x")
    made = SWARM.with_server(spec(stand, metric), given)
    assert made.objective and made.objective.metric == recorded
    assert ("swarm_metric" in [f.code for f in SWARM.check_server(given)]) is (metric != recorded)


@pytest.mark.parametrize(
    ("note", "shared"),
    [
        ("- swarm_server: ajet-swarm start --swarm-port=10086", True),
        ("- swarm_url: http://127.0.0.1:9", True),
        ("- swarm_server: ajet-swarm start --swarm-port=$AJET_SWARM_PORT", False),
    ],
)
def test_runs_side_by_side_need_a_server_each(note: str, shared: bool) -> None:
    given = blueprint(note)
    assert errors(SWARM.check_server(given, parallel=2)) == ["one_swarm_server"] * shared
    assert errors(SWARM.check_server(given, parallel=1)) == []
    assert errors(ask.server(registry.by_name("verl")).check_server(given, parallel=2)) == []


def test_swarm_mode_stays_where_its_sessions_are() -> None:
    slurm = parse_pool("slurm:2", {})[0]
    found = next(f for f in SWARM.check_server(blueprint(), (LOCAL, slurm)) if f.code == "swarm_is_local")
    assert found.severity == "error" and "slurm" in found.message
    assert errors(SWARM.check_server(blueprint(), (LOCAL,))) == []
    assert errors(ask.server(registry.by_name("verl")).check_server(blueprint(), (slurm,))) == []


@pytest.mark.parametrize(
    ("notes", "codes"),
    [
        ([], ["swarm_no_server"]),
        (["- swarm_url: http://gpu7:1"], ["swarm_no_server"]),
        (["- swarm_ssh: gpu7"], []),
        (["- swarm_server: x", "- metric: mean_reward"], ["swarm_metric"]),
    ],
)
def test_what_is_remarked(notes: list[str], codes: list[str]) -> None:
    assert [f.code for f in SWARM.check_server(blueprint(*notes))] == codes


def test_whose_gpus_are_counted() -> None:
    assert SWARM.server_elsewhere(blueprint("- swarm_url: http://gpu-box:10086").notes)
    assert not SWARM.server_elsewhere(blueprint("- swarm_server: ajet-swarm start").notes)
    assert not ask.server(registry.by_name("agentjet")).server_elsewhere(blueprint().notes)


def test_where_its_metrics_lie(stand: Any) -> None:
    made = SWARM.with_server_metrics(SWARM.with_server(spec(stand), blueprint()))
    assert [(s.format, Path(s.path).name) for s in made.sources] == [
        (SourceFormat.SWARM_VAL, "val_results.md"),
        (SourceFormat.DICT_LINES, "train_results.md"),
        (SourceFormat.CONSOLE, "run.log"),
    ]
    assert SWARM.with_server_metrics(made).sources == made.sources


@pytest.mark.parametrize(
    ("notes", "command", "url"),
    [
        (["- swarm_url: http://gpu7:1/"], "python agent_roll.py", "http://gpu7:1"),
        ([], "AJET_SWARM_URL=http://127.0.0.1:7 python agent_roll.py", "http://127.0.0.1:7"),
        (["- env: AJET_SWARM_URL=http://gpu8:2"], "python agent_roll.py", "http://gpu8:2"),
        ([], "python agent_roll.py", "http://caller:3"),
        (
            ["- swarm_server: ajet-swarm start --swarm-port=4"],
            "AJET_SWARM_URL=http://x:7 python r.py",
            "http://127.0.0.1:4",
        ),
    ],
)
def test_where_the_server_is(stand: Any, notes: list[str], command: str, url: str) -> None:
    made = SWARM.with_server(spec(stand), blueprint(*notes, command=command)).swarm
    assert made is not None
    assert swarm_run.choose_url(made, {"AJET_SWARM_URL": "http://caller:3"}) == url


def test_a_free_port_and_a_taken_one(stand: Any) -> None:
    free = swarm_run.choose_url(Swarm(server="s --swarm-port=$AJET_SWARM_PORT"), {})
    assert swarm_run.url_variables(free)["AJET_SWARM_PORT"] == free.rpartition(":")[2]
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        from dataclasses import replace

        busy = replace(spec(stand), swarm=Swarm(server=f"ajet-swarm start --swarm-port={port}"))
        with pytest.raises(ConflictError, match=f"port {port} of this run's swarm server is taken"):
            SWARM.check_port(busy)
        there = Swarm(ssh="gpu7", url=f"http://127.0.0.1:{port}")
        SWARM.check_port(replace(busy, swarm=there))  # a forward takes another one
        assert swarm_run.choose_url(there, {}) != f"http://127.0.0.1:{port}"


def test_the_forward_never_asks_and_never_hangs() -> None:
    words = forward_words(Swarm(ssh="-p 2222 me@gpu7", url="http://10.0.0.9:10086"), 5)
    assert words[:2] == ["ssh", "-N"]
    for option in ("ExitOnForwardFailure=yes", "ServerAliveInterval=15", "BatchMode=yes"):
        assert words[words.index(option) - 1] == "-o"
    assert words[-4:] == ["127.0.0.1:5:10.0.0.9:10086", "-p", "2222", "me@gpu7"]
    assert forward_words(Swarm(ssh="gpu7"), 5)[-2:] == ["127.0.0.1:5:127.0.0.1:10086", "gpu7"]


def test_the_servers_session_has_a_name_that_tmux_takes() -> None:
    assert swarm_run.server_session("ajet_try_aaaaaa") == "ajet_try_aaaaaa_srv"
    longest = "ajet_" + "x" * 60
    assert SESSION.match(swarm_run.server_session(longest))
    assert swarm_run.server_session(longest).endswith("_srv")
