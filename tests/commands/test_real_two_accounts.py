"""Two accounts in one repository: the second one works beside the first, or is refused with one sentence.

Needs root, who becomes both of them. They run in a mount namespace of their own, in which they may reach the
interpreter wherever it lies.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import REPO, TRAINER, needs
from tests.specs import blueprint_text
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.real

ACCOUNTS, GROUP = (61001, 61002), 61000
OPENED = """
set -e
held=$(mktemp -d {top}/held.XXXXXX)
{open}
exec setpriv --reuid={uid} --regid={group} --clear-groups sh -c 'umask {umask}; exec "$@"' sh "$@"
"""
OPEN_ONE = """
if [ {closed} != / ]; then
  mount --bind {prefix} $held && mount -t tmpfs -o mode=755 tmpfs {closed}
  mkdir -p {prefix} && mount --bind $held {prefix}
fi
"""


@dataclass
class Shared:
    """A repository of the first account's, in a group that both are in."""

    top: Path
    umask: str

    @property
    def repo(self) -> Path:
        return self.top / "repo"

    def home(self, which: int) -> Path:
        return self.top / f"home{which}"

    def run(self, which: int, *words: object) -> subprocess.CompletedProcess[str]:
        """Run a program as one of the accounts, in the repository."""
        env = {
            **os.environ,
            **{"HOME": str(self.home(which)), "XDG_STATE_HOME": str(self.home(which) / "state")},
            **{"XDG_CONFIG_HOME": str(self.home(which)), "AUTORESEARCH_TMUX_SOCKET": str(self.home(which) / "tmux")},
            **{"PYTHONPATH": os.pathsep.join([str(REPO), *filter(None, sys.path)]), "AUTORESEARCH_GPU_CHECK": "no"},
        }
        env.pop("GIT_CONFIG_GLOBAL", None)  # each account has its own
        prefix = Path(sys.base_prefix).resolve()
        closed = next((p for p in reversed(prefix.parents) if not p.stat().st_mode & 0o005), Path("/"))
        opened = OPEN_ONE.format(closed=closed, prefix=prefix)
        script = OPENED.format(top=self.top, open=opened, uid=ACCOUNTS[which], group=GROUP, umask=self.umask)
        line = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *map(str, words)]
        return subprocess.run(
            line, env=env, cwd=self.repo, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL
        )

    def git(self, which: int, *words: str) -> None:
        done = self.run(which, "git", *words)
        assert done.returncode == 0, done.stderr

    def ask(self, which: int, *words: object, check: int = 0) -> dict[str, Any]:
        """The JSON object of a command."""
        python = Path(sys.base_prefix).resolve() / "bin" / f"python3.{sys.version_info.minor}"
        done = self.run(which, python, "-m", "autoresearch", *words, "--json")
        assert done.returncode == check, f"rc {done.returncode}\n{done.stdout}\n{done.stderr}"
        return dict(json.loads(done.stdout))

    def blueprint(self, which: int) -> str:
        """The same idea for both, with a result directory of each one's own."""
        name = f"exp{which}.md"
        given = {"title": "Shared", "purpose": "Two accounts.", "codebase": str(self.repo)}
        given |= {"python": "/usr/bin/python3", "command": "python3 trainer.py"}
        given |= {"result_dir": str(self.home(which) / "results")}
        (self.repo / name).write_text(blueprint_text(**given))
        return name


@pytest.fixture
def top() -> Iterator[Path]:
    """Not below pytest's own directory, which nobody else may enter."""
    needs("unshare", "setpriv", root="it becomes two accounts")
    path = Path(tempfile.mkdtemp(prefix="two-accounts-", dir="/tmp"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        _end(path)
        shutil.rmtree(path)


def _end(top: Path) -> None:
    """End what the two accounts left: their tmux servers, and panes that can still be read."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, ValueError):
            uid = int(status.read_text().partition("\nUid:")[2].split()[0])
            if uid in ACCOUNTS and str(top).encode() in (status.parent / "environ").read_bytes():
                os.kill(int(status.parent.name), signal.SIGKILL)


def shared(top: Path, *, umask: str, how: str) -> Shared:
    made = Shared(top, umask)
    for which, uid in enumerate(ACCOUNTS):
        made.home(which).mkdir()
        os.chown(made.home(which), uid, GROUP)
    made.repo.mkdir()
    os.chown(made.repo, ACCOUNTS[0], GROUP)
    made.repo.chmod(0o2775)
    made.git(0, "init", "-q", *([f"--shared={how}"] if how else []))
    for name, value in (("user.name", "a"), ("user.email", "a@b")):
        made.git(0, "config", name, value)
    (made.repo / "trainer.py").write_text(TRAINER)
    for which in range(2):
        made.blueprint(which)
    made.git(0, "add", "-A")
    made.git(0, "commit", "-qm", "start")
    return made


def test_a_shared_repository_works_for_both(top: Path) -> None:
    both = shared(top, umask="002", how="group")
    both.git(1, "config", "--global", "--add", "safe.directory", str(both.repo))
    first = both.ask(0, "run", "exp0.md")
    second = both.ask(1, "run", "exp1.md")
    for payload in (first, second):
        assert payload["verdict"] == "keep" and payload["commit"] and not payload["warnings"]
    assert first["ledger"] != second["ledger"] and first["branch"] != second["branch"]
    assert both.ask(1, "status", "last")["run"] == second["run"]
    assert both.ask(0, "run", "exp0.md")["ledger"] == first["ledger"]  # each keeps to its own


def test_a_repository_that_git_does_not_trust(top: Path) -> None:
    both = shared(top, umask="022", how="")
    both.ask(0, "run", "exp0.md")
    payload = both.ask(1, "run", "exp1.md")
    assert payload["verdict"] == "keep" and "safe.directory" in payload["warnings"][0]
    error = both.ask(1, "campaign", "exp1.md", "--count", "1", "--yes", check=6)["error"]
    assert "belongs to another user" in error["message"] and f"safe.directory {both.repo}" in error["fix"]


def test_a_repository_that_the_second_may_not_write(top: Path) -> None:
    both = shared(top, umask="022", how="")
    both.git(1, "config", "--global", "--add", "safe.directory", str(both.repo))
    both.ask(0, "run", "exp0.md")
    error = both.ask(1, "run", "exp1.md", check=6)["error"]
    assert f"belongs to another account (uid {ACCOUNTS[0]})" in error["message"] and "sharedRepository" in error["hint"]
    both.git(0, "config", "core.sharedRepository", "group")
    assert both.run(0, "chmod", "-R", "g+w", ".git").returncode == 0
    error = both.ask(1, "run", "exp1.md", check=6)["error"]  # git may be written now, the records' directory not
    assert error["code"] == "unwritable" and str(both.repo / "reports") in error["message"]
