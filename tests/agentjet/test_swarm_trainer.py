"""The swarm trainer: its lines as the Runner sees them, evaluations, lint, the server that it adds to a run."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.agentjet import server
from autoresearch.agentjet.client import PROGRAMS
from autoresearch.agentjet.server import forward_words
from autoresearch.agentjet.swarm_trainer import AgentJetSwarm
from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.swarm import Swarm
from autoresearch.core.run.targets import LOCAL, parse_pool
from autoresearch.core.run.trainer import SourceFormat
from autoresearch.core.shell import read_shell
from autoresearch.core.text.session_and_branch_names import SESSION
from autoresearch.errors import ConflictError, UsageError
from autoresearch.records import recorded_run
from autoresearch.trainers import registry
from tests.engines.ports import free_port
from tests.line_signals import read_line, told
from tests.specs import blueprint_text

TRAINER = AgentJetSwarm()
EVAL = (
    "[EVAL @ step {}] {}  mean_reward=0.2167  std_reward=0.4120  task_pass_rate@1={}  task_pass_rate@4=36.67%"
    "  n_tasks=30  n_rollouts=120"
)


def seen(text: str) -> list[tuple[Any, ...]]:
    """What the Runner makes of a log: kinds, and what each has of step, KL, kind and text."""
    found = []
    for one in told(TRAINER, text):
        words = (one.step, one.kl, one.error_kind.decode(), one.text.decode())
        found.append((one.kind, *(word for word in words if word not in (None, ""))))
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[swarm] step 3", [("step", 3)]),
        ("[swarm] step 3 kl 1e-05", [("step", 3, 1e-05)]),
        ("[swarm] step 3 reward 0.625", [("step", 3)]),
        ("[swarm] steps 3", []),
        ("he said [swarm] step 3", []),
        ("[swarm] engine ENGINE.BOOTING for 30 s", [("progress",)]),
        ("[swarm] engine ENGINE.ROLLING global_step 3 completed 12/32 episodes", [("progress",)]),
        ("[swarm] the engine has booted, in 93 s", [("ready",)]),
        ("[swarm] engine ENGINE.OFFLINE", []),
        ("[swarm] error boot_failed: no verl", [("error", "boot_failed", "no verl")]),
        ("[swarm] nan: loss at step 3", [("nan", "loss at step 3")]),
        (EVAL.format(10, "AIME-2025", "21.67%"), [("validation",)]),
        ("EVAL AIME-2025 @ step 0:  33%|███ | 1255/3840 [20:20<23:47, 1.81it/s]", [("progress",)]),
        ("[swarm] one episode worked: reward 1 in 3 s", []),
    ],
)
def test_what_the_runner_takes_from_a_line(line: str, expected: list[Any]) -> None:
    assert seen(line + "\n") == expected


def test_only_boot_and_evaluation_hold_the_first_step_back() -> None:
    holds = {s.pattern: s.hold_s for s in TRAINER.signals() if s.kind is SignalKind.PROGRESS}
    assert sorted(hold >= 60 for hold in holds.values()) == [False, True, True]
    (rolling,) = [p for p, hold in holds.items() if hold < 60]
    assert re.search(rolling.encode(), b"[swarm] engine ENGINE.WEIGHT_SYNCING")


def test_evaluations_of_two_data_sets() -> None:
    reader = TRAINER.reader()
    found = [reader.line(EVAL.format(step, name, rate)) for step, name, rate in ((0, "A", "10%"), (0, "B", "30%"))]
    assert [r and (r.kind, r.step) for r in found] == [(SignalKind.VALIDATION, 0)] * 2
    assert found[1] and found[1].metrics["swarm/task_pass_rate@1"] == pytest.approx(0.2)
    assert found[1].metrics["swarm/B/mean_reward"] == 0.2167
    assert reader.line("[EVAL @ step 3] skipped") is None


def test_steps_of_the_server_and_of_our_watch() -> None:
    step = read_line(TRAINER, "step:2 - actor/pg_loss:0.1 - actor/kl_loss:np.float64(0.002)")
    assert step and (step.step, step.metrics["actor/kl_loss"]) == (2, 0.002)
    ours = read_line(TRAINER, "[swarm] step 3 kl 0.5")
    assert ours and (ours.kind, ours.step, ours.metrics) == (SignalKind.STEP, 3, {"actor/kl_loss": 0.5})
    pooled = read_line(TRAINER, "[swarm] step 3 reward 0.625")
    assert pooled and (pooled.step, pooled.metrics) == (3, {"swarm/collected_reward/mean": 0.625})
    assert read_line(TRAINER, "[swarm] engine ENGINE.ROLLING global_step 3") is None


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python agent_roll.py --split hard", "agentjet_swarm"),
        ("AJET_SWARM_URL=http://gpu7:10086 python train.py", "agentjet_swarm"),
        ("python -m tutorial.opencode_build_aime.agent_roll", "agentjet_swarm"),
        ("python -m tutorial.agent_roller_notes", "generic"),
        ("python -m ajet.launcher --conf x.yaml", "agentjet"),
        ("python my_agent_roller.py", "generic"),
    ],
)
def test_recognition(command: str, name: str) -> None:
    assert registry.choose("", read_shell(command)).name == name


def test_the_rest_of_what_a_trainer_says() -> None:
    recipe = {
        "ajet": {
            "experiment_name": "e",
            "project_name": "p",
            "trainer_common": {"n_gpus_per_node": 4, "kl_loss_coef": 0.002},
        }
    }
    assert TRAINER.resumes(recipe) == ("./saved_checkpoints/p/e/latest_checkpointed_iteration.txt",)
    assert TRAINER.resumes({}) == ()
    assert (TRAINER.gpus(recipe), TRAINER.gpus({})) == (4, None)
    assert list(TRAINER.space(recipe)) == ["ajet.trainer_common.kl_loss_coef"]
    objective = TRAINER.objective({})
    assert objective and objective.metric == "swarm/task_pass_rate@1"
    assert (TRAINER.seed({}), TRAINER.seed_key) == (None, "")


def blueprint(*notes: str, command: str = "python agent_roll.py") -> Blueprint:
    text = blueprint_text(trainer="", metric="", command=command, notes="\n".join(notes))
    return parse_blueprint(text.encode(), "b.md")


def errors(findings: Iterable[Finding]) -> list[str]:
    return [finding.code for finding in findings if finding.severity == "error"]


def spec(stand: Any, metric: str = "", trainer: str = TRAINER.name) -> RunSpec:
    objective = Objective(metric, Direction.MAXIMIZE) if metric else None
    return replace(stand.swarm_run().spec, swarm=None, objective=objective, trainer=trainer, cleanup=("theirs",))


def test_the_client_stands_between_up_and_down(stand: Any) -> None:
    made = TRAINER.with_server(spec(stand), blueprint("- swarm_server: ajet-swarm start"))
    assert made.prepare[-1].endswith('-m autoresearch swarm up "$AUTORESEARCH_RUN_DIR"')
    assert made.cleanup[0].endswith('-m autoresearch swarm down "$AUTORESEARCH_RUN_DIR"')
    assert made.cleanup[1] == "theirs"  # what they brought up is taken down after what we did
    assert TRAINER.start_command(made).startswith("exec ")
    assert made.command == spec(stand).command  # the record says what the blueprint says


def test_other_trainers_are_left_alone(stand: Any) -> None:
    other, verl = spec(stand, trainer="verl"), registry.server(registry.by_name("verl"))
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
    assert registry.for_blueprint(blueprint(*notes, command=command), read_shell(command), name).name == trainer


@pytest.mark.parametrize(
    ("notes", "metric", "recorded"),
    [
        (["- metric: task_pass_rate@1"], "task_pass_rate@1", "swarm/task_pass_rate@1"),
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
    made = TRAINER.with_server(spec(stand, metric), given)
    assert made.objective and made.objective.metric == recorded
    assert ("swarm_metric" in [f.code for f in TRAINER.check_server(given)]) is (metric != recorded)


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
    assert errors(TRAINER.check_server(given, parallel=2)) == ["one_swarm_server"] * shared
    assert errors(TRAINER.check_server(given, parallel=1)) == []
    assert errors(registry.server(registry.by_name("verl")).check_server(given, parallel=2)) == []


def test_swarm_mode_stays_where_its_sessions_are() -> None:
    slurm = parse_pool("slurm:2", {})[0]
    found = next(f for f in TRAINER.check_server(blueprint(), (LOCAL, slurm)) if f.code == "swarm_is_local")
    assert found.severity == "error" and "slurm" in found.message
    assert errors(TRAINER.check_server(blueprint(), (LOCAL,))) == []
    assert errors(registry.server(registry.by_name("verl")).check_server(blueprint(), (slurm,))) == []


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
    assert [f.code for f in TRAINER.check_server(blueprint(*notes))] == codes


def test_where_its_metrics_lie(stand: Any) -> None:
    made = TRAINER.with_server_metrics(TRAINER.with_server(spec(stand), blueprint()))
    assert [(s.format, Path(s.path).name) for s in made.sources] == [
        (SourceFormat.DICT_LINES, "train_results.md"),
        (SourceFormat.CONSOLE, "run.log"),
    ]
    assert TRAINER.with_server_metrics(made).sources == made.sources


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
    made = TRAINER.with_server(spec(stand), blueprint(*notes, command=command)).swarm
    assert made is not None
    assert server.choose_url(made, {"AJET_SWARM_URL": "http://caller:3"}) == url


def test_a_free_port_and_a_taken_one(stand: Any) -> None:
    free = server.choose_url(Swarm(server="s --swarm-port=$AJET_SWARM_PORT"), {})
    assert server.url_variables(free)["AJET_SWARM_PORT"] == free.rpartition(":")[2]
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        busy = replace(spec(stand), swarm=Swarm(server=f"ajet-swarm start --swarm-port={port}"))
        with pytest.raises(ConflictError, match=f"port {port} of this run's swarm server is taken"):
            TRAINER.check_port(busy)
        there = Swarm(ssh="gpu7", url=f"http://127.0.0.1:{port}")
        TRAINER.check_port(replace(busy, swarm=there))  # a forward takes another one
        assert server.choose_url(there, {}) != f"http://127.0.0.1:{port}"


def test_the_forward_never_asks_and_never_hangs() -> None:
    words = forward_words(Swarm(ssh="-p 2222 me@gpu7", url="http://10.0.0.9:10086"), 5)
    assert words[:2] == ["ssh", "-N"]
    for option in ("ExitOnForwardFailure=yes", "ServerAliveInterval=15", "BatchMode=yes"):
        assert words[words.index(option) - 1] == "-o"
    assert words[-4:] == ["127.0.0.1:5:10.0.0.9:10086", "-p", "2222", "me@gpu7"]
    assert forward_words(Swarm(ssh="gpu7"), 5)[-2:] == ["127.0.0.1:5:127.0.0.1:10086", "gpu7"]


def test_the_servers_session_has_a_name_that_tmux_takes() -> None:
    assert server.server_session("ajet_try_aaaaaa") == "ajet_try_aaaaaa_srv"
    longest = "ajet_" + "x" * 60
    assert SESSION.match(server.server_session(longest))
    assert server.server_session(longest).endswith("_srv")


def no_process(run_id: str, grace_s: float) -> int:
    raise AssertionError(f"nothing of {run_id} is to be ended")


def test_a_fault_is_a_line_for_the_runner_and_an_exit_code(stand: Any) -> None:
    given = stand.swarm_run(health_s=0.1, url=f"http://127.0.0.1:{free_port()}")
    recorded_run.write(given.rundir, given.spec, {})
    assert TRAINER.run_program("up", str(given.rundir.path), stand.services, stand.said.append) == 3
    assert stand.said[-1].startswith("[swarm] error server_unhealthy: no healthy server at ")


def test_a_server_of_somebody_else_is_left_alone(stand: Any) -> None:
    given = stand.swarm_run()
    recorded_run.write(given.rundir, given.spec, {})
    assert TRAINER.stop_server(str(given.rundir.path), no_process, stand.said.append) and stand.said == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_run_without_a_server_has_no_such_program(stand: Any, program: str) -> None:
    given = stand.swarm_run()
    recorded_run.write(given.rundir, replace(given.spec, swarm=None), {})
    with pytest.raises(UsageError, match="'down' is no program"):
        TRAINER.run_program("down", "/no/run", stand.services, stand.said.append)
    with pytest.raises(UsageError, match="run is no run of swarm mode"):
        TRAINER.run_program(program, str(given.rundir.path), stand.services, stand.said.append)
