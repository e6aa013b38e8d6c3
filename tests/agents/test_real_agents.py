"""Real agents from npm need no network but the scripted model on the loopback (`make agents`)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.agents.homes import AgentHome
    from tests.agents.model_server import ModelServer

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.real
EDIT = ({"read": "train.py"}, {"edit": {"path": "train.py", "old": "lr = 1", "new": "lr = 2"}}, {"text": "It is 2."})


ALONE = """
ip link set lo up
cd "$1"
"$2" -m tests.agents.model_server --port "$3" --script "$4/rules.json" > "$4/port" &
server=$!
until [ -s "$4/port" ]; do sleep 0.05; done
cd "$4/repo"
repo=$4
shift 4
"$@" < /dev/null > "$repo/said" 2>&1
kill $server
wait $server
"""


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_it_needs_no_network_but_the_loopback(
    name: str, agent_home: Callable[[str], AgentHome], model_server: ModelServer, agent_repo: Path, tmp_path: Path
) -> None:
    alone = subprocess.run(["sh", "-c", "unshare -rn ip link set lo up"], capture_output=True, check=False)
    if alone.returncode:
        pytest.skip(f"no network of its own can be made here: {alone.stderr.decode().strip()}")
    agent = agent_home(name)  # knows the port of a server that it cannot reach from in there: another one takes it
    (tmp_path / "rules.json").write_text(json.dumps([{"match": "Set lr to 2", "steps": EDIT}]))
    argv = [str(ROOT), sys.executable, str(model_server.port), str(tmp_path), *agent.command("Set lr to 2 in train.py")]
    subprocess.run(["unshare", "-rn", "sh", "-ec", ALONE, "sh", *argv], timeout=300, check=False)
    assert (agent_repo / "train.py").read_text() == "lr = 2\nsteps = 10\n", (tmp_path / "said").read_text()[-3000:]
    assert not model_server.requests
