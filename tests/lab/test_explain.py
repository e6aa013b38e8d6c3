"""Hung or exited, and what killed it: from the records of runs that are over."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autoresearch.core.diagnosis.failure import Diagnosis
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.ending import HUNG_AFTER_END, Ending
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Trainer
from autoresearch.lab.results.diagnosis import diagnose
from autoresearch.lab.results.explain import Explanation, explain_run
from autoresearch.lab.results.finished_run import examine
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.recorded_run import FinishedRun, RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.trainers import registry
from tests.specs import run_spec

T = 1_790_000_000.0
VERL = registry.by_name("verl")
STEPS = "step:1 - actor/pg_loss:0.1 - actor/kl_loss:0.001\nstep:2 - actor/pg_loss:0.1 - actor/kl_loss:0.001\n"


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 80 GiB\n"


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    """A run in a directory of its own."""
    (tmp_path / "run").mkdir()
    return run_spec(
        "sort-aaaaaa",
        tmp_path / "run",
        slug="sort",
        trainer="verl",
        result_dir=str(tmp_path),
        created=T,
        signals=VERL.signals(),
    )


def end(ending: Ending, **more: object) -> ExitRecord:
    return replace(ExitRecord("sort-aaaaaa", ending, "because", started=T, ended=T + 900, duration_s=900), **more)


def explained(
    spec: RunSpec, record: ExitRecord | None, *happened: tuple[float, str, dict[str, object]]
) -> Explanation:
    """What is said of a run with these events (seconds, word, fields)."""
    rundir = RunDir(Path(spec.run_dir))
    lines = [json.dumps({"t": T + s, "s": s, "event": word, "text": word, **more}) for s, word, more in happened]
    rundir.events.write_text("".join(line + "\n" for line in lines))
    if not rundir.log.exists():
        rundir.log.write_text(STEPS)
    return explain_run(RecordedRun(rundir, spec), record, VERL, 5)


def diagnosed(spec: RunSpec, record: ExitRecord, trainer: Trainer) -> Diagnosis:
    return diagnose(FinishedRun(RunDir(Path(spec.run_dir)), spec, record), trainer)


LIMIT = (900.0, "limit", {"limit": "stalled", "limit_s": 300.0})
STOPPING = (900.0, "stopping", {})


def test_no_first_step(spec: RunSpec) -> None:
    found = explained(spec, end(Ending.FIRST_STEP_TIMEOUT), STOPPING)
    assert found.diagnosis.cause is None and any("--first-step-timeout" in text for text in found.tries)


STALL = (600.0, "stall", {"silent_s": 60.0})
RESUMED = (700.0, "resumed", {})


@pytest.mark.parametrize(
    ("record", "happened", "how"),
    [
        (end(Ending.CRASHED, returncode=1), (), "it exited by itself: because"),
        (end(Ending.FINISHED, returncode=0), (), "it exited by itself: because"),
        (end(Ending.CRASHED, returncode=137, signal=9), (), "it did not end by itself: because"),
        (end(Ending.STOPPED, returncode=143), (), "it was stopped: because"),
        (end(Ending.LOST), (), "how it ended is not known: because"),
        (end(Ending.LAUNCH_FAILED), (), "it never started: because"),
        (end(Ending.STALLED), (LIMIT, STOPPING), "it did not end by itself: because"),
        (end(Ending.MAX_TIME), (STOPPING,), "it did not end by itself: because; it was getting on until then"),
        (
            *(end(Ending.MAX_TIME), (STALL, STOPPING)),
            "it did not end by itself: because; it hung, without a signal for 6 minutes",
        ),
        (
            *(end(Ending.MAX_TIME), (STALL, RESUMED, STOPPING)),
            "it did not end by itself: because; it was getting on until then",
        ),
        (None, (), "it is running"),
        (None, (STALL,), "it is running, but had given no signal for 1 minute when that was noticed"),
    ],
)
def test_how_it_ended(
    spec: RunSpec, record: ExitRecord | None, happened: tuple[tuple[float, str, dict[str, object]], ...], how: str
) -> None:
    found = explained(spec, record, *happened)
    assert found.how == how
    cause = found.diagnosis.cause
    assert (cause.kind if cause else "") == ("hang" if record and record.ending is Ending.STALLED else "")


@pytest.mark.parametrize("ending", [Ending.MAX_TIME, Ending.STOPPED])
def test_what_stopped_a_run_hours_before_it_was_cut(spec: RunSpec, ending: Ending) -> None:
    RunDir(Path(spec.run_dir)).log.write_text(STEPS + OOM)
    stall = (600.0, "stall", {"silent_s": 60.0})
    cause = explained(spec, end(ending), stall, STOPPING).diagnosis.cause
    assert cause is not None and cause.kind == "memory"
    going_on = (700.0, "resumed", {})
    assert explained(spec, end(ending), stall, going_on, STOPPING).diagnosis.cause is None
    assert explained(spec, end(Ending.FINISHED), stall).diagnosis.cause is None


ENGINE_GOES = "[swarm] error server_died: the server ended\nvllm.EngineDeadError: EngineCore encountered an issue.\n"


def test_what_follows_our_own_decision_is_its_consequence(spec: RunSpec) -> None:
    """A server that goes with its run is no reason for the run's end, and nobody outside sent the signal."""
    RunDir(Path(spec.run_dir)).log.write_text(STEPS + ENGINE_GOES)
    ours = {"returncode": 143, "signal": 15, "log_bytes_at_stop": len(STEPS)}
    for ending in (Ending.FIRST_STEP_TIMEOUT, Ending.MAX_TIME, Ending.STOPPED):
        found = explained(spec, end(ending, **ours), (600.0, "stall", {"silent_s": 60.0}), STOPPING)
        assert found.diagnosis.cause is None
        assert not any("outside" in text for text in found.tries)
    lost = explained(spec, end(Ending.LOST, cause="runner_died"))
    assert lost.diagnosis.cause is None
    assert any("the Runner" in text for text in lost.tries)
    crashed = explained(spec, end(Ending.CRASHED, returncode=1))
    assert crashed.diagnosis.cause is not None and crashed.diagnosis.cause.kind == "unknown"
    assert crashed.diagnosis.cause.is_sign


