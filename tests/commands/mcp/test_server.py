"""`autoresearch mcp` over pipes: the whole loop, several calls at a time, and every way of ending."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.system


def children(client: Any) -> list[psutil.Process]:
    try:
        return psutil.Process(client.process.pid).children()
    except psutil.NoSuchProcess:
        return []


def gone(process: psutil.Process) -> bool:
    """Over, whoever has seen its end yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def begun(bench: Any, client: Any) -> psutil.Process:
    """The one child of the server."""
    (child,) = bench.until(lambda: children(client))
    assert isinstance(child, psutil.Process)
    return child


@pytest.mark.smoke
def test_the_whole_loop(bench: Any, client: Any) -> None:
    """What the skill does with a shell, with two tools: look, check, run, wait, read, learn why, end."""
    hello = client.greet(name="codex-mcp-client")
    assert hello["protocolVersion"] == "2025-06-18" and hello["serverInfo"]["name"] == "autoresearch"
    assert "never sleep" in hello["instructions"] and str(bench.repo) in hello["instructions"]
    bench.blueprint("ok")
    planned = client.act("run", "exp.md", "--dry-run")
    assert planned["state"] == "planned" and not bench.git("branch", "--list", "autoresearch/*")
    run = client.act("run", "exp.md", "--max-time", "9m")
    assert run["session"] in bench.tmux("list-sessions").stdout and bench.git("branch", "--list", run["branch"])
    ended = client.look("wait", run["run"], "--for", "300s")
    while ended["state"] != "ended":
        ended = client.look("wait", run["run"], "--for", "300s", "--since", ended["seq"])
    assert (ended["ending"], ended["verdict"]) == ("finished", "keep")
    assert ended["metrics"]["task_pass_rate@1"] == 0.5
    assert client.look("status", run["run"]) == bench.ask("status", run["run"])
    assert client.look("logs", "--grep", "hello", "--tail", 3)["count"] == 1
    with open(run["ledger"], encoding="utf-8") as file:
        (row,) = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    assert (row["run_id"], row["driven_by"]) == (run["run"], "codex-mcp-client")
    assert client.leave() == 0 and client.errors() == ""


def test_an_error_is_the_command_s_own(bench: Any, client: Any) -> None:
    """Message, hint, fix and exit code; also where a path begins with a dash, and for what this file did not send."""
    (bench.repo / "bad.md").write_text("# nothing\n")
    for tool, argv, code in (
        ("look", ("status", "gone"), 4),
        ("act", ("run", "gone/it.md"), 4),
        ("act", ("run", "bad.md"), 3),
        ("act", ("report", "gone"), 4),
        ("look", ("logs", "--grep", "("), 4),
    ):
        said = client.tool(tool, failed=True, argv=list(argv))
        assert said == bench.ask(*argv, check=code)
        assert said["exit_code"] == code and said["ok"] is False
        assert said["error"]["message"] and said["error"]["hint"] + said["error"]["fix"]
    usage = client.look("wait", "--for", "9999s", failed=True)
    assert usage["exit_code"] == 2 and usage["error"]["code"] == "usage" and "540" in usage["error"]["message"]
    nowhere = client.look("doctor", failed=True, cwd=str(bench.root / "gone"))
    assert nowhere["exit_code"] == 2 and "there is no directory" in nowhere["error"]["message"]
    assert not bench.tmux("list-sessions").stdout and not (bench.repo / "reports").exists()


def test_what_needs_no_run_and_another_directory_by_argument(bench: Any, client: Any) -> None:
    assert client.look("doctor")["fit"] is True
    assert "sections" in client.look("config", "schema", "blueprint")
    assert "campaign" in [topic["topic"] for topic in client.look("skill", "show")["topics"]]
    blueprint = bench.blueprint("ok", name="deep/exp.md")
    planned = client.act("run", "exp.md", "--dry-run", cwd=str(blueprint.parent))
    assert planned["next"] == [f"autoresearch run {blueprint} --detach --json"]


def test_a_status_is_answered_while_a_wait_waits_and_a_wait_can_be_cancelled(bench: Any, client: Any) -> None:
    run = client.act("run", bench.blueprint("silent"))
    waiting = client.call("look", argv=["wait", run["run"], "--for", "500s"])
    child = begun(bench, client)
    assert client.look("status", run["run"])["state"] == "running"
    assert client.ask("ping")["result"] == {} and not gone(child)
    client.send(method="notifications/cancelled", params={"requestId": "not one of ours"})
    client.send(method="notifications/cancelled", params={"requestId": waiting, "reason": "bored"})
    bench.until(lambda: gone(child))
    assert client.act("stop", run["run"], "--reason", "enough")["ending"] == "stopped"
    assert client.leave() == 0
    assert not [message for message in client.kept if message.get("id") == waiting], "cancelled, and answered"


def test_the_end_of_stdin_ends_the_server_and_what_waits_but_no_run(bench: Any, client: Any) -> None:
    run = client.act("run", bench.blueprint("silent"))
    client.call("look", argv=["wait", run["run"], "--for", "500s"])
    child = begun(bench, client)
    assert client.leave() == 0
    assert gone(child)
    assert bench.ask("status", run["run"])["state"] == "running"
    bench.ask("stop", run["run"], "--reason", "test")


def test_a_launch_is_finished_though_the_client_goes(bench: Any, client: Any) -> None:
    asked = client.call("act", argv=["run", str(bench.blueprint("silent"))])
    assert client.leave() == 0
    (answer,) = [message for message in client.kept if message.get("id") == asked]
    run = answer["result"]["structuredContent"]
    assert bench.ask("status", run["run"])["state"] == "running"
    bench.ask("stop", run["run"], "--reason", "test")


def test_a_client_that_hears_nothing_more(bench: Any) -> None:
    """Its end of our stdout is closed: nothing breaks, and the end of stdin is still the end."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "autoresearch", "mcp"],
        env=bench.env,
        input=b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n' * 3,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=120,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_campaign(bench: Any, crashes: Any, connect: Any) -> None:
    """Planned, begun, added to, waited for, told about and reported; its controller is no child of the server."""
    client = connect()
    (bench.repo / "ideas").mkdir()  # none: it waits for ours
    file = str(crashes.file(count=2, parallel=1, proposer="queue", space=None, queue="ideas"))
    assert client.act("campaign", file, "--dry-run")["state"] == "planned"
    assert not crashes.place.spec.exists()
    begun = client.act("campaign", file)
    added = client.act("campaign", "add", "--set", "lr=0.25", "--sentence", "a quarter", "--slug", "quarter")
    assert added["added"] == 1
    rows = 0
    while (now := client.look("wait", "last-campaign", "--for", "120s", "--since", rows))["state"] != "ended":
        rows = now["rows"]
    assert now["campaign"] == begun["campaign"] and now["attempted"] == 2
    assert "lr=0.25" in " ".join(client.look("campaign", "status", "--full")["brief"])
    assert client.act("campaign", "pause", failed=True)["exit_code"] == 5  # it has ended
    assert client.leave() == 0
    crashes.ended(2)


def test_stdout_is_the_protocol_s_alone(bench: Any) -> None:
    """What anything else in the process prints goes to stderr."""
    noisy = (
        "from autoresearch.lab import mcp_server as it; real = it.read_message\n"
        "it.read_message = lambda line: print('noise', flush=True) or real(line)\n"
        "from autoresearch.cli import main; main(['mcp'])"
    )
    asked = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    done = subprocess.run([sys.executable, "-c", noisy], env=bench.env, input=asked, capture_output=True, timeout=120)
    assert (json.loads(done.stdout)["result"], done.stderr) == ({}, b"noise\n")
