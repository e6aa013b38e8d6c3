"""Runs git: a fixed environment, a time limit, and complete error messages. What people look at, `history` reads."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.text.regex import later
from autoresearch.errors import EnvironmentUnusable, UsageError

TIMEOUT_S = 600.0  # a cold 1M-file tree on a network file system takes minutes

SETTINGS = (
    "gc.auto=0",  # a detached gc would go on in the user's repository after this process ended
    "maintenance.auto=false",
    "core.hooksPath=/dev/null",  # post-index-change and reference-transaction run under plumbing, too
    "core.fsmonitor=",  # a monitor may be stale; the empty value disables it in old and new versions of git
    "core.splitIndex=false",  # otherwise a private index writes sharedindex.* into the user's .git
    "index.skipHash=true",  # the private index exists for milliseconds only
    "core.safecrlf=false",  # "true" makes its warning fatal; no file of the user's is rewritten here
    "i18n.commitEncoding=UTF-8",
    "filter.lfs.required=false",  # without git-lfs a file is its pointer; a worktree shows what the checkout has there
)
_DOT_GIT = later(r"(?:\.git|git~1)[ .]*(?:[:\\]|\Z)", re.IGNORECASE)  # names of `.git` on some file system
LIST = ("--literal-pathspecs", "ls-files", "-z")  # paths are not patterns
LFS_FILES = ":(attr:filter=lfs)"  # a path that is a pattern
# Where git-lfs is configured and not installed: files are their pointers.
WITHOUT_LFS = ("filter.lfs.smudge=", "filter.lfs.process=", "filter.lfs.clean=")

# GIT_* variables that hold the user's configuration or identity. The others, set in hooks and aliases (GIT_DIR,
# GIT_INDEX_FILE ...), would redirect commands to another repository.
KEPT = frozenset(
    {
        "GIT_EXEC_PATH",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_COUNT",
        "GIT_CEILING_DIRECTORIES",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    }
)
KEPT_PAIRS = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")  # GIT_CONFIG_COUNT of them


def _flags() -> list[str]:
    settings = SETTINGS if shutil.which("git-lfs") else (*SETTINGS, *WITHOUT_LFS)
    return [part for setting in settings for part in ("-c", setting)]


class GitFailed(EnvironmentUnusable):
    """git could not be started, timed out, or failed; see `command`, `returncode` and `stderr`."""

    code = "git_failed"

    def __init__(self, command: Sequence[str], returncode: int, stderr: str, *, hint: str = "") -> None:
        self.command = shlex.join(command)
        self.returncode = returncode
        self.stderr = stderr
        said = " ".join(stderr.split()) or "it said nothing"
        super().__init__(f"`{self.command}` failed ({returncode}): {said[:1000]}", hint=hint or _hint(stderr))


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in one directory, optionally on a separate index."""

    cwd: Path
    index: Path | None = None
    timeout_s: float = TIMEOUT_S

    def run(self, *arguments: str, feed: bytes | None = None, extra: Mapping[str, str] | None = None) -> bytes:
        """stdout of one git command. Raises GitFailed for an exit code other than 0."""
        status, out, err = self.ask(*arguments, feed=feed, extra=extra)
        if status:
            raise GitFailed(("git", *arguments), status, err)
        return out

    def line(self, *arguments: str, feed: bytes | None = None, extra: Mapping[str, str] | None = None) -> str:
        """stdout of a command that prints one line, e.g. an object id. Raises GitFailed."""
        return os.fsdecode(self.run(*arguments, feed=feed, extra=extra)).removesuffix("\n")

    def ask(
        self, *arguments: str, feed: bytes | None = None, extra: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, str]:
        """Exit status, stdout and stderr of one git command. Raises GitFailed if it cannot start, or takes too long."""
        environment = clean_environment(os.environ) | ({"GIT_INDEX_FILE": str(self.index)} if self.index else {})
        try:
            process = subprocess.Popen(
                ["git", *_flags(), *arguments],
                cwd=self.cwd,
                env={**environment, **(extra or {})},
                stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,  # git's filters and submodule commands are killed with it
            )
        except OSError as error:
            absent = isinstance(error, FileNotFoundError) and self.cwd.is_dir()
            said = "git is not installed" if absent else f"cannot be started in {self.cwd}: {error.strerror}"
            hint = "install git" if absent else ""
            raise GitFailed(["git", *arguments], 127 if absent else 126, said, hint=hint) from error
        with process:
            try:
                out, err = process.communicate(feed, timeout=self.timeout_s)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)  # it was not waited for: the number is still its own
                if isinstance(error, subprocess.TimeoutExpired):
                    said = f"no answer within {self.timeout_s:.0f} s"
                    raise GitFailed(("git", *arguments), -signal.SIGKILL, said) from error
                raise
        return process.returncode, out, err.decode("utf-8", "backslashreplace")


def clean_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment for git: the inherited one, without GIT_* variables that redirect or alter what git does."""
    environment = {
        name: value
        for name, value in inherited.items()
        if not name.startswith("GIT_") or name in KEPT or name.startswith(KEPT_PAIRS)
    }
    environment |= {
        "GIT_OPTIONAL_LOCKS": "0",  # otherwise even `git status` rewrites the user's index
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",  # a commit is what its name says
        "GIT_LFS_SKIP_SMUDGE": "1",  # no download
        "GIT_NO_LAZY_FETCH": "1",  # a remote of a partial clone may name a program, which a missing object would start
        "LC_ALL": "C",  # messages are matched as text
    }
    return environment


def text(path: bytes) -> str:
    """A git path for display and records: UTF-8, other bytes as `\\xNN`, so that it is valid in JSON."""
    return path.decode("utf-8", "backslashreplace")


def path_in_tree(path: str) -> bytes:
    """A path as git stores it. Raises UsageError for a path that no commit can contain."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or _DOT_GIT.match(part) for part in parts) or "\0" in path:
        raise UsageError(f"{path!r} cannot be the name of a file in a commit")
    return path.encode("utf-8", "surrogateescape")


def below(path: bytes, roots: Collection[bytes]) -> bool:
    """Whether a path is one of these files or directories, or in one of them."""
    return any(path == root or path.startswith(root + b"/") for root in roots)


def _hint(stderr: str) -> str:
    said = stderr.lower()
    if "no answer within" in said:
        return "a named pipe in the place of a .gitignore stops git: find . -type p -name '.git*'"
    if "dubious ownership" in said:
        return "the repository belongs to another user; add it to git's safe.directory if you trust it"
    if any(sign in said for sign in ("permission", "read-only file system", "unable to create directory")):
        return "the repository cannot be written; the run can go on without a branch"
    if "no space left" in said or "quota" in said or "file too large" in said:
        return "the disk is full; free some space"
    return ""
