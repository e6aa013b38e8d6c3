"""A snapshot branch of a dirty tree of 10,000 files: ours, `git stash create`, GitPython's high level.

Ours takes untracked files, makes the branch and leaves the checkout alone; `git stash create` does
neither and rewrites the index; the GitPython way switches branches in the user's checkout.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from autoresearch.git_repo.branches import claim_branch
from autoresearch.git_repo.checkout import find
from autoresearch.git_repo.snapshot import snapshot
from tests.bench.result import Result

FILES, MODIFIED, UNTRACKED = 10_000, 20, 10
WHAT = f"CPU of a snapshot branch of a dirty tree, {FILES} files ({MODIFIED} modified, {UNTRACKED} untracked)"


def run(repeats: int = 5) -> list[Result]:
    """Both comparisons; milliseconds of CPU."""
    ours, stash, gitpython = measure(repeats)
    return [
        Result(WHAT, "git stash create", ours, stash, 2.5, reached=2.17),
        Result(WHAT, "GitPython high level", ours, gitpython, 0.25, reached=0.194),
    ]


def measure(repeats: int, files: int = FILES, *, alone: bool = False) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of CPU of the three ways, or of ours, in turn on one repository; which comes first alternates."""
    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    with tempfile.TemporaryDirectory(prefix="bench-snapshot-") as scratch:
        root = Path(scratch) / "repo"
        _make(root, files)
        ways: list[Callable[[Path, str], None]] = [_ours, _stash, _gitpython]
        for turn in range(-1, repeats):  # the first turn warms the caches
            for number in (
                (0,) if alone else ((0, 1, 2), (1, 0, 2))[turn % 2]
            ):  # GitPython last: it leaves a clean checkout
                _rest(root)
                began = _cpu_s()
                ways[number](root, f"try/{number}/{turn + 1}")
                if turn >= 0:
                    times[number].append((_cpu_s() - began) * 1000)
            _dirty(root, turn + 1, files)
    return times


def _cpu_s() -> float:
    """Of this process and of the git that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _ours(root: Path, name: str) -> None:
    checkout = find(root)
    assert checkout is not None
    claim_branch(checkout, name, snapshot(checkout, message="snapshot").commit)


def _stash(root: Path, name: str) -> None:
    _git(root, "stash", "create", name)


def _gitpython(root: Path, name: str) -> None:
    import git

    with git.Repo(root) as repo:
        before = repo.active_branch
        repo.create_head(name).checkout()
        changed = [str(item.a_path) for item in repo.index.diff(None)]
        repo.index.add([*changed, *repo.untracked_files])
        repo.index.commit("snapshot")
        before.checkout()


def fill(root: Path, files: int = FILES) -> None:
    """Put so many small files there."""
    for number in range(files):
        path = root / f"package{number // (files // 100)}/{'deep/' if number % 2 else ''}module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 20)


def _make(root: Path, files: int) -> None:
    fill(root, files)
    _git(root, "init", "-q", "-b", "main")
    _git(root, "config", "user.name", "Bench")
    _git(root, "config", "user.email", "bench@example.invalid")
    _git(root, "config", "gc.auto", "0")
    _git(root, "add", "-A")
    _git(root, "commit", "-q", "-m", "start")
    _dirty(root, 0, files)


def _dirty(root: Path, turn: int, files: int) -> None:
    """Change and add other content each time; time stamps in the past, as in a tree at rest."""
    past = time.time() - 100
    for number in range(MODIFIED):
        path = root / f"package{number}/module{number * (files // 100)}.py"
        path.write_text(f"turn = {turn}\n" * 21)
        os.utime(path, (past, past))
    for number in range(UNTRACKED):
        path = root / f"package{number}/new{number}.py"
        path.write_text(f"new = {turn}\n")
        os.utime(path, (past, past))


def _rest(root: Path) -> None:
    """Bring the stat data of the index up to date, so that every way begins alike."""
    subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=root, capture_output=True)


def _git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)
