"""Metrics that a run writes into files that nobody names: what counts before the rounded log, and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoresearch.lab.campaign_report.curves_and_diffs import read_again
from autoresearch.records.rundir import RunDir
from tests.commands.rows import ledger_rows

pytestmark = pytest.mark.system

# As a CSV logger does: a row for training, one for validation, with empty cells, and a new directory for each run.
LIGHTNING = """
import os, random
draws = random.Random(os.environ.get("AUTORESEARCH_SEED", "0"))
home = f"logs/version_{len(os.listdir('logs')) if os.path.isdir('logs') else 0}"
os.makedirs(home)
with open(f"{home}/metrics.csv", "w") as file:
    print("epoch,step,train/loss,val/loss", file=file)
    for n in range(3):
        loss = 1 / (n + 2) + draws.gauss(0, 1e-5)
        print(f"{n},{10 * n + 4},{loss * 2:.17g},", file=file)
        print(f"{n},{10 * n + 9},,{loss:.17g}", file=file)
        print(f"epoch {n} val_loss {loss:.3f}", flush=True)
"""

# Its console is silent, and another script says how good it is: a coarse number, which several seeds share.
EVALUATED = """
import json, os, random
draws = random.Random(os.environ.get("AUTORESEARCH_SEED", "0"))
os.makedirs("outputs/a/b")
with open("outputs/a/b/metrics.jsonl", "w") as file:
    for n in range(30):
        print(json.dumps({"step": n, "loss": 1 / (n + 2) + draws.gauss(0, 1e-3), "grad_norm": 3 + n / 10}), file=file)
