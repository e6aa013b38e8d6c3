"""The shipped blueprints of the frameworks: clean on a machine that has what they name, and rendered back the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.lab.render import data_dir
from autoresearch.lab.resolve.resolve_blueprint import read_blueprint, resolve_blueprint
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer
from autoresearch.trainers import registry

BLUEPRINTS = data_dir("blueprints")
GPUS = {  # blueprint: the GPUs that it takes; None where only its script knows
    "agentjet.md": 4,
    "verl.md": 8,
    "nemo_rl.md": 1,  # what its parent says
    "trl.md": None,
    "openrlhf.md": 8,
    "slime.md": 8,
    "slime_coding_agent.md": None,
}
PARENT = "grpo:\n  seed: 42\n  val_period: 10\ncluster:\n  gpus_per_node: 1\n  num_nodes: 1\n"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A place that looks like the machine the examples were written for, with `/data` below it."""
    (tmp_path / "models" / "Qwen2.5-7B-Instruct").mkdir(parents=True)
    for folder in ("agentjet", "verl", "trl", "OpenRLHF", "slime/scripts/models"):
        (tmp_path / "projects" / folder).mkdir(parents=True)
    venvs = [f"venvs/{name}" for name in ("agentjet", "verl", "trl", "openrlhf", "slime")]
    for venv in (*venvs, "projects/nemo-rl/.venv"):
        python = tmp_path / venv / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to("/bin/sh")
    (tmp_path / "projects/nemo-rl/examples/configs").mkdir(parents=True)
    (tmp_path / "projects/nemo-rl/examples/configs/grpo_math_1B.yaml").write_text(PARENT)
    for script in ("scripts/models/qwen3-4B.sh", "examples/coding_agent_rl/run_qwen36_35b_a3b_swe_8nodes.sh"):
        path = tmp_path / "projects/slime" / script
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("MODEL_ARGS=(--num-layers 36)\n")
    (tmp_path / "recipes").mkdir()
    for recipe in ("agentjet.yaml", "nemo-rl-grpo.yaml", "trl-grpo.yaml"):
        text = (BLUEPRINTS / "recipes" / recipe).read_text()
        (tmp_path / "recipes" / recipe).write_text(text.replace("/data/", f"{tmp_path}/"))
    return tmp_path


def asked(machine: Path, name: str) -> TrainerSettings:
    text = (BLUEPRINTS / "examples" / name).read_text().replace("/data/", f"{machine}/")
    (machine / name).write_text(text)
    found = resolve_blueprint(read_blueprint(machine / name), environ={"E2B_API_KEY": "x"})
    notes = found.blueprint.notes
    return ask_trainer(registry.choose(notes.trainer, found.shell_reading), found)


@pytest.mark.parametrize("name", GPUS)
def test_nothing_is_wrong_with_it(machine: Path, name: str) -> None:
    own = asked(machine, name)
    found = [*own.resolved.findings, *own.findings()]
    assert [str(finding) for finding in found] == []
    assert own.resume_conflict() is None


@pytest.mark.parametrize("name", GPUS)
def test_it_says_what_its_trainer_says(machine: Path, name: str) -> None:
    own = asked(machine, name)
    notes = own.resolved.blueprint.notes
    usual = own.trainer.objective(own.whole)
    assert usual is not None
    assert (usual.metric, usual.direction) == (notes.metric, notes.direction)
    assert own.trainer.gpus(own.whole) == GPUS[name]
    assert own.trainer.seed(own.whole) is not None
    if name != "slime_coding_agent.md":  # whose script holds the flags
        assert own.trainer.space(own.whole)
