"""What `init` makes of a project: which command trains, which number is proposed, what its launch takes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from autoresearch.lab.campaign_setup.first_files import (
    FirstCampaign,
    as_read,
    first_blueprint,
    first_campaign,
    training_command,
)
from autoresearch.lab.recipes.likely_objective import PrintedNumber, candidates, with_proposal
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.yaml_files import parse_mapping

PROJECTS = Path(__file__).parents[2] / "samples" / "projects"


@pytest.mark.parametrize(
    ("files", "command"),
    [
        (["train.py", "fit.py"], "python train.py"),
        (["fit.py"], ""),
        (["run.sh", "data.py"], "bash run.sh"),
        (["src/train.py"], "python src/train.py"),
        ([], ""),
    ],
)
def test_which_script_trains(tmp_path: Path, files: list[str], command: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "main.py").symlink_to("/nowhere")
    assert training_command(tmp_path) == command


@pytest.mark.parametrize(
    ("names", "best"),
    [
        ("val_loss reward loss", "val_loss"),
        ("reward loss lr", "reward"),
        ("reward score", "reward score"),
        ("policy_loss value_loss loss", "loss"),
        ("policy_loss value_loss", "policy_loss value_loss"),
        ("Acc@1 Acc@5 Max_accuracy", "Acc@1 Acc@5 Max_accuracy"),  # Swin-Transformer
        ("Vali_Loss Test_Loss Train_Loss", "Vali_Loss"),  # Autoformer
        ("Best_accuracy accuracy", "accuracy"),
        ("reward mean_reward", "mean_reward"),
        ("valid_loss valid_ppl", "valid_loss valid_ppl"),  # awd-lstm-lm
        ("val_recon_loss val_perplexity", "val_recon_loss val_perplexity"),  # VideoGPT: of its codes
        ("loss lr", "loss"),
        ("lr sps", ""),
        ("val_loss val_accuracy loss", "val_loss val_accuracy"),  # which of them counts, no name says
        ("scores_mean scores_std scores_max", "scores_mean"),
        ("eval eval_runtime eval_samples_per_second score_std", ""),
        ("max_accuracy loss", "max_accuracy"),  # deit: the best so far
        ("reward_max", ""),
        ("eval_time eval_total_reward", "eval_total_reward"),
    ],
)
def test_held_out_before_reward_before_loss_and_never_a_spread_or_a_time(names: str, best: str) -> None:
    assert [one.name for one in candidates(numbers(names))] == best.split()


@pytest.mark.parametrize(("names", "first"), [("lr val_loss", "val_loss"), ("time quality", "quality"), ("lr", "lr")])
def test_one_number_is_proposed_and_none_is_left_out(names: str, first: str) -> None:
    shown = with_proposal(numbers(names))
    assert {one.name for one in shown} == {*names.split()}
    assert [one.name for one in shown if one.proposed] == [first] == [shown[0].name]


def numbers(names: str) -> list[PrintedNumber]:
    return [PrintedNumber(name, 1.5, 0.5) for name in names.split()]


def made(root: Path, **environ: str) -> FirstCampaign:
    path = root / "experiment.md"
    path.write_text(render_blueprint(first_blueprint(root, "python train.py", "", "", path)))
    return first_campaign(path, {**os.environ, **environ}, "campaign.yaml")


def test_the_keys_of_a_recipe_count_as_what_it_takes(tmp_path: Path) -> None:
    shutil.copytree(PROJECTS / "yamlcfg", tmp_path / "it")
    assert {"learning_rate", "entropy_coef", "minibatch_size"} <= {*made(tmp_path / "it").settings}


@pytest.mark.parametrize(
    ("readme", "purpose"),
    [
        ("# nanoGPT\n\n![an image](x)\n\nIt is made for\ntraining GPTs.\n\nMore.", "It is made for training GPTs."),
        ("<p align=center>\n</p>\n\n[![badge](a)](b) [![b](d)](e) [![c](f)](g)\n\nShort.\n", ""),
        ("My very own long title\n=====\n\n**It** learns to sort numbers.", "**It** learns to sort numbers."),
    ],
)
def test_the_purpose_is_what_the_readme_says(readme: str, purpose: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(readme)
    fields = first_blueprint(tmp_path, "python train.py", "loss", "", tmp_path / "exp.md")
    assert fields.purpose == (purpose or f"The baseline of {tmp_path.name}: `python train.py` as it is.")


def test_a_script_with_nothing_to_vary_is_for_an_agent(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import nothing_of_the_kind\nnothing_of_the_kind.go()\n")
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.touch(0o755)
    campaign = made(tmp_path, PATH=str(program.parent))
    assert "# metric: NAME" in campaign.text and "coding agent" in campaign.remark
    assert parse_mapping(campaign.text.encode(), "c")["agent"] == "codex"


def test_lightning_takes_the_cpu_where_there_is_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import hydra\n@hydra.main(config_path='.')\ndef main(c): ...\nmain()\n")
    (tmp_path / "set").mkdir()
    path = tmp_path / "b.md"
    for accelerator, needed in (("auto", 0), ("gpu", 2)):
        (tmp_path / "set/an4.yaml").write_text(f"trainer:\n  accelerator: {accelerator}\n  devices: 2\n")
        fields = first_blueprint(tmp_path, "python train.py +set=an4", "", "", path)
        assert as_read(fields, path, {}).gpus_needed({}) == needed
