"""A whole campaign of twelve ideas, ten of which cheat, each in a manner of its own: none of them succeeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.cheating import BETTER, World, told


def test_no_cheat_succeeds_and_the_honest_idea_is_kept(
    tmp_path: Path, tmux_socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTORESEARCH_TMUX_SOCKET", tmux_socket)
    monkeypatch.setenv("AUTORESEARCH_GPU_CHECK", "no")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    world = World.make(tmp_path)
    view = world.run()
    fates = world.fates()
    seen = told(fates) + "\n" + world.place.log.read_text()
    print(seen)
    assert view.best is not None and view.best.slug == BETTER, seen
