"""When a campaign is over its tmux sessions close by themselves: its controller's, and those of its runs."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.system

FAST = {"proposer": "grid", "baseline": 1, "retests": 0, "confirm": False}
SPACE = {"lr": [0.2, 0.3]}


def sessions(bench: Any) -> list[str]:
    """The sessions of ours, over or not."""
    names = bench.tmux("list-sessions", "-F", "#{session_name}").stdout.split()
    return sorted(name for name in names if name.startswith("ajet_"))


def test_none_is_left_at_the_end_but_those_of_lone_runs(camp: Any) -> None:
    bench = camp.bench
    over = bench.ask("run", bench.repo / "exp.md", "--json")["session"]
    bench.blueprint("held", name="held.md", command="sleep 600", trainer="generic", result_dir=str(bench.root / "r2"))
    alive = bench.ask("run", bench.repo / "held.md", "--detach")["session"]
    camp.start(space=SPACE, count=2, **FAST)
    state = camp.over()
    assert state.reason == "stop condition met: 2/2 ideas attempted"
    assert sessions(bench) == sorted([over, alive])  # the lock is let go of after the pane is closed
    assert "pane_dead" not in bench.tmux("list-panes", "-t", f"={alive}:", "-F", "#{?pane_dead,pane_dead,}").stdout
    bench.ask("stop", alive, "--reason", "seen enough")


@pytest.mark.parametrize("point", ["campaign.settled", "campaign.removed"])
def test_none_is_left_after_a_kill_either(camp: Any, point: str) -> None:
    """After settled the run's pane is still open, after removed only the controller's."""
    camp.killed_at(point, space=SPACE, count=2, **FAST)
    assert sessions(camp.bench)
    camp.bench.ask("campaign", "resume", "one", "--detach")
    camp.over()
    assert sessions(camp.bench) == []
