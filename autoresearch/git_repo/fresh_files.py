"""Writes the files of a commit as git would, without anything that a run may have left in the repository.

Training code that runs outside of a sandbox can change the repository that its worktrees share: bits in an index that
make git skip a file, replacements of objects, attributes and filters in `.git`, hooks. So a worktree's files are
written by a git directory made for this moment, which borrows the objects and has no other configuration than the
user's own and the machine's; a file that stays was compared by its hash. A filter that only the repository's
`.git/config` defines is therefore not run: our git never starts a program that a run could have chosen. git-lfs works
all the same, as its filter is named here.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autoresearch.core.text.regex import later
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.git import Git, GitFailed
from autoresearch.git_repo.remove_tree import discard, make_writable, remove_pipes

CONFIG = {  # by the length of a commit id (gitrepository-layout(5), git-config(1) "extensions.objectFormat")
    40: "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
    64: "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectFormat = sha256\n",
}
_LFS = ("filter.lfs.smudge=git-lfs smudge --skip -- %f", "filter.lfs.process=git-lfs filter-process --skip",
        "filter.lfs.clean=git-lfs clean -- %f")  # fmt: skip - without a download
_KEPT = r"^core\.(autocrlf|eol|symlinks|ignorecase)$"  # of the repository's settings: none of them names a program
_PROGRAM = later(
    r"filter\..*\.(?:clean|smudge|process)|diff\..*\.(?:textconv|command)|merge\..*\.driver", re.DOTALL
)
_REQUIRED = later(r"filter\..*\.required", re.DOTALL)  # git would fail without the program
_DIRECTORY, _SUBMODULE, _RULES = b"040000", b"160000", b".gitattributes"


@dataclass(frozen=True, slots=True)
class CommitEntries:
    """What a commit says that it holds: `entries` are the lines of its directories, files and submodules."""

    commit: str
    entries: tuple[bytes, ...]

    @classmethod
    def of(cls, checkout: Checkout, commit: str) -> CommitEntries:
        """Read them. Raises GitFailed if there is no such commit."""
        listed = checkout.git.run("ls-tree", "-r", "-t", "-z", "--full-tree", commit)
        return cls(commit, tuple(listed.split(b"\0")[:-1]))

    @property
    def files(self) -> tuple[bytes, ...]:
        """The lines of its files and submodules."""
        return tuple(one for one in self.entries if not one.startswith(_DIRECTORY))

    @property
    def submodules(self) -> dict[str, str]:
        """The path of each of its submodules, and the commit that it is at."""
        listed = (one.partition(b"\t") for one in self.entries if one.startswith(_SUBMODULE))
        return {os.fsdecode(path): head.split(b" ")[2].decode() for head, _, path in listed}


def write_files(checkout: Checkout, index: Path, directory: Path, commit: CommitEntries, *, anew: bool) -> None:
    """Make `directory` hold exactly the files of the commit, beside its own `.git`, and `index` their entries.

    anew: write every file again; otherwise those stay whose content is that of the commit, by its hash.
    Raises GitFailed, EnvironmentUnusable.
    """
    with unruled(checkout, index, directory, commit.commit) as run:

        def write(*, anew: bool) -> None:
            index.unlink(missing_ok=True)
            if not anew:
                run("reset", "--mixed", commit.commit, "--")  # and looks which files are as they should be
                listed = run("ls-files", "-t", "--modified", "--others", "--directory", "-z").split(b"\0")[:-1]
                changed = {one[2:] for one in listed if one.startswith(b"C")}
                new = [one[2:] for one in listed if one.startswith(b"?")]
                if any(path.rpartition(b"/")[2] == _RULES for path in (*changed, *new)):
                    index.unlink(missing_ok=True)
                    anew = True
            if anew:
                new = [os.fsencode(entry.name) for entry in directory.iterdir() if entry.name != ".git"]
            for path in new:  # before anything is written: git would obey a .gitattributes among them
                discard(directory / os.fsdecode(path))
            if anew:
                run("checkout", "--quiet", "--force", "--detach", commit.commit, "--")
            elif changed:
                run("checkout-index", "--force", "--index", "-z", "--stdin", feed=b"\0".join(changed) + b"\0")

        try:
            write(anew=anew)
        except (GitFailed, OSError):
            make_writable(directory)
            write(anew=anew)


@contextlib.contextmanager
def unruled(checkout: Checkout, index: Path, directory: Path, commit: str) -> Iterator[Callable[..., bytes]]:
    """Runs git on these files, at this commit, by a git directory of its own: see above."""
    import tempfile  # takes milliseconds to import

    remove_pipes(directory)
    config = checkout.common_dir / "config"
    settings = [*_kept_settings(checkout, config.stat().st_ctime_ns if config.exists() else 0), *_lfs(checkout)]
    with tempfile.TemporaryDirectory(prefix="autoresearch-git-") as made:
        own = borrowing_repository(Path(made), checkout, commit)

        def run(*words: str, feed: bytes | None = None) -> bytes:
            own_words = (f"--git-dir={own}", f"--work-tree={directory}", *settings)
            return Git(directory, index).run(*own_words, *words, feed=feed)

        yield run


def quoted(path: Path) -> bytes:
    """A path as git reads it in lists of object directories: quoted if it contains special characters."""
    raw = os.fsencode(path)
    if not raw.startswith(b'"') and b":" not in raw and b"\n" not in raw:
        return raw
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def own_settings(checkout: Checkout) -> list[str]:
    """The names of the settings that the repository's own configuration holds."""
    listed = checkout.git.run("config", "--list", "--show-scope", "-z", "--includes").split(b"\0")
    entries = zip(listed[::2], listed[1::2], strict=False)
    own = (entry.partition(b"\n")[0] for scope, entry in entries if scope in (b"local", b"worktree"))
    return [os.fsdecode(name) for name in dict.fromkeys(own)]


def without_programs(checkout: Checkout) -> tuple[str, ...]:
    """Options by which git starts no program that the repository's own configuration names, git-lfs excepted."""
    settings = own_settings(checkout)
    own = [f"{name}=" for name in settings if _PROGRAM.fullmatch(name)]
    own += [f"{name}=false" for name in settings if _REQUIRED.fullmatch(name)]
    return (*(word for setting in own for word in ("-c", setting)), *_lfs(checkout))


def borrowing_repository(directory: Path, checkout: Checkout, commit: str) -> Path:
    """Make a git directory at a commit that borrows the objects of a repository: no branch, remote, hook or setting."""
    for name in ("", "objects", "objects/info", "refs", "info"):
        (directory / name).mkdir(exist_ok=True)
    (directory / "objects/info/alternates").write_bytes(quoted(checkout.common_dir / "objects") + b"\n")
    (directory / "HEAD").write_text(f"{commit}\n")
    (directory / "config").write_text(CONFIG[len(commit)])
    return directory


@lru_cache(maxsize=8)
def _kept_settings(checkout: Checkout, changed: int) -> tuple[str, ...]:
    """What the repository's own configuration, as it was `changed` last, says of line ends and file names."""
    try:
        entries = checkout.git.run("config", "--local", "-z", "--get-regexp", _KEPT).split(b"\0")
    except GitFailed:  # it says nothing of them
        return ()
    pairs = (os.fsdecode(entry).partition("\n")[::2] for entry in entries if entry)
    return tuple(word for name, value in pairs for word in ("-c", f"{name}={value}"))


def _lfs(checkout: Checkout) -> Iterator[str]:
    if shutil.which("git-lfs"):
        for setting in (*_LFS, f"lfs.storage={checkout.common_dir}/lfs"):
            yield from ("-c", setting)
