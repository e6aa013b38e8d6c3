"""Whatever an agent does with git and files: the patch is how the files differ, and the user's stays the user's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.agents.agent import NotMade

pytestmark = pytest.mark.system

NEW = "lr = 0.2\n"
DEEP = "import os\nfor _ in range(1500):\n    os.mkdir('d' * 10)\n    os.chdir('d' * 10)"


def git(tree: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=tree, check=True, capture_output=True)


def edited(tree: Path) -> None:
    (tree / "train.py").write_text(NEW)


def half_staged(tree: Path) -> None:
    (tree / "train.py").write_text("something else\n")
    git(tree, "add", "-A")
    edited(tree)


def committed(tree: Path) -> None:
    edited(tree)
    git(tree, "commit", "-qam", "mine")


def on_a_branch(tree: Path) -> None:
    git(tree, "checkout", "-qb", "autoresearch/night/lr-up")
    committed(tree)
    git(tree, "tag", "v1")
    git(tree, "branch", "main-2")


def hidden(tree: Path) -> None:
    git(tree, "update-index", "--assume-unchanged", "train.py")
    git(tree, "update-index", "--skip-worktree", "lib/b.py")
    edited(tree)


def told_to_ignore(tree: Path) -> None:
    git(tree, "rm", "-q", "--cached", "train.py")
    git(tree, "config", "core.excludesFile", str(tree / "run.sh"))
    with (tree / ".git").open() as link:
        place = Path(link.read().split()[1])
    (place / "info/exclude").write_text("*.py\n")
    edited(tree)


def configured(tree: Path) -> None:
    git(tree, "config", "filter.evil.clean", "echo evil")
    git(tree, "config", "core.hooksPath", str(tree))
    git(tree, "config", "diff.noprefix", "true")
    edited(tree)


def its_repository_replaced(tree: Path) -> None:
    (tree / ".git").unlink()
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "all new")
    edited(tree)


def its_repository_removed(tree: Path) -> None:
    (tree / ".git").unlink()
    edited(tree)


TRICKS = [
    *(edited, half_staged, committed, on_a_branch, hidden, told_to_ignore, configured),
    *(its_repository_replaced, its_repository_removed),
]


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__)
def test_the_patch_is_how_the_files_differ(yard: Any, trick: Callable[[Path], None]) -> None:
    before, objects = yard.untouched(), yard.objects()
    edit = yard.edit(trick)
    assert yard.untouched() == before
    assert (edit.unmade, edit.paths) == (None, ("train.py",)), edit.why
    left = yard.objects() - objects
    assert len(left) <= 4, "the blob and the trees of the patch, nothing that the agent committed"
    assert yard.show(yard.committed(edit), "train.py") == NEW
    if trick in (on_a_branch, hidden, configured, its_repository_replaced):
        assert yard.edit(lambda tree: None).unmade is NotMade.EMPTY, "no trace of it is left for the next turn"


def test_a_change_of_the_same_size_at_the_same_time_is_seen(yard: Any) -> None:
    def agent(tree: Path) -> None:
        place = tree / "train.py"
        before = place.stat()
        with place.open("r+b") as file:
            file.seek(place.read_bytes().index(b"0.1") + 2)
            file.write(b"9")
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))

    edit = yard.edit(agent)
    assert "lr = 0.9" in yard.show(yard.committed(edit), "train.py")


def committed_and_reset(tree: Path) -> None:
    committed(tree)
    git(tree, "reset", "-q", "--hard", "HEAD^")


def stashed(tree: Path) -> None:
    edited(tree)
    git(tree, "stash")


def checked_out_elsewhere(tree: Path) -> None:
    committed(tree)
    git(tree, "branch", "keep")
    git(tree, "checkout", "-q", "--detach", "HEAD^")


def only_what_is_ignored(tree: Path) -> None:
    (tree / "out.log").write_text("x")
    (tree / "ignored").mkdir()
    (tree / "ignored/model.py").write_text("x")
    for place in (".aider.chat.history.md", "lib/__pycache__/a.pyc", ".pytest_cache/.gitignore", ".autoresearch/x"):
        (tree / place).parent.mkdir(exist_ok=True)
        (tree / place).write_text("*\n")
    git(tree, "add", "--force", "-A")
    git(tree, "commit", "-qm", "forced in")


@pytest.mark.parametrize(
    "trick",
    [committed_and_reset, stashed, checked_out_elsewhere, only_what_is_ignored],
    ids=lambda trick: trick.__name__,
)
def test_what_is_not_in_the_files_is_not_there(yard: Any, trick: Callable[[Path], None]) -> None:
    before = yard.untouched()
    edit = yard.edit(trick)
    assert (edit.unmade, edit.patch) == (NotMade.EMPTY, ""), (edit.why, edit.paths)
    assert yard.untouched() == before


def test_everything_that_a_diff_can_hold(make_yard: Any) -> None:
    binary, name = bytes(range(256)) * 20, os.fsdecode(b'lib/caf\xe9 \n".py')
    yard = make_yard(
        {"lib/old.py": "x = 1\n" * 30, "lib/gone.py": "1\n", "weights.bin": b"\0\1\2" * 100, "dir/a": "1\n"}
    )

    def agent(tree: Path) -> None:
        git(tree, "mv", "lib/old.py", "lib/new.py")
        (tree / "lib/gone.py").unlink()
        (tree / "weights.bin").write_bytes(binary)
        (tree / "train.py").chmod(0o755)
        (tree / name).write_text("x = 1\r\ny = 2\r\n")
        (tree / "link.py").symlink_to("lib/a.py")
        (tree / "dir/a").unlink()
        (tree / "dir").rmdir()
        (tree / "dir").write_text("a file now")
        (tree / "run.sh").unlink()
        (tree / "run.sh").mkdir()
        (tree / "run.sh/inner").write_bytes(b"no end of line, \xff")

    edit = yard.edit(agent)
    tree, before = yard.tree(yard.committed(edit)), yard.tree(yard.base)
    kinds = {path: tree.get(path, "gone")[:6] for path in edit.paths}
    assert kinds == {
        "lib/old.py": "gone",
        "lib/new.py": "100644",
        "lib/gone.py": "gone",
        "weights.bin": "100644",
        "train.py": "100755",
        name: "100644",
        "link.py": "120000",
        "dir/a": "gone",
        "dir": "100644",
        "run.sh": "gone",
        "run.sh/inner": "100644",
    }
    assert set(tree) - set(edit.paths) == set(before) - set(edit.paths)
    raw = subprocess.run(["git", "show", f"{yard.committed(edit)}:weights.bin"], cwd=yard.root, capture_output=True)
    assert raw.stdout == binary
    assert (yard.bench.trees / "agent-b" / "dir").read_text() == "a file now"


def test_line_ends_and_attributes_of_the_commit_hold(make_yard: Any) -> None:
    yard = make_yard({".gitattributes": "*.txt text eol=crlf\n*.bat -text\n", "a.txt": "one\n", "b.bat": "one\r\n"})

    def agent(tree: Path) -> None:
        assert (tree / "a.txt").read_bytes() == b"one\r\n"
        (tree / "a.txt").write_bytes(b"one\r\ntwo\r\n")
        (tree / "b.bat").write_bytes(b"one\r\ntwo\r\n")

    edit = yard.edit(agent)
    commit = yard.committed(edit)
    assert (yard.show(commit, "a.txt"), yard.show(commit, "b.bat")) == ("one\ntwo\n", "one\r\ntwo\r\n")


def test_new_rules_of_git_do_not_smuggle(yard: Any) -> None:
    def agent(tree: Path) -> None:
        (tree / ".gitignore").write_text("!*.log\n")
        (tree / ".gitattributes").write_text("*.py text eol=crlf\n")
        (tree / "out.log").write_text("un-ignored\n")
        edited(tree)

    edit = yard.edit(agent)
    assert edit.unmade is NotMade.PROTECTED
    assert ".gitattributes (git's own)" in edit.why and ".gitignore (git's own)" in edit.why


def test_rules_that_may_be_changed_are_changed(make_yard: Any) -> None:
    yard = make_yard({"lib/.gitignore": "x\n"}, allow=(".gitignore",))

    def agent(tree: Path) -> None:
        (tree / ".gitignore").write_text("*.py\n")
        (tree / "lib/.gitignore").unlink()
        edited(tree)

    edit = yard.edit(agent)
    commit = yard.committed(edit)
    assert set(edit.paths) == {".gitignore", "lib/.gitignore", "train.py"}
    assert yard.show(commit, ".gitignore") == "*.py\n" and "lib/.gitignore" not in yard.tree(commit)


@pytest.mark.parametrize("target", ["lib/../../x", ".git/config", "loop/../../x"])
def test_a_link_that_leads_outside_is_refused(yard: Any, target: str) -> None:
    def agent(tree: Path) -> None:
        (tree / "loop").symlink_to("lib")
        (tree / "lib/deep").mkdir()
        (tree / "link").symlink_to(target)

    edit = yard.edit(agent)
    assert edit.unmade is NotMade.PROTECTED and "link" in edit.why and target in edit.why


def nested_in_what_is_tracked(tree: Path) -> None:
    git(tree, "init", "-q", "lib")


def nested_by_another_case(tree: Path) -> None:
    (tree / "lib/.GIT").mkdir()


@pytest.mark.parametrize("agent", [nested_in_what_is_tracked, nested_by_another_case], ids=lambda a: a.__name__)
def test_a_repository_inside_is_refused(yard: Any, agent: Callable[[Path], None]) -> None:
    edit = yard.edit(agent)
    assert edit.unmade is NotMade.PROTECTED and "repository inside the repository" in edit.why
    assert yard.edit(edited).unmade is None, "and nothing of it stays"


def test_what_cannot_be_looked_at_is_refused_and_what_is_no_file_is_not_taken(yard: Any) -> None:
    def deep(tree: Path) -> None:
        subprocess.run([sys.executable, "-c", DEEP], cwd=tree, check=True)

    def odd(tree: Path) -> None:
        os.mkfifo(tree / "pipe")
        subprocess.run([sys.executable, "-c", "import socket; socket.socket(1).bind('s')"], cwd=tree, check=True)
        edited(tree)

    edit = yard.edit(deep)
    assert edit.unmade is NotMade.PROTECTED and "cannot be looked at" in edit.why
    assert yard.edit(odd).paths == ("train.py",)


def test_a_submodule_is_not_changed(yard: Any) -> None:
    yard.git("update-index", "--add", "--cacheinfo", f"160000,{yard.base},vendored")
    tree = yard.git("write-tree").strip()
    base = yard.git("commit-tree", tree, "-p", yard.base, "-m", "m").strip()
    yard.git("update-index", "--force-remove", "vendored")
    yard.base = base

    def replaces(tree: Path) -> None:
        (tree / "vendored").rmdir()
        (tree / "vendored").write_text("x")

    assert yard.edit(edited).paths == ("train.py",)
    edit = yard.edit(replaces)
    assert edit.unmade is NotMade.PROTECTED and "submodule vendored" in edit.why


def test_a_worktree_that_was_replaced_is_refused(yard: Any, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("somebody's")

    def agent(tree: Path) -> None:
        tree.rename(tree.with_name("moved"))
        tree.symlink_to(outside)

    edit = yard.edit(agent)
    assert edit.unmade is NotMade.PROTECTED and "replaced" in edit.why
    assert yard.edit(edited).unmade is None
    assert [place.name for place in outside.iterdir()] == ["mine.txt"]


def test_an_unreadable_directory_keeps_nobody(yard: Any) -> None:
    def agent(tree: Path) -> None:
        (tree / "locked").mkdir()
        (tree / "locked/x.py").write_text("x")
        (tree / "locked").chmod(0)
        edited(tree)

    edit = yard.edit(agent)
    assert "train.py" in edit.paths and edit.unmade is None
    assert yard.edit(edited).paths == ("train.py",)
