"""Real repositories in tmp_path, isolated from the user's configuration, and a second reader of them."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoresearch.git_repo.checkout import Checkout, find, locate

Files = dict[str, tuple[int, bytes]]


@dataclass(frozen=True)
class Repo:
    """A repository and what tests do to it."""

    root: Path

    @property
    def git_dir(self) -> Path:
        return Path(self.git("rev-parse", "--absolute-git-dir").strip())

    @property
    def checkout(self) -> Checkout:
        """As the product finds it."""
        found = find(self.root)
        assert found is not None, str(locate(self.root))
        return found

    def git(self, *args: str, feed: bytes | None = None, check: bool = True) -> str:
        done = subprocess.run(["git", *args], cwd=self.root, input=feed, capture_output=True)
        assert not check or done.returncode == 0, (args, done.stdout, done.stderr)
        return os.fsdecode(done.stdout)

    def write(self, path: str, content: str | bytes = "x\n", *, mode: int = 0o644) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(mode)
        return place

    def commit(self, message: str = "c") -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def private(self) -> dict[str, tuple[int, int, bytes]]:
        """Everything in .git but objects, with inode and time stamp: rewritten is seen, not only changed."""
        found = {}
        git_dir = Path(self.git("rev-parse", "--git-common-dir").strip())
        for place in (self.root / git_dir).rglob("*"):
            if place.is_file() and "objects" not in place.relative_to(self.root / git_dir).parts[:1]:
                status = place.stat()
                # git touches a shared index whenever it reads one, lest it expire
                stamp = 0 if place.name.startswith("sharedindex.") else status.st_mtime_ns
                found[str(place)] = (status.st_ino, stamp, place.read_bytes())
        return found

    def disk(self) -> Files:
        """Every file and link of the working tree: git's mode and the content."""
        found: Files = {}
        for place, directories, files in os.walk(self.root):
            directories[:] = [d for d in directories if d != ".git" and not os.path.islink(f"{place}/{d}")]
            links = [d for d in os.listdir(place) if os.path.islink(f"{place}/{d}")]
            for name in {*files, *links} - {".git"}:
                path = f"{place}/{name}"
                mode = os.lstat(path).st_mode
                key = os.path.relpath(path, self.root)
                if stat.S_ISLNK(mode):
                    found[key] = (0o120000, os.fsencode(os.readlink(path)))
                elif stat.S_ISREG(mode):
                    found[key] = (0o100755 if mode & 0o100 else 0o100644, Path(path).read_bytes())
        return found

    def tree(self, commit: str) -> Files:
        """What a commit holds, as GitPython reads it; a submodule is mode 0o160000 and its commit."""
        import git

        found: Files = {}
        with git.Repo(self.root) as repo:
            for item in repo.commit(commit).tree.traverse():
                if isinstance(item, git.Submodule):
                    found[str(item.path)] = (0o160000, item.hexsha.encode())
                elif isinstance(item, git.Blob):
                    found[str(item.path)] = (item.mode, item.data_stream.read())
        return found


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No configuration, no home, no inherited GIT_*; private temporary files of ours go to tmp_path/tmp."""
    for name in [name for name in os.environ if name.startswith("GIT_") or name == "EMAIL"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return tmp_path


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[[str], Repo]:
    """Make an empty repository with an identity under a name."""
    return lambda name: _made(tmp_path / name)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `repo` is a copy of: eight processes once, not for each test."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            patch.delenv(name)
        patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        one = _made(tmp_path_factory.mktemp("template") / "repo")
        one.write("train.py", "print('one')\n")
        one.write("lib/a.py", "a = 1\n")
        one.write("lib/b.py", "b = 1\n")
        one.write("run.sh", "true\n", mode=0o755)
        one.write(".gitignore", "*.log\n/ignored/\n")
        one.commit()
    return one.root


@pytest.fixture
def repo(template: Path, tmp_path: Path) -> Repo:
    """A repository with a few files and one commit."""
    one = Repo(tmp_path / "repo")
    shutil.copytree(template, one.root, symlinks=True)
    one.git("update-index", "-q", "--refresh")
    return one


def _made(root: Path) -> Repo:
    repo = Repo(root)
    repo.root.mkdir(parents=True)
    repo.git("init", "-q", "-b", "main")
    repo.git("config", "user.name", "T")
    repo.git("config", "user.email", "t@example.invalid")
    return repo
