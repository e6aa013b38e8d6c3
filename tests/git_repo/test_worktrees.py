"""Slots: exactly the commit's files after every switch, whatever was left, and the checkout untouched."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.core.run.extra_paths import ExtraPath, Way
from autoresearch.errors import ConflictError
from autoresearch.git_repo.worktrees import Slot, slot

from .conftest import Files, Repo

pytestmark = pytest.mark.system


def slot_of(repo: Repo, name: str = "slot-0") -> Slot:
    return slot(repo.checkout, repo.root.parent / "state" / name, reason="test, slot 0")


def holds(one: Slot) -> Files:
    return Repo(one.path).disk()


def is_exactly(one: Slot, repo: Repo, commit: str) -> bool:
    """The files and nothing else: no empty directory either."""
    tree = repo.tree(commit)
    wanted = {str(parent) for path in tree for parent in Path(path).parents} | {"."}
    directories = {os.path.relpath(place, one.path) for place, _, _ in os.walk(one.path)}
    return holds(one) == tree and directories == wanted


@pytest.fixture
def second(repo: Repo) -> str:
    """Another commit: a file changed, one gone, one new."""
    repo.write("train.py", "print('two')\n")
    repo.write("new/deep/c.py")
    (repo.root / "lib/b.py").unlink()
    return repo.commit("second")


def first_of(repo: Repo) -> str:
    return repo.git("rev-list", "--max-parents=0", "HEAD").strip()


def test_a_slot_holds_exactly_the_commit_and_switches_back_and_forth(repo: Repo, second: str) -> None:
    one, first = slot_of(repo), first_of(repo)
    for commit in (first, second, first, first, second):
        one.switch(commit)
        assert is_exactly(one, repo, commit)
        assert Repo(one.path).git("rev-parse", "HEAD").strip() == commit
        assert Repo(one.path).git("status", "--porcelain", "--ignored") == ""
        assert Repo(one.path).git("symbolic-ref", "-q", "HEAD", check=False) == ""


def test_leftovers_of_a_run_are_gone(repo: Repo, second: str) -> None:
    one, first = slot_of(repo), first_of(repo)
    one.switch(first)
    left = Repo(one.path)
    left.write("lib/__pycache__/a.pyc")
    left.write("ignored/out.txt")
    left.write("x.log")
    left.write("outputs/deep/er/w.bin")
    left.write("new/deep/c.py", "in the way of the next commit")
    left.write("train.py", "edited")
    left.write("line\nbreak ü\udcff", "odd name")
    (one.path / "run.sh").chmod(0o644)
    (one.path / "lib/b.py").unlink()
    (one.path / "empty").mkdir()
    subprocess.run(["git", "init", "-q", "nested"], cwd=one.path, check=True)
    left.write("nested/x")
    os.mkfifo(one.path / "pipe")
    one.switch(second)
    assert is_exactly(one, repo, second)


def test_a_file_that_was_changed_behind_gits_back_is_restored(repo: Repo) -> None:
    """Same size, same time stamp; and a setting that tells git not to look closely."""
    repo.git("config", "core.trustctime", "false")
    repo.git("config", "core.checkStat", "minimal")
    repo.git("config", "core.ignoreStat", "true")
    repo.git("config", "core.fileMode", "false")
    one, first = slot_of(repo), first_of(repo)
    one.switch(first)
    place = one.path / "train.py"
    os.utime(place, (1, 1))  # older than the index: git looks closely at what is as young
    Repo(one.path).git("update-index", "--really-refresh")
    before = place.stat()
    place.write_bytes(b"PRINT('one')\n")
    place.chmod(0o755)
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    one.switch(first)
    assert is_exactly(one, repo, first)


def test_directories_without_rights_are_removed(repo: Repo) -> None:
    one, first = slot_of(repo), first_of(repo)
    one.switch(first)
    Repo(one.path).write("locked/in/x")
    (one.path / "locked/in").chmod(0o500)
    (one.path / "locked").chmod(0o000)
    (one.path / "lib").chmod(0o500)
    one.switch(first)
    assert is_exactly(one, repo, first)
    (one.path / "lib").chmod(0o500)
    one.remove()
    assert not one.path.exists()


def test_nothing_is_removed_through_a_link(repo: Repo, second: str, tmp_path: Path) -> None:
    """A run that replaced directories by links to the person's files, or left links to them."""
    precious = tmp_path / "precious"
    (precious / "deep").mkdir(parents=True)
    for name in ("a.py", "b.py", "deep/c.py"):
        (precious / name).write_text("mine")
    one, first = slot_of(repo), first_of(repo)
    one.switch(first)
    shutil.rmtree(one.path / "lib")
    (one.path / "lib").symlink_to(precious)
    (one.path / "new").symlink_to(precious)
    (one.path / "out").symlink_to(precious)
    (one.path / "train.py").unlink()
    (one.path / "train.py").symlink_to(precious / "a.py")
    one.switch(second)
    assert is_exactly(one, repo, second)
    (one.path / "lib").rename(one.path / "gone")
    (one.path / "lib").symlink_to(precious)
    one.remove()
    assert sorted(p.name for p in precious.rglob("*")) == ["a.py", "b.py", "c.py", "deep"]
    assert {p.read_text() for p in precious.rglob("*.py")} == {"mine"}