"""
EVALUATION = "import json\njson.dump({'accuracy': 0.5}, open('scores.json', 'w'))\nprint('accuracy: 0.5')\n"


def test_what_the_run_wrote_has_every_digit(bench: Any) -> None:
    (bench.repo / "logs").mkdir()
    ran = bench.ask("run", bench.unknown(LIGHTNING, metric="val_loss"))
    value = ran["metrics"]["val_loss"]
    assert round(value, 3) == 0.25 != value and ran["warnings"] == []
    assert ran["metrics"]["step"] == 29
    found = bench.ask("metrics", ran["run"])
    assert found["source"] == f"{bench.repo}/logs/version_0/metrics.csv" and found["metric_value"] == value
    again = bench.ask("run", bench.unknown(LIGHTNING.replace("1e-5", "2e-5"), metric="val_loss"))
    assert bench.ask("metrics", again["run"])["source"].endswith("version_1/metrics.csv")
    old = bench.ask("metrics", ran["run"])
    assert old["metric_value"] == value, "a later run's file is not its own"


def test_a_file_that_was_there_has_the_rows_of_earlier_runs(bench: Any) -> None:
    (bench.repo / "metrics.csv").write_text("step,val_loss\n" + "".join(f"{n},0.1\n" for n in range(9)))
    text = "file = open('metrics.csv', 'a')\nfor n in range(3): print(f'{n},{1 / (n + 3):.9f}', file=file)\n"
    ran = bench.ask("run", bench.unknown(text, metric="val_loss"))
    assert ran["metrics"]["val_loss"] == 0.2 and ran["metrics"]["step"] == 2


def test_a_file_with_other_numbers_by_that_name_is_not_the_one_and_it_is_said(bench: Any) -> None:
    other = LIGHTNING.replace("{loss:.17g}", "{loss + 0.3:.17g}")
    (bench.repo / "logs").mkdir()
    ran = bench.ask("run", bench.unknown(other, metric="val_loss"))
    assert ran["metrics"]["val_loss"] == 0.25
    (doubt,) = ran["warnings"]
    assert "version_0/metrics.csv is not what the log has, which counts" in doubt


def test_two_files_that_differ_are_named_and_neither_is_taken(bench: Any) -> None:
    row = '{"step": 1, "val_loss": 0.%d}\n'
    text = f"for name in 'ab': open(name + '.jsonl', 'w').write({row!r} % ord(name))"
    ran = bench.ask("run", bench.unknown(text, metric="val_loss"), check=None)
    (doubt,) = [one for one in ran["warnings"] if "differ" in one]
    assert "a.jsonl and" in doubt and "`- source:`" in doubt and ran["metrics"]["val_loss"] is None


@pytest.mark.parametrize("notes", ["", "- source: tensorboard runs"])
def test_event_files_of_the_run_are_found_in_directories_of_their_own(bench: Any, notes: str) -> None:
    sample = next((Path(__file__).parents[1] / "samples/metrics/tensorboard").rglob("*tfevents*"))
    old = bench.repo / "runs" / "old"
    old.mkdir(parents=True)
    text = f"import os, shutil\nos.makedirs('runs/new')\nshutil.copyfile({str(sample)!r}, 'runs/new/{sample.name}')"
    ran = bench.ask("run", bench.unknown(text, metric="val-core/openai/gsm8k/acc/mean@1", notes=notes))
    found = bench.ask("metrics", ran["run"])
    assert found["source_kind"] == "tensorboard" and ran["metrics"]["val-core/openai/gsm8k/acc/mean@1"] is not None
    assert not any("was not written" in one for one in found["warnings"])
    other = bench.ask("metrics", ran["run"], "--metric", "critic/rewards/mean")
    assert other["source_kind"] == "tensorboard" and other["metric_value"] == 0.75


def test_a_campaign_judges_seeds_by_it_and_reads_it_again_where_it_is_kept(undrawn: Any) -> None:
    bench = undrawn
    (bench.repo / "train.py").write_text(LIGHTNING)
    bench.git("add", "-A")
    bench.git("commit", "-qm", "a script")
    _, out, err = bench.here("prove", "--json", "--metric", "val_loss", "--", "python train.py", "python  train.py")
    found = json.loads(out)
    rows = ledger_rows(found["ledger"])
    values = {row["metric_value"] for row in rows}
    assert len(values) > 2 and {round(float(value), 3) for value in values} == {0.25}, err
    assert "same seed" not in err + found["sentence"]
    kept = RunDir(Path(rows[0]["run_dir"]))
    assert (kept.outputs / "logs/version_0/metrics.csv").is_file()
    assert read_again(str(kept.path), ended=True).last == (29, float(rows[0]["metric_value"]))


def test_a_run_that_prints_nothing_shows_what_it_wrote(bench: Any) -> None:
    text = "import json\nfor n in 1, 2: print(json.dumps({'step': n, 'fold' + 'edness': n}), file=open('m.jsonl', 'a'))"
    ran = bench.ask("run", bench.unknown(text))
    found = bench.ask("metrics", ran["run"])
    assert found["source_kind"] == "jsonl" and found["steps"][-1]["metrics"] == {"foldedness": 2.0}


def test_of_large_files_nothing_is_read(bench: Any) -> None:
    text = """
    for name, value, size in (("small", 0.1, 0), ("large", 0.2, 40 << 20)):
        with open(f"{name}.csv", "w") as file:
            print(f"val_loss\\n{value}", file=file, flush=True)
            file.truncate(max(size, file.tell()))
    """
    ran = bench.ask("run", bench.unknown(text, metric="val_loss"))
    assert ran["metrics"]["val_loss"] == 0.1 and ran["warnings"] == []


@pytest.mark.parametrize("log", ["", "print('step 1 lr 0.1\\nstep 2 lr 0.1\\nstep 3 lr 0.1')\n"])
def test_of_an_evaluated_run_it_is_read_too(bench: Any, log: str) -> None:
    (bench.repo / "score.py").write_text(EVALUATION)
    notes = "- evaluate: python score.py\n- constraint: grad_norm <= 5"
    ran = bench.ask("run", bench.unknown(log + EVALUATED, metric="accuracy", notes=notes), check=None)
    assert ran["warnings"] == []
    assert ran["failure_line"] == "grad_norm is 5.9, and the constraint is grad_norm <= 5"
    found = bench.ask("metrics", ran["run"])
    assert found["source"].endswith("evaluation.log") and found["metric_value"] == 0.5
    assert len(found["steps"]) == 30 and "loss" in found["steps"][0]["metrics"]
    assert "scores.json" not in json.dumps(found), "what the evaluation wrote is not the training's"
