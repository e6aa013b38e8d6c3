"""Finds the repository of a directory, with its HEAD and branch; a private copy of its index."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autoresearch.errors import NotFoundError
from autoresearch.git_repo.git import LIST, Git, GitFailed

INIT = "`git init` there and commit"


@dataclass(frozen=True, slots=True)
class Checkout:
    """A working tree and its repository. All paths are absolute and without symbolic links.

    A linked worktree has a `git_dir` of its own (HEAD, index) and shares `common_dir` (refs, objects).
    """

    root: Path
    git_dir: Path
    common_dir: Path
    head: str  # commit; "" if there is none yet
    branch: str  # "" if HEAD is detached

    @property
    def git(self) -> Git:
        """A `Git` for the root of this working tree."""
        return Git(self.root)

    @property
    def project(self) -> Path:
        """The main working tree, the same for all linked ones."""
        return self.common_dir.parent if self.common_dir.name == ".git" else self.root

    @property
    def index(self) -> Path:
        """The user's index: read, never written."""
        return self.git_dir / "index"

    def ignores(self, path: str) -> bool:
        """Whether git ignores a path, given from the root or absolute."""
        return self.git.ask("check-ignore", "-q", "--", path)[0] == 0

    def commit(self, name: str) -> str:
        """The id of a commit given by id or branch. Raises GitFailed if there is none."""
        return self.git.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")


@dataclass(frozen=True, slots=True)
class NoCheckout:
    """Why a directory has no usable checkout: a clause, what to do instead, and a line to type; "" if there is none."""

    reason: str
    remedy: str = ""
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.reason} (trust it: {self.fix})" if self.fix else self.reason


def find(directory: Path) -> Checkout | None:
    """The checkout that contains `directory`; None if there is none, or no git (`locate` gives the reason)."""
    found = locate(directory)
    return found if isinstance(found, Checkout) else None


def current_project() -> Path:
    """The project of the current directory. Raises NotFoundError if that directory was removed."""
    try:
        return project_of(Path.cwd())
    except FileNotFoundError as error:
        raise NotFoundError("the current directory was removed", hint="go to that of your project") from error


def project_of(directory: Path) -> Path:
    """The main working tree of its repository, the same for all linked ones; else the directory itself."""
    try:
        found = _ask(directory)
    except GitFailed:
        return directory.resolve()
    return found.project if isinstance(found, Checkout) else directory.resolve()


def locate(directory: Path) -> Checkout | NoCheckout:
    """The checkout that contains `directory`, or why there is none."""
    if not directory.is_dir():
        return NoCheckout(f"{directory} is not a directory")
    try:
        found = _ask(directory)
        if isinstance(found, Checkout) and _ignored(found, directory):
            return NoCheckout(f"{directory} is ignored by the git repository {found.root}", INIT)
    except GitFailed as failure:
        return _reason(directory, failure)
    return found


def _ask(directory: Path) -> Checkout | NoCheckout:
    git = Git(directory)
    places = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    status, out, err = git.ask("rev-parse", *places, "HEAD", "--symbolic-full-name", "HEAD")
    answers = os.fsdecode(out).removesuffix("\n").split("\n")
    if len(answers) < len(places):
        return _reason(directory, GitFailed(("git", "rev-parse"), status, err))
    born = status == 0  # without a commit, git echoes HEAD and fails
    head, branch = (answers[-2], answers[-1]) if born else ("", _unborn_branch(git))
    if len(answers) != len(places) + (2 if born else 1):  # a line break in a directory's name: query one by one
        answers = [git.line("rev-parse", place) for place in places]
    root, git_dir, common_dir = (Path(os.path.realpath(directory / answer)) for answer in answers[:3])
    name = "" if branch == "HEAD" else branch.removeprefix("refs/heads/")
    return Checkout(root, git_dir, common_dir, head, name)


def _unborn_branch(git: Git) -> str:
    """The full name of the branch that HEAD points to, though it has no commit; "" if HEAD is detached."""
    return os.fsdecode(git.ask("symbolic-ref", "-q", "HEAD")[1]).removesuffix("\n")


def _ignored(checkout: Checkout, directory: Path) -> bool:
    """Whether an unrelated repository around the codebase, e.g. a home directory under git, ignores the codebase."""
    place = os.path.realpath(directory)
    if place == str(checkout.root) or not checkout.ignores(place):
        return False
    return not checkout.git.run(*LIST, "--", place)  # not if files in it were force-added


def _reason(directory: Path, git_error: GitFailed) -> NoCheckout:
    said = git_error.stderr
    if git_error.returncode == 127:
        return NoCheckout("git is not installed")
    if "not a git repository" in said:
        return NoCheckout(f"{directory} is not in a git repository", INIT)
    if "dubious ownership" in said:
        named = re.search(r"repository at '(.+?)'", said)
        line = f"git config --global --add safe.directory {shlex.quote(named[1] if named else str(directory))}"
        reason = f"git does not trust the repository of {directory}: it belongs to another user"
        return NoCheckout(reason, "trust it, or work in a clone of your own", line)
    if "must be run in a work tree" in said:
        return NoCheckout(f"{directory} is inside a repository without a working tree")
    return NoCheckout(f"git cannot read the repository of {directory}: {' '.join(said.split())}")


def hide(checkout: Checkout, *directories: Path) -> None:
    """Keep directories of ours out of `git status`, each by a .gitignore in it, unless it has one or lies outside."""
    for directory in directories:
        if checkout.root in Path(os.path.realpath(directory)).parents:
            with contextlib.suppress(OSError), (directory / ".gitignore").open("x") as file:
                file.write("*\n")


@contextlib.contextmanager
def private_index(checkout: Checkout) -> Iterator[Git]:
    """git on a copy of the user's index, outside the repository, so that the user's is read once and never written.

    The copy keeps the mtime: git rereads only files that are not older than the index ("racy" entries), so with a
    younger copy, a file changed within the same second would be taken for clean.
    """
    import shutil
    import tempfile  # for a snapshot only, and takes milliseconds to import

    with tempfile.TemporaryDirectory(prefix="autoresearch-index-", ignore_cleanup_errors=True) as directory:
        index = Path(directory) / "index"
        with contextlib.suppress(FileNotFoundError), checkout.index.open("rb") as old, index.open("wb") as new:
            status = os.fstat(old.fileno())  # of the file being copied, even if the index is replaced meanwhile
            shutil.copyfileobj(old, new, 2**20)
            new.flush()
            os.utime(new.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        yield Git(checkout.root, index)
