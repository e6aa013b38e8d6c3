"""What a worktree will lack: submodules, LFS files, files of filters that are not configured."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.git_repo.checkout import Checkout, find
from autoresearch.git_repo.missing_inputs import lacking
from autoresearch.git_repo.worktrees import slot

from .conftest import Repo

pytestmark = pytest.mark.system

CONTENT = b"weights"
OID = hashlib.sha256(CONTENT).hexdigest()
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize {len(CONTENT)}\n"
FILTER = "*.bin filter=lfs diff=lfs merge=lfs -text\n"


def of(repo: Repo) -> Checkout:
    found = find(repo.root)
    assert found is not None
    return found


@pytest.fixture
def with_lfs(repo: Repo) -> Repo:
    """A repository with two LFS files, and the settings that `git lfs install` makes."""
    repo.write(".gitattributes", FILTER)
    repo.write("model.bin", POINTER)
    repo.write("sub/not a pointer.bin", "small\n")
    repo.commit()
    for key in ("smudge", "process", "clean"):
        repo.git("config", f"filter.lfs.{key}", f"git-lfs {key} -- %f")
    repo.git("config", "filter.lfs.required", "true")
    return repo


def test_nothing_is_lacking(repo: Repo) -> None:
    repo.write(".gitattributes", "*.py text\n")
    commit = repo.commit()
    assert lacking(of(repo), commit) == ()


def test_pointers_without_git_lfs(with_lfs: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    before = (with_lfs.private(), with_lfs.disk())
    (finding,) = lacking(of(with_lfs), "HEAD")
    assert finding.code == "lfs_pointers"
    assert "2 files" in finding.message
    assert "model.bin" in finding.message
    one = slot(of(with_lfs), tmp_path / "state/slot-0")
    one.switch("HEAD")
    one.switch("HEAD~1")
    one.switch("HEAD")
    assert (one.path / "model.bin").read_text() == POINTER
    one.remove()
    assert (with_lfs.private(), with_lfs.disk()) == before


def test_objects_that_are_not_on_this_machine(with_lfs: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    (finding,) = lacking(of(with_lfs), "HEAD")
    assert (finding.code, "1 LFS file" in finding.message, "model.bin" in finding.message) == ("lfs_absent", True, True)
    store = with_lfs.git_dir / "lfs/objects" / OID[:2] / OID[2:4]
    store.mkdir(parents=True)
    (store / OID).write_bytes(CONTENT)
    assert lacking(of(with_lfs), "HEAD") == ()


def test_a_filter_that_is_configured_or_not(repo: Repo) -> None:
    repo.write(".gitattributes", "*.py filter=crypt\n")
    commit = repo.commit()
    (finding,) = lacking(of(repo), commit)
    assert (finding.code, "'crypt'" in finding.message) == ("filter_missing", True)
    repo.git("config", "filter.crypt.smudge", "cat")
    assert lacking(of(repo), commit) == ()


def test_the_attributes_are_those_of_the_commit(repo: Repo) -> None:
    plain = repo.commit()
    repo.write(".gitattributes", FILTER.replace("bin", "py"))
    assert lacking(of(repo), plain) == ()


def test_submodules_that_no_include_stands_in_for(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    part = make_repo("part")
    part.write("x")
    part.commit()
    for name in ("third/one", "third/two"):
        repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part.root), name)
    repo.commit()
    (finding,) = lacking(of(repo), "HEAD")
    assert finding.code == "submodules"
    assert "2 submodules" in finding.message
    (finding,) = lacking(of(repo), "HEAD", ["third/one/"])
    assert "third/two" in finding.message
    assert "third/one" not in finding.message
