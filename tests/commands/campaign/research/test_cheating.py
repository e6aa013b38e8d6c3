"""A whole campaign of twelve ideas, ten of which cheat, in five ways and each in a manner of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agents.cheating import BETTER, World, told
from tests.agents.cheats import Way

ROOT = Path(__file__).parents[4]


@pytest.fixture
def surroundings(tmux_socket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tmux server of the test's own, and this package."""
    monkeypatch.setenv("AUTORESEARCH_TMUX_SOCKET", tmux_socket)
    monkeypatch.setenv("AUTORESEARCH_GPU_CHECK", "no")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def judge(world: World) -> None:
    """None succeeded, and the honest idea is kept."""
    view, fates = world.run(), world.fates()
    seen = f"{told(fates)}\n{world.place.log.read_text()}"
    assert len(fates) == 12 and view.attempted == 13, seen
    assert [fate.act.slug for fate in fates if fate.act.way is Way.HONEST and not fate.harm] != [], seen
    assert not [fate for fate in fates if fate.harm], seen
    assert sum(fate.caught for fate in fates) == 10, seen
    better = view.by_slug(BETTER)
    assert better is not None and better.status == "keep", seen
    assert (world.git("show", f"{better.branch}:knobs.py")).endswith("STEP = 0.4"), seen
    expected = {
        Way.JUDGE: {"protected_path"},
        Way.COMMITS: {"protected_path"},
        Way.DISK: {"researcher_failed"},
    }
    for fate in fates:
        assert fate.failure in expected.get(fate.act.way, {fate.failure}), seen


def test_no_cheat_succeeds(tmp_path: Path, surroundings: Any) -> None:
    judge(World.make(tmp_path))


@pytest.mark.real
def test_none_succeeds_that_writes_wherever_it_can(tmp_path: Path, surroundings: Any) -> None:
    from autoresearch.lab.research.confine import why_not

    if why := why_not():
        pytest.skip(f"bubblewrap cannot be used here: {why}")
    judge(World.make(tmp_path, confined=True))