def delete(one: Slot) -> None:
    shutil.rmtree(one.path)


def remove_git_file(one: Slot) -> None:
    (one.path / ".git").unlink()


def scramble_index(one: Slot) -> None:
    (one.checkout.common_dir / "worktrees/slot-0/index").write_bytes(b"DIRC nonsense")


def scramble_head(one: Slot) -> None:
    (one.checkout.common_dir / "worktrees/slot-0/HEAD").write_bytes(b"")


def move(one: Slot) -> None:
    one.path.rename(one.path.with_name("moved"))


def leave_locks(one: Slot) -> None:
    for name in ("index.lock", "HEAD.lock"):
        lock = one.checkout.common_dir / "worktrees/slot-0" / name
        lock.write_bytes(b"")
        os.utime(lock, (1, 1))


def check_out_a_branch(one: Slot) -> None:
    Repo(one.path).git("checkout", "-q", "-b", "mine")
    Repo(one.path).write("mine.py")
    Repo(one.path).git("add", "-A")


DAMAGES = (delete, remove_git_file, scramble_index, scramble_head, move, leave_locks, check_out_a_branch)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_slot_heals_itself(repo: Repo, second: str, damage: Callable[[Slot], None]) -> None:
    one, first = slot_of(repo), first_of(repo)
    one.switch(first)
    damage(one)
    one.switch(second)
    assert is_exactly(one, repo, second)
    listed = repo.git("worktree", "list", "--porcelain")
    assert listed.count(f"worktree {one.path}\n") == 1
    assert listed.count("locked autoresearch: test, slot 0") == 1


def test_a_repository_that_was_moved_gets_its_slots_back(repo: Repo, second: str, tmp_path: Path) -> None:
    slot_of(repo).switch(second)
    repo.root.rename(tmp_path / "elsewhere")
    moved = Repo(tmp_path / "elsewhere")
    one = slot_of(moved)
    one.switch(first_of(moved))
    assert is_exactly(one, moved, first_of(moved))


def test_prune_and_gc_leave_a_slot_alone(repo: Repo, second: str) -> None:
    one = slot_of(repo)
    one.switch(second)
    one.path.rename(one.path.with_name("away"))
    repo.git("worktree", "prune", "--expire", "now")
    repo.git("gc", "--quiet", "--prune=now")
    assert str(one.path) in repo.git("worktree", "list")


def test_a_slot_inside_another_repository_never_touches_that(repo: Repo, second: str, tmp_path: Path) -> None:
    """A home directory under git: without its .git file, git would find that one in the slot."""
    outer = Repo(tmp_path)
    outer.git("init", "-q")
    outer.write("dotfile", "mine")
    one = slot_of(repo)
    one.switch(second)
    (one.path / ".git").unlink()
    assert one.changes() == ()
    one.switch(first_of(repo))
    one.remove()
    assert (tmp_path / "dotfile").read_text() == "mine"
    assert not (tmp_path / "train.py").exists()


@pytest.mark.parametrize("registered", [False, True])
def test_somebodys_directory_or_worktree_is_refused_and_kept(registered: bool, repo: Repo) -> None:
    one = slot_of(repo)
    if registered:
        repo.git("worktree", "add", "-q", "--detach", str(one.path))
    one.path.mkdir(parents=True, exist_ok=True)
    (one.path / "thesis.tex").write_text("years")
    with pytest.raises(ConflictError, match="no worktree of ours"):
        one.switch(first_of(repo))
    one.remove()
    assert (one.path / "thesis.tex").read_text() == "years"


def test_a_slot_in_the_checkout_is_refused(repo: Repo) -> None:
    for path in (repo.root, repo.root / "state/slot-0", repo.root / "lib/../x"):
        with pytest.raises(ConflictError, match="inside the checkout"):
            slot(repo.checkout, path)


