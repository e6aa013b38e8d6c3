"""The project of a directory: what its files say of it is what git says."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.git_repo import checkout
from autoresearch.git_repo.project import project_of
from tests.git_repo.conftest import Repo

pytestmark = pytest.mark.system

PLACES = {
    "root": ".",
    "below": "pkg",
    "a link to it": "../link",
    "inside .git": ".git/refs",
    "a linked worktree": "../linked",
    "below a linked worktree": "../linked/pkg",
    "a submodule": "sub",
    "a bare repository inside": "bare.git/refs",
    "half a repository inside": "half/pkg",
    "outside": "../outside",
}


@pytest.fixture
def places(repo: Repo) -> Path:
    root = repo.root
    for name in ("pkg", "half/pkg", "half/.git", "../outside"):
        (root / name).mkdir(parents=True)
    (root / "pkg" / "train.py").write_text("")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "pkg")
    repo.git("worktree", "add", "-q", "../linked")
    repo.git("init", "-q", "--bare", "bare.git")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./.git", "sub")
    (root.parent / "link").symlink_to(root)
    return root


def test_files_say_what_git_says(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_git = {name: checkout.asked_project(places / place) for name, place in PLACES.items()}
    assert {name: project_of(places / place) for name, place in PLACES.items()} == by_git
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("GIT_CEILING_DIRECTORIES", str(places))
        assert project_of(places / "pkg") == (places / "pkg").resolve()
    monkeypatch.setenv("PATH", "/nowhere")
    assert project_of(places / "pkg") == places.resolve()
