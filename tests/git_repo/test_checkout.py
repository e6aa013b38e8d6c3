"""Finding the repository of a directory, and saying why there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoresearch.git_repo.checkout import NoCheckout, find, hide, locate, project_of

pytestmark = pytest.mark.system

if TYPE_CHECKING:
    from tests.git_repo.conftest import Repo


def test_detached_unborn_and_odd_branches(make_repo: Callable[[str], Repo], repo: Repo) -> None:
    repo.git("checkout", "-q", "--detach")
    found = find(repo.root)
    assert found is not None and found.branch == "" and found.head
    repo.git("checkout", "-qb", "HEAD/a-b/ü")
    found = find(repo.root)
    assert found is not None and found.branch == "HEAD/a-b/ü"
    unborn = find(make_repo("unborn").root)
    assert unborn is not None and (unborn.head, unborn.branch) == ("", "main")


def test_a_linked_worktree_shares_the_common_directory(repo: Repo) -> None:
    linked = repo.root.parent / "linked"
    repo.git("worktree", "add", "-q", "-b", "side", str(linked))
    found = find(linked)
    assert found is not None
    assert found.root == linked and found.branch == "side"
    assert found.common_dir == repo.root / ".git" and found.git_dir == repo.root / ".git/worktrees/linked"


@pytest.mark.parametrize("name", ["a b", "line\nbreak", "ünï", "-dash", "$(x)", "odd\x0bfeed", "trailing "])
def test_any_directory_name(name: str, make_repo: Callable[[str], Repo]) -> None:
    repo = make_repo(name)
    git_dir = repo.root / ".git"
    for born in (False, True):
        if born:
            repo.commit()
        found = find(repo.root)
        assert found is not None, str(locate(repo.root))
        assert (found.root, found.git_dir, found.common_dir) == (repo.root, git_dir, git_dir)
        assert (bool(found.head), found.branch) == (born, "main")


def test_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    plain = tmp_path / "plain"
    plain.mkdir()
    assert find(plain) is None
    assert locate(plain) == NoCheckout(f"{plain} is not in a git repository", "`git init` there and commit")
    assert str(locate(tmp_path / "missing")) == f"{tmp_path / 'missing'} is not a directory"


def test_a_bare_repository_has_no_code_to_run(repo: Repo) -> None:
    bare = repo.root.parent / "bare.git"
    repo.git("clone", "-q", "--bare", ".", str(bare))
    assert "without a working tree" in str(locate(bare))
    assert "without a working tree" in str(locate(repo.root / ".git"))


def test_a_repository_that_ignores_the_codebase_does_not_track_it(repo: Repo) -> None:
    repo.write("ignored/experiment/x.py")
    place = repo.root / "ignored/experiment"
    assert find(place) is None
    assert str(locate(place)) == f"{place} is ignored by the git repository {repo.root}"
    repo.git("add", "-f", "ignored/experiment/x.py")
    assert find(place) is not None


def test_a_broken_repository_is_a_reason_and_no_error(repo: Repo) -> None:
    repo.write(".git/HEAD", "nonsense\n")
    found = find(repo.root)
    assert found is None or found.root != repo.root
    repo.write("sub/.git", "gitdir: /nowhere\n")
    assert find(repo.root / "sub") is None
    assert str(locate(repo.root / "sub"))


def test_the_project_is_the_main_working_tree(repo: Repo) -> None:
    repo.git("worktree", "add", "-q", "../linked")
    outside = repo.root.parent / "outside"
    outside.mkdir()
    for place in ("lib", "../linked", "../linked/lib"):
        assert project_of(repo.root / place) == repo.root
    assert project_of(outside) == outside


def test_what_we_write_stays_out_of_git_status(repo: Repo) -> None:
    own, theirs, outside = repo.root / "reports/auto_research", repo.root / "results", repo.root.parent / "r"
    for directory in (own, theirs, outside):
        directory.mkdir(parents=True)
        (directory / "x").touch()
    (theirs / ".gitignore").write_text("*.tmp\n")
    before = {path: path.read_bytes() for path in repo.git_dir.rglob("*") if path.is_file()}
    for _ in range(2):
        hide(repo.checkout, own, theirs, outside, repo.root)
    assert {path: path.read_bytes() for path in repo.git_dir.rglob("*") if path.is_file()} == before
    assert "results/" in repo.git("status", "--short") and "reports" not in repo.git("status", "--short")
    assert (theirs / ".gitignore").read_text() == "*.tmp\n" and not (outside / ".gitignore").exists()
