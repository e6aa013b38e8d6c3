"""The flags of a Python program, from its text and from its `--help`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autoresearch.lab.recipes.program_flags import (
    ask_help,
    flags_in,
    flags_of_help,
    is_data,
    missing_in,
    named_paths,
    other_names,
    parser_of,
    unset_in,
)

ARGPARSE = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("-b", "--batch-size", type=int, default=8)
p.add_argument("--layers", nargs="+", default=(64, 64))
p.add_argument("--use-kl", action="store_true")
p.add_argument("--out", default=DEFAULT)
p.add_argument("data")
"""
TYRO = """
import tyro
@dataclass
class Args:
    lr: float = 0.1
    env_id: str = "CartPole-v1"
    steps: int = field(default=7)
args = tyro.cli(Args)
"""
TYPER = "import typer\ndef main(data: str, learning_rate: float = 0.1): ...\ntyper.run(main)\n"
FIRE = "import fire\ndef train(lr=0.1): ...\ndef other(a=1): ...\nfire.Fire(train)\n"
CLICK = 'import click\n@click.command()\n@click.option("--lr/--no-lr", default=True)\ndef f(lr): ...\n'


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        ("import jsonargparse\ndef setup(data=Path('d')): ...\nCLI(setup)", {"data": "d"}),  # TinyLlama
        (ARGPARSE, {"batch-size": 8, "layers": [64, 64], "use-kl": False, "out": None}),
        ("import os, argparse, sys\np.add_argument('--lr', '-l', default=0.1)", {"lr": 0.1}),  # MinAtar
        ("import argparse\np.add_argument('-lr', default=0.1)\np.add_argument('-b', '--bs')", {"-lr": 0.1, "bs": None}),
        (TYRO, {"lr": 0.1, "env_id": "CartPole-v1", "steps": 7}),
        (TYPER, {"learning-rate": 0.1}),
        (FIRE, {"lr": 0.1}),
        (CLICK, {"lr": True}),
        ("lr = 0.1\nclass Args:\n    lr: float = 0.1\n", {}),  # nothing reads a command line
        ("import argparse\nthis is no Python", {}),
    ],
)
def test_flags_in_a_text(source: str, flags: dict[str, object]) -> None:
    assert flags_in(source) == flags


def test_of_several_names_of_a_flag_the_typed_one_or_the_first_is_used() -> None:
    text = "import argparse\np.add_argument('--lr', '--learning-rate', '-l', default=0.1)\np.add_argument('--wd')\n"
    assert other_names(text, ["python", "train.py"]) == {"learning-rate"}
    assert other_names(text, ["python", "train.py", "--learning-rate=0.2"]) == {"lr"}


def test_what_prints_its_help() -> None:
    assert [parser_of(text) for text in (ARGPARSE, TYRO, "import hydra\n", "import torch\n", "# argparse")] == [
        "argparse",
        "tyro",
        "hydra",
        "",
        "",
    ]


def test_help_texts() -> None:
    text = """usage: t.py [-h] [--lr LR]
options:
  -h, --help            show this help message and exit
  -b SIZE, --batch-size SIZE
                        of a step (default: 8)
  --lr LR               the rate
"""
    assert flags_of_help(text) == {"batch-size": 8, "lr": None}
    rich = "│    --learning-rate        FLOAT  [default: 0.1]                │\n│ *  --data   TEXT [required] │\n"
    assert flags_of_help(rich) == {"learning-rate": 0.1, "data": None}


