"""Clients that others wrote: the reference client, Codex in its default sandbox, Claude Code; one run on tinygrpo each.

The agents are real, their model is a script on the loopback.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.agents.homes import AgentHome
    from tests.agents.model_server import ModelServer

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[3]
REGISTRATION = (ROOT / "docs" / "mcp.md").read_text()
PROGRAM = str(Path(sys.executable).with_name("autoresearch"))
SMALL = """
experiment_name: small
task: sort
sft_steps: 20
hidden: 16
total_steps: 6
batch_size: 8
group_size: 4
test_freq: 3
val_tasks: 8
val_pass_n: 2
val_print_to_markdown_file_path: out/validation.md
metrics_jsonl_path: out/metrics.jsonl
"""
CALLS = (
    ("act", ["run", "grpo.md"]),
    ("look", ["wait", "last", "--for=60s", "--since=1000"]),
    ("look", ["status", "last"]),
)
LOOP = (
    *({"mcp": {"server": "autoresearch", "tool": tool, "arguments": {"argv": argv}}} for tool, argv in CALLS),
    {"text": "It has been run."},
)


@pytest.fixture
def grpo(bench: Any) -> Any:
    """A bench with a blueprint that trains a tiny policy for a few steps."""
    (bench.repo / "small.yaml").write_text(SMALL)
    command = "python -m autoresearch.tinygrpo --conf small.yaml"
    path = bench.blueprint(name="grpo.md", command=command, trainer="tinygrpo", result_dir=str(bench.repo / "out"))
    path.write_text(path.read_text().replace("- path: NA", "- path: small.yaml"))
    bench.git("add", "-A")
    bench.git("commit", "-qm", "a tiny policy")
    return bench


def turn(agent: AgentHome, bench: Any, argv: list[str]) -> str:
    """One turn of an agent in the bench's repository; all that it said."""
    temporary = bench.root / "tmp"  # Codex makes no programs of its own below it, and HOME is in /tmp
    temporary.mkdir()
    done = subprocess.run(
        argv,
        cwd=bench.repo,
        env={**bench.env, **os.environ, "TMPDIR": str(temporary), "PWD": str(bench.repo)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return f"rc {done.returncode}\n{done.stdout}\n{done.stderr}"


def recorded(bench: Any, driver: str, seen: str) -> dict[str, str]:
    """The one row of the ledger: the run was kept on a branch, ended well, and says who asked for it."""
    ledgers = list((bench.repo / "reports").rglob("results.tsv"))
    assert len(ledgers) == 1, seen
    with ledgers[0].open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    assert (row["ending"], row["driven_by"]) == ("finished", driver), seen
    assert row["commit"] and bench.git("rev-parse", row["branch"]).startswith(row["commit"])
    assert f"ajet_{row['run_id'].replace('-', '_')}" in bench.tmux("list-sessions").stdout.replace("-", "_")
    return dict(row)


def results(server: ModelServer) -> str:
    """All that reached the model, as text."""
    return "".join(request.body.decode(errors="replace") for request in server.asked).replace("\\", "")


def test_the_reference_client(grpo: Any) -> None:
    python = ROOT / ".venv-mcp" / "bin" / "python"
    if not python.exists():
        pytest.skip("the reference client is not installed: make mcp")
    script = Path(__file__).with_name("reference_client.py")
    done = subprocess.run(
        [python, script, grpo.repo / "grpo.md", sys.executable, "-m", "autoresearch", "mcp"],
        cwd=grpo.repo,
        env=grpo.env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["tools"] == ["look", "act"] and said["wrong"] is True
    assert said["ended"]["ending"] == "finished" and said["ended"]["verdict"] == "keep"
    recorded(grpo, "mcp", done.stderr)


def test_codex_in_its_default_sandbox(
    grpo: Any, agent_home: Callable[[str], AgentHome], model_server: ModelServer
) -> None:
    """Its shell is told what to type; the tool that this line gives it starts a run that outlives its turn."""
    agent = agent_home("codex")
    text = REGISTRATION.split("```toml\n")[1].partition("```")[0].replace('"autoresearch"', json.dumps(PROGRAM))
    text = text.replace('"WANDB_API_KEY"', '"AUTORESEARCH_TMUX_SOCKET", "PYTHONPATH"')
    with (agent.home / ".codex" / "config.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n{text}\n")
    shell = f"{shlex.quote(sys.executable)} -m autoresearch run grpo.md --detach --json"
    model_server.on("Train it", {"shell": shell}, *LOOP)
    argv = [agent.program, "exec", "--json", "--skip-git-repo-check", "-s", "workspace-write", "Train it, please"]
    seen = turn(agent, grpo, argv)
    assert "It has been run." in seen, seen[-4000:]
    told = results(model_server)
    assert "codex mcp add autoresearch -- autoresearch mcp" in told, seen[-4000:]
    assert '"ending":"finished"' in told.replace(" ", ""), seen[-4000:]
    recorded(grpo, "codex-mcp-client", seen[-4000:])


def test_claude_code(grpo: Any, agent_home: Callable[[str], AgentHome], model_server: ModelServer) -> None:
    """Registered and allowed as docs/mcp.md says."""
    agent = agent_home("claude")
    assert "claude mcp add autoresearch -- autoresearch mcp" in REGISTRATION
    settings = grpo.repo / ".claude" / "settings.local.json"
    settings.parent.mkdir()
    settings.write_text(re.findall(r'\{"permissions".*?\}\}', REGISTRATION)[0])
    env, line = {**grpo.env, **os.environ}, ["mcp", "add", "autoresearch", "--", PROGRAM, "mcp"]
    added = subprocess.run([agent.program, *line], cwd=grpo.repo, env=env, capture_output=True)
    assert added.returncode == 0, added
    model_server.on("Train it", *LOOP)
    seen = turn(agent, grpo, agent.command("Train it, please"))
    assert "It has been run." in seen, seen[-4000:]
    assert '"ending":"finished"' in results(model_server).replace(" ", ""), seen[-4000:]
    recorded(grpo, "claude-code", seen[-4000:])


def test_gemini(grpo: Any, agent_home: Callable[[str], AgentHome], model_server: ModelServer) -> None:
    agent = agent_home("gemini")
    agent.add_mcp("autoresearch", [sys.executable, "-m", "autoresearch", "mcp"])
    model_server.on("Train it", *LOOP)
    seen = turn(agent, grpo, agent.command("Train it, please"))
    assert "It has been run." in seen, seen[-4000:]
    assert '"ending":"finished"' in results(model_server).replace(" ", ""), seen[-4000:]
    recorded(grpo, "gemini-cli", seen[-4000:])