def test_remove_leaves_nothing(repo: Repo, second: str) -> None:
    kept = repo.root.parent / "kept"
    repo.git("worktree", "add", "-q", "--detach", str(kept))
    slots = [slot(repo.checkout, repo.root.parent / "state" / f"slot-{n}") for n in range(3)]
    for one in slots:
        one.switch(second)
    shutil.rmtree(slots[1].path)
    shutil.rmtree(repo.git_dir / "worktrees/slot-2")
    for one in (*slots, slots[0]):
        one.remove()
    assert list(slots[0].path.parent.iterdir()) == []
    assert [p.name for p in (repo.git_dir / "worktrees").iterdir()] == ["kept"]
    assert (kept / "train.py").exists()


def test_changed_attributes_change_files_that_git_thinks_are_the_same(repo: Repo) -> None:
    first = first_of(repo)
    repo.write(".gitattributes", "*.py text eol=crlf\n")
    crlf = repo.commit("crlf")
    one = slot_of(repo)
    for commit, content in ((first, b"a = 1\n"), (crlf, b"a = 1\r\n"), (first, b"a = 1\n")):
        one.switch(commit)
        assert (one.path / "lib/a.py").read_bytes() == content
        assert one.changes() == ()


@pytest.mark.parametrize("anew", [False, True])
def test_hooks_of_the_repository_do_not_run(repo: Repo, second: str, anew: bool) -> None:
    started = repo.root.parent / "started"
    repo.git("config", "core.fsmonitor", f"touch {started}; false")
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        hook = repo.root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {started}\n")
        hook.chmod(0o755)
    one = slot_of(repo)
    for commit in (second, first_of(repo)):
        one.switch(commit, anew=anew)
        assert one.changes() == ()
    assert not started.exists()


def test_evil_names_links_and_modes(make_repo: Callable[[str], Repo]) -> None:
    repo = make_repo("a repo\nwith ü")
    repo.write("space in name.py")
    repo.write("line\nbreak.py")
    repo.write("ü/中文.py")
    repo.write("\udcff.bin", b"\0")
    repo.write("-rf", "x")
    repo.write("*.py", "x")
    repo.write("tool", "x", mode=0o755)
    (repo.root / "link").symlink_to("tool")
    (repo.root / "dangling").symlink_to("../../nowhere")
    (repo.root / "dir").symlink_to("ü")
    commit = repo.commit()
    one = slot_of(repo, "slot 0\nü")
    one.switch(commit)
    Repo(one.path).write("junk\n")
    one.switch(commit)
    assert is_exactly(one, repo, commit)
    one.remove()
    assert not one.path.exists()
    assert repo.git("worktree", "list", "--porcelain").count("\nHEAD ") == 1


def test_the_checkout_is_byte_for_byte_as_before(repo: Repo, second: str) -> None:
    repo.write("stashed.py")
    repo.git("stash", "-q", "-u")
    repo.write("staged.py")
    repo.git("add", "staged.py")
    repo.write("train.py", "dirty")
    repo.write("untracked.txt")
    repo.write("ignored/data.bin", b"\0" * 100)
    (repo.root / "link").symlink_to("ignored")
    before = (repo.private(), repo.disk())
    one = slot_of(repo)
    one.switch(first_of(repo), [ExtraPath("ignored", Way.LINK), ExtraPath("link", Way.LINK)])
    (one.path / "lib/a.py").write_text("run")
    one.switch(second, [ExtraPath("ignored", Way.COPY)])
    one.changes()
    one.remove()
    assert (repo.private(), repo.disk()) == before


def test_a_slot_of_another_repository_is_refused_and_stays_as_it_is(make_repo: Callable[[str], Repo]) -> None:
    first, other = make_repo("first"), make_repo("other")
    for repo in (first, other):
        repo.write("train.py", f"print('{repo.root.name}')\n")
        repo.commit("start")
    path = first.root.parent / "state/slot-1"
    held = slot(first.checkout, path, reason="campaign night")
    held.switch("HEAD")
    strange = slot(other.checkout, path, reason="campaign night")
    with pytest.raises(ConflictError, match="belongs to campaign night of") as refused:
        strange.switch("HEAD")
    assert str(first.root) in str(refused.value)
    strange.remove()
    assert (path / "train.py").read_text() == "print('first')\n"
    held.switch("HEAD")
    shutil.rmtree(first.root)  # nobody's any more
    strange.switch("HEAD")
    assert (path / "train.py").read_text() == "print('other')\n"


def test_a_pipe_in_the_place_of_git_s_rules_stops_nothing(repo: Repo, second: str) -> None:
    one, files = slot_of(repo), (".gitignore", "lib/.gitattributes", "new/.gitignore")
    one.switch(second)
    for look in (one.changes, one.untracked, lambda: one.switch(second)):
        for name in files:
            (one.path / name).parent.mkdir(exist_ok=True)
            (one.path / name).unlink(missing_ok=True)
            os.mkfifo(one.path / name)
        (one.path / "train.py").write_text("print('other')\n")
        look()
    assert is_exactly(one, repo, second)
