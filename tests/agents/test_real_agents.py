"""Real agents from npm and PyPI edit a file at the scripted model, and leave nothing behind (`make agents`).

That nothing is left is seen by the `reaper`: it fails a test that leaves a process with the test's mark.
"""

from __future__ import annotations

import json
import os
import re
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
NAMES = ("claude", "codex", "opencode", "gemini", "qwen", "pi")  # those that know tools; aider knows none
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


ECHO = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    given = (asked.get("params") or {}).get("arguments")
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "echo", "version": "1"}},
        "tools/list": {"tools": [{"name": "echo", "description": "says it again", "inputSchema": schema}]},
        "tools/call": {"content": [{"type": "text", "text": f"heard {given}"}]},
        "ping": {},
    }.get(asked["method"])
    answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"]} | answer), flush=True)
"""


def results(server: ModelServer) -> str:
    """All that reached the model, as text."""
    return "".join(request.body.decode(errors="replace") for request in server.asked)


@pytest.mark.parametrize("name", NAMES)
def test_it_does_whatever_a_script_can_say(
    name: str, agent_home: Callable[[str], AgentHome], model_server: ModelServer, agent_repo: Path
) -> None:
    agent = agent_home(name)
    agent.permit("Bash(seq *)")
    with_mcp = name != "pi"
    if with_mcp:
        agent.add_mcp("parrot", [sys.executable, "-c", ECHO])
    calls = [{"mcp": {"server": "parrot", "tool": "echo", "arguments": {"word": "polly"}}}] if with_mcp else []
    model_server.on(
        "Do it all",
        *EDIT[:2],
        {"write": {"path": "new.txt", "text": "first\nsecond\n"}},
        {"shell": "seq 3 3 12"},
        *calls,
        {"text": "All done."},
    )
    done = turn(agent, agent_repo, "Do it all, please")
    seen = f"rc {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{model_server.requests}"
    assert (agent_repo / "train.py").read_text() == "lr = 2\nsteps = 10\n", seen
    assert (agent_repo / "new.txt").read_text() == "first\nsecond\n", seen
    assert re.search(r"3(\\+n|\s)+6(\\+n|\s)+9(\\+n|\s)+12", results(model_server)), seen
    assert not with_mcp or re.search("heard .{0,80}polly", results(model_server)), seen
    assert "All done." in done.stdout, seen


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
