"""Real agents are offered their web tools in a turn for ideas with `research: true`, and in no other turn."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoresearch.agents import registry
from autoresearch.core.agents.agent import Chosen, Turn, TurnRole

if TYPE_CHECKING:
    from tests.agents.homes import AgentHome
    from tests.agents.model_server import ModelServer

pytestmark = pytest.mark.real
WEB = ("WebSearch", "WebFetch", "web_search", "google_web_search", "web_fetch", "webfetch", "websearch")


def offered(server: ModelServer, since: int) -> set[str]:
    """The web tools of all requests since so many; Codex's is a tool by its type, without a name."""
    tools = [json.loads(request.body or b"{}").get("tools") or [] for request in server.asked[since:]]
    text = json.dumps(tools)
    return {name for name in WEB if f'"{name}"' in text}


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode", "qwen"])
def test_the_web_is_there_when_it_was_asked_for_and_only_then(
    name: str, agent_home: Callable[[str], AgentHome], model_server: ModelServer, agent_repo: Path, tmp_path: Path
) -> None:
    home = agent_home(name)
    seen = {}
    for role, web in ((TurnRole.PROPOSE, False), (TurnRole.EDIT, True), (TurnRole.PROPOSE, True)):
        adapter = registry.researcher(name, Chosen(program=str(home.program), model=home.model, web=web))
        turn = Turn(role, "Think of it", agent_repo, tmp_path / f"{role}-{web}")
        Path(turn.directory).mkdir()
        before = len(model_server.asked)
        done = subprocess.run(
            adapter.argv(turn),
            cwd=agent_repo,
            env=os.environ | home.variables | dict(adapter.environment(turn)) | {"PWD": str(agent_repo)},
            input=turn.prompt,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert len(model_server.asked) > before, done.stdout[-2000:] + done.stderr[-2000:]
        seen[role, web] = offered(model_server, before)
    assert not seen[TurnRole.PROPOSE, False] and not seen[TurnRole.EDIT, True], seen
    assert seen[TurnRole.PROPOSE, True], seen
