"""Ideas that change settings of the command, or of a recipe's parent: what is recorded is what ran."""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

VERL = """
import json, os, sys
said = {}
for word in sys.argv[1:]:
    key, _, value = word.lstrip("+").partition("=")
    said[key] = value
for step in (1, 2, 3):
    reward = float(said["actor_rollout_ref.actor.optim.lr"]) + 0.001 * step + 0.0001 * int(said.get("data.seed", 0))
    print(f"step:{step} - actor/kl_loss:0.001 - critic/rewards/mean:{reward:.6f}", flush=True)
    if "VERL_FILE_LOGGER_PATH" in os.environ:
        with open(os.environ["VERL_FILE_LOGGER_PATH"], "a") as file:
            file.write(json.dumps({"step": step, "data": {"critic/rewards/mean": reward}}) + "\\n")
"""
LR = "actor_rollout_ref.actor.optim.lr"
COMMAND = f"python -m verl.trainer.main_ppo {LR}=0.25 data.seed=7 trainer.project_name=p trainer.experiment_name=e"

NEMO = """
import sys
def read(path):
    lines = [line.strip() for line in open(path)]
    return {key: value.strip("'\\" ") for key, _, value in (line.partition(":") for line in lines) if value.strip()}
own = read(sys.argv[2])
parent = read(own["defaults"]) if "defaults" in own else {}
lr = float({**parent, **own}["lr"])
for step in (1, 2, 3):
    print(f"===== Step {step}/3 =====")
    print("📊 Training Results:")
    print(f"  • Loss: {step}")
    print("📊 Validation Results:")
    print(f"    • Accuracy: {lr}", flush=True)
"""


def blueprint(bench: Any, command: str, trainer: str, recipe: str = "NA") -> None:
    """exp.md of this trainer, with the metric that it has itself; committed."""
    bench.blueprint("ok", command=command, trainer=trainer, metric="", recipe=recipe)
    bench.commit("a trainer")


def verl(bench: Any, command: str = COMMAND) -> None:
    package = bench.repo / "verl" / "trainer"
    package.mkdir(parents=True)
    (package / "main_ppo.py").write_text(textwrap.dedent(VERL))
    blueprint(bench, command, "verl")


def words_of(command: str) -> dict[str, str]:
    """What hydra makes of a command: the last word for a key counts."""
    return dict(word.lstrip("+").split("=", 1) for word in shlex.split(command)[3:])


def test_a_grid_over_settings_of_the_command(camp: Any) -> None:
    verl(camp.bench)
    keys = {"space": {LR: [0.5, 0.1]}, "proposer": "grid", "count": 3, "retests": 0, "confirm": False}
    plan = camp.bench.ask("campaign", camp.file(**keys), "--dry-run")["plan"]
    assert plan["seeds"].startswith("recipe key data.seed, from 7, and the next numbers for replicates; nothing will")
    state = camp.run(**keys)
    rows = {(row.index, row.replicate): row for row in state.rows}
    assert len(rows) == 4
    ran = {key: words_of(row.command) for key, row in rows.items()}
    assert [float(ran[key][LR]) for key in sorted(ran)] == [0.25, 0.25, 0.5, 0.1]
    assert [ran[key]["data.seed"] for key in sorted(ran)] == ["7", "8", "7", "7"]
    assert [rows[key].seed for key in sorted(rows)] == [7, 8, 7, 7]
    names = [found["trainer.experiment_name"] for found in ran.values()]
    assert len(set(names)) == 4 and "e" not in names  # no two runs share a checkpoint directory
    for key, row in rows.items():
        lr, seed = float(ran[key][LR]), int(ran[key]["data.seed"])
        assert row.metric_value is not None and abs(row.metric_value - (lr + 0.003 + 0.0001 * seed)) < 1e-9
    compared = camp.bench.ask("compare", "one:1.1", "one:2")
    assert compared["config"] == {LR: [0.25, 0.5]}
    assert list(compared["per_run"]) == ["trainer.experiment_name"]

    idea = state.ideas[1]
    assert f"{LR}" in str(idea.hypothesis.overrides)
    text = camp.bench.git("show", f"{idea.branch}:.autoresearch/blueprint.md")
    assert f"main_ppo {LR}=0.5 data.seed=7" in text, "it is changed where it stands"
    assert float(camp.bench.git("show", f"{idea.branch}:.autoresearch/arguments.yaml").split(":")[1]) == 0.5


def test_an_added_idea_builds_on_the_settings_of_its_parent(camp: Any) -> None:
    verl(camp.bench)
    path = camp.ideas({"slug": "higher", "overrides": {LR: 0.5}})
    camp.start(queue=path, count=3, baseline=1, retests=0, confirm=False)
    camp.phase("waiting")
    camp.bench.ask("campaign", "add", "--set", "algorithm.kl_ctrl.kl_coef=0.01", "--parent", "higher", "--slug", "both")
    state = camp.over()
    row = next(row for row in state.rows if row.index == 3)
    found = words_of(row.command)
    assert (float(found[LR]), float(found["algorithm.kl_ctrl.kl_coef"])) == (0.5, 0.01)


