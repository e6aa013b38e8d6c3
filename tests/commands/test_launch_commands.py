"""What is read of a launch command before the start, in a dry run: commands that strangers typed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

CASES = Path(__file__).parents[1] / "samples/first_contact"


@pytest.mark.parametrize("name", ["export.sh", "loop_port.sh", "modded_nanogpt.sh", "rank.sh"])
def test_a_value_that_names_itself_stays_unknown(bench: Any, name: str) -> None:
    (bench.repo / "train.py").write_text("print('step: 1 reward: 1')")
    (bench.repo / name).write_text((CASES / "shell-self-reference" / name).read_text())
    blueprint = bench.blueprint(command=f"bash {name}", trainer="")
    assert bench.ask("blueprint", "check", blueprint)["ok"]
    assert bench.ask("run", blueprint, "--dry-run")["trainer"] == "generic"


@pytest.mark.parametrize(
    ("at", "files", "recipe"),
    [
        (0, "examples/train_lora/qwen3_lora_dpo.yaml", "examples/train_lora/qwen3_lora_dpo.yaml"),
        (1, "examples/llama-3/lora-1b.yml", "examples/llama-3/lora-1b.yml"),
        (2, "configs/basic/reverse-text/rl.toml", "configs/basic/reverse-text/rl.toml"),
        (3, "examples/qwen3/rlvr_config.yaml qwen3/other.yaml", "examples/qwen3/rlvr_config.yaml"),
        (
            "accelerate launch --config_file fsdp.yaml src/train.py --data d.yaml x.yaml",
            "fsdp.yaml d.yaml x.yaml",
            "x.yaml",
        ),
        ("python prepare.py a.yaml; torchrun train.py --config=b.yaml", "a.yaml b.yaml", "b.yaml"),
        ("python prepare.py a.yaml; python train.py b.yaml", "a.yaml b.yaml", None),
        ("python run.py args.json", "args.json", "args.json"),
        ("python train.py rows.json --lr 1", "rows.json", None),
        ("python train.py missing.yaml", "", None),
        ("python src/train.py +experiment=m lr=3", "configs/experiment/m.yaml", "configs/experiment/m.yaml"),
        ("python train.py experiment=a/b", "conf/experiment/a/b.yaml conf/config.yaml", "conf/experiment/a/b.yaml"),
    ],
)
def test_the_recipe_is_the_file_that_the_command_names(
    bench: Any, at: int | str, files: str, recipe: str | None
) -> None:
    commands = (CASES / "recipe-positional/commands.txt").read_text().splitlines()
    command = commands[at] if isinstance(at, int) else at
    for path in map(bench.repo.joinpath, [*files.split(), *re.findall(r"[\w/]+\.py", command)]):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}" if path.suffix == ".json" else "")
    plan = bench.ask("run", bench.blueprint(command=command, trainer=""), "--dry-run", "--no-gpu-check")
    assert plan["recipe"] == (recipe and str(bench.repo / recipe))


def test_a_recipe_is_checked_where_the_command_looks(bench: Any) -> None:
    (bench.repo / "sub").mkdir()
    (bench.repo / "sub/r.yaml").write_text("ajet:\n  execute_test: True\n")
    (bench.repo / "mine.yaml").write_text("ajet:\n  execute_test: False\n")
    blueprint = bench.blueprint(command="cd sub && python -m ajet.launcher --conf r.yaml", trainer="")
    for _ in range(2):
        message = bench.ask("run", blueprint, "--dry-run", check=3)["error"]["message"]
        assert "r.yaml:2: ajet.execute_test is True" in message
        blueprint.write_text(blueprint.read_text().replace("- path: NA", "- path: mine.yaml"))


def test_a_dry_run_lists_every_refusal_at_its_end(bench: Any) -> None:
    bench.env["AUTORESEARCH_GPU_CHECK"] = "yes"
    (bench.repo / "r.yaml").write_text(
        "ajet:\n  model: {path: /no/such/model}\n  trainer_common: {n_gpus_per_node: 8}\n"
    )
    blueprint = bench.blueprint(command="python -m ajet.launcher --conf r.yaml", trainer="", codebase="code")
    plan = bench.ask("run", blueprint, "--dry-run", check=3)
    assert plan["error"]["code"] == "blueprint_invalid" and "code is not there" in plan["error"]["message"]
    blueprint = bench.blueprint(command="python -m ajet.launcher --conf r.yaml; pkill x", trainer="")
    plan = bench.ask("run", blueprint, "--dry-run", check=3)
    found = [plan["error"], *plan["error"]["others"]]
    assert [one["code"] for one in found] == ["blueprint_invalid", "too_few_gpus"]
    assert (plan["ok"], plan["exit_code"], plan["trainer"], plan["gpus_needed"]) == (False, 3, "agentjet", 8)
    code, out, err = bench.here("run", blueprint, "--dry-run")
    assert code == 3 and "nothing was changed; this would be refused" in out
    lines = [line for line in err.splitlines() if line.startswith("autoresearch: ")]
    assert lines == [f"autoresearch: {one['message']}" for one in found]


def test_a_redirection_whose_file_only_the_process_knows_is_followed(bench: Any) -> None:
    """`> logs/$(date +%s%N).txt`: what the shell made of it is open in the trainer."""
    path = bench.unknown("")
    (bench.repo / "odd.py").write_text(
        "import os, time\nfor n in range(1, 4):\n    print(f'step {n} reward {n / 10}', flush=True)\n"
        "while not os.path.exists('go'):\n    time.sleep(0.02)\nprint('step 4 reward 0.4', flush=True)\n"
    )
    command = 'mkdir -p logs && python odd.py > "logs/$(date +%s%N).txt" 2>&1'
    path.write_text(path.read_text().replace("python odd.py", command) + "\n- metric: reward\n")
    live = bench.ask("run", path, "--detach")
    log = Path(live["log_path"])
    bench.until(lambda: log.exists() and "step 3 reward" in log.read_text())
    (bench.repo / "go").touch()
    bench.until(lambda: bench.ask("status", live["run"])["state"] == "ended")
    done = bench.ask("status", live["run"])
    assert (done["verdict"], done["metrics"]["reward"]) == ("keep", 0.4), log.read_text()
