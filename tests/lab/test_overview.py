"""A look at all runs: what is told of each, and what is damaged."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from autoresearch.commands.overview import idea_of
from autoresearch.commands.run_view import LiveView
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.ending import Ending, Verdict
from autoresearch.core.run.job_launcher import Handle
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.limits import Limits
from autoresearch.core.run.spec import RunState
from autoresearch.core.run.targets import Kind, Target
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.adopt import Adopted
from autoresearch.lab.runs.overview import look, shown_target
from autoresearch.lab.runs.run_status import TAIL_BYTES, LiveReadings, as_payload, boot_id
from autoresearch.records import events, order_file, recorded_run
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.files import write_json
from autoresearch.records.index import Index, IndexEntry
from autoresearch.records.order_file import Observed, Order
from autoresearch.records.recorded_run import Outcome, RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.runner.gpu_lease import Gpu
from tests.specs import run_spec

if TYPE_CHECKING:
    from tests.lab.conftest import Made

METRIC = "task_pass_rate@1"
NOW = 1_790_000_000.0


def step(n: int) -> str:
    return f"step:{n} - actor/kl_loss:0.00{n} - actor/pg_loss:0.1 - critic/rewards/mean:0.{n}\n"


def validation(n: int, rate: float) -> str:
    return f"step:{n} - global_steps:{n} - pass_n:2 - {METRIC}:{rate} - mean_reward:{rate}\n"


class Account:
    """Runs of an account as their files have them; no process is started."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.index = Index(root / "state")
        self.clock = NOW
        self.parts = Parts(environ=os.environ, index=self.index, launcher=lambda _: None, clock=lambda: self.clock)  # type: ignore[arg-type, return-value]
        self.locks: dict[str, int] = {}

    def run(self, name: str, *, lives: bool = True, **more: Any) -> RunDir:
        rundir = RunDir(self.root / "runs" / name)
        rundir.path.mkdir(parents=True)
        spec = run_spec(
            name,
            rundir.path,
            trainer="verl",
            limits=Limits(max_s=600.0, first_step_s=60.0),
            created=NOW - 100,
            objective=Objective(METRIC, Direction.MAXIMIZE),
        )
        recorded_run.write(rundir, replace(spec, **more), {})
        self.index.add(
            IndexEntry(
                name, name, spec.session, str(rundir.path), spec.result_dir, created=more.get("created", NOW - 100)
            )
        )
        if lives:
            self.hold(rundir.lock)
            write_json(rundir.runner, {"pid": 1, "started": NOW - 90, "started_boot": 5.0, "boot_id": "another"})
        return rundir

    def far(self, name: str, state: str = "", place: Target | None = None, **seen: Any) -> RunDir:
        rundir = self.run(name, lives=False)
        place = place or Target("slurm", Kind.SLURM, 4)
        handle = Handle(name, f"job-{name}") if state else None
        order = Order(name, place, NOW - 80, str(rundir.far), gpus=2, handle=handle)
        order_file.write(rundir, order)
        if state:
            order_file.observe(rundir, Observed(state, seen.pop("since", NOW - 60), **seen))
        return rundir

    def hold(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(fd, fcntl.LOCK_EX)
        self.locks[str(path)] = fd

    def look(self, **more: Any) -> dict[str, list[Any]]:
        """A look at what the index says lives, none of which is recorded first."""
        living = [(entry, RunDir(Path(entry.run_dir))) for entry in self.index.live()]
        found = [Adopted(entry, rundir.state(now=self.clock), None) for entry, rundir in living if rundir.spec.exists()]
        return look(self.parts, found, **more)

    def lines(self) -> dict[str, dict[str, Any]]:
        return {line["run"]: line for line in self.look()["runs"]}


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    one = Account(tmp_path)
    yield one
    for fd in one.locks.values():
        os.close(fd)


# ------------------------------------------------------------------------------------------ what is told


def test_a_run_of_this_machine(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)
    rundir = account.run("a-1", why="first", campaign="20261121-sort", index=3)
    (line,) = account.look()["runs"]
    assert (line["state"], line["place"], idea_of(line)) == (RunState.RUNNING, "local", "sort #3 a-1")
    assert (line["elapsed_s"], line["deadline_s"], line["first_step_left_s"]) == (90.0, 510.0, 60.0)
    assert (line["step"], line["metric_value"], line["metric_name"]) == (None, None, METRIC)
    rundir.log.write_text("hello\n" + validation(0, 0.1) + step(1) + "noise\n")
    events.append(rundir.events, "first_step", step=1)
    (line,) = account.look()["runs"]
    assert (line["step"], line["metric_value"], line["first_step_left_s"]) == (1, 0.1, None)
    with rundir.log.open("a") as log:
        log.write(step(2) + validation(2, 0.5) + step(3)[:20])  # a line that is being written
    (line,) = account.look()["runs"]
    assert (line["step"], line["metric_value"]) == (2, 0.5)
    write_json(rundir.stop, {"how": "now"})
    (line,) = account.look()["runs"]
    assert line["state"] == RunState.STOPPING


def test_the_newest_output_is_shown_until_a_step_is_known(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)
    limits = Limits(max_s=600.0, first_step_s=60.0, first_step_since_output=True)
    rundir = account.run("a-1", trainer="generic", limits=limits)
    stamps = {"started_boot": 5.0, "trainer_started_boot": 5.0, "boot_id": "another"}
    write_json(rundir.runner, {"pid": 1, "started": NOW - 90, **stamps})
    rundir.log.write_text("loading\nHF_TOKEN=hf_abcdefghijabcdefghij0 epoch 3, all well\n")
    os.utime(rundir.log, (NOW - 20, NOW - 20))
    (line,) = account.look()["runs"]
    assert line["first_step_left_s"] == 40.0
    assert line["newest_output"] == "HF_TOKEN=*** epoch 3, all well"
    spec = recorded_run.read(rundir)
    follower = LiveView(RecordedRun(rundir, spec))
    told, _ = follower.report()
    assert "running, no step known yet, newest output `HF_TOKEN=*** epoch 3, all well`, " in told
    assert follower.stand().first_step_left_s == 40.0
    assert as_payload(follower.watch)["newest_output"] == "HF_TOKEN=*** epoch 3, all well"
    shown = "  ".join(text for text, _ in follower.line())
    assert "epoch 3, all well" in shown and "a step or new output within 40" in shown
    with rundir.log.open("a") as log:
        log.write("step: 1 | loss: 0.5\nstep: 2 | loss: 0.5\nstep: 3 | loss: 0.5\nsaving\n")
    (line,) = account.look()["runs"]
    assert (line["step"], line["newest_output"], line["first_step_left_s"]) == (3, None, None)
    assert "step 3, " in follower.report()[0]
    with rundir.log.open("a") as log:
        log.write("step: 4 | loss: 0.4\n4/40 done\n")
    texts = [text for text, _ in follower.line()]
    assert texts[:2] == ["━━" + "─" * 18, "step 4/40"]
    assert as_payload(follower.watch)["newest_output"] is None


def test_far_runs(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)
    account.far("ordered")
    account.far("waits", "pending", reason="Priority\x1b[31m")
    gpu1 = Target("gpu1", Kind.SSH)
    account.far("silent", "unreachable", gpu1, reason="no route to host", hint="type: ssh gpu1")
    runs_dir = account.far("runs", "running", node="n3")
    found = account.lines()
    ordered, waits, silent, runs = (found[name] for name in ("ordered", "waits", "silent", "runs"))
    assert (ordered["state"], ordered["queue_s"], ordered["job"]) == (RunState.STARTING, 80.0, None)
    assert (waits["state"], waits["job"]) == (RunState.PENDING, "job-waits")
    assert waits["reason"] == "Priority"
    assert (waits["elapsed_s"], waits["gpu_count"]) == (0.0, 2)
    assert (silent["state"], shown_target(silent)) == (RunState.UNREACHABLE, "ssh:gpu1")
    assert (silent["reason"], silent["hint"]) == ("no route to host", "type: ssh gpu1")
    assert (silent["unreachable_since"], silent["place"], silent["launcher"]) == (NOW - 60, "gpu1", "ssh")
    assert (runs["node"], runs["place"]) == ("n3", "slurm")
    assert (waits["queue_s"], runs["queue_s"]) == (80.0, 80.0)
    write_json(runs_dir.runner, {"started": NOW - 50, "started_boot": 1.0, "boot_id": "there"})
    runs = account.lines()["runs"]
    assert (runs["queue_s"], runs["elapsed_s"]) == (30.0, 50.0)


@pytest.mark.system
def test_a_campaign(account: Account, campaign: Callable[..., Made], monkeypatch: pytest.MonkeyPatch) -> None:
    made = campaign(prefix="autoresearch/20261121-sort")
    made.idea("lr-up", overrides={"lr": 0.2})
    made.run("lr-up", 0.6)
    folder = Path(os.environ["XDG_STATE_HOME"]) / "autoresearch/campaigns"
    record = {"name": made.spec.name, "directory": str(made.place.path), "started_in": made.spec.repository}
    folder.mkdir(parents=True)
    write_json(folder / "one.json", record | {"created": NOW})
    account.hold(made.place.lock)
    assert account.look()["campaigns"] == []  # of another project
    monkeypatch.chdir(made.spec.repository)
    (line,) = account.look()["campaigns"]
    assert (line["campaign"], line["state"]) == ("20261121-sort", "running")
    assert (line["attempted"], line["remaining"], line["best"], line["best_value"]) == (2, 10, "lr-up", 0.6)
    assert made.spec.rules.deadline and line["remaining_s"] == pytest.approx(made.spec.rules.deadline - NOW)
    made.idea("lr-more")
    made.run("lr-more", 0.7)
    (line,) = account.look()["campaigns"]
    assert (line["attempted"], line["best"]) == (3, "lr-more")
    made.place.events.write_bytes(made.place.events.read_bytes().replace(b'"do": "idea"', b'"do": "ideb"', 1))
    (line,) = account.look()["campaigns"]
    assert line["state"] == "unknown" and "damaged" in line["reason"]


def test_gpus_are_asked_for_only_where_a_run_has_one(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    two = (Gpu(0, "GPU-0", "H", 80000, 31 * 1024), Gpu(1, "GPU-1", "H", 80000, 0))

    def find(timeout_s: float) -> tuple[Gpu, ...]:
        asked.append(timeout_s)
        return two[: len(asked) - 1]

    monkeypatch.setattr("autoresearch.launchers.gpus.find", find)
    assert account.look()["runs"] == [] and not asked
    account.run("a-1", gpus=("GPU-0",))
    (line,) = account.look()["runs"]  # the driver did not answer
    assert (line["gpus"], line["gpu_indices"]) == (["GPU-0"], [None]) and line["gpu_count"] == 1
    account.look()
    (line,) = account.look()["runs"]
    assert line["gpu_indices"] == [0] and max(asked) <= 5.0


@pytest.mark.system
def test_runs_that_ended(account: Account, lived: Made) -> None:
    for name in ("gone", "half"):
        account.run(name, lives=False)
        account.index.discard_live(name)
    (account.root / "runs/gone/spec.json").unlink()
    account.run("alive")
    found = account.look(ended=5)
    assert [line["run"] for line in found["runs"]] == ["alive"]
    assert {line["run"]: bool(line["trouble"]) for line in found["ended"]} == {"gone": True, "half": True}
    assert account.look(ended=1)["ended"][0]["run"] == "half" and account.look()["ended"] == []


def test_how_a_run_ended_is_told_without_what_a_terminal_obeys(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    rundir = account.run("coloured", lives=False)
    account.index.discard_live("coloured")
    end = ExitRecord("coloured", Ending.LAUNCH_FAILED, "its last words: \x1b[31mpython: not found\x1b[2J")
    row = LedgerRow(1, status=Verdict.CRASH)
    found = Outcome(rundir, recorded_run.read(rundir), end, row, rundir.path / "results.md")
    monkeypatch.setattr("autoresearch.records.recorded_run.Outcome.load", lambda _: found)
    assert [line["reason"] for line in account.look(ended=1)["ended"]] == ["its last words: python: not found"]


# ------------------------------------------------------------------------------------------ what is damaged


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": 3}', "\x00\xff", '{"limits": {"max_s": "x"}}'])
@pytest.mark.parametrize("name", ["spec.json", "order.json", "observed.json", "runner.json", "events.jsonl"])
def test_no_damaged_file_keeps_the_others_from_being_seen(account: Account, name: str, text: str) -> None:
    rundir = (
        account.far("bad", "pending", reason="x") if name in ("order.json", "observed.json") else account.run("bad")
    )
    account.run("good")
    (rundir.path / name).write_text(text)
    found = account.lines()
    assert found["good"]["state"] == RunState.RUNNING and not found["good"]["trouble"]
    assert found["bad"]["run"] == "bad"
    if name in ("spec.json", "order.json"):
        assert found["bad"]["trouble"]


@pytest.mark.parametrize("seen", [{"state": "dancing"}, {"since": "x"}, {"reason": 5}, {"t": None, "node": []}])
def test_an_observation_that_makes_no_sense(account: Account, seen: dict[str, Any]) -> None:
    rundir = account.far("bad", "pending")
    write_json(rundir.observed, {"state": "pending", "t": NOW, "since": NOW} | seen)
    assert account.lines()["bad"]["state"] in (RunState.PENDING, RunState.RUNNING)


def test_a_run_directory_that_goes_while_one_looks(account: Account) -> None:
    rundir = account.run("a-1")
    account.run("b-1")
    found = [Adopted(entry, RunState.RUNNING, None) for entry in account.index.live()]
    for path in rundir.path.iterdir():
        path.unlink()
    rundir.path.rmdir()
    lines = {line["run"]: line["trouble"] for line in look(account.parts, found)["runs"]}
    assert lines.keys() == {"a-1", "b-1"} and lines["a-1"] and not lines["b-1"]


def test_a_run_that_cannot_be_recorded_says_why(account: Account) -> None:
    account.run("a-1", lives=False)
    (entry,) = account.index.live()
    (line,) = look(account.parts, [Adopted(entry, RunState.DEAD, None, "the disk is full")])["runs"]
    assert (line["state"], line["metric_name"]) == (RunState.DEAD, METRIC)
    assert line["trouble"] == "not recorded: the disk is full"


def test_a_run_that_was_removed_while_it_ran(account: Account) -> None:
    rundir = account.run("a-1")
    rundir.spec.unlink()
    (entry,) = account.index.live()
    (line,) = look(account.parts, [Adopted(entry, RunState.ENDED, None, deleted=True)])["runs"]
    assert (line["ending"], line["verdict"], line["trouble"]) == ("lost", "crash", None) and "removed" in line["reason"]


# ------------------------------------------------------------------------------------------ of a log


def test_a_log_is_read_from_its_end_and_anew_where_another_took_its_place(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    filler = "noise " * 20 + "\n"
    log.write_text(step(1) + filler * (3 * TAIL_BYTES // len(filler)) + step(7))
    readings = LiveReadings(log, SimpleNamespace(trainer="verl", lines=(), metric_keys=()))  # type: ignore[arg-type]
    readings.update()
    assert readings.step and readings.step.step == 7
    log.write_text(step(3))  # another file in its place, and a shorter one
    readings.update()
    assert readings.step.step == 3


def test_what_an_expression_has_come_to_by_a_metric_that_only_a_file_holds(account: Account) -> None:
    metrics = account.root / "metrics.jsonl"
    objective = Objective(f"max({METRIC})", Direction.MAXIMIZE)
    rundir = account.run("a-1", sources=(Source(SourceFormat.JSONL, str(metrics)),), objective=objective)
    rundir.log.write_text(step(1))
    metrics.write_text("".join(json.dumps({"step": n, "data": {METRIC: 0.25 / (n + 1)}}) + "\n" for n in (0, 1)))
    line = account.lines()["a-1"]
    assert (line["metric_name"], line["metric_value"]) == (f"max({METRIC})", 0.25)


def test_the_clock_of_this_boot_counts(account: Account) -> None:
    rundir = account.run("a-1")
    boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    write_json(rundir.runner, {"pid": 1, "started": 5.0, "started_boot": boot - 50, "boot_id": boot_id()})
    assert account.lines()["a-1"]["elapsed_s"] == pytest.approx(50, abs=30)
