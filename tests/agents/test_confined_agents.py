"""Real agents within bubblewrap, at a scripted model: they work there, and what they would rob stays where it is."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoresearch.agents import registry
from autoresearch.core.agents.agent import Bounds, Chosen, Turn, TurnRole
from autoresearch.lab.agent_work.sandbox import Level
from autoresearch.lab.agent_work.turn import run_turn
from autoresearch.lab.agent_work.turn_dir import next_directory
from autoresearch.lab.agent_work.turn_environment import TurnEnvironment

if TYPE_CHECKING:
    from tests.agents.homes import AgentHome
    from tests.agents.model_server import ModelServer

pytestmark = pytest.mark.real
EDIT = ({"read": "train.py"}, {"edit": {"path": "train.py", "old": "lr = 1", "new": "lr = 2"}}, {"text": "It is 2."})
NAMES = ("claude", "codex")  # the others are slow to start


@pytest.fixture
def tree(agent_repo: Path, tmp_path: Path, bubblewrap: None) -> Path:
    """A linked worktree."""
    place = tmp_path / "tree"
    subprocess.run(["git", "worktree", "add", "-q", "--detach", str(place)], cwd=agent_repo, check=True)
    return place


@pytest.mark.parametrize("name", NAMES)
def test_it_edits_its_worktree(
    name: str, agent_home: Callable[[str], AgentHome], model_server: ModelServer, tree: Path, tmp_path: Path
) -> None:
    model_server.on("Set lr to 2", *EDIT)
    home = agent_home(name)
    agent = registry.researcher(name, Chosen(home.program, home.model, keep=("AUTORESEARCH_TEST",), outside=True))
    turns = tmp_path / "turns"
    turn = Turn(
        TurnRole.EDIT, "Set lr to 2 in train.py", tree, next_directory(turns, TurnRole.EDIT), bounds=Bounds(240)
    )
    turn_environment = TurnEnvironment(dict(os.environ), Level.BUBBLEWRAP, keep=("AUTORESEARCH_TEST",))
    answer = run_turn(agent, turn, turn_environment, threading.Event())
    printed = [(Path(turn.directory) / name).read_text()[-3000:] for name in ("out", "err")]
    seen = "\n".join([str(answer), *printed])
    assert answer.fault is None and "It is 2." in answer.text, seen
    assert (tree / "train.py").read_text() == "lr = 2\nsteps = 10\n", seen
    assert answer.usage.tokens_out, seen
