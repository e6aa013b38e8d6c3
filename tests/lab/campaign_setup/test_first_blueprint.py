"""Which script of a project is taken for its training."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.lab.campaign_setup.first_blueprint import training_command


@pytest.mark.parametrize(
    ("files", "command"),
    [
        (["train.py", "fit.py"], "python train.py"),
        (["fit.py"], "python fit.py"),
        (["fit.py", "setup.py", "conftest.py"], "python fit.py"),
        (["fit.py", "data.py"], ""),
        (["run.sh", "data.py"], "bash run.sh"),
        (["setup.py"], ""),
        ([], ""),
    ],
)
def test_the_script_of_a_usual_name_or_the_only_one(tmp_path: Path, files: list[str], command: str) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert training_command(tmp_path) == command
