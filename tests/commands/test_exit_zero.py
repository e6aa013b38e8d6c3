"""Runs whose exit code says something else than their training: 0 of one that failed, a stall of one that was over."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

CASES = Path(__file__).parents[1] / "samples/first_contact"
STEPS = 'for s in range(1, 6): print(f"step {s} reward {s * .1:.2f}", flush=True)\n'
DIES = "raise RuntimeError('no more')\n"


def ran(bench: Any, script: str, command: str, metric: str = "reward", check: int | None = None, *args: str) -> Any:
    (bench.repo / "train.py").write_text(script)
    notes = f"- metric: {metric}\n- direction: {'minimize' if metric == 'loss' else 'maximize'}"
    path = bench.unknown("", notes=notes)
    path.write_text(path.read_text().replace("python odd.py", command))
    return bench.ask("run", path, *args, check=check)


@pytest.mark.parametrize("command", ["bash run.sh", "python train.py; echo done", "python train.py || true"])
def test_a_traceback_that_is_the_last_word_is_a_crash(bench: Any, command: str) -> None:
    shutil.copy(CASES / "exit0-after-traceback/run.sh", bench.repo)
    done = ran(bench, (CASES / "exit0-after-traceback/train.py").read_text(), command, check=10)
    assert (done["ending"], done["verdict"], done["returncode"]) == ("finished", "crash", 0)
    assert "illegal memory access" in done["failure_line"]
    if "||" not in command:
        checked = bench.ask("blueprint", "check", bench.repo / "odd.md")
        assert "hidden_exit_code" in {one["code"] for one in checked["findings"]}


GOES_ON = {
    "steps behind it": "import traceback\ntry: raise KeyError(1)\nexcept KeyError: traceback.print_exc()\n" + STEPS,
    "the end behind it": STEPS + "import traceback\ntry: raise OSError(1)\nexcept OSError: traceback.print_exc()\n"
    "print('Training finished.')\n",
    "a thread's": STEPS + "import threading\nt = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()\n",
    "an object's end": STEPS + "class A:\n    def __del__(self): 1 / 0\na = A()\ndel a\n",
    "a logger's": STEPS + "import logging\nlogging.error('%d', 'x')\n",
}


@pytest.mark.parametrize("script", GOES_ON.values(), ids=list(GOES_ON))
def test_other_tracebacks_are_none(bench: Any, script: str) -> None:
    done = ran(bench, script, "python train.py")
    assert (done["verdict"], done["failure"]) == ("keep", None), done


def test_steps_that_stop_short_of_their_total(bench: Any) -> None:
    script = 'for s in range(1, 4): print(f"step {s}/10 reward {s * .1:.2f}", flush=True)\n'
    done = ran(bench, script + "import os; os._exit(9)\n", "python train.py; echo done", check=10)
    assert (done["verdict"], done["failure"]) == ("crash", "ended_early")
    assert done["failure_line"] == "step 3/10 reward 0.30"
    assert ran(bench, script, "python train.py")["verdict"] == "keep", "its own exit code says that it ended well"


@pytest.mark.waits
def test_a_launcher_that_returns_while_its_training_runs(bench: Any) -> None:
    done = ran(bench, (CASES / "daemon-keep/train.py").read_text(), "python train.py", check=10)
    assert (done["verdict"], done["failure"]) == ("crash", "left_training")
    assert "while what it started was still printing steps" in done["failure_line"]


def test_what_else_is_left_behind_is_ended_and_no_failure(bench: Any) -> None:
    script = STEPS + "import subprocess\nsubprocess.Popen(['sleep', '600'])\n"
    assert ran(bench, script, "python train.py")["verdict"] == "keep"


FORMATS = {
    "pairs": "step {s} loss {v}",
    "key=value": "step={s} loss={v} lr=0.1",
    "JSON": '{{"step": {s}, "loss": {V}}}',
    "dict": "{{'loss': {v}, 'epoch': {s}}}",
    "verl": "step:{s} - actor/pg_loss:{v} - loss:{v}",
    "colons": "step: {s} loss: {v}",
    "infinite": "step {s} loss {i}",
    "minus infinite": "step: {s}, loss: -{i}",
    "bar": " {s}0%|███   | {s}/10 [00:01<00:02, 1.0it/s, loss={v}]",
    "total": "[{s}/5] loss: {V}",
}


@pytest.mark.parametrize("line", FORMATS.values(), ids=list(FORMATS))
def test_a_loss_that_is_no_number_is_a_divergence(bench: Any, line: str) -> None:
    lines = [
        line.format(s=s, v="nan" if s > 3 else 1 / s, V="NaN" if s > 3 else 1 / s, i="inf" if s > 3 else 1 / s)
        for s in range(1, 6)
    ]
    done = ran(bench, f"print({chr(10).join(lines)!r}, flush=True)\n", "python train.py", "loss", check=None)
    assert (done["verdict"], done["failure"]) == ("crash", "diverged"), done
    assert "learning rate" in str(bench.ask("explain", done["run"])["try"])


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        ("step {s} reward 0.{s} number of nan iterations: {m}", "diverged"),
        ("step:{s} - actor/entropy:{v} - reward:0.{s}", "diverged"),
        ("step {s} reward 0.{s} completions/mean_length {v}", None),
        ("step {s} reward 0.{s} INFO nano nan_to_num", None),
    ],
)
def test_a_policy_that_is_no_number(bench: Any, line: str, failure: str | None) -> None:
    lines = [line.format(s=s, v="nan" if s > 3 else 0.1, m=int(s > 3)) for s in range(1, 6)]
    assert ran(bench, f"print({chr(10).join(lines)!r}, flush=True)\n", "python train.py")["failure"] == failure


HANG = "import time\ntime.sleep(600)\n"
STALLS = ("--stall-timeout", "2s", "--grace", "60s")


@pytest.mark.waits
def test_a_training_that_is_over_and_then_hangs_is_measured_and_flagged(bench: Any) -> None:
    done = ran(bench, (CASES / "hang-after-end/train.py").read_text(), "python train.py", "reward", 0, *STALLS)
    assert (done["ending"], done["verdict"], done["metrics"]["reward"]) == ("stalled", "keep", 0.5)
    assert any("hung until the stall limit" in text for text in done["warnings"])
    (row,) = bench.ask("ledger", "show", done["run"])["rows"]
    assert (row["status"], row["ending"]) == ("keep", "stalled")
    assert "hung until the stall limit" in row["flags"]


BEFORE_THE_END = {
    "nothing said": STEPS,
    "a checkpoint": STEPS + "print('saved model to ckpt', flush=True)\n",
    "an epoch": STEPS + "print('Training epoch 5 completed in 3 s', flush=True)\n",
    "of ten steps": STEPS.replace("{s}", "{s}/10") + "print('Training finished', flush=True)\n",
    "another step": "print('Training finished')\n" + STEPS,
}


@pytest.mark.waits
@pytest.mark.parametrize("script", BEFORE_THE_END.values(), ids=list(BEFORE_THE_END))
def test_a_hang_before_the_end_is_a_crash(bench: Any, script: str) -> None:
    done = ran(bench, script + HANG, "python train.py", "reward", 10, *STALLS)
    assert (done["ending"], done["verdict"], done["failure"]) == ("stalled", "crash", "hang")
