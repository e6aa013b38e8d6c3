"""Real agents from npm and PyPI edit a file at the scripted model, and leave nothing behind (`make agents`).

That nothing is left is seen by the `reaper`: it fails a test that leaves a process with the test's mark.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.agents.homes import AgentHome
    from tests.agents.model_server import ModelServer

pytestmark = pytest.mark.real
NAMES = ("claude", "codex", "opencode", "gemini", "qwen", "aider", "pi")
EDIT = ({"read": "train.py"}, {"edit": {"path": "train.py", "old": "lr = 1", "new": "lr = 2"}}, {"text": "It is 2."})


def turn(agent: AgentHome, repo: Path, prompt: str) -> subprocess.CompletedProcess[str]:
    """One turn; OpenCode works in $PWD rather than in the directory that it was started in."""
    return subprocess.run(
        agent.command(prompt),
        cwd=repo,
        env=os.environ | {"PWD": str(repo)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("name", NAMES)
def test_it_edits_a_file(
    name: str, agent_home: Callable[[str], AgentHome], model_server: ModelServer, agent_repo: Path
) -> None:
    model_server.on("Set lr to 2", *EDIT)
    done = turn(agent_home(name), agent_repo, "Set lr to 2 in train.py")
    seen = f"rc {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{model_server.requests}"
    assert (agent_repo / "train.py").read_text() == "lr = 2\nsteps = 10\n", seen
    assert done.returncode == 0 and "It is 2." in done.stdout, seen