def test_what_a_signal_suggests(spec: RunSpec) -> None:
    assert "out-of-memory" in explained(spec, end(Ending.CRASHED, returncode=137, signal=9)).tries[0]
    assert "out-of-memory" in explained(spec, end(Ending.CRASHED, returncode=137)).tries[0]  # a shell said so
    assert explained(spec, end(Ending.FINISHED, returncode=0)).tries == ()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("(Runner pid=7) ❌ Error in async loop: CUDA out of memory. Tried to allocate 2.00 GiB", "memory"),
        ("❌ Error in async PPO loop: boom", "unknown"),
        ("I saw: ❌ Error in async loop: boom", None),
        ("ValueError: boom", None),  # some print what they caught, and end well
    ],
)
def test_a_trainer_that_exits_with_0_and_says_that_it_crashed(spec: RunSpec, line: str, kind: str | None) -> None:
    nemo = registry.by_name("nemo_rl")
    log = Path(spec.run_dir) / "run.log"
    log.write_text(f"===== Step 1/3 =====\n📊 Training Results:\n  • Loss: 1\n{line}\nAsync GRPO training complete!\n")
    cause = diagnosed(replace(spec, signals=nemo.signals()), end(Ending.FINISHED, returncode=0), nemo).cause
    assert (cause and cause.kind.value) == kind
    assert diagnosed(spec, end(Ending.FINISHED, returncode=0), VERL).cause is None


STEP_LINES = "".join(f"step {s} reward 0.{s}\n" for s in range(1, 6))
RAISED = 'Traceback (most recent call last):\n  File "train.py", line 5, in main\n    go()\nOSError: 1\n'
THREAD = "Exception in thread Thread-1 (f):\n" + RAISED
IGNORED = "Exception ignored in: <function A.__del__ at 0x7f>\n" + RAISED
LOGGED = "--- Logging error ---\n" + RAISED + "Call stack:\n  File \"train.py\", line 9, in <module>\nMessage: '%d'\n"


def ended(spec: RunSpec, ending: Ending, log: str, metric: str = "reward") -> str | None:
    """What is said to have failed in a run of an unknown trainer with this log."""
    RunDir(Path(spec.run_dir)).log.write_text(log)
    lone = replace(spec, trainer="generic", signals=(), objective=Objective(metric))
    record = end(ending, returncode=0 if ending is Ending.FINISHED else 143, steps_seen=5)
    cause = examine(FinishedRun(RunDir(Path(spec.run_dir)), lone, record), in_campaign=False).failure
    return f"{cause.kind.value} {cause.note}".strip() if cause else None


@pytest.mark.parametrize(
    ("log", "failure"),
    [
        (STEP_LINES + RAISED, "program"),
        (RAISED + STEP_LINES, None),
        (STEP_LINES + RAISED + "Training finished.\n", None),
        *((STEP_LINES + printed, None) for printed in (THREAD, IGNORED, LOGGED)),
    ],
)
def test_a_traceback_is_a_failure_of_a_run_that_exits_with_0_only_as_its_last_word(
    spec: RunSpec, log: str, failure: str | None
) -> None:
    assert ended(spec, Ending.FINISHED, log) == failure


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        *((line, "diverged") for line in ("step {s} loss {v}", "step={s} loss={v} lr=0.1", "[{s}/5] loss: {V}")),
        *((line, "diverged") for line in ('{{"step": {s}, "loss": {V}}}', "{{'loss': {v}, 'epoch': {s}}}")),
        *((line, "diverged") for line in ("step:{s} - actor/pg_loss:{v} - loss:{v}", "step: {s} loss: {v}")),
        *((line, "diverged") for line in ("step {s} loss {i}", "step: {s}, loss: -{i}")),
        (" {s}0%|███   | {s}/10 [00:01<00:02, 1.0it/s, loss={v}]", "diverged"),
        ("step:{s} - actor/entropy:{v} - loss:0.{s}", "diverged"),
        ("step {s} loss 0.{s} completions/mean_length {v}", None),
        ("step {s} loss 0.{s} INFO nano nan_to_num", None),
    ],
)
def test_a_loss_or_a_policy_that_is_no_number(spec: RunSpec, line: str, failure: str | None) -> None:
    bad = {"v": "nan", "V": "NaN", "i": "inf"}
    good = {"v": 0.1, "V": 0.1, "i": 0.1}
    lines = [line.format(s=s, **(bad if s > 3 else good)) + "\n" for s in range(1, 6)]
    assert ended(spec, Ending.FINISHED, "".join(lines), "loss") == failure


@pytest.mark.parametrize(
    ("log", "failure"),
    [
        (STEP_LINES + "Training finished\n", f"hang {HUNG_AFTER_END}"),
        (STEP_LINES, "hang"),
        (STEP_LINES + "saved model to ckpt\n", "hang"),
        (STEP_LINES + "Training epoch 5 completed in 3 s\n", "hang"),
        (STEP_LINES.replace(" reward", "/10 reward") + "Training finished\n", "hang"),
        ("Training finished\n" + STEP_LINES, "hang"),
    ],
)
def test_a_hang_after_the_end_and_before_it(spec: RunSpec, log: str, failure: str) -> None:
    assert ended(spec, Ending.STALLED, log) == failure
