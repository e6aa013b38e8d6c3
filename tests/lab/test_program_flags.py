"""The flags of a Python program, from its `--help`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autoresearch.lab.resolve.launch_command import ask_help, flags_of_help, parser_of

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
