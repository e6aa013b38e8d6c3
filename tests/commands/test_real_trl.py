"""TRL for real: GRPO on a random model on CPU torch, launched from the blueprint that the repository ships."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.commands.rows import ledger_rows

pytestmark = pytest.mark.real

REPO = Path(__file__).parents[2]
INSTALLED = REPO / ".venv-trl" / ".installed"
SHIPPED = ("examples/trl_tiny.md", "recipes/trl-tiny.yaml", "trl/tiny_grpo.py")
@pytest.fixture
def tiny(bench: Any) -> Path:
    """The blueprint that ships, with its recipe and script, in a repository of the test's own."""
    if not INSTALLED.exists():
        pytest.skip("TRL and torch for CPU are not installed: `make trl` says why not")
    for name in SHIPPED:
        place = bench.repo / "blueprints" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / "blueprints" / name, place)
    (bench.repo / ".venv-trl").symlink_to(INSTALLED.parent)
    (bench.repo / ".gitignore").write_text("/.venv-trl\n/auto_agent/\n/reports/\n")
    bench.git("add", "-A")
    bench.git("commit", "-qm", "TRL's GRPO on a random model")
    bench.env |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}  # nothing is to be downloaded
    return Path(bench.repo / "blueprints" / "examples" / "trl_tiny.md")


def change(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def ran(bench: Any, blueprint: Path, ending: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run to the end: what the command said at first, and what `status` says at last."""
    started = bench.ask("run", blueprint, "--detach")
    run_dir = Path(started["run_dir"])
    bench.event(run_dir, "started")
    bench.until((run_dir / "collected.json").exists, seconds=900)
    bench.settled(started, ending)
    return started, bench.ask("status", started["run"])


def first_step(bench: Any, run: str) -> dict[str, Any]:
    (event,) = [event for event in bench.ask("logs", run, "--events")["events"] if event["event"] == "first_step"]
    return dict(event)


def read(bench: Any, run: str, source: str) -> dict[tuple[str, int], float]:
    """What one source says of the reward in training, of the KL and of the objective, by metric and step."""
    series = {}
    path = next(one["path"] for one in bench.ask("metrics", run)["sources"] if one["kind"] == source)
    if source == "trainer_state":  # the directory of checkpoints, which holds TensorBoard's, too
        path = max(Path(path).rglob("trainer_state.json"), key=lambda one: one.stat().st_mtime_ns)
    for key in ("reward", "kl", "eval_reward"):  # one at a time: an answer with all metrics is cut
        found = bench.ask("metrics", path, "--trainer", "trl", "--key", key)
        assert found["left_off"] == 0
        for entry in (*found["steps"], *found["validations"]):
            if key in entry["metrics"]:
                series[key, entry["step"]] = entry["metrics"][key]
    return series


def test_grpo_with_a_kl_and_three_sources_that_agree(bench: Any, tiny: Path) -> None:
    started, last = ran(bench, tiny, "finished")
    assert first_step(bench, started["run"])["kl"] == 0.0  # the policy is its own reference yet
    assert last["verdict"] == "keep" and last["metrics"]["step"] == 20
    state, board, console = (read(bench, started["run"], name) for name in ("trainer_state", "tensorboard", "console"))
    steps = {("reward", n) for n in range(1, 21)} | {("kl", n) for n in range(1, 21)}
    assert set(state) == set(board) == set(console) == steps | {("eval_reward", n) for n in (0, 5, 10, 15, 20)}
    for key, value in state.items():
        assert board[key] == pytest.approx(value, rel=1e-6), key
        assert console[key] == pytest.approx(value, rel=1e-3, abs=1e-4), key
    assert state["eval_reward", 20] > state["eval_reward", 0] + 0.1, "it learned nothing"
    assert last["metrics"]["eval_reward"] == state["eval_reward", 20]
    results = Path(last["results"]).read_text()
    assert "Warnings" not in results, results


def test_a_campaign_over_the_learning_rate(bench: Any, tiny: Path) -> None:
    """Three ideas, each in a worktree; what the recipe says of output_dir differs from run to run."""
    change(bench.repo / "blueprints" / "recipes" / "trl-tiny.yaml", "max_steps: 20", "max_steps: 10")
    bench.git("commit", "-qam", "ten steps will do")
    keys = {
        "blueprint": "blueprints/examples/trl_tiny.md",
        "proposer": "grid",
        "space": {"learning_rate": [0.01, 0.0]},
        "prefix": "autoresearch/lr",
        "parallel": 1,
        "baseline": 1,
        "retests": 0,
        "confirm": False,
    }
    path = bench.repo / "lr.yaml"
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items()))
    bench.ask("campaign", path, "--count", 3, "--yes", "--detach")
    place = bench.repo / "reports" / "auto_research" / "lr"
    bench.until((place / "finish.flag").exists, seconds=1500)
    bench.until(lambda: not bench.carriers())
    rows = ledger_rows(place / "results.tsv")
    assert [row["ending"] for row in rows] == ["finished"] * 3, rows
    baseline, raised, frozen = (float(row["metric_value"]) for row in rows)
    assert raised > baseline + 0.05 > frozen + 0.1, rows
    outputs = list((bench.repo / "auto_agent" / "exp_results" / "trl_tiny").rglob("trainer_state.json"))
    assert len({path.parents[0] for path in outputs if not path.parent.name.startswith("checkpoint")}) == 3, outputs
