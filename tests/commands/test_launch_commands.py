"""What is read of a launch command before the start, in a dry run: commands that strangers typed."""

from __future__ import annotations

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
