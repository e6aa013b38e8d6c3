"""What we write stays out of `git status`; what the user wrote in the file stays in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.checkout import Checkout, find
from autoresearch.git_repo.snapshot import exclude, pattern_for

pytestmark = pytest.mark.system

if TYPE_CHECKING:
    from tests.git_repo.conftest import Repo

@pytest.fixture
def checkout(repo: Repo) -> Checkout:
    return repo.checkout


def test_a_pattern_is_added_once_and_git_obeys(repo: Repo, checkout: Checkout) -> None:
    repo.write("reports/x.md")
    assert "reports/" in repo.git("status", "--short")
    for _ in range(3):
        exclude(checkout, "/reports/")
    assert repo.git("status", "--short") == ""
    assert (repo.git_dir / "info/exclude").read_text().count("/reports/\n") == 1


BEFORE = [b"", b"# mine\n*.bak\n", b"no newline", b"/reports", b"/reports/ \n", b"caf\xe9\r\n"]


def test_what_stood_there_stays(repo: Repo, checkout: Checkout) -> None:
    path = repo.git_dir / "info/exclude"
    path.chmod(0o640)
    for before in BEFORE:
        path.write_bytes(before)
        exclude(checkout, "/reports/")
        gap = b"" if before.endswith(b"\n") or not before else b"\n"
        assert path.read_bytes() == before + gap + b"/reports/\n"
        assert path.stat().st_mode & 0o777 == 0o640
        assert list(path.parent.iterdir()) == [path]


def test_worktrees_share_the_file(repo: Repo) -> None:
    linked = type(repo)(repo.root.parent / "linked")
    repo.git("worktree", "add", "-q", "-b", "side", str(linked.root))
    checkout = find(linked.root)
    assert checkout is not None
    exclude(checkout, "/reports/")
    linked.write("reports/x")
    assert linked.git("status", "--short") == ""


NAMES = ["x", "a b", "trailing ", "#hash", "!bang", "st*r", "qu?", "[x]", "back\\slash", "ünï", "n\nl"]


def test_a_pattern_names_exactly_one_path(repo: Repo, checkout: Checkout) -> None:
    for name in NAMES:
        repo.write(f"{name}/x")
        repo.write(f"deep/{name}/x")
    for name in NAMES:
        (repo.git_dir / "info/exclude").write_bytes(b"")
        exclude(checkout, pattern_for(checkout, repo.root / name))
        listed = repo.git("ls-files", "-o", "--exclude-standard", "-z").split("\0")
        others = {f"{other}/x" for other in NAMES if other != name}
        assert set(listed) == others | {f"deep/{other}/x" for other in NAMES} | {""}


def test_a_file_that_cannot_be_written_is_a_clear_error(repo: Repo, checkout: Checkout) -> None:
    path = repo.git_dir / "info/exclude"
    path.unlink()
    path.mkdir()
    with pytest.raises(EnvironmentUnusable, match="info/exclude cannot be written") as raised:
        exclude(checkout, "/reports/")
    assert "/reports/" in raised.value.hint
