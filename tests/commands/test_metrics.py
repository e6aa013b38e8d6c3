"""`autoresearch metrics`: any log without a run, and a run whose sources disagree."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

from autoresearch import cli
from autoresearch.core.metrics.objective import Objective
from autoresearch.lab.results.measure import RunFiles
from autoresearch.trainers import registry
from tests.format_samples import HERE, Sample
from tests.format_samples import SAMPLES as LOGS_OF_PROGRAMS
from tests.specs import run_spec

SAMPLES = Path(__file__).parents[1] / "samples"
LOGS = SAMPLES / "trainer-logs"
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """The JSON object of `metrics`."""

    def asked(*args: object, code: int = 0) -> dict[str, Any]:
        found = cli.run(["metrics", *map(str, args), "--json"])
        out, err = capsys.readouterr()
        assert found == code, out + err
        return dict(json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON")))

    return asked


def steps(payload: dict[str, Any], key: str) -> dict[int, float | None]:
    return {row["step"]: row["metrics"][key] for row in payload["steps"] if key in row["metrics"]}


@pytest.mark.parametrize(
    ("name", "trainer", "counts"),
    [
        ("verl_np1.log", "verl", (1, 1)),
        ("verl_ok_np2_ray.log", "verl", (3, 1)),
        ("trl_v5_tqdm.log", "trl", (6, 2)),
        ("slime.log", "slime", (1, 1)),
        ("openrlhf.log", "openrlhf", (1, 1)),
        ("nemo_grpo.log", "nemo_rl", (2, 2)),
        ("tinygrpo.log", "tinygrpo", (4, 3)),
    ],
)
def test_any_log(ask: Ask, name: str, trainer: str, counts: tuple[int, int]) -> None:
    found = ask(LOGS / name, "--trainer", trainer)
    assert (len(found["steps"]), len(found["validations"])) == counts
    assert set(found["steps"][0]) == {"step", "metrics"} and found["steps"][0]["metrics"]
    assert (found["failure"], found["warnings"]) == (None, [])
    assert (found["source_kind"], found["source"]) == ("console", str(LOGS / name))
    alone = ask(LOGS / name)
    assert alone["trainer"] == "generic" and steps(alone, "reward") in ({}, steps(found, "reward"))
    assert trainer == "nemo_rl" or (len(alone["steps"]), len(alone["validations"])) == counts


def test_what_is_not_finite_is_null(ask: Ask) -> None:
    found = ask(LOGS / "tinygrpo_nan.log", "--trainer", "tinygrpo", "--metric", "mean(actor/kl_loss)")
    assert steps(found, "actor/kl_loss")[3] is None and steps(found, "actor/kl_loss")[2]
    assert (found["metric_value"], found["step"]) == (None, None)


def test_expressions(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    log = LOGS / "tinygrpo.log"
    found = ask(log, "--metric", "first(task_pass_rate@1)")
    assert found["metric_value"] == 0.004883 and found["step"] == 0
    assert ask(log, "--metric", "task_pass_rate@1")["metric_value"] == 0.007812
    least = ask(log, "--metric", "task_pass_rate@1 min")  # with its direction, as in the notes
    assert (least["metric_name"], least["metric_value"], least["best"]) == ("task_pass_rate@1", 0.007812, 0.004883)
    bad = ask(log, "--metric", "max(task_pass_rate@1", code=2)
    assert bad["error"]["code"] == "bad_metric" and "is not understood" in bad["error"]["message"]
    none = ask(log, "--metric", "avg(task_pass_rate@1)")
    assert none["metric_value"] is None and "did you mean mean(...)?" in none["warnings"][0]
    capsys.readouterr()
    assert cli.run(["metrics", str(log), "--metric", "max(task_pass_rate@1)"]) == 0
    assert "max(task_pass_rate@1) = 0.007812 at step 2" in capsys.readouterr().out


@pytest.mark.parametrize("sample", LOGS_OF_PROGRAMS, ids=lambda sample: sample.path.stem)
def test_a_file_gives_the_number_that_a_run_with_this_log_gives(ask: Ask, sample: Sample, tmp_path: Path) -> None:
    spec = run_spec("lone", tmp_path / "runs/lone", objective=Objective(sample.metric))
    found = ask(sample.path, "--metric", sample.metric)
    run = RunFiles(spec, registry.by_name("generic", metrics=(sample.metric,)), sample.path).measure()
    assert run.last == (found["step"], found["metric_value"])


@pytest.mark.parametrize(
    ("name", "metric", "value"),
    [
        ("validated-once.log", "val_loss", 3.2773),
        ("two-words.log", "Test Accuracy", 0.7),
        ("epoch-and-batch.log", "Acc@1", 55.5),  # printed at the end, after those of single batches
        ("json-lines.log", "Reward", 1.0682869432709103),  # objects whose key is `reward`
    ],
)
def test_the_metric_that_is_named_is_read_wherever_it_stands(ask: Ask, name: str, metric: str, value: float) -> None:
    assert ask(HERE / name, "--metric", metric)["metric_value"] == value


def test_the_wrong_trainer_is_told(ask: Ask) -> None:
    found = ask(LOGS / "verl_ok_np2_ray.log", "--trainer", "nemo_rl")
    assert (found["steps"], found["source"]) == ([], None)
    assert "as nemo_rl prints them; without --trainer" in found["warnings"][0]
    unknown = ask(LOGS / "verl_ok_np2_ray.log", "--trainer", "vrl", code=2)
    assert unknown["error"]["code"] == "unknown_trainer"


@pytest.mark.system
def test_what_is_no_log(ask: Ask, tmp_path: Path) -> None:
    missing = ask(tmp_path / "none.log", code=4)
    assert "none.log" in missing["error"]["message"]
    binary = tmp_path / "model.safetensors"
    binary.write_bytes(bytes(range(256)) * 40)
    for more in ((), ("--trainer", "verl")):
        assert ask(binary, *more, code=2)["error"]["code"] == "binary_file"
    assert ask(tmp_path, code=4)["error"]["code"] == "no_metrics"
    assert ask("/dev/null", code=2)["error"]["code"] == "not_a_file"
    for name in ("empty.log", "empty.jsonl"):
        (tmp_path / name).touch()
        found = ask(tmp_path / name)
        assert found["steps"] == [] and "is empty" in found["warnings"][0]
    prose = tmp_path / "prose.log"
    prose.write_text("nothing to see\n" * 9)
    found = ask(prose)
    assert found["steps"] == [] and found["failure"] is None and "no line with metrics" in found["warnings"][0]
    assert found["next"] == [f"autoresearch explain {prose} --json"]
    assert "--trainer reads one of " in found["warnings"][0] and "`- step_line:`" in found["warnings"][0]
    prose.write_text("2 files\nafter 30 rounds of it the loss went down to 0.31, it seems\nbye\n" * 2)
    assert "; nearest is `after 30 rounds of it the loss went" in ask(prose)["warnings"][0]
    assert ask("--trainer", "verl", code=2)["error"]["code"] == "usage"


@pytest.mark.system
def test_every_kind_of_file(ask: Ask) -> None:
    kinds = {"wandb": "wandb", "tensorboard": "tensorboard"}
    for name, kind in kinds.items():
        found = ask(SAMPLES / "metrics" / name)
        assert (found["source_kind"], len(found["steps"]), len(found["validations"])) == (kind, 12, 3)
    assert ask(LOGS / "tinygrpo.jsonl")["source_kind"] == "jsonl"
    assert ask(LOGS / "agentjet_val.md")["source_kind"] == "dict_lines"
    assert ask(LOGS / "trl_v4.log")["source_kind"] == "console"


def test_a_table_for_people_and_a_file_for_pandas(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "m.jsonl"
    rows = [{"step": n, **{f"actor/k{m}": n * m for m in range(40)}, "reward": n / 1000} for n in range(1, 1001)]
    rows += [{"step": n, "val/acc": n / 1000, "val/other": None} for n in range(100, 1001, 100)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cli.run(["metrics", str(log), "--out", str(tmp_path / "deep" / "m.csv")]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 30 and "1000 steps, 10 validations" in out and "1010 rows" in out
    target = tmp_path / "out.csv"
    assert cli.run(["metrics", str(log), "--out", str(target), "--key", "reward", "--key", "val/*"]) == 0
    table = pandas.read_csv(target)
    assert list(table.columns) == ["step", "kind", "reward", "val/acc", "val/other"]
    training, validation = (table[table["kind"] == kind] for kind in ("step", "validation"))
    assert list(training["reward"]) == [n / 1000 for n in range(1, 1001)]
    assert list(validation["step"]) == list(range(100, 1001, 100))
    assert not list(tmp_path.rglob("*.part"))
    assert cli.run(["metrics", str(log), "--out", str(tmp_path / "m.xlsx")]) == 2
    csv = tmp_path / "n.csv"
    csv.write_text("step,loss\n1,0.5\n2,0.4\n3,0.3\n")
    assert cli.run(["metrics", str(csv), "--out", f"{tmp_path}/deep/../n.csv"]) == 2
    assert csv.read_text().startswith("step,loss")  # a source is never written over
    assert cli.run(["metrics", str(log), "--out", "/proc/m.csv"]) == 6


def test_only_some_metrics_and_only_the_newest(ask: Ask) -> None:
    found = ask(LOGS / "tinygrpo.log", "--key", "*kl_loss", "--last", 2)
    assert [row["step"] for row in found["steps"]] == [3, 4]
    assert all(set(row["metrics"]) == {"actor/kl_loss"} for row in found["steps"])
    assert (found["validations"], found["left_off"]) == ([], 2)
    nothing = ask(LOGS / "tinygrpo.log", "--key", "kl_los?x", "--key", "wer")
    (warning,) = nothing["warnings"]
    assert nothing["steps"] == [] and warning.startswith("no metric's name matches kl_los?x or wer; there are ")
    assert "actor/kl_loss" in warning


SOURCES = """
import json, os, shutil, sys
home, sample = sys.argv[1:]
print("wandb: View run at https://user:pass@wandb.corp.io/team/proj/runs/1a2b3c4d?apiKey=hush", flush=True)
with open(home + "/m.jsonl", "a") as file:
    for n in range(1, 5):
        step(n, reward=str(n / 10))
        data = {"actor/lr": 1e-6, "critic/rewards/mean": n / 10 + (n == 3)}
        file.write(json.dumps({"step": n, "data": data}) + "\\n")
    for n, rate in ((0, 0.1), (2, 0.75), (4, 0.5)):
        validation(n, rate)
        file.write(json.dumps({"step": n, "data": {"task_pass_rate@1": rate + (n == 4) / 100}}) + "\\n")
