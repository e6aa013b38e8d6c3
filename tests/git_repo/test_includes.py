"""Inputs of a worktree: what may be linked and what will be missing, said before anything is touched."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.core.blueprint.finding import Severity
from autoresearch.errors import ConflictError, NotFoundError
from autoresearch.git_repo.includes import check_includes, lacking
from autoresearch.git_repo.worktrees import slot

from .conftest import Repo

pytestmark = pytest.mark.system

CONTENT = b"weights"
OID = hashlib.sha256(CONTENT).hexdigest()
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize {len(CONTENT)}\n"
FILTER = "*.bin filter=lfs diff=lfs merge=lfs -text\n"


@pytest.fixture
def data(repo: Repo, tmp_path: Path) -> Repo:
    """Ignored and untracked inputs of every kind."""
    repo.write("ignored/deep/train.bin", b"\0" * 10)
    repo.write("ckpt/last.bin", b"1")
    repo.write("lib/weights.log")
    repo.write("white space/ü[1].log")
    elsewhere = tmp_path / "mnt/data"
    elsewhere.mkdir(parents=True)
    (elsewhere / "x").write_text("far away")
    (repo.root / "linked").symlink_to(elsewhere)
    (repo.root / "dangling").symlink_to("nowhere")
    return repo


@pytest.mark.parametrize(
    ("includes", "codes"),
    [
        (["ignored"], []),
        (["./ignored/"], []),
        (["ignored/deep"], []),
        (["lib/weights.log"], []),
        (["white space/ü[1].log"], []),
        (["ckpt"], ["include_not_ignored"]),
        (["linked"], ["include_not_ignored"]),
        (["linked/x"], ["include_outside"]),
        (["dangling"], ["include_missing"]),
        (["missing"], ["include_missing"]),
        (["*.bin"], ["include_missing"]),
        (["/etc/passwd"], ["include_outside"]),
        (["../x"], ["include_outside"]),
        (["ignored/../../x"], ["include_outside"]),
        ([""], ["include_outside"]),
        (["."], ["include_outside"]),
        ([".git/config"], ["include_outside"]),
        (["a\0b"], ["include_outside"]),
        (["train.py"], ["include_tracked"]),
        (["lib"], ["include_tracked"]),
        (["ignored", "ignored/"], ["include_twice"]),
        (["ignored/deep", "ignored"], ["include_twice"]),
        (["missing", "lib"], ["include_missing", "include_tracked"]),
    ],
)
def test_what_speaks_against_an_include(data: Repo, includes: list[str], codes: list[str]) -> None:
    before = (data.private(), data.disk())
    findings = check_includes(data.checkout, includes, "HEAD")
    assert [finding.code for finding in findings] == codes
    for finding in findings:
        assert (finding.severity is Severity.WARNING) == (finding.code == "include_not_ignored")
        assert finding.hint
    assert (data.private(), data.disk()) == before


def test_an_include_behind_a_tracked_file_or_link(data: Repo) -> None:
    (data.root / "way").symlink_to("ignored")
    data.git("add", "-f", "way", "lib")
    data.git("commit", "-qm", "way")
    (data.root / "way").unlink()
    data.write("way/x.log")
    assert [f.code for f in check_includes(data.checkout, ["way/x.log"], "HEAD")] == ["include_tracked"]


def test_links_lead_into_the_checkout_and_are_gone_after_the_next_switch(data: Repo, tmp_path: Path) -> None:
    one = slot(data.checkout, tmp_path / "state/slot-0")
    includes = ["ignored/deep", "lib/weights.log", "white space/ü[1].log", "linked", "./ckpt/"]
    before = (data.private(), data.disk())
    one.switch("HEAD", includes)
    for include in includes:
        assert os.path.samefile(one.path / include, data.root / include)
        assert (one.path / include).is_symlink()
    assert one.changes() == ()
    (one.path / "white space/ü[1].log").unlink()
    one.switch("HEAD", ["linked"])
    assert not (one.path / "ignored").exists()
    assert (one.path / "linked/x").read_text() == "far away"
    one.remove()
    assert (data.private(), data.disk()) == before
    assert (tmp_path / "mnt/data/x").exists()


def test_an_include_never_covers_what_the_commit_holds(data: Repo, tmp_path: Path) -> None:
    one = slot(data.checkout, tmp_path / "state/slot-0")
    for include in ("train.py", "lib", "train.py/x"):
        with pytest.raises(ConflictError, match="the commit has something of its own there"):
            one.switch("HEAD", [include])
    for include in ("../x", "/etc", ""):
        with pytest.raises(ConflictError):
            one.switch("HEAD", [include])
    assert not (tmp_path / "x").exists()
    with pytest.raises(NotFoundError, match="is gone"):
        one.switch("HEAD", ["missing"])


def test_an_include_behind_a_tracked_link_is_not_written_through_it(data: Repo, tmp_path: Path) -> None:
    (data.root / "out").symlink_to(tmp_path / "mnt")
    data.git("add", "out")
    data.git("commit", "-qm", "out")
    one = slot(data.checkout, tmp_path / "state/slot-0")
    for include in ("out/new", "out/new/deep"):
        with pytest.raises(ConflictError):
            one.switch("HEAD", [include])
    assert os.listdir(tmp_path / "mnt") == ["data"]


def test_a_submodule_is_empty_and_may_be_included(data: Repo, make_repo: object, tmp_path: Path) -> None:
    part = make_repo("part")  # type: ignore[operator]
    part.write("part.py", "p = 1\n")
    part.commit()
    data.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part.root), "third/part")
    data.git("commit", "-qm", "part")
    assert [f.code for f in check_includes(data.checkout, ["third/part"], "HEAD")] == ["include_submodule"]
    assert [f.code for f in check_includes(data.checkout, ["third/part/part.py"], "HEAD")] == ["include_tracked"]
    one = slot(data.checkout, tmp_path / "state/slot-0")
    one.switch("HEAD")
    assert os.listdir(one.path / "third/part") == []
    (one.path / "third/part/left").write_text("x")
    one.switch("HEAD", ["third/part"])
    assert (one.path / "third/part/part.py").read_text() == "p = 1\n"
    assert one.changes() == ()
    assert Repo(one.path).git("status", "--porcelain") == ""
    one.switch("HEAD")
    assert os.listdir(one.path / "third/part") == []
    (one.path / "third/part/left").write_text("x")
    one.switch("HEAD~1")
    assert not (one.path / "third").exists()
    assert (data.root / "third/part/part.py").exists()


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
    assert lacking(repo.checkout, commit) == ()


def test_pointers_without_git_lfs(with_lfs: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    before = (with_lfs.private(), with_lfs.disk())
    (finding,) = lacking(with_lfs.checkout, "HEAD")
    assert finding.code == "lfs_pointers"
    assert "2 files" in finding.message
    assert "model.bin" in finding.message
    one = slot(with_lfs.checkout, tmp_path / "state/slot-0")
    one.switch("HEAD")
    one.switch("HEAD~1")
    one.switch("HEAD")
    assert (one.path / "model.bin").read_text() == POINTER
    one.remove()
    assert (with_lfs.private(), with_lfs.disk()) == before


def test_objects_that_are_not_on_this_machine(with_lfs: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    (finding,) = lacking(with_lfs.checkout, "HEAD")
    assert (finding.code, "1 LFS file" in finding.message, "model.bin" in finding.message) == ("lfs_absent", True, True)
    store = with_lfs.git_dir / "lfs/objects" / OID[:2] / OID[2:4]
    store.mkdir(parents=True)
    (store / OID).write_bytes(CONTENT)
    assert lacking(with_lfs.checkout, "HEAD") == ()


def test_a_filter_that_is_not_run(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write(".gitattributes", "*.py filter=crypt\n")
    commit = repo.commit()
    (finding,) = lacking(repo.checkout, commit)
    assert finding.code == "filter_missing" and "the filter 'crypt' is not configured: 3 files" in finding.message
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "user's"))
    repo.git("config", "--global", "filter.crypt.smudge", "cat")
    assert lacking(repo.checkout, commit) == ()
    repo.git("config", "filter.crypt.smudge", "touch it")  # a run could have written this
    (finding,) = lacking(repo.checkout, commit)
    assert finding.code == "filter_missing" and "configured in .git/config" in finding.message


def test_the_attributes_are_those_of_the_commit(repo: Repo) -> None:
    plain = repo.commit()
    repo.write(".gitattributes", FILTER.replace("bin", "py"))
    assert lacking(repo.checkout, plain) == ()


def test_submodules_that_no_include_stands_in_for(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    part = make_repo("part")
    part.write("x")
    part.commit()
    for name in ("third/one", "third/two"):
        repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part.root), name)
    repo.commit()
    (finding,) = lacking(repo.checkout, "HEAD")
    assert finding.code == "submodules"
    assert "2 submodules" in finding.message
    (finding,) = lacking(repo.checkout, "HEAD", ["third/one/"])
    assert "third/two" in finding.message
    assert "third/one" not in finding.message
