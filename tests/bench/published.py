"""The way it is done today, written again to be measured against: a wait script that polls, and plain libraries."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

SHELLS = {"bash", "sh", "zsh", "fish", "dash"}
POLL_S = 2.0

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

# The least that a command of options and a JSON answer takes in Python.
SMALL_PROGRAM = """
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("--name", default="x")
parser.add_argument("--json", action="store_true")
given = parser.parse_args()
print(json.dumps({"name": given.name}) if given.json else given.name)
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
        time.sleep(POLL_S)


def start(socket: str, session: str, command: str) -> None:
    """A session with a shell in it, and the command typed into that."""
    subprocess.run(["tmux", "-S", socket, "new-session", "-d", "-s", session], check=True)
    type_in(socket, session, command)


def type_in(socket: str, session: str, command: str) -> None:
    """Type a command line into a session's shell."""
    subprocess.run(["tmux", "-S", socket, "send-keys", "-t", session, command, "Enter"], check=True)


def keep_code(repo: Path, branch: str) -> str:
    """A branch with a commit of everything, by GitPython's high level; the checkout is back afterwards."""
    import git

    with git.Repo(repo) as opened:
        before = opened.active_branch
        opened.git.checkout("-b", branch)
        changed = [str(item.a_path) for item in opened.index.diff(None)]
        opened.index.add([*changed, *opened.untracked_files])
        commit = opened.index.commit(f"experiment {branch}")
        before.checkout()
        return str(commit.hexsha)


def append_row(ledger: Path, *cells: object) -> None:
    """A row of the ledger, written as scripts write it."""
    with ledger.open("a") as file:
        file.write("\t".join(map(str, cells)) + "\n")