def test_keys_of_a_parent_recipe_are_known_and_set_in_the_child(camp: Any) -> None:
    bench = camp.bench
    (bench.repo / "examples").mkdir()
    (bench.repo / "examples" / "run_grpo.py").write_text(textwrap.dedent(NEMO))
    (bench.repo / "base.yaml").write_text("policy:\n  optimizer:\n    kwargs:\n      lr: 0.25\ngrpo:\n  seed: 3\n")
    (bench.repo / "child.yaml").write_text("defaults: base.yaml\ngrpo:\n  max_num_steps: 3\n")
    blueprint(bench, "python examples/run_grpo.py --config child.yaml", "nemo_rl", "child.yaml")
    key = "policy.optimizer.kwargs.lr"
    state = camp.run(space={key: [0.5, 0.125]}, proposer="grid", count=2, retests=0, confirm=False)
    assert [row.metric_value for row in state.rows] == [0.25, 0.25, 0.5]
    assert sorted(row.seed for row in state.rows) == [3, 3, 4]
    assert "0.5" in bench.git("show", f"{state.ideas[1].branch}:child.yaml")
    assert bench.git("show", f"{state.ideas[1].branch}:base.yaml").count("0.25") == 1


def test_settings_of_a_known_trainer_in_a_script_of_ours_are_changed_in_the_script(camp: Any) -> None:
    verl(camp.bench, "bash run.sh")
    words = COMMAND.replace(" ", " \\\n    ", 3)
    (camp.bench.repo / "run.sh").write_text(f"set -x\nEXTRA=(--mode 3)\n{words} $@\n")
    camp.bench.commit("a script")
    keys = {"space": {LR: [0.5, 0.1], "algorithm.kl_ctrl.kl_coef": [0.01]}, "proposer": "grid", "count": 3}
    state = camp.run(**keys, retests=0, confirm=False)
    values = [(row.index, row.seed, round(row.metric_value, 9)) for row in state.rows]  # of metrics.jsonl, not printed
    assert values == [(1, 7, 0.2537), (1, 8, 0.2538), (2, 7, 0.5037), (3, 7, 0.1037)], camp.said()
    texts = [camp.bench.git("show", f"{row.commit}:run.sh") for row in state.rows]
    assert "algorithm.kl_ctrl.kl_coef=0.01" in texts[2] and f"{LR}=0.5" in texts[2] and f"{LR}=0.25" in texts[0]
    assert len({text.partition("trainer.experiment_name=")[2] for text in texts}) == 4


CHECKPOINTS = """
import os, sys
recipe = dict(line.split(": ") for line in open(sys.argv[1]).read().splitlines())
place = recipe["trainer.default_local_dir"]
os.makedirs(place)
open(place + "/latest_checkpointed_iteration.txt", "w").write("1")
print("step:1 - actor/kl_loss:0.001 - critic/rewards/mean:0.1", flush=True)
assert recipe["mode"] == "ok", "the reward model is gone"
print("step:1 - global_steps:1 - pass_n:2 - task_pass_rate@1:0.5 - mean_reward:0.5", flush=True)
"""


def test_a_repaired_idea_begins_afresh_beside_what_its_first_run_left(camp: Any) -> None:
    (camp.bench.repo / "train.py").write_text(CHECKPOINTS)
    recipe = "mode: ok\ntrainer.default_local_dir: out\ntrainer.experiment_name: mine\n"
    (camp.bench.repo / "recipe.yaml").write_text(recipe)
    queue = camp.ideas({"slug": "broken", "overrides": {"mode": "bad"}})
    camp.start(queue=queue, count=3, baseline=1, retests=0, confirm=False)
    camp.phase("waiting")
    camp.bench.ask("campaign", "fix", "broken", "--set", "mode=ok")
    camp.until(lambda: len(camp.idea("broken").rows) == 2)
    first, second = camp.idea("broken").rows
    assert (first.status, second.ending, second.metric_value) == ("crash", "finished", 0.5)
    assert first.result_dir == second.result_dir
    places = [path.parent.name for path in Path(first.result_dir).rglob("latest_checkpointed_iteration.txt")]
    assert sorted(places) == ["checkpoints", "checkpoints-2"]
    text = camp.bench.git("show", f"{second.commit}:recipe.yaml")
    assert "broken-2" in text or "trainer.experiment_name: one-broken-2" in text


def test_a_file_that_the_blueprint_names_in_full_below_its_result_directory_is_each_run_s_own(camp: Any) -> None:
    verl(camp.bench, f"{COMMAND} 'trainer.logger=[console,file]'")
    own = f"{camp.bench.root}/results/numbers.jsonl"
    path = camp.bench.repo / "exp.md"
    path.write_text(f"{path.read_text()}- env: VERL_FILE_LOGGER_PATH={own}\n- source: jsonl {own}\n")
    camp.bench.git("commit", "-qam", "where it writes")
    keys = {"space": {LR: [0.5, 0.1]}, "proposer": "grid", "count": 3, "retests": 0, "confirm": False}
    rows = camp.run(**keys).rows  # two at a time
    assert [row.ending for row in rows] == ["finished"] * 4
    assert camp.bench.ask("ledger", "show", "one")["count"] == 4  # by the name of its campaign
    assert not any("LOGGER_PATH" in row.command for row in rows)
    before = {Path(row.result_dir, "numbers.jsonl"): Path(row.result_dir, "numbers.jsonl").read_bytes() for row in rows}
    assert len(set(before.values())) == 4 and not Path(own).exists()
