"""In the sandboxes of coding agents a run would be lost: it is refused with the line to type, and nothing is left.

The facts are bubblewrap's and Codex's own; each test first shows the danger, then that it is seen.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
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
PIDS = ("--unshare-pid", "--proc", "/proc", "--die-with-parent")
CODEX_LINE = "codex mcp add autoresearch -- autoresearch mcp"
CAMPAIGN = ("--count", "3", "--queue", "ideas", "--yes", "--detach")
OPEN_NETWORK = ("-c", "sandbox_workspace_write.network_access=true")


def bwrap(*words: object) -> list[str]:
    """Everything of this machine, and what the words change; skipped where that cannot be had."""
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed: apt-get install bubblewrap")
    line = ["bwrap", "--dev-bind", "/", "/", *map(str, words)]
    tried = subprocess.run([*line, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no such sandbox can be made here: {tried.stderr.strip()}")
    return [*line, "--"]


def within(sandbox: list[str], bench: Any, *argv: object, **env: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of a command of ours in there."""
    done = subprocess.run(
        [*sandbox, sys.executable, "-m", "autoresearch", *map(str, argv), "--json"],
        cwd=bench.repo,
        env={**bench.env, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 1, done.stdout + done.stderr
    return done.returncode, dict(json.loads(lines[0]))


def refused(bench: Any, sandbox: list[str], code: str, fix: str = "", **env: str) -> None:
    """`run`, `campaign` and `doctor` say what to do and exit 6; no branch, no session, no row, no file is left."""
    blueprint = bench.blueprint("ok")
    (bench.repo / "ideas").mkdir()
    before = bench.picture("/.git/index", "__pycache__")
    for argv in (
        ("run", blueprint, "--detach"),
        ("campaign", blueprint, *CAMPAIGN),
    ):
        status, said = within(sandbox, bench, *argv, **env)
        assert (status, said["exit_code"], said["error"]["code"]) == (6, 6, code), said
        assert "autoresearch mcp" in said["error"]["hint"] and "excludedCommands" in said["error"]["hint"]
        assert said["error"]["fix"] == fix and said["next"] == ([fix] if fix else [])
    status, said = within(sandbox, bench, "doctor", **env)
    (finding,) = [finding for finding in said["findings"] if finding["code"] == code]
    assert status == 6 and said["fit"] is False and "autoresearch mcp" in finding["hint"]
    assert bench.picture("/.git/index", "__pycache__") == before
    assert bench.tmux("list-sessions").stdout == "" and bench.git("branch", "--list", "autoresearch/*") == ""
    bench.until(lambda: not bench.carriers())  # the first process of a sandbox may end after bwrap


def test_a_private_pid_namespace_of_bubblewrap(bench: Any) -> None:
    refused(bench, bwrap(*PIDS), "sandbox")


def test_a_home_that_cannot_be_written_is_not_taken_for_the_fault(bench: Any) -> None:
    """An agent told to choose another state directory would do so, and lose the run that it then gets."""
    state = Path(bench.env["XDG_STATE_HOME"])
    state.mkdir(parents=True)
    line = "claude mcp add autoresearch -- autoresearch mcp"
    refused(bench, bwrap(*PIDS, "--ro-bind", state, state), "sandbox", line, CLAUDECODE="1")


def test_a_git_directory_that_cannot_be_written(bench: Any) -> None:
    place = bench.repo / ".git"
    refused(bench, bwrap("--ro-bind", place, place), "git_read_only")


def test_and_that_of_a_linked_worktree(bench: Any) -> None:
    """Its own git directory can be written, and the objects that it shares cannot."""
    other = bench.root / "linked"
    bench.git("worktree", "add", "-q", "--detach", str(other))
    blueprint = bench.blueprint("ok", codebase=str(other))
    objects = bench.repo / ".git" / "objects"
    own = bench.repo / ".git" / "worktrees"
    sandbox = bwrap("--ro-bind", objects.parent, objects.parent, "--bind", own, own)
    status, said = within(sandbox, bench, "run", blueprint, "--detach")
    assert (status, said["error"]["code"]) == (6, "git_read_only"), said


def test_a_campaign_is_not_resumed_from_a_sandbox(bench: Any) -> None:
    blueprint = bench.blueprint("ok")
    env = {"AUTORESEARCH_FAILPOINT": "begin.passed:kill"}  # begun, and its controller never started
    (bench.repo / "ideas").mkdir()
    bench.cli("campaign", blueprint, *CAMPAIGN, check=None, **env)
    status, said = within(bwrap(*PIDS), bench, "campaign", "resume", "--detach")
    assert (status, said["error"]["code"]) == (6, "sandbox"), said
    assert bench.ask("campaign", "status")["controller_pid"] is None
    assert bench.tmux("list-sessions").stdout == ""


def test_a_living_run_can_be_watched_and_stopped_from_a_sandbox(bench: Any) -> None:
    """In there its processes cannot be seen; its locks can, and nobody buries it."""
    run = bench.ask("run", bench.blueprint("long"), "--detach")
    sandbox = bwrap(*PIDS)
    assert within(sandbox, bench, "status")[1]["runs"][0]["state"] == "running"
    assert within(sandbox, bench, "wait", run["run"], "--for", "1s")[1]["state"] == "running"
    assert within(sandbox, bench, "status")[1]["living"] == 1
    assert within(sandbox, bench, "stop", run["run"], "--reason", "seen")[0] == 0
    bench.settled(run, "stopped")


@pytest.fixture
def codex(agent_home: Callable[[str], AgentHome], bench: Any, tmp_path: Path) -> Callable[..., list[str]]:
    """The beginning of a command line that runs something in Codex's own sandbox."""
    agent = agent_home("codex")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    bench.env |= {name: os.environ[name] for name in ("PATH", "OPENAI_API_KEY")}
    bench.env["TMPDIR"] = str(temporary)  # Codex makes no programs of its own below it, and HOME is in /tmp

    def line(*flags: str) -> list[str]:
        found = [agent.program, "sandbox", "-c", 'sandbox_mode="workspace-write"', *flags, "--"]
        tried = subprocess.run([*found, "true"], cwd=bench.repo, env=bench.env, capture_output=True, text=True)
        if tried.returncode:
            pytest.skip(f"codex can make no sandbox here: {tried.stderr.strip()[-300:]}")
        return found

    return line


def test_the_default_sandbox_of_codex(bench: Any, codex: Callable[..., list[str]]) -> None:
    refused(bench, codex(), "sandbox", CODEX_LINE)


def test_the_sandbox_of_codex_with_a_network_is_the_deadly_one(bench: Any, codex: Callable[..., list[str]]) -> None:
    """tmux says 0 and that the session is there; with the command it is gone."""
    sandbox, socket = codex(*OPEN_NETWORK), str(bench.repo / "s")
    danger = f"tmux -S {socket} new-session -d -s doomed sleep 600 && tmux -S {socket} has-session -t doomed"
    done = subprocess.run([*sandbox, "bash", "-c", danger], cwd=bench.repo, env=bench.env, capture_output=True)
    assert done.returncode == 0, done.stderr
    gone = ["tmux", "-S", socket, "has-session", "-t", "doomed"]
    bench.until(lambda: subprocess.run(gone, capture_output=True, check=False).returncode == 1)
    Path(socket).unlink()
    refused(bench, sandbox, "sandbox", CODEX_LINE)


LENIENT = {"network": {"allowAllUnixSockets": True}, "filesystem": {"allowWrite": ["/tmp"]}}  # then tmux "works"


@pytest.mark.parametrize("settings", [{}, LENIENT], ids=["default", "lenient"])
def test_the_sandbox_of_claude_code(
    settings: dict[str, Any], bench: Any, agent_home: Callable[[str], AgentHome], model_server: ModelServer
) -> None:
    if shutil.which("socat") is None:
        pytest.skip("socat is not installed, and Claude Code's sandbox needs it: apt-get install socat")
    agent = agent_home("claude")
    bwrap()
    path = agent.home / ".claude" / "settings.json"
    own = {"sandbox": {"enabled": True, "autoAllowBashIfSandboxed": True, "failIfUnavailable": True, **settings}}
    path.write_text(json.dumps(json.loads(path.read_text()) | own))
    bench.blueprint("ok")
    command = f"{shlex.quote(sys.executable)} -m autoresearch run exp.md --detach --json"
    model_server.on("Train it", {"shell": command}, {"text": "So be it."})
    done = subprocess.run(
        [*agent.command("Train it, please"), "--allowedTools", "Bash"],
        cwd=bench.repo,
        env={**bench.env, **os.environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    told = "".join(request.body.decode(errors="replace") for request in model_server.asked).replace("\\", "")
    assert '"fix": "claude mcp add autoresearch -- autoresearch mcp"' in told, done.stdout[-3000:] + done.stderr
    assert '"code": "sandbox"' in told and '"exit_code": 6' in told
    assert bench.tmux("list-sessions").stdout == "" and bench.git("branch", "--list", "autoresearch/*") == ""
    assert not (bench.repo / "reports").exists()
    bench.until(lambda: not bench.carriers())
