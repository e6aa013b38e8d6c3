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


@pytest.mark.parametrize("command", (CASES / "detached-commands-unwarned/commands.txt").read_text().splitlines())
def test_what_returns_early_or_trains_several_times_is_said(bench: Any, command: str) -> None:
    (bench.repo / "train.py").write_text("print('step: 1 reward: 1')")
    plan = bench.ask("run", bench.blueprint(command=command), "--dry-run")
    (said,) = [finding for finding in plan["findings"] if "this run cannot see" in finding or "would " in finding]
    assert command.split()[0] in said or "a multirun starts several trainings" in said


def test_a_command_that_removes_the_records_is_refused(bench: Any) -> None:
    (bench.repo / "go.sh").write_text("cd /\nrm -rf $HERE/../reports\ngit -C $HERE clean -fdxq\n")
    results = {"out": str(bench.repo / "out/x"), "elsewhere": str(bench.root / "results")}
    for command, result_dir, line in (
        ("git clean -fdxq && python train.py", "elsewhere", "exp.md:17: git clean removes "),
        ("rm -rf out; python train.py", "out", "exp.md:17: rm removes "),
        (f"HERE={bench.repo}; . ./go.sh", "elsewhere", "go.sh:3: git clean removes "),
    ):
        blueprint = bench.blueprint(command=command, result_dir=results[result_dir])
        for verb in (("run",), ("run", "--dry-run")):
            assert line in bench.ask(*verb, blueprint, check=3)["error"]["message"]
        assert "wipes_records" in [f["code"] for f in bench.ask("blueprint", "check", blueprint, check=3)["findings"]]
    bench.ask("run", bench.blueprint(command="rm -rf out/x/checkpoints", result_dir=results["out"]), "--dry-run")
