"""Runs of a trainer that nobody knows: what ends them, and what is thought of one that ended by itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.commands.rows import ledger_rows

pytestmark = pytest.mark.system

SINCE = "recognised from the output; before it, a run that prints nothing new"
WRITTEN = "after the start if no step is recognised from the output, whatever is printed"


def rule(bench: Any, path: Path, *flags: object, **env: str) -> str:
    """What the plan says of the first step."""
    return str(bench.ask("run", path, "--dry-run", *flags, **env)["limits"]["first_step_rule"])


KNOWN = "ended 20 minutes after the start if there is no first step; boot and validation may add 2 hours"
STRICT = "ended 5 minutes after the start if there is no first step, whatever the run is doing"
FROM_HERE = {"AUTORESEARCH_FIRST_STEP_TIMEOUT": "7m"}


@pytest.mark.parametrize(
    ("values", "flags", "environment", "expected"),
    [
        ({}, (), {}, f"{SINCE} for 20 minutes is ended"),
        ({}, (), FROM_HERE, f"{SINCE} for 7 minutes is ended"),  # of the environment or the project: a default
        ({}, ("--first-step-timeout", "9m"), {}, f"ended 9 minutes {WRITTEN}"),  # enforced as written
        ({"first_step": "6 minutes"}, (), FROM_HERE, f"ended 6 minutes {WRITTEN}"),
        ({"notes": "- step_line: pairs it"}, (), {}, KNOWN),
        ({"notes": "- trainer: verl"}, (), {}, KNOWN),
        ({"notes": "- trainer: verl"}, ("--first-step-timeout", "5m"), {}, STRICT),
        ({"notes": "- validation_line: pairs it"}, (), {}, f"{SINCE} for 20 minutes is ended"),
    ],
)
def test_check_and_plan_say_what_ends_it(
    bench: Any, values: dict[str, str], flags: tuple[str, ...], environment: dict[str, str], expected: str
) -> None:
    path = bench.unknown("print('hello')", **values)
    assert rule(bench, path, *flags, **environment) == expected
    if not flags:
        assert bench.ask("blueprint", "check", path, **environment)["limits"]["first_step_rule"] == expected
        assert f"first step: {expected}" in bench.here("blueprint", "check", path, **environment)[1]


def test_a_new_blueprint_leaves_the_first_step_to_the_default(bench: Any) -> None:
    (bench.repo / "x.py").touch()
    bench.ask("blueprint", "new", "new.md", "--purpose", "p", "--command", "python x.py", "--max-time", "10m")
    checked = bench.ask("blueprint", "check", "new.md")
    assert checked["limits"]["first_step_rule"] == f"{SINCE} for 20 minutes is ended"


def test_it_lives_as_long_as_it_prints_and_nothing_was_measured(bench: Any) -> None:
    path = bench.unknown("import time\nfor n in range(30):\n    print('all well', n)\n    time.sleep(0.2)\n")
    code, out, err = bench.here("run", path, "--json", AUTORESEARCH_FIRST_STEP_TIMEOUT="4s")
    assert f"first step: {SINCE} for 4 seconds is ended" in err
    done = json.loads(out)
    assert (code, done["ending"], done["verdict"]) == (0, "finished", "unmeasured")
    nothing = "no metric was named, and it printed no number with a name"
    assert (done["verdict_reason"], done["exit_code"], done["metrics"]) == (nothing, 0, {})
    (row,) = ledger_rows(done["ledger"])
    assert (row["status"], row["metric_value"], row["failure"]) == ("unmeasured", "", "")
    assert row["description"] == f"See what odd does. [{nothing}]"
    assert nothing in Path(done["results"]).read_text()
    code, out, _ = bench.here("status", done["run"])
    assert (code, nothing in " ".join(out.split())) == (0, True)
    assert bench.ask("explain", done["run"])["failure"] is None


def test_an_unmeasured_run_names_the_numbers_it_printed_and_the_line_that_chooses_one(bench: Any) -> None:
    """The end of a Hydra project's run: what counts stands once in its log, in no line of a step."""
    lines = ["Epoch 0: loss=0.51", "Epoch 1: loss=0.32", "Testing done", "val/acc: 0.913", "test/acc: 0.897"]
    (bench.repo / "shown.txt").write_text("\n".join(lines) + "\n")
    script = "print(open('shown.txt').read())\n"  # no text of a program tells what it prints
    done = bench.ask("run", bench.unknown(script))
    assert (done["verdict"], done["exit_code"], done["failure"]) == ("unmeasured", 0, None)
    told = done["verdict_reason"]
    assert told.startswith("no metric was named; it printed ")
    assert {"val/acc", "test/acc"} <= set(re.findall(r"[\w/]+", told))
    (chosen,) = re.findall(r"`- metric: ([^`]*)`", told)
    again = bench.ask("run", bench.unknown(script, metric=chosen))
    assert (again["verdict"], again["metrics"][chosen] > 0.8) == ("keep", True), "what was named is read"


def test_silence_ends_it(bench: Any) -> None:
    path = bench.unknown("import time\nprint('hello')\ntime.sleep(600)\n")
    done = bench.ask("run", path, check=11, AUTORESEARCH_FIRST_STEP_TIMEOUT="2s")
    assert (done["ending"], done["verdict"]) == ("first_step_timeout", "crash")
    assert done["reason"] == "no step is known, and nothing new was printed in time (limit 2 s)"