@pytest.mark.system
def test_help_is_asked_without_a_gpu_and_what_hangs_or_fails_names_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(ARGPARSE.replace("DEFAULT", "os.environ['CUDA_VISIBLE_DEVICES']") + "p.parse_args()")
    (tmp_path / "u.py").write_text("import os\n" + (tmp_path / "t.py").read_text())
    python, environ = Path(sys.executable), {"CUDA_VISIBLE_DEVICES": "0"}
    assert ask_help(["t.py"], python, tmp_path, environ) == {}  # a NameError
    assert "batch-size" in ask_help(["u.py"], python, tmp_path, environ)
    assert ask_help(["u.py"], Path("/nowhere/python"), tmp_path, environ) == {}


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ("", ["DATA", "--model_id", "--task"]),
        ("imagenet --model-id=a --task x", []),
        ("--model_id a", ["--task"]),  # whether a value or an operand stands there, the text alone does not say
        ("$ARGUMENTS", []),
    ],
)
def test_flags_that_a_program_demands(words: str, missing: list[str]) -> None:
    source = """import argparse
from absl import flags
p = argparse.ArgumentParser()
p.add_argument("data")
p.add_argument("--lr", default=1e-3)
p.add_argument("-m", "--model_id", required=True)
p.add_argument("--local_rank", required=True)
flags.mark_flags_as_required(["task"])
"""
    assert missing_in(source, words.split()) == missing
    source = 'import click\n@click.command()\n@click.option("--out", "folder", required=True)\ndef f(folder): ...\n'
    assert missing_in(source, []) == ["--out"]
    assert missing_in(source, ["--out=a"]) == []
    assert missing_in(f'{source}@click.command()\n@click.option("--x", required=True)\ndef g(x): ...\n', []) == []
    module = 'import argparse\ndef get():\n    p.add_argument("-m", "--model", required=True)\n'
    assert missing_in(module, [], {"get"}) == ["--model"] and missing_in(module, [], {"main"}) == []


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("if len(sys.argv) != 3:\n    print('usage')\n    sys.exit(1)\nx = sys.argv[1]", ["sys.argv[2]"]),
        ("a, b = sys.argv[1], sys.argv[2]", ["sys.argv[2]"]),
        ("b = sys.argv[2] if len(sys.argv) > 2 else 0", []),
        ("try:\n    b = sys.argv[2]\nexcept IndexError:\n    b = 0", []),
    ],
)
def test_words_that_a_program_without_a_parser_demands(source: str, missing: list[str]) -> None:
    assert missing_in(source, ["data"]) == missing


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("dir_img = Path('./data/imgs/')\ndir_out = './out/'", {"./data/imgs/": 1}),  # Pytorch-UNet
        ("a = Data(root='/x/voc')\nb = Data(root='/x/voc')", {"/x/voc": 1}),  # pytorch-retinanet
        ("def main():\n    a = H5Dataset('/x/y.h5')\n    b = save('/x/z.h5')", {"/x/y.h5": 2}),  # pytorch-SRResNet
        ("a = CIFAR10(root='/x/voc', download=True)", {}),
        ("if main:\n    text = open('input.txt', 'r').read()", {"input.txt": 2}),  # minGPT
        ("open('log.txt', 'w')\nopen('log.txt')", {}),
        ("p.add_argument('--data', default='./data/x')", {}),  # a flag: the command may set it
    ],
)
def test_paths_of_data_that_a_text_names(text: str, paths: dict[str, int]) -> None:
    assert named_paths(text) == paths


def test_which_names_are_those_of_data() -> None:
    names = ("data", "train_list", "list", "image_list", "root_dir", "template_list", "net")
    assert [name for name in names if is_data(name, "./x")] == [*names[:5]]  # LM-BFF: the sixth is none
    assert not is_data("root_dir", "./exp") and is_data("data_dir", "./data/exp")  # mbrl-lib


def test_flags_that_are_nothing_unless_they_are_given() -> None:
    text = "import argparse\np.add_argument('--mode', type=str)\np.add_argument('--train-dir', default=None)\n"
    text += "p.add_argument('--v', action='store_true')\np.add_argument('--lr', default=LR)\nargs.mode == 'train'"
    assert unset_in(text) == {"mode": True, "train_dir": False}  # keras-dcgan, Conv-TasNet
    text = "from transformers import HfArgumentParser\nclass Args:\n    lr: float = field(default=1)\n"
    assert unset_in(f"{text}    data_path: str = field(default=None)\n") == {"data_path": False}  # stanford_alpaca
