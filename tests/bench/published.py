"""The way it is done today, re-implemented to be measured against: a wait script that polls, and plain libraries."""

from __future__ import annotations

import subprocess
import sys
import time

SHELLS = {"bash", "sh", "zsh", "fish", "dash"}

WAIT_SCRIPT = """
import subprocess, sys, time
socket, session, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
shells = {"bash", "sh", "zsh", "fish", "dash"}
end = time.time() + seconds
while time.time() < end:
    done = subprocess.run(["tmux", "-S", socket, "list-panes", "-t", session, "-F", "#{pane_current_command}"],
                          capture_output=True, text=True)
    if done.returncode or done.stdout.split()[0] in shells:
        sys.exit(1)
    time.sleep(2)
sys.exit(0)
"""


def wait_argv(socket: str, session: str, seconds: float) -> list[str]:
    """The command line of the polling wait script."""
    return [sys.executable, "-c", WAIT_SCRIPT, socket, session, str(seconds)]


def pane_is_idle(socket: str, session: str) -> bool:
    """What the wait script takes for the end: the pane's foreground command is a shell, or there is no pane."""
    done = subprocess.run(
        ["tmux", "-S", socket, "list-panes", "-t", session, "-F", "#{pane_current_command}"],
        capture_output=True,
        text=True,
    )
    return bool(done.returncode) or done.stdout.split()[0] in SHELLS


def poll_until_idle(socket: str, session: str) -> None:
    """Poll every 2 s, as published."""
    while not pane_is_idle(socket, session):
        time.sleep(2)
