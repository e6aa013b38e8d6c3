"""What a checkout has and a commit lacks, found by git and shown in a worktree."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.core.run.extra_paths import ExtraPath, Way
from autoresearch.errors import NotFoundError
from autoresearch.git_repo.commits import lines_of
from autoresearch.git_repo.extras import extra_paths
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.git_repo.worktrees import slot

from .conftest import Repo

pytestmark = pytest.mark.system


@pytest.fixture
def data(repo: Repo, tmp_path: Path) -> Repo:
    """Ignored and untracked paths of every kind."""
    repo.write("ignored/deep/train.bin", b"\0" * 10)
    repo.write("ckpt/last.bin", b"1")
    repo.write("lib/weights.log")
    repo.write("white space/ü[1].log")
    elsewhere = tmp_path / "mnt/data"
    elsewhere.mkdir(parents=True)
    (elsewhere / "x").write_text("far away")
    (repo.root / "linked").symlink_to(elsewhere)
    return repo


def test_what_the_commit_lacks_is_found_and_nothing_is_changed(data: Repo) -> None:
    before = (data.private(), data.disk())
    assert sorted(extra_paths(data.checkout, ())) == ["ckpt/", "ignored/", "lib/weights.log", "linked", "white space/"]
    commit = data.commit()  # all but what is ignored
    data.git("rm", "-q", "--cached", "ckpt/last.bin")
    data.git("commit", "-qm", "as a file that git has no more")
    entries = tuple(lines_of(data.checkout, commit))
    assert "ckpt/" in extra_paths(data.checkout, ())
    assert sorted(extra_paths(data.checkout, entries)) == ["ignored/", "lib/weights.log", "white space/"]
    assert data.disk() == before[1]


def test_paths_are_copied_or_linked_and_gone_after_the_next_switch(data: Repo, tmp_path: Path) -> None:
    one = slot(data.checkout, tmp_path / "state/slot-0")
    links, copies = ["ignored/deep", "linked", "ckpt"], ["lib/weights.log", "white space/ü[1].log"]
    paths = [*(ExtraPath(path, Way.LINK) for path in links), *(ExtraPath(path, Way.COPY) for path in copies)]
    before = (data.private(), data.disk())
    one.switch("HEAD", [*paths, ExtraPath("run.sh", Way.OUTPUT), ExtraPath("gone", Way.LINK)])
    for path in (*links, *copies):
        assert os.path.samefile(one.path / path, data.root / path) == (path in links)
    assert one.changes() == () and one.untracked() == ()
    (one.path / "white space/ü[1].log").write_text("written by a run")
    assert one.untracked() == ("white space/ü[1].log",)
    one.switch("HEAD", [ExtraPath("linked", Way.LINK)])
    assert not (one.path / "ignored").exists() and not (one.path / "white space").exists()
    assert (one.path / "linked/x").read_text() == "far away"
    one.remove()
    assert (data.private(), data.disk()) == before
    assert (tmp_path / "mnt/data/x").exists()


def test_what_the_commit_has_stays_and_its_directories_are_filled(data: Repo, tmp_path: Path) -> None:
    one = slot(data.checkout, tmp_path / "state/slot-0")
    data.write("lib/a.py", "edited\n")
    one.switch("HEAD", [ExtraPath(path, Way.COPY) for path in ("train.py", "train.py/x", "lib")])
    assert (one.path / "train.py").read_text() == "print('one')\n"
    assert (one.path / "lib/a.py").read_text() == "a = 1\n"
    assert (one.path / "lib/weights.log").is_symlink()
    with pytest.raises(NotFoundError, match="include: missing is gone"):
        one.switch("HEAD", [ExtraPath("missing", Way.LINK, included=True)])


def test_nothing_is_written_through_a_link_of_the_commit(data: Repo, tmp_path: Path) -> None:
    (data.root / "out").symlink_to(tmp_path / "mnt")
    data.git("add", "out")
    data.git("commit", "-qm", "out")
    one = slot(data.checkout, tmp_path / "state/slot-0")
    one.switch("HEAD", [ExtraPath("out/new", Way.COPY), ExtraPath("out/new/deep", Way.COPY)])
    assert os.listdir(tmp_path / "mnt") == ["data"]


def test_what_cannot_be_copied_is_linked(data: Repo, tmp_path: Path) -> None:
    os.mkfifo(data.root / "ignored/pipe")
    os.mkfifo(data.root / "lib/pipe.log")
    one = slot(data.checkout, tmp_path / "state/slot-0")
    one.switch("HEAD", [ExtraPath("ignored", Way.COPY), ExtraPath("lib/pipe.log", Way.COPY)])
    assert (one.path / "ignored/deep/train.bin").exists() and not (one.path / "ignored/pipe").exists()
    assert (one.path / "lib/pipe.log").is_symlink()


def test_submodules_are_filled_from_what_the_checkout_has(
    data: Repo, make_repo: Callable[[str], Repo], tmp_path: Path
) -> None:
    outer, inner = make_repo("outer"), make_repo("inner")
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "-q")
    inner.write("deep.py", "d = 1\n")
    inner.commit()
    outer.write("part.py", "p = 1\n")
    outer.git(*add, str(inner.root), "inner")
    outer.commit()
    data.git(*add, str(outer.root), "third/part")
    data.git("-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init", "--recursive")
    data.git("commit", "-qm", "part")
    for gone in (outer, inner):
        shutil.rmtree(gone.root)
    before = data.disk()
    one = slot(data.checkout, tmp_path / "state/slot-0")
    one.switch("HEAD")
    assert (one.path / "third/part/part.py").read_text() == "p = 1\n"
    assert (one.path / "third/part/inner/deep.py").read_text() == "d = 1\n"
    assert one.changes() == one.untracked() == ()
    (one.path / "third/part/part.py").write_text("written by a run")
    (one.path / "third/part/left").write_text("x")
    one.switch("HEAD")
    assert (one.path / "third/part/part.py").read_text() == "p = 1\n"
    assert not (one.path / "third/part/left").exists()
    one.switch("HEAD~1")
    assert not (one.path / "third").exists()
    assert data.disk() == before
    data.git("submodule", "deinit", "-q", "-f", "third/part")
    one.switch("main")
    assert os.listdir(one.path / "third/part") == []


# Not installed for tests: Debian's package configures the whole system's git. The case without it runs everywhere.
has_lfs = pytest.mark.skipif(not shutil.which("git-lfs"), reason="no git-lfs here, and the tests do not install it")


@pytest.mark.parametrize("installed", [pytest.param(True, marks=has_lfs), False])
def test_the_content_of_a_pointer_is_the_checkouts(
    data: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    """Where git-lfs is configured, but not installed, as in a container with the user's home; and where it is."""
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/it" if installed else None)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"
    content = b"weights" * 1000
    data.write(".gitattributes", "*.bin filter=lfs\n")
    data.write("model.bin", pointer.format(hashlib.sha256(content).hexdigest(), len(content)))
    data.write("other.bin", pointer.format("0" * 64, 9))
    data.commit()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "home/gitconfig"))
    (tmp_path / "home").mkdir(exist_ok=True)
    for key, value in {"clean": "git-lfs clean -- %f", "process": "git-lfs filter-process", "required": "true"}.items():
        data.git("config", "--global", f"filter.lfs.{key}", value)
    data.write("model.bin", content)
    paths = extra_paths(data.checkout, ())
    assert "model.bin" in paths and "other.bin" not in paths
    shot = snapshot(data.checkout, message="with a large file")
    assert data.tree(shot.commit)["model.bin"][1].startswith(b"version")
    one = slot(data.checkout, tmp_path / "state/slot-0")
    for way in (Way.LINK, Way.COPY):
        one.switch(shot.commit, [ExtraPath("model.bin", way), ExtraPath("other.bin", way)])
        assert (one.path / "model.bin").read_bytes() == content
        assert (one.path / "other.bin").read_bytes().startswith(b"version")
        assert one.unsaved() == (f"its commit {shot.commit[:12]} is in no branch",)
