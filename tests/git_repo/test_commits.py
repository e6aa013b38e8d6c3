"""The commit of a hypothesis: the parent plus what was asked for, the same every time, and nothing else touched."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.errors import ConflictError, UsageError
from autoresearch.git_repo.branches import advance_branch, claim_branch
from autoresearch.git_repo.commits import Change, Committed, PatchError, commit_hypothesis

from .conftest import Repo

pytestmark = pytest.mark.system

PATCH = """\
diff --git a/lib/a.py b/lib/a.py
--- a/lib/a.py
+++ b/lib/a.py
@@ -1 +1,2 @@
-a = 1
+a = 2
+b = 3
"""
BARE = PATCH.replace("a/lib", "lib").replace("b/lib", "lib")


def made(repo: Repo, change: Change, parent: str = "HEAD", **options: object) -> Committed:
    return commit_hypothesis(repo.checkout, parent, change, message="idea", **options)  # type: ignore[arg-type]


def test_patches_then_files_on_the_parent(repo: Repo) -> None:
    files = {"lib/b.py": b"b = 2\n", "new/deep.py": b"n\n", "go": b"#!/bin/sh\n", "run.sh": b"false\n"}
    done = made(repo, Change([PATCH], files | {"train.py": None}))
    assert repo.tree(done.commit) == {
        ".gitignore": (0o100644, b"*.log\n/ignored/\n"),
        "lib/a.py": (0o100644, b"a = 2\nb = 3\n"),
        "lib/b.py": (0o100644, b"b = 2\n"),
        "new/deep.py": (0o100644, b"n\n"),
        "go": (0o100755, b"#!/bin/sh\n"),
        "run.sh": (0o100755, b"false\n"),
    }
    assert done.parent == repo.git("rev-parse", "HEAD").strip()
    assert repo.git("rev-parse", f"{done.commit}^").strip() == done.parent
    assert not done.changes_nothing


def test_the_same_again_is_the_same_commit(repo: Repo) -> None:
    change = Change([PATCH], {"x": b"1", "y": b"2"})
    first = made(repo, change, when=1_700_000_000)
    repo.write("train.py", "dirty")
    repo.git("add", "-A")
    assert made(repo, Change([PATCH], {"y": b"2", "x": b"1"}), when=1_700_000_000) == first
    assert made(repo, change).tree == first.tree


def test_the_baseline_changes_nothing_and_has_its_commit(repo: Repo) -> None:
    done = made(repo, Change())
    assert done.changes_nothing
    assert done.commit != done.parent
    assert made(repo, Change(files={"train.py": b"print('one')\n"})).changes_nothing


def test_what_does_not_count(repo: Repo) -> None:
    files = {"blueprint.md": b"why\n", "docs/a.md": b"x\n", "docs.md": b"y\n", "train.py": b""}
    done = made(repo, Change(files=files), uncounted=["blueprint.md", "docs/"])
    assert not done.changes_nothing
    assert made(repo, Change(files={"blueprint.md": b"x"}), uncounted=["blueprint.md"]).changes_nothing


@pytest.mark.parametrize(
    "patch", [PATCH, BARE, PATCH.rstrip("\n"), PATCH.encode()], ids=["git", "bare", "cut", "bytes"]
)
def test_a_patch_in_the_shapes_that_people_send(repo: Repo, patch: str | bytes) -> None:
    repo.git("config", "apply.whitespace", "error-all")
    done = made(repo, Change([patch]))
    assert repo.tree(done.commit)["lib/a.py"] == (0o100644, b"a = 2\nb = 3\n")


def test_patches_follow_each_other_and_may_do_what_git_diff_says(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    other = make_repo("other")
    other.git("pull", "-q", str(repo.root))
    (other.root / "run.sh").rename(other.root / "go.sh")
    (other.root / "go.sh").chmod(0o644)
    (other.root / "link").symlink_to("go.sh")
    other.write("bin", bytes(range(256)))
    other.write("win.txt", "a\r\nb\r\n")
    other.write("sp ace\tü\n.py", "x")
    other.git("add", "-A")
    text = other.git("diff", "--cached", "--binary", "HEAD")
    other.commit()
    done = made(repo, Change([text, PATCH]))
    expected = other.tree("HEAD") | {"lib/a.py": (0o100644, b"a = 2\nb = 3\n")}
    assert repo.tree(done.commit) == expected


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        (PATCH.replace("-a = 1", "-a = 7"), "patch does not apply"),
        (PATCH.replace("lib/a.py", "lib/none.py"), "does not exist"),
        (PATCH.replace("lib/a.py", "../a.py"), "../a.py"),
        (PATCH.replace("lib/a.py", ".git/config"), ".git/config"),
        ("", "No valid patches"),
        ("please set lr to 3", "No valid patches"),
        (PATCH[:60], "patch"),
        (PATCH.replace("\n", "\r\n"), "patch"),
    ],
)
def test_a_patch_that_does_not_apply(repo: Repo, patch: str, says: str) -> None:
    before = (repo.private(), repo.disk())
    with pytest.raises(PatchError) as caught:
        made(repo, Change([PATCH.replace("lib/a.py", "lib/b.py").replace("a = 1", "b = 1"), patch]))
    assert (caught.value.code, caught.value.number) == ("patch_failed", 2)
    assert isinstance(caught.value, ConflictError)
    assert says in caught.value.reason
    assert caught.value.hint
    assert (repo.private(), repo.disk()) == before


PARTS = ("", "/etc/x", "../x", "a/../b", "a//b", "a/", "./a", "\0")
DOT_GIT = (".git/config", "a/.GIT/x", "git~1/x", "a/.git ./x", ".git::x")  # the last three: on some file system


@pytest.mark.parametrize("path", [*PARTS, *DOT_GIT])
def test_an_impossible_path(repo: Repo, path: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a file"):
        made(repo, Change(files={path: b""}))


def test_a_file_that_is_not_there_cannot_be_removed(repo: Repo) -> None:
    with pytest.raises(ConflictError, match="nothing cannot be removed"):
        made(repo, Change(files={"nothing": None}))


def test_bytes_stay_bytes(repo: Repo) -> None:
    """Neither line endings nor filters of the person change what was proposed."""
    repo.write(".gitattributes", "*.py text eol=crlf filter=evil\n")
    repo.git("add", ".gitattributes")
    repo.git("commit", "-qm", "attributes")
    repo.git("config", "filter.evil.clean", "false")
    repo.git("config", "filter.evil.required", "true")
    repo.git("config", "core.autocrlf", "true")
    names = {"a\r\n.py": b"a\r\nb\n\0", "ü \udcff.py": b"\xff", "*.py": b"", ":(top)x": b"m"}
    done = made(repo, Change(files=names))
    tree = repo.git("ls-tree", "-r", "-z", "--name-only", done.commit).split("\0")
    assert set(names) <= set(tree)
    assert repo.git("cat-file", "blob", f"{done.commit}:a\r\n.py").encode() == b"a\r\nb\n\0"


def test_a_machine_that_would_refuse_a_commit(repo: Repo, tmp_path: Path) -> None:
    """No name, a signature without a key, hooks that fail, a sparse checkout, a held index.lock."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "reference-transaction", "post-index-change", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    repo.git("config", "core.hooksPath", str(hooks))
    repo.git("config", "--unset", "user.name")
    repo.git("config", "--unset", "user.email")
    repo.git("config", "user.useConfigOnly", "true")
    repo.git("config", "commit.gpgsign", "true")
    repo.git("config", "core.sparseCheckout", "true")
    (repo.git_dir / "info").mkdir(exist_ok=True)
    (repo.git_dir / "info/sparse-checkout").write_text("/lib/\n")
    (repo.git_dir / "index.lock").write_text("")
    done = made(repo, Change([PATCH], {"new": b"1"}))
    branch = claim_branch(repo.checkout, "autoresearch/c/idea", done.commit)
    follow = made(repo, Change(files={"new": b"2"}), branch)
    advance_branch(repo.checkout, branch, follow.commit, done.commit)
    assert set(repo.tree(branch)) == {".gitignore", "lib/a.py", "lib/b.py", "new", "run.sh", "train.py"}
    assert repo.git("log", "-1", "--format=%an", branch).strip() == "autoresearch"
    assert not (tmp_path / "ran").exists()


