"""A run that is evaluated: only what the evaluation says is judged, and what the training prints of it is not."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from autoresearch.runner.basics import is_locked
from tests.commands.rows import ledger_rows

pytestmark = pytest.mark.system

CHEAT = """
step(1)
step(2)
validation(2, 0.99)
open(os.path.join(os.environ["AUTORESEARCH_RESULT_DIR"], "weights"), "w").write("0.41")
"""
MEASURE = """
import os, time
rate = open(os.path.join(os.environ["AUTORESEARCH_RESULT_DIR"], "weights")).read()
print("loading 3 shards: 100%")
print(f"task_pass_rate@1: {rate}", flush=True)
"""


def row(payload: dict[str, Any]) -> dict[str, str]:
    (found,) = ledger_rows(payload["ledger"])
    return found


def run(bench: Any, script: str, evaluate: str, *notes: str, check: int | None = 0) -> dict[str, Any]:
    (bench.repo / "measure.py").write_text(MEASURE)
    text = "\n".join([f"- evaluate: {evaluate}", *notes])
    return dict(bench.ask("run", bench.script(script, notes=text), check=check))


def test_what_the_training_prints_is_not_judged(bench: Any) -> None:
    done = run(bench, CHEAT, "python measure.py")
    assert (done["verdict"], done["metrics"]) == ("keep", {"task_pass_rate@1": 0.41, "best": 0.41, "step": 2})
    doubt = "the training printed task_pass_rate@1 = 0.99, the evaluation measured 0.41"
    assert doubt in done["warnings"]
    found = row(done)
    assert (found["metric_value"], found["flags"], found["failure"]) == ("0.41", doubt, "")
    results = Path(done["results"]).read_text()
    assert doubt in results and "evaluation.log" in results and "0.99" in results
    shown = bench.ask("metrics", done["run"])
    assert "0.99" in json.dumps(shown) and "evaluation.log" in json.dumps(shown)


def test_what_differs_by_less_than_noise_is_no_warning(bench: Any) -> None:
    done = run(bench, CHEAT.replace("0.99", "0.42"), "python measure.py")
    assert (done["metrics"]["task_pass_rate@1"], done["warnings"], row(done)["flags"]) == (0.41, [], "")


@pytest.mark.parametrize(
    ("evaluate", "notes", "proof"),
    [
        ("python measure.py; exit 3", (), "exited with 3"),
        ("echo 'task_pass_rate@1: 0.7'; python -c 'raise ValueError(\"no shard\")'", (), "ValueError: no shard"),
        ("echo 'accuracy: 0.7'", (), "printed no task_pass_rate@1; nearest in the log: `accuracy: 0.7`"),
        ("echo begun; sleep 600", ("- evaluate_time: 1s",), "took longer than 1 s: begun"),
    ],
)
def test_one_that_fails_is_a_run_without_a_metric(
    bench: Any, evaluate: str, notes: tuple[str, ...], proof: str
) -> None:
    done = run(bench, CHEAT, evaluate, *notes, check=13)
    verdict = "unmeasured" if evaluate.startswith("echo 'accuracy") else "crash"  # the one that returned 0 itself
    assert (done["ending"], done["returncode"], done["verdict"]) == ("finished", 0, verdict)
    assert done["metrics"]["task_pass_rate@1"] is None
    assert done["failure"] == "evaluation_failed" and proof in done["failure_line"]
    found = row(done)
    assert (found["status"], found["failure"], found["metric_value"]) == (verdict, "evaluation_failed", "")
    assert "evaluation_failed" in found["description"]
    told = bench.ask("explain", done["run"], check=None)
    assert told["failure"] == "evaluation_failed" and proof in told["failure_line"]
    assert told["log_path"].endswith("evaluation.log") and told["try"]
    assert "the evaluation: " in bench.here("explain", done["run"])[1]
    bench.settled(done, "finished")


def test_the_plan_says_it_and_the_lint_looks_at_it(bench: Any) -> None:
    (bench.repo / "measure.py").write_text(MEASURE)
    path = bench.blueprint(notes="- evaluate: python measure.py\n- evaluate_time: 5m")
    plan = bench.ask("run", path, "--dry-run")
    assert (plan["evaluate"], plan["evaluate_s"]) == (["python measure.py"], 300.0)
    code, out, _ = bench.here("run", path, "--dry-run")
    assert code == 0 and "python measure.py" in out
    for note, word in (("- evaluate: pkill python", "pkill"), ("- evaluate_time: never", "never")):
        told = bench.ask("blueprint", "check", bench.blueprint(name="bad.md", notes=note), check=3)
        assert word in json.dumps(told)


def test_a_run_goes_on_being_evaluated_without_its_cli(bench: Any) -> None:
    (bench.repo / "hold.sh").write_text("touch begun; until test -e go; do sleep 0.05; done; python measure.py\n")
    begun, go = bench.repo / "begun", bench.repo / "go"
    (bench.repo / "measure.py").write_text(MEASURE)
    path = bench.script(CHEAT, notes="- evaluate: bash hold.sh")
    cli = bench.spawn("run", path)
    bench.until(begun.exists)
    cli.send_signal(signal.SIGKILL)
    cli.wait()
    (one,) = bench.ask("status")["runs"]
    assert one["state"] == "evaluating"
    again = bench.ask("run", path, "--detach")
    assert again["run"] == one["run"], "it lives, and is not begun twice"
    go.touch()
    done = bench.ask("wait", one["run"], "--for", "200s")
    assert (done["verdict"], done["metrics"]["task_pass_rate@1"]) == ("keep", 0.41)


@pytest.mark.parametrize("how", ["runner", "stop"])
def test_one_that_is_ended_in_it(bench: Any, how: str) -> None:
    path = bench.script(CHEAT, notes="- evaluate: echo 'task_pass_rate@1: 0.8'; sleep 600")
    live = bench.ask("run", path, "--detach")
    bench.event(live["run_dir"], "evaluating")
    if how == "stop":
        bench.ask("stop", live["run"], "--reason", "enough")
    else:
        os.kill(bench.runner(live["run_dir"])["pid"], signal.SIGKILL)
        bench.until(lambda: not is_locked(Path(live["run_dir"], "lock")))  # a killed process needs a moment to be dead
        bench.ask("status")
    ending = {"stop": "finished", "runner": "lost"}[how]
    bench.settled(live, ending)
    found = row(live)
    assert (found["status"], found["metric_value"]) == ("crash", "")
    if how == "stop":
        assert found["failure"] == "evaluation_failed" and "cut short" in found["description"]