shutil.copytree(sample, "wandb/offline-run-20300101_000000-x")
for name in os.listdir("wandb/offline-run-20300101_000000-x"):
    os.utime("wandb/offline-run-20300101_000000-x/" + name)
"""


@pytest.fixture
def ran(bench: Any) -> dict[str, Any]:
    """A run with a JSONL file that disagrees with its console twice, a run of W&B and a URL."""
    sample = next((SAMPLES / "metrics" / "wandb").iterdir())
    old = bench.repo / "wandb" / "offline-run-20200101_000000-old"
    shutil.copytree(sample, old)
    for path in old.iterdir():
        os.utime(path, (1.0, 1.0))
    (bench.root / "m.jsonl").write_text('{"step": 1, "data": {"task_pass_rate@1": 0.99}}\n')  # an earlier run's
    path = bench.script(
        SOURCES,
        title="Try sources",
        command=f"python sources.py {bench.root} {sample}",
        notes=f"- source: jsonl {bench.root}/m.jsonl\n- source: jsonl {bench.root}/never.jsonl",
    )
    path.write_text(path.read_text().replace("metric: task_pass_rate@1", "metric: max(task_pass_rate@1)"))
    return dict(bench.ask("run", path))


@pytest.mark.system
def test_a_run_its_records_and_its_sources(bench: Any, ran: dict[str, Any]) -> None:
    assert ran["metrics"] == {"max(task_pass_rate@1)": 0.75, "best": 0.75, "step": 2}
    url = "https://wandb.corp.io/team/proj/runs/1a2b3c4d"
    assert ran["run_urls"] == [url]
    (doubt,) = ran["warnings"]
    assert "task_pass_rate@1 at step 4" in doubt and "0.51" in doubt and "0.5" in doubt
    results = Path(ran["results"]).read_text()
    story = (Path(ran["result_dir"]) / "experiment_log.md").read_text()
    told = [(e["event"], e.get("text")) for e in bench.ask("logs", ran["run"], "--events", "--tail", 10000)["events"]]
    assert doubt in results and url in results and doubt in story and url in story
    assert ("warning", doubt) in told and told.count(("run_url", url)) == 1
    (row,) = bench.ask("ledger", "show", ran["run"])["rows"]
    assert (row["run_urls"], row["metric_name"], row["metric_value"]) == (url, "max(task_pass_rate@1)", 0.75)
    assert bench.ask("status", ran["run"])["run_urls"] == [url]
    everything = results + story + Path(ran["ledger"]).read_text() + json.dumps(told)
    assert "hush" not in everything and "user:pass" not in everything

    found = bench.ask("metrics", ran["run"])
    assert (found["source_kind"], found["metric_value"], found["step"]) == ("jsonl", 0.75, 2)
    assert [row["step"] for row in found["steps"]] == [1, 2, 3, 4]
    assert [row["step"] for row in found["validations"]] == [0, 2, 4]
    assert any("critic/rewards/mean at step 3" in text for text in found["warnings"])
    assert f"{bench.root}/never.jsonl was not written by this run" in found["warnings"]
    assert found["failure"] is None and {s["kind"] for s in found["sources"]} == {"jsonl", "console"}
    (console,) = (one["path"] for one in found["sources"] if one["kind"] == "console")
    told = bench.ask("metrics", console, "--trainer", "verl", "--metric", "last(task_pass_rate@1)")
    assert (told["source_kind"], told["metric_value"], told["warnings"]) == ("console", 0.5, [])
    code, out, _ = bench.here("metrics")  # `last`
    assert code == 0 and "max(task_pass_rate@1) = 0.75 at step 2" in out and len(out.splitlines()) <= 30


@pytest.mark.system
def test_a_lone_run_needs_no_direction_and_claims_no_best(bench: Any) -> None:
    path = bench.unknown("for n in (1, 2, 3): print('step', n, 'foldedness', n % 3, flush=True)", metric="foldedness")
    path.write_text(path.read_text().replace("- direction: maximize\n", ""))
    ran = bench.ask("run", path)
    assert (ran["verdict"], ran["metrics"]) == ("keep", {"foldedness": 0.0, "best": None, "step": 3})
    report = (Path(ran["result_dir"]) / "results.md").read_text()
    assert "foldedness = **0** at step 3, read from" in report, report


def test_an_answer_for_an_agent_is_small_and_says_how_to_get_the_rest(ask: Ask, tmp_path: Path) -> None:
    log = tmp_path / "m.jsonl"
    log.write_text("".join(json.dumps({"step": n, "loss": 1 / n, "val/acc": n / 3000}) + "\n" for n in range(1, 3001)))
    found = ask(log)
    assert len(json.dumps(found)) < 9000 and found["steps"][-1]["step"] == 3000
    assert len(found["steps"]) > 20 and found["left_off"] + len(found["steps"]) + len(found["validations"]) >= 3000
    assert any("--out" in line for line in found["next"])
