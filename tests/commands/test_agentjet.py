"""AgentJet, classic, through the CLI: a launcher that reads its recipe and writes as AgentJet's does."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

LAUNCHER = """
import os, sys
import yaml
conf = sys.argv[sys.argv.index("--conf") + 1]
ajet = yaml.safe_load(open(conf))["ajet"]
common = ajet["trainer_common"]
print("environment", *(f"{k}={os.environ.get(k)}" for k in ("LOGURU_COLORIZE", "RAY_COLOR_PREFIX", "NO_COLOR")))
print("Starting validate rollout", flush=True)

def append(key, line):
    path = common.get(key)
    if path:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a+") as file:
            file.write(line + chr(10))

def validate(step, rate):
    append("val_print_to_markdown_file_path",
           f"{{'global_steps': {step}, 'pass_n': 4, 'task_pass_rate@1': {rate}, 'std_reward': np.float64(0.4)}}")
    print(f"(TaskRunner pid=5) step:{step} - global_steps:{step} - pass_n:4 - task_pass_rate@1:{rate:.3f}", flush=True)

rate = 0.1 + 0.0001234 * int(common["kl_loss_coef"] * 10000)
validate(0, 0.05)
for step in (1, 2):
    append("train_print_to_markdown_file_path",
           f"{{'critic/real_reward': np.float64(0.5), 'actor/kl_loss': 0.001, 'training/global_step': {step}}}")
    print(f"(TaskRunner pid=5) step:{step} - critic/real_reward:0.500 - actor/kl_loss:0.001", flush=True)
validate(2, rate)
"""
RECIPE = """
# what differs from AgentJet's defaults
ajet:
  project_name: p
  experiment_name: {name}
  model: {{path: /m}}
  data: {{train_batch_size: 8, max_prompt_length: 10, max_response_length: 10}}
  rollout: {{num_repeat: 4, max_model_len: 20}}
  trainer_common:
    n_gpus_per_node: 1
    logger: tensorboard
    val_before_train: True
    test_freq: 2
    total_training_steps: 2
    save_freq: -1
    kl_loss_coef: 0.002   # the weight
{more}
defaults: [ajet_default]
hydra: {{searchpath: []}}
"""
OLD = "{'global_steps': 9, 'task_pass_rate@1': 0.99}\n"


def ajet(bench: Any, more: str = "", *, name: str = "first", **values: str) -> Path:
    """A blueprint whose command starts the launcher above."""
    (bench.repo / "ajet").mkdir(exist_ok=True)
    (bench.repo / "ajet" / "launcher.py").write_text(textwrap.dedent(LAUNCHER))
    (bench.repo / "exp").mkdir(exist_ok=True)
    (bench.repo / "exp" / "gsm8k.yaml").write_text(RECIPE.format(more=textwrap.indent(more, "    "), name=name))
    given = {"command": "python -m ajet.launcher --conf exp/gsm8k.yaml --with-ray", "trainer": "agentjet", **values}
    path = Path(bench.blueprint("agentjet", **given))
    path.write_text(path.read_text().replace("- path: NA", "- path: exp/gsm8k.yaml"))
    return path


def test_a_recipe_that_names_no_files_is_judged_by_the_console_and_told(bench: Any) -> None:
    path = ajet(bench)
    planned = bench.ask("run", path, "--dry-run")
    assert planned["command_line"] == "python -m ajet.launcher --conf exp/gsm8k.yaml --with-ray"
    assert sum("is not set: what belongs into it is read from the console alone" in f for f in planned["findings"]) == 2
    done = bench.ask("run", path)
    bench.settled(done, "finished")
    assert done["metrics"]["task_pass_rate@1"] == pytest.approx(0.102)
    log = Path(done["log_path"]).read_text()
    assert "environment LOGURU_COLORIZE=NO RAY_COLOR_PREFIX=0 NO_COLOR=1" in log
    assert "critic/real_reward" in (bench.root / "results" / "results.md").read_text()


def test_what_is_appended_to_an_older_file_alone_counts(bench: Any) -> None:
    """Outside of the result directory it is the user's own, and told of."""
    file = bench.root / "elsewhere" / "val.md"
    file.parent.mkdir()
    file.write_text(OLD)
    path = ajet(bench, f"val_print_to_markdown_file_path: {file}\ntrain_print_to_markdown_file_path: {file}.train")
    planned = bench.ask("run", path, "--dry-run")
    assert any("outside of exp_result_dir" in finding for finding in planned["findings"])
    done = bench.ask("run", path)
    bench.settled(done, "finished")
    assert done["metrics"]["task_pass_rate@1"] == pytest.approx(0.102468, abs=1e-6)
    assert file.read_text().startswith(OLD)
    rows = bench.ask("ledger", "show", done["run"])["rows"]
    assert (rows[0]["best_value"], rows[0]["trainer"]) == (pytest.approx(0.102468, abs=1e-6), "agentjet")


def test_an_older_file_that_was_written_anew_counts_from_its_beginning(bench: Any) -> None:
    """It is longer than it was, and what is behind the old length is not all that this run wrote."""
    file = bench.root / "elsewhere" / "val.md"
    file.parent.mkdir()
    file.write_text(OLD * 3)
    rewritten = "".join(f"{{'global_steps': {step}, 'task_pass_rate@1': 0.{step}}}\\n" for step in range(1, 6))
    command = f'printf "{rewritten}" > {file}; echo step:1 - actor/pg_loss:0.1'
    path = ajet(bench, f"val_print_to_markdown_file_path: {file}", command=command)
    done = bench.ask("run", path)
    bench.settled(done, "finished")
    read = bench.ask("metrics", done["run"])
    assert [v["metrics"]["task_pass_rate@1"] for v in read["validations"]] == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_caller_and_blueprint_win_over_the_quiet_variables(bench: Any) -> None:
    done = bench.ask("run", ajet(bench, notes="- env: LOGURU_COLORIZE=YES"), RAY_COLOR_PREFIX="1")
    bench.settled(done, "finished")
    log = Path(done["log_path"]).read_text()
    assert "environment LOGURU_COLORIZE=YES RAY_COLOR_PREFIX=1 NO_COLOR=1" in log