def test_the_checkout_is_byte_for_byte_as_before(repo: Repo) -> None:
    repo.write("stashed.py")
    repo.git("stash", "-q", "-u")
    repo.write("staged.py")
    repo.git("add", "staged.py")
    repo.write("lib/a.py", "dirty")
    repo.write("untracked.txt")
    before = (repo.private(), repo.disk(), repo.git("for-each-ref"))
    made(repo, Change([PATCH], {"lib/b.py": b"x", "untracked.txt": b"y"}))
    with pytest.raises(PatchError):
        made(repo, Change(["nonsense"]))
    assert (repo.private(), repo.disk(), repo.git("for-each-ref")) == before


def test_a_repository_with_long_ids(tmp_path: Path) -> None:
    root = tmp_path / "long"
    subprocess.run(["git", "init", "-q", "--object-format=sha256", str(root)], check=True)
    repo = Repo(root)
    repo.git("config", "user.name", "T")
    repo.git("config", "user.email", "t@example.invalid")
    repo.write("a")
    repo.write("b")
    parent = repo.commit()
    repo.git("checkout", "-q", "--orphan", "unborn")  # nothing here has a long id then
    done = commit_hypothesis(repo.checkout, parent, Change(files={"a": None, "c": b"1"}), message="m")
    assert repo.git("ls-tree", "--name-only", done.commit).split() == ["b", "c"]
