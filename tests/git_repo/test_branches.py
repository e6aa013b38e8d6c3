"""Branches are claimed once, moved only by who knows where they are, and never in the way of others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoresearch.errors import ConflictError, UsageError
from autoresearch.git_repo.branches import advance_branch, branch_commit, claim_branch, is_branch_name
from autoresearch.git_repo.checkout import Checkout

pytestmark = pytest.mark.system

if TYPE_CHECKING:
    from tests.git_repo.conftest import Repo

HOUSE = Path(__file__).parents[2]

GOOD = ["a", "a/b", "autoresearch/20260101-x/x", "ü/学习", "a.b", "a@b", "x-", "a/-b", "@a", "x" * 240, "a{b"]
BAD = ["", "HEAD", "-a", "/a", "a/", "a//b", "a..b", ".a", "a/.b", "a.lock", "a.lock/b", "a.", "a b"]
BAD += ["a\tb", "a\nb", "a\x7f", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b", "a\\b", "a@{b", "x/" + "y" * 251]


@pytest.fixture
def checkout(repo: Repo) -> Checkout:
    return repo.checkout


def test_a_name_is_good_where_git_and_the_disk_take_it(repo: Repo) -> None:
    def takes(*command: str) -> bool:
        return subprocess.run(["git", *command], cwd=repo.root, capture_output=True).returncode == 0

    accepted = []
    for name in GOOD + BAD:
        ref = f"refs/heads/{name}"
        if takes("check-ref-format", "--branch", name) and takes("update-ref", ref, "HEAD"):
            accepted.append(name)
            repo.git("update-ref", "-d", ref)
    assert accepted == [name for name in GOOD + BAD if is_branch_name(name)] == GOOD


def test_a_bad_name_is_a_clear_error(checkout: Checkout) -> None:
    for name in [*BAD, "@", "y" * 241]:
        with pytest.raises(UsageError, match="cannot be a branch name"):
            claim_branch(checkout, name, checkout.head)
        assert branch_commit(checkout, name) is None


def test_a_name_that_is_taken_gets_a_number(repo: Repo, checkout: Checkout) -> None:
    made = [claim_branch(checkout, "ar/c/x", checkout.head) for _ in range(3)]
    assert made == ["ar/c/x", "ar/c/x-2", "ar/c/x-3"]
    assert branch_commit(checkout, "ar/c/x-3") == checkout.head
    assert claim_branch(checkout, "main", checkout.head) == "main-2"
    assert repo.git("symbolic-ref", "HEAD").strip() == "refs/heads/main"


@pytest.mark.parametrize(
    ("there", "wanted", "made"),
    [
        (["ar"], "ar/c/x", "ar-2/c/x"),
        (["ar", "ar-2"], "ar/c/x", "ar-3/c/x"),
        (["ar/c"], "ar/c/x", "ar/c-2/x"),
        (["ar/c", "ar/c-2/x"], "ar/c/x", "ar/c-2/x-2"),
        (["ar/c/x"], "ar/c", "ar/c-2"),
        (["ar/c/x", "ar/c-2/y"], "ar/c", "ar/c-3"),
    ],
)
def test_a_branch_is_no_directory(there: list[str], wanted: str, made: str, repo: Repo, checkout: Checkout) -> None:
    for name in there:
        repo.git("branch", name)
    for before in (("rev-parse",), ("pack-refs", "--all")):  # refs as files, then packed
        repo.git(*before)
        assert claim_branch(checkout, wanted, checkout.head) == made
        assert branch_commit(checkout, made) == checkout.head
        repo.git("update-ref", "-d", f"refs/heads/{made}")


def test_a_lock_left_behind_blocks_only_its_name(repo: Repo, checkout: Checkout) -> None:
    for name in ("refs/heads/ar/x.lock", "index.lock", "HEAD.lock", "packed-refs.lock"):
        repo.write(f".git/{name}")
    assert claim_branch(checkout, "ar/x", checkout.head) == "ar/x-2"


def test_a_branch_moves_from_where_it_was_known_to_be(repo: Repo, checkout: Checkout) -> None:
    first = checkout.head
    second = repo.commit("second")
    claim_branch(checkout, "ar/x", first)
    advance_branch(checkout, "ar/x", second, first)
    assert branch_commit(checkout, "ar/x") == second
    with pytest.raises(ConflictError, match="somebody moved it"):
        advance_branch(checkout, "ar/x", second, first)
    with pytest.raises(ConflictError, match="is gone"):
        advance_branch(checkout, "ar/none", second, first)


def test_a_branch_that_is_checked_out_is_not_moved(repo: Repo, checkout: Checkout) -> None:
    claim_branch(checkout, "ar/x", checkout.head)
    repo.git("worktree", "add", "-q", str(repo.root.parent / "linked"), "ar/x")
    with pytest.raises(ConflictError, match=r"checked out at .*linked") as raised:
        advance_branch(checkout, "ar/x", checkout.head, checkout.head)
    assert raised.value.code == "branch_checked_out"


CLAIM = """
import sys
from pathlib import Path
from autoresearch.git_repo.branches import claim_branch
from autoresearch.git_repo.checkout import find
checkout = find(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(8):
    print(claim_branch(checkout, f"ar/race/{number}", checkout.head))
"""


def test_two_processes_never_get_the_same_name(repo: Repo, checkout: Checkout) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(repo.root)],
            env={**os.environ, "PYTHONPATH": str(HOUSE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for racer in racers:
        assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    names = [name for racer in racers for name in racer.communicate(timeout=300)[0].split()]
    assert sorted(names) == sorted(f"ar/race/{number}{end}" for number in range(8) for end in ("", "-2"))
