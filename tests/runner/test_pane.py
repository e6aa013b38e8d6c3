"""The Runner as a tmux pane's program: what people see, and what closing things means."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from autoresearch.launchers.tmux import TmuxLauncher
from autoresearch.runner.basics import RUN_ID

SOON = "loop.HANGUP_S = 0.4"  # what a hangup means is decided soon


def in_tmux(yard: Any, tmux: Any, command: str, *, patch: str = "", **changes: Any) -> Any:
    live = yard.make(command, **changes)
    yard.live.append(live)
    tmux.session("ajet_test", yard.argv(live, patch))
    return live


@pytest.mark.system
def test_the_pane_mirrors_the_log(yard: Any, tmux: Any, until: Any) -> None:
    live = in_tmux(yard, tmux, "echo hello; sleep 0.3; echo bye; exit 3")
    assert live.record()["returncode"] == 3
    end = f"records: {live.dir} =="
    screen = until(lambda: s if end in (s := tmux.screen("ajet_test")).replace("\n", "") else "")
    lines = [line for line in screen.splitlines() if line.strip()]
    assert lines[0].startswith(f"== {live.run}: echo hello;")
    assert lines[1:3] == ["hello", "bye"]
    assert "crashed, exit code 3" in lines[3]


@pytest.mark.system
@pytest.mark.parametrize("others", [[], ["mine"], ["ajet_other"]])
def test_killing_the_last_session_lets_our_server_go(
    yard: Any, tmux: Any, tmp_path: Path, until: Any, dead: Any, others: list[str]
) -> None:
    """The launcher keeps a server for its runs; with the last of them killed by hand, it is not kept any more."""
    live = yard.make("sleep 1000")
    yard.live.append(live)
    launcher = TmuxLauncher(tmux.socket)
    info = launcher.start("ajet_test", yard.argv(live), cwd=tmp_path, environment={RUN_ID: live.run})
    (pid,) = launcher.living_pids("ajet_test") or ()
    for name in others:
        tmux("new-session", "-d", "-s", name, "sleep 1000")
    live.event("started")
    tmux("kill-session", "-t", "=ajet_test")
    assert live.record()["ending"] == "stopped"
    if not others:
        until(lambda: dead(info.server_pid))
    else:
        until(lambda: dead(pid))
        assert tmux("list-sessions", "-F", "#{session_name}").split() == others
        kept = tmux("show-options", "-s", "exit-empty") == "exit-empty off"
        assert kept == (others == ["ajet_other"])


@pytest.mark.system
@pytest.mark.parametrize("how", ["kill-server", "SIGKILL"])
def test_a_dead_server_leaves_the_run_headless(yard: Any, tmux: Any, how: str, until: Any) -> None:
    live = in_tmux(yard, tmux, "until [ -e go ]; do sleep 0.05; done; echo 'step:1 - actor/x:1'; exit 5", patch=SOON)
    live.event("started")
    if how == "SIGKILL":
        os.kill(tmux.pid(), signal.SIGKILL)
    else:
        tmux("kill-server")
    with pytest.raises(AssertionError):
        until(lambda: "stopping" in live.names(), 1.0)
    (yard.root / "go").touch()
    record = live.record()
    assert (record["ending"], record["returncode"], record["first_step"]) == ("crashed", 5, 1)


@pytest.mark.system
@pytest.mark.parametrize("in_a_terminal", [True, False])
def test_sighup_alone_means_nothing(yard: Any, tmux: Any, until: Any, in_a_terminal: bool) -> None:
    waits, none = "until [ -e go ]; do sleep 0.05; done", {"TMUX": f"/tmp/x,{os.getpid()},0"}
    live = in_tmux(yard, tmux, waits, patch=SOON) if in_a_terminal else yard.start(waits, patch=SOON, env=none)
    os.kill(live.event("started")["runner"], signal.SIGHUP)
    with pytest.raises(AssertionError):
        until(lambda: "stopping" in live.names(), 1.0)
    (yard.root / "go").touch()
    assert live.record()["ending"] == "finished"


@pytest.mark.system
def test_a_flood_is_shown_in_part(yard: Any, tmux: Any, until: Any) -> None:
    flood = "yes $(printf 'x%.0s' {1..90}) | head -c 30000000"
    live = in_tmux(yard, tmux, flood + r"; echo; printf 'the %s\n' end")
    live.record()
    screen = until(lambda: s if "the end" in (s := tmux.screen("ajet_test")) else "")
    assert "bytes skipped; full log:" in screen


@pytest.mark.system
def test_a_stopped_terminal_stops_nothing(yard: Any, tmux: Any) -> None:
    """Ctrl-S in the pane: the terminal takes no more output, the trainer goes on."""
    command = "until [ -e go ]; do sleep 0.05; done; yes | head -c 5000000; echo 'step:1 - actor/x:1'"
    live = in_tmux(yard, tmux, command)
    live.event("started")
    tmux("send-keys", "-t", "=ajet_test:", "C-s")
    (yard.root / "go").touch()
    record = live.record()
    assert (record["ending"], record["first_step"]) == ("finished", 1)


@pytest.mark.system
def test_ctrl_z_and_ctrl_c_in_the_pane(yard: Any, tmux: Any) -> None:
    live = in_tmux(yard, tmux, "sleep 1000")
    live.event("started")
    tmux("send-keys", "-t", "=ajet_test:", "C-z", "C-c")
    record = live.record()
    assert (record["ending"], record["cause"]) == ("stopped", "sigint")
