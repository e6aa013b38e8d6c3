"""Fixtures for tests that talk to a scripted model: `model_server`, `agent_home`, `agent_repo`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agents.homes import AgentHome, make_home, missing
from tests.agents.model_server import ModelServer


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """A running server without rules; it ends with the test."""
    with ModelServer() as server:
        yield server
    assert not server.errors, f"the model server itself failed: {server.errors}"


@pytest.fixture
def agent_home(
    clean_environment: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], AgentHome]:
    """`agent_home("claude")`: a real agent at the server, configured in the test's own HOME; skips where it is not."""

    def make(name: str) -> AgentHome:
        if why := missing(name):
            pytest.skip(why)
        made = make_home(name, clean_environment, model_server.url)
        for variable, value in made.variables.items():
            monkeypatch.setenv(variable, value)
        beside = str(Path(made.program).parent)
        monkeypatch.setenv("PATH", f"{beside}{os.pathsep}{os.environ['PATH']}")
        return made

    return make


@pytest.fixture
def agent_repo(tmp_path: Path) -> Path:
    """A fresh git repository with one committed file, `train.py`, that sets `lr = 1`."""
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "train.py").write_text("lr = 1\nsteps = 10\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "begin"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    return repo