def test_an_unread_metric_shows_the_lines_that_look_like_it(bench: Any) -> None:
    token = "hf_" + "abcdefghij" * 3
    lines = ["loading 8 shards", f"pass_at_1 for HF_TOKEN={token}: 0.41", "Pass rate 41 %", "x" * 400, "done in 3 s"]
    path = bench.unknown(f"print({chr(10).join(lines)!r})\n", metric="pass@1")
    done = bench.ask("run", path, check=13)
    assert (done["ending"], done["verdict"], done["failure"]) == ("finished", "unmeasured", "metric_unread")
    told = done["failure_line"]
    assert told.startswith("pass@1 was not read; nearest in the log: `")
    assert "`Pass rate 41 %`" in told and "`pass_at_1 for HF_TOKEN=*** 0.41`" in told
    assert token not in told and told.count("`") == 6 and len(told) < 700
    explained = bench.ask("explain", done["run"])
    assert (explained["failure"], explained["failure_line"]) == ("metric_unread", told)
    assert "Pass rate 41 %" in bench.here("status", done["run"])[1]
    assert "Pass rate 41 %" in Path(done["results"]).read_text()


def test_a_named_trainer_that_printed_no_step_is_unmeasured(bench: Any) -> None:
    path = bench.unknown("print('all done')\n", metric="task_pass_rate@1", notes="- trainer: verl")
    done = bench.ask("run", path, check=13)
    assert (done["ending"], done["verdict"], done["failure"]) == ("finished", "unmeasured", "no_step")
    assert done["failure_line"] == "verl exited with 0 and printed no training step"
    assert bench.ask("explain", done["run"])["failure"] == "no_step"


def test_a_campaign_without_a_metric_takes_the_one_score_that_a_run_printed_or_names_them(bench: Any) -> None:
    script = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float, default=0.1)
        parser.parse_args()
        for n in range(1, 5):
            print(f"round {n} | loss {1 / n:.3f} | held-out accuracy {n / 9:.3f}")
        """
    path = bench.unknown(script)
    words = ["campaign", path, "--count", 3, "--set", "space={lr: [0.2, 0.3]}"]
    assert bench.ask(*words, "--dry-run")["plan"]["objective"] == "chosen after the first baseline runs"
    run = bench.ask("run", path)["run"]
    said = bench.ask(*words, "--dry-run")["plan"]["objective"]
    assert said == f"held-out_accuracy, maximize  (none was named; run {run} printed it)"
    bench.unknown(script.replace("loss", "val_loss").replace("held-out", "val"))
    run = bench.ask("run", path)["run"]
    refused = bench.ask(*words, check=2)["error"]
    assert f"none is named; {run} printed val_loss, val_accuracy" in refused["message"]


def test_what_stands_only_in_the_last_line_of_a_run_may_be_limited_and_may_count(bench: Any) -> None:
    steps = "for n in range(1, 6):\n    print('step', n, 'latency_ms', 80.5 - n)\n"
    path = bench.unknown(f"{steps}print('latency_p50_ms=78.1 peak_mb=40.5')\n")
    run = bench.ask("run", path)["run"]
    words = ("campaign", path, "--count", 3, "--set", "space={$LR: [0.2, 0.3]}", "--dry-run")
    assert f"{run} printed latency_ms, latency_p50_ms, peak_mb" in bench.ask(*words, check=2)["error"]["message"]
    words = (*words, "--metric", "latency_p50_ms", "--direction", "minimize", "--set")
    for limited, warned in (("peak_mb", False), ("peak_gb", True)):
        remarks = bench.ask(*words, f"constraints={limited} <= 100")["remarks"]
        assert any("logged no" in one for one in remarks) is warned, remarks


@pytest.mark.parametrize("redirected", ["> $LOG_DIR/run.log 2>&1", '>> "$LOG_DIR/run.log" 2>&1', "&> $LOG_DIR/run.log"])
@pytest.mark.parametrize("crashes", [False, True])
def test_output_that_the_command_sends_into_a_file_is_read(bench: Any, redirected: str, crashes: bool) -> None:
    end = "raise RuntimeError('the sampler is gone')" if crashes else ""
    steps = "for n in range(1, 6):\n    print(f'step {n} reward {n / 10} loss {1 / n}', flush=True)\n"
    path = bench.unknown(f"{steps}{end}\n", metric="reward")
    (bench.repo / "train.sh").write_text(f'LOG_DIR=logs\nmkdir -p "$LOG_DIR"\npython odd.py {redirected}\n')
    path.write_text(path.read_text().replace("python odd.py", "bash train.sh"))
    assert "bash train.sh" in path.read_text()
    old = bench.repo / "logs/run.log"
    old.parent.mkdir()
    old.write_text("step 99 reward 0.99 of an earlier run\n")
    done = bench.ask("run", path, check=10 if crashes else 0)
    log = (Path(done["run_dir"]) / "run.log").read_text()
    assert ("step 5 reward 0.5" in log, "earlier run" in log) == (True, False)
    events = (Path(done["run_dir"]) / "events.jsonl").read_text()
    if crashes:
        assert (done["verdict"], done["failure_line"]) == ("crash", "RuntimeError: the sampler is gone")
    else:
        assert (done["verdict"], done["metrics"]["reward"]) == ("keep", 0.5)
        assert '"first_step"' in events
