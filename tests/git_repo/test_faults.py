"""Killed, refused, too slow: nothing is left in the way and the error says what to do."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.branches import claim_branch
from autoresearch.git_repo.checkout import NoCheckout, find, locate
from autoresearch.git_repo.git import Git, GitFailed
from autoresearch.git_repo.snapshot import snapshot
from tests.processes import is_dead

if TYPE_CHECKING:
    from tests.git_repo.conftest import Repo

HOUSE = Path(__file__).parents[2]

SNAPSHOT = """
import sys
from pathlib import Path
from autoresearch.git_repo.branches import claim_branch
from autoresearch.git_repo.checkout import find
from autoresearch.git_repo.snapshot import snapshot
checkout = find(Path(sys.argv[1]))
made = snapshot(checkout, message="m", extra={"extra.md": b"extra"})
print(claim_branch(checkout, "ar/x", made.commit))
"""
POINTS = ["surveyed", "pinned", "filled", "tree", "commit", "claimed"]


def run_snapshot(repo: Repo, failpoint: str) -> int:
    environment = {**os.environ, "PYTHONPATH": str(HOUSE), "AUTORESEARCH_FAILPOINT": failpoint}
    command = [sys.executable, "-c", SNAPSHOT, str(repo.root)]
    return subprocess.run(command, env=environment, capture_output=True).returncode


@pytest.mark.system
@pytest.mark.parametrize("point", POINTS)
def test_killed_in_the_middle_leaves_nothing_in_the_way(point: str, repo: Repo) -> None:
    repo.write("train.py", "changed\n")
    repo.write("new.py")
    status, before = repo.git("status", "--porcelain"), repo.private()
    disk = repo.disk()

    assert run_snapshot(repo, f"repository.{point}:kill") == -signal.SIGKILL

    assert not list(repo.git_dir.rglob("*.lock"))
    left = repo.private()
    assert {path: left[path] for path in before} == before
    assert len(left) - len(before) == (2 if point == "claimed" else 0)  # the branch and its reflog
    assert repo.git("--no-optional-locks", "status", "--porcelain") == status
    repo.git("fsck", "--strict", "--no-dangling")

    assert run_snapshot(repo, "") == 0
    name = "ar/x-2" if point == "claimed" else "ar/x"
    assert repo.tree(name) == disk | {"extra.md": (0o100644, b"extra")}


@pytest.fixture
def somebody(repo: Repo) -> Iterator[Repo]:
    """The repository of a user who is not root, where root's rights do not hide that it is read-only."""
    place = Path(tempfile.mkdtemp(dir="/tmp", prefix="autoresearch-test-"))
    place.chmod(0o755)
    copy = type(repo)(place / "repo")
    shutil.copytree(repo.root, copy.root, symlinks=True)
    uid = os.geteuid()
    if uid == 0:
        for path in (copy.root, *copy.root.rglob("*")):
            os.chown(path, 65534, 65534)
        os.seteuid(65534)
    yield copy
    os.seteuid(uid)
    for path in place.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(place)


def read_only(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        if path.is_dir():
            path.chmod(0o555)


@pytest.mark.system
def test_a_read_only_repository_is_a_clear_error(somebody: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = somebody.root.parent / "tmp"
    if os.geteuid() == 65534:
        monkeypatch.setattr("tempfile.tempdir", "/tmp")
    else:
        temporary.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
    somebody.write("new.py", "new\n")
    checkout = somebody.checkout
    read_only(somebody.root / ".git/objects")
    read_only(somebody.root / ".git/refs")
    with pytest.raises(EnvironmentUnusable, match="insufficient permission") as raised:
        snapshot(checkout, message="m")
    assert "without a branch" in raised.value.hint
    with pytest.raises(EnvironmentUnusable, match="unable to create directory") as raised:
        claim_branch(checkout, "ar/x", checkout.head)
    assert "without a branch" in raised.value.hint
    somebody.write("unreadable.py").chmod(0)
    (somebody.root / ".git/objects").chmod(0o755)
    for path in (somebody.root / ".git/objects").iterdir():
        path.chmod(0o755)
    made = snapshot(checkout, message="m")
    assert [(left.path, left.reason) for left in made.left_out] == [("unreadable.py", "cannot be read")]


@pytest.mark.system
def test_a_repository_of_somebody_else_is_a_reason(repo: Repo) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a repository away")
    for path in (repo.root, repo.root / ".git"):
        os.chown(path, 65534, 65534)
    assert find(repo.root) is None
    found = locate(repo.root)
    assert isinstance(found, NoCheckout) and found.reason.endswith("it belongs to another user")
    assert found.fix == f"git config --global --add safe.directory {repo.root}" and found.fix in str(locate(repo.root))


@pytest.mark.system
def test_git_that_hangs_ends_with_all_that_it_started(
    repo: Repo, eventually: Callable[[Callable[[], object]], None]
) -> None:
    git = Git(repo.root, timeout_s=5.0)  # in which its child must have come to life
    with pytest.raises(GitFailed, match=r"no answer within 5 s"):
        git.run("-c", "alias.hang=!echo $$ > pid; sleep 6000", "hang")
    pid = int((repo.root / "pid").read_text())
    eventually(lambda: is_dead(pid))


@pytest.mark.system
def test_git_that_is_missing_says_so(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checkout = repo.checkout
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitFailed, match="git is not installed") as raised:
        snapshot(checkout, message="m")
    assert raised.value.hint == "install git"
    with pytest.raises(GitFailed, match="cannot be started in"):
        Git(tmp_path / "gone").run("status")
