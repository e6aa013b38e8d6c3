"""A worktree's files are those of the commit, whatever a run did to the repository that it shares with the user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.git_repo.git import GitFailed
from autoresearch.git_repo.patches import patched
from autoresearch.git_repo.worktrees import Slot, slot

from .conftest import Repo

pytestmark = pytest.mark.system

HONEST, EVIL = b"print('one')\n", b"print('evil')\n"


def slot_of(repo: Repo) -> Slot:
    return slot(repo.checkout, repo.root.parent / "slot", reason="test")


def program(repo: Repo) -> str:
    """A program that our git must never start: it leaves a file."""
    path = repo.root.parent / "program.sh"
    path.write_text(f"#!/bin/sh\ntouch {repo.root.parent}/started\necho evil\n")
    path.chmod(0o755)
    return str(path)


def skipped(repo: Repo, one: Slot) -> None:
    repo.git("-C", str(one.path), "update-index", "--skip-worktree", "train.py")


def assumed(repo: Repo, one: Slot) -> None:
    repo.git("-C", str(one.path), "update-index", "--assume-unchanged", "train.py")


def replaced(repo: Repo, one: Slot) -> None:
    (repo.root.parent / "evil").write_bytes(EVIL)
    evil = repo.git("hash-object", "-w", str(repo.root.parent / "evil")).strip()
    repo.git("replace", repo.git("rev-parse", "HEAD:train.py").strip(), evil)


def filtered(repo: Repo, one: Slot) -> None:
    for name in ("smudge", "clean", "process"):
        repo.git("config", f"filter.mine.{name}", program(repo))
    repo.git("config", "filter.mine.required", "true")
    attributes(repo, "train.py filter=mine\n")


def encoded(repo: Repo, one: Slot) -> None:
    attributes(repo, "train.py working-tree-encoding=UTF-16\n")


def attributes(repo: Repo, text: str) -> None:
    path = repo.root / ".git/info/attributes"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def hooked(repo: Repo, one: Slot) -> None:
    hooks = repo.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        (hooks / name).symlink_to(program(repo))
    repo.git("config", "core.fsmonitor", program(repo))
    repo.git("config", "core.hooksPath", str(hooks))


def thinned(repo: Repo, one: Slot) -> None:
    admin = Path((one.path / ".git").read_text().removeprefix("gitdir: ").strip())
    (admin / "info").mkdir(exist_ok=True)
    (admin / "info/sparse-checkout").write_text("/run.sh\n")
    repo.git("config", "core.sparseCheckout", "true")


@pytest.mark.parametrize("anew", [False, True], ids=["of the next idea", "of the evaluation"])
@pytest.mark.parametrize("trick", [skipped, assumed, replaced, filtered, encoded, hooked, thinned])
def test_what_a_run_did_to_the_repository_has_no_effect(
    repo: Repo, trick: Callable[[Repo, Slot], None], anew: bool
) -> None:
    commit, one = repo.git("rev-parse", "HEAD").strip(), slot_of(repo)
    one.switch(commit)
    trick(repo, one)
    (one.path / "train.py").write_bytes(EVIL)
    one.switch(commit, anew=anew)
    assert (one.path / "train.py").read_bytes() == HONEST
    assert not (repo.root.parent / "started").exists()


@pytest.mark.parametrize("trick", [skipped, assumed, filtered, hooked])
def test_what_it_changed_is_seen_and_nothing_is_started(repo: Repo, trick: Callable[[Repo, Slot], None]) -> None:
    one = slot_of(repo)
    one.switch(repo.git("rev-parse", "HEAD").strip())
    trick(repo, one)
    (one.path / "train.py").write_bytes(EVIL)
    assert list(one.changed_files()) == ["train.py"]
    assert not (repo.root.parent / "started").exists()


@pytest.mark.parametrize("trick", [filtered, hooked])
def test_a_patch_is_applied_without_the_programs_that_a_run_chose(
    repo: Repo, trick: Callable[[Repo, Slot], None]
) -> None:
    commit, one = repo.git("rev-parse", "HEAD").strip(), slot_of(repo)
    one.switch(commit)
    trick(repo, one)
    patch = b"--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-print('one')\n+print('two')\n"
    patched(one, commit, patch)
    assert (one.path / "train.py").read_bytes() == b"print('two')\n"
    assert not (repo.root.parent / "started").exists()


def test_an_object_that_is_missing_is_not_fetched_by_a_program(repo: Repo) -> None:
    commit, one = repo.git("rev-parse", "HEAD").strip(), slot_of(repo)
    blob = repo.git("rev-parse", "HEAD:train.py").strip()
    (repo.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for setting, value in (
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.promisor", "true"),
        ("remote.evil.url", str(repo.root)),
        ("remote.evil.uploadpack", program(repo)),
    ):
        repo.git("config", setting, value)
    with pytest.raises(GitFailed):
        one.switch(commit)
    assert not (repo.root.parent / "started").exists()
