"""What a trainer knows is a mechanism: its files, its lint, what it would resume; through the CLI."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

VERL = """
import json, os, sys
said = dict(word.lstrip("+").split("=", 1) for word in sys.argv[1:])
print("Training from scratch", flush=True)
loggers = said.get("trainer.logger", "[console]")
file = None
if "file" in loggers:
    os.makedirs("p", exist_ok=True)
    file = open("p/e.jsonl", "wb")
for step in range(1, 4):
    reward = float(said.get("actor_rollout_ref.actor.optim.lr", "0.25")) + step / 1000000
    print(f"step:{step} - actor/kl_loss:0.001 - actor/pg_loss:0.1 - critic/rewards/mean:{reward:.3f}", flush=True)
    if file:
        file.write(json.dumps({"step": step, "data": {"critic/rewards/mean": reward}}).encode() + b"\\n")
folder = said.get("trainer.default_local_dir", "checkpoints/p/e")
os.makedirs(folder, exist_ok=True)
open(folder + "/latest_checkpointed_iteration.txt", "w").write("3")
"""
COMMAND = "python -m verl.trainer.main_ppo trainer.project_name=p trainer.experiment_name=e"
NEMO = """
defaults: base.yaml
grpo:
  seed: 5
"""
BASE = """
grpo: {{max_num_steps: 3, seed: 1, val_period: 1}}
policy: {{optimizer: {{kwargs: {{lr: 0.001}}}}}}
checkpointing: {{enabled: true, checkpoint_dir: {out}/ckpt}}
logger: {{log_dir: {out}/logs}}
"""
RUN_GRPO = """
print("========================= Step 1/3 =========================")
print("📊 Training Results:")
print("  • Loss: -0.0022")
print("  • Avg Reward: 0.1875", flush=True)
print("📊 Validation Results:")
print("    • Accuracy: 0.3125", flush=True)
"""


def verl(bench: Any, command: str = COMMAND, **values: str) -> Path:
    """A blueprint whose command starts a verl that prints and writes as verl does."""
    package = bench.repo / "verl" / "trainer"
    package.mkdir(parents=True, exist_ok=True)
    (package / "main_ppo.py").write_text(textwrap.dedent(VERL))
    path = bench.blueprint("verl", command=command, **values)
    path.write_text(path.read_text().replace("- metric: task_pass_rate@1\n", "").replace("- direction: maximize\n", ""))
    return Path(path)


def nemo(bench: Any, **values: str) -> Path:
    """A blueprint of NeMo-RL, whose recipe holds little and its parent the rest."""
    (bench.repo / "examples").mkdir(exist_ok=True)
    (bench.repo / "examples" / "run_grpo.py").write_text(textwrap.dedent(RUN_GRPO))
    (bench.repo / "base.yaml").write_text(BASE.format(out=bench.root / "out"))
    (bench.repo / "child.yaml").write_text(NEMO)
    given = {"command": "python examples/run_grpo.py --config child.yaml", "trainer": "nemo_rl", **values}
    path = bench.blueprint("nemo", **given)
    text = path.read_text().replace("- path: NA", "- path: child.yaml").replace("- metric: task_pass_rate@1\n", "")
    path.write_text(text)
    return Path(path)


def spec_of(payload: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads((Path(payload["run_dir"]) / "spec.json").read_text()))


def test_a_logger_of_files_is_believed_and_its_absence_remarked_on(bench: Any) -> None:
    planned = bench.ask("run", verl(bench), "--dry-run")
    assert (planned["command_line"], planned["sources"]) == (COMMAND, [])
    assert any("`trainer.logger: [console, file]` writes all of them" in finding for finding in planned["findings"])

    path = verl(bench, command=f"{COMMAND} trainer.logger=[console,file]")
    planned = bench.ask("run", path, "--dry-run")
    file = str(bench.repo / "p" / "e.jsonl")
    assert planned["sources"] == [{"format": "jsonl", "path": file}]
    assert not any("console" in finding for finding in planned["findings"])
    done = bench.ask("run", path)
    bench.settled(done, "finished")
    assert done["metrics"]["critic/rewards/mean"] == 0.250003  # the console says 0.250


def test_what_would_be_resumed_is_refused_before_anything_is_touched(bench: Any) -> None:
    path = verl(bench)
    bench.settled(bench.ask("run", path), "finished")
    mark = bench.repo / "checkpoints" / "p" / "e" / "latest_checkpointed_iteration.txt"
    before = bench.picture(".tmux")
    for words in (("run", path), ("run", path, "--dry-run")):
        said = bench.ask(*words, check=5)
        assert (said["error"]["code"], str(mark) in said["error"]["message"]) == ("would_resume", True)
        assert "`- resume: true`" in said["error"]["hint"]
    checked = bench.ask("blueprint", "check", path, check=3)
    assert "would_resume" in [finding["code"] for finding in checked["findings"]]
    assert bench.picture(".tmux") == before

    bench.settled(bench.ask("run", verl(bench, notes="- resume: true")), "finished")
    fresh = verl(bench, command=COMMAND.replace("=e", "=other") + " trainer.default_local_dir=elsewhere")
    bench.settled(bench.ask("run", fresh), "finished")


def test_a_recipe_is_read_over_its_parents(bench: Any) -> None:
    planned = bench.ask("run", nemo(bench), "--dry-run")
    assert planned["seed"] == 5  # the child's; the metric comes from the parent
    assert planned["metric"] == "validation/accuracy"
    assert bench.ask("run", nemo(bench))["metrics"]["validation/accuracy"] == 0.3125


def test_what_lint_calls_an_error_stops_everything(bench: Any) -> None:
    path = nemo(bench)
    (bench.repo / "child.yaml").write_text(f"{NEMO}execute_test: true\n")
    bench.git("add", "-A")
    bench.git("commit", "-qm", "more")
    before = bench.picture(".tmux")
    space = bench.root / "space.yaml"
    space.write_text("policy.optimizer.kwargs.lr: [0.1, 0.2]\n")
    for words in (
        ("run", path),
        ("run", path, "--dry-run"),
        ("campaign", path, "--count", "3", "--space", space, "--proposer", "grid"),
    ):
        said = bench.ask(*words, check=3)
        assert "execute_test" in said["error"]["message"], words
    checked = bench.ask("blueprint", "check", path, check=3)
    assert "execute_test" in [finding["code"] for finding in checked["findings"]]
    space.unlink()
    assert bench.picture(".tmux") == {k: v for k, v in before.items() if k != str(space.relative_to(bench.root))}


SMI = """#!/bin/sh
echo "0, GPU-0a1b2c3d-1111-2222-3333-444455556666, NVIDIA H100, 81559, 4"
echo "1, GPU-0a1bffff-1111-2222-3333-444455556666, NVIDIA H100, 81559, 78123"
"""


def test_gpus_that_are_not_here_are_missed_before_a_branch_is_made(bench: Any) -> None:
    def asking(count: int) -> Path:
        path = nemo(bench)
        (bench.repo / "child.yaml").write_text(f"{NEMO}cluster: {{gpus_per_node: {count}, num_nodes: 1}}\n")
        return path

    bench.env["AUTORESEARCH_GPU_CHECK"] = "yes"
    path = asking(8)
    bench.git("add", "-A")
    bench.git("commit", "-qm", "more")
    before = bench.git("branch", "--list")
    space = "--space", bench.root / "space.yaml", "--proposer", "grid", "--count", "3"
    space[1].write_text("policy.optimizer.kwargs.lr: [0.1, 0.2]\n")
    for words in (("run", path), ("run", path, "--dry-run"), ("campaign", path, *space)):
        said = bench.ask(*words, check=6)["error"]
        assert (said["code"], said["message"]) == (
            "too_few_gpus",
            "the run asks for 8 GPUs, and nvidia-smi shows none here",
        )
        assert "--no-gpu-check" in said["hint"]
    assert bench.ask("run", path, "--dry-run", AUTORESEARCH_GPU_CHECK="no")["state"] == "planned"
    for words in (
        ("run", path, "--dry-run", "--no-gpu-check"),
        ("campaign", path, *space, "--set", "gpu_check=false", "--dry-run"),
    ):
        assert bench.ask(*words)["state"] == "planned"
    assert bench.git("branch", "--list") == before

    smi = bench.root / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI)
    smi.chmod(0o755)
    search = f"{smi.parent}:{bench.env['PATH']}"
    said = bench.ask("run", path, "--dry-run", check=6, PATH=search)["error"]
    assert said["message"] == "the run asks for 8 GPUs, and this machine has 2 GPUs"
    busy = bench.ask("run", asking(2), "--dry-run", PATH=search)
    assert any("asks for 2 GPUs, and 1 of 2 are free now" in finding for finding in busy["findings"])
    assert not any("GPUs" in finding for finding in bench.ask("run", asking(1), "--dry-run", PATH=search)["findings"])
    leased = bench.ask("run", asking(2), "--dry-run", "--gpus", "1", check=6, PATH=search)["error"]
    assert leased["message"] == "the run asks for 2 GPUs, and this run is given 1"
    (bench.root / "ray").mkdir()
    (bench.root / "ray" / "ray_current_cluster").write_text("127.0.0.1:6379")
    joined = bench.ask("run", asking(8), "--dry-run", PATH=search, RAY_TMPDIR=str(bench.root))
    assert any("may have them on its other nodes" in finding for finding in joined["findings"])
    assert any("nemo_rl would join it" in finding for finding in joined["findings"])
    meant = bench.ask("run", asking(1), "--dry-run", PATH=search, RAY_TMPDIR=str(bench.root), RAY_ADDRESS="auto")
    assert not any("would join it" in finding for finding in meant["findings"])
    elsewhere = bench.ask("run", path, "--dry-run", RAY_ADDRESS="http://head:8265")
    assert elsewhere["state"] == "planned"


def test_a_trainer_that_nobody_knows_is_measured_by_what_its_blueprint_declares(bench: Any) -> None:
    text = """
    for it in range(1, 4):
        print(f"[rank0]: iter {it} of 3 | loss 0.{it}", flush=True)
    print('{"after": 3, "accuracy": 0.75}', end="", flush=True)
    """
    notes = "- step_line: `^iter (?P<step>\\d+) of \\d+ \\| loss (?P<loss>\\S+)`\n- validation_line: json after"
    path = bench.script(text, title="Try declared", trainer="generic", notes=notes)
    path.write_text(path.read_text().replace("- metric: task_pass_rate@1", "- metric: accuracy"))
    done = bench.ask("run", path)
    bench.settled(done, "finished")
    assert done["metrics"] == {"accuracy": 0.75, "best": 0.75, "step": 3}  # its line has no end
    assert [json.loads(line)["event"] for line in (Path(done["run_dir"]) / "events.jsonl").read_text().splitlines()]
    assert done["first_step_s"] is not None
    results = Path(done["results"]).read_text()
    assert "| 3 | 0.3" in results
    assert spec_of(done)["lines"][1] == "validation json after"
    bad = bench.script(text, title="Try declared", trainer="generic", notes="- step_line: iter (")
    assert "not a regular expression" in bench.ask("blueprint", "check", bad, check=3)["error"]["message"]
