"""Includes: what may be linked, said before anything is touched, and links that lead nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoresearch.core.blueprint.finding import Severity
from autoresearch.errors import ConflictError, NotFoundError
from autoresearch.git_repo.checkout import Checkout, find
from autoresearch.git_repo.includes import check_includes
from autoresearch.git_repo.worktrees import slot

from .conftest import Repo

pytestmark = pytest.mark.system


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


def of(repo: Repo) -> Checkout:
    found = find(repo.root)
    assert found is not None
    return found


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
    findings = check_includes(of(data), includes, "HEAD")
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
    assert [f.code for f in check_includes(of(data), ["way/x.log"], "HEAD")] == ["include_tracked"]


def test_links_lead_into_the_checkout_and_are_gone_after_the_next_switch(data: Repo, tmp_path: Path) -> None:
    one = slot(of(data), tmp_path / "state/slot-0")
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
    one = slot(of(data), tmp_path / "state/slot-0")
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
    one = slot(of(data), tmp_path / "state/slot-0")
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
    assert [f.code for f in check_includes(of(data), ["third/part"], "HEAD")] == ["include_submodule"]
    assert [f.code for f in check_includes(of(data), ["third/part/part.py"], "HEAD")] == ["include_tracked"]
    one = slot(of(data), tmp_path / "state/slot-0")
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
