"""Reading commits: files, bounded diffs that apply, and fingerprints that know equal hypotheses."""

from __future__ import annotations

import pytest

from autoresearch.errors import NotFoundError, UsageError
from autoresearch.git_repo.commits import Change, commit_hypothesis
from autoresearch.git_repo.git import GitFailed
from autoresearch.git_repo.history import (
    changed_paths,
    code_fingerprint,
    diff,
    first_commits,
    read_file,
    shown_diff,
)

from .conftest import Repo

pytestmark = pytest.mark.system


def commit(repo: Repo, files: dict[str, bytes | None], parent: str = "HEAD") -> str:
    return commit_hypothesis(repo.checkout, parent, Change(files=files), message="m").commit


def test_a_file_of_a_commit(repo: Repo) -> None:
    odd = "line\nbreak ü:\udcff"
    done = commit(repo, {"train.py": b"\0\r\n", odd: b"odd"})
    repo.write("train.py", "dirty")
    assert read_file(repo.root, done, "train.py") == b"\0\r\n"
    assert read_file(repo.root, done, odd) == b"odd"
    assert read_file(repo.root, "HEAD", "train.py") == b"print('one')\n"
    for missing in ("none.py", "lib"):
        with pytest.raises(NotFoundError, match=f"holds no file {missing}"):
            read_file(repo.root, done, missing)
    for impossible in ("../x", "/etc/passwd", ""):
        with pytest.raises(UsageError):
            read_file(repo.root, done, impossible)


def test_a_diff_applies_to_the_parent_whatever_the_person_configured(repo: Repo) -> None:
    for key, value in (("noprefix", "true"), ("external", "false"), ("renames", "copies"), ("mnemonicPrefix", "true")):
        repo.git("config", f"diff.{key}", value)
    repo.git("config", "color.ui", "always")
    repo.git("config", "core.quotePath", "false")
    changes: dict[str, bytes | None] = {"moved.py": b"print('one')\n", "b": b"\0\xff", "ü\n": b"no end"}
    changes["train.py"] = None
    done = commit(repo, changes)
    text = diff(repo.checkout, "HEAD", done)
    assert text.startswith("diff --git a/")
    again = commit_hypothesis(repo.checkout, "HEAD", Change([text]), message="m")
    assert again.tree == repo.git("rev-parse", f"{done}^{{tree}}").strip()
    assert diff(repo.checkout, done, done) == ""
    assert set(changed_paths(repo.checkout, "HEAD", done)) == set(changes)


def test_a_diff_is_bounded(repo: Repo) -> None:
    done = commit(repo, {"big.txt": b"0123456789\n" * 100_000, "*.md": b"star\n", "why.md": b"why\n"})
    text = diff(repo.checkout, "HEAD", done, max_bytes=1000)
    assert 900 < len(text) < 1100
    assert "... cut after" in text.splitlines()[-1]
    small = diff(repo.checkout, "HEAD", done, ignoring=["big.txt", "*.md"])
    assert "why.md" in small
    assert "star" not in small
    with pytest.raises(GitFailed):
        diff(repo.checkout, "HEAD", "no-such")


def test_how_much_differs(repo: Repo) -> None:
    done = commit(repo, {"lib/a.py": b"a = 1\nb = 2\nc = 3\n", "train.py": b"", "w.bin": b"\0", "docs/a\tb": b"x\n"})
    every = "4 files changed, 3 insertions(+), 1 deletion(-)"
    fewer = "2 files changed, 2 insertions(+), 1 deletion(-)"
    for without, last in (((), every), (("doc",), every), (("docs", "w.bin"), fewer)):
        assert shown_diff(repo.root, "HEAD", done, without=without)[0].endswith(last)
    assert shown_diff(repo.root, done, done, without=()) == ("", "")


def test_equal_hypotheses_have_one_fingerprint(repo: Repo) -> None:
    files: dict[str, bytes | None] = {"lib/a.py": b"a = 5\n"}
    one = commit(repo, files | {"blueprint.md": b"one", "notes/x": b"1"})
    two = commit(repo, files | {"blueprint.md": b"two"}, commit(repo, {"lib/a.py": b"a = 4\n"}))
    ignoring = ["blueprint.md", "notes/"]
    assert code_fingerprint(repo.checkout, one, ignoring) == code_fingerprint(repo.checkout, two, ignoring)
    assert code_fingerprint(repo.checkout, one) != code_fingerprint(repo.checkout, two)
    assert code_fingerprint(repo.checkout, one, ignoring) != code_fingerprint(repo.checkout, "HEAD", ignoring)


def test_modes_and_names_count(repo: Repo) -> None:
    before = code_fingerprint(repo.checkout, "HEAD")
    (repo.root / "train.py").chmod(0o755)
    assert code_fingerprint(repo.checkout, repo.commit()) != before
    (repo.root / "train.py").chmod(0o644)
    (repo.root / "train.py").rename(repo.root / "tram.py")
    assert code_fingerprint(repo.checkout, repo.commit()) != before


def test_gitpython_reads_as_our_git_does(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    started = repo.root.parent / "started"
    (repo.root.parent / "hook").write_text(f"#!/bin/sh\ntouch {started}\n")
    (repo.root.parent / "hook").chmod(0o755)
    for key in ("core.fsmonitor", "diff.external"):
        repo.git("config", key, str(repo.root.parent / "hook"))
    first = repo.git("rev-parse", "HEAD").strip()
    done = commit(repo, {"train.py": b"print('two')\n", "blueprint.md": b"x\n"})
    monkeypatch.setenv("GIT_DIR", str(repo.root.parent / "elsewhere"))  # as in a hook of another repository
    stat, lines = shown_diff(repo.root / "lib", first, done, without=["blueprint.md"])
    assert "1 file changed, 1 insertion(+), 1 deletion(-)" in stat and "+print('two')" in lines
    assert first_commits(repo.root) == (first,)
    assert not started.exists()
    for unknown in ("no-such", "1" * 40, "--output=x"):
        with pytest.raises(GitFailed):
            shown_diff(repo.root, unknown, done, without=["x"])
    with pytest.raises(GitFailed):
        shown_diff(repo.root.parent, first, done, without=["x"])
