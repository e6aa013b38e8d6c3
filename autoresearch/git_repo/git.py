"""The only module that starts git: a fixed environment, a time limit, and complete error messages.

It runs the git program rather than GitPython, whose import takes 95 ms and whose `Repo` starts git with the inherited
`GIT_*` variables; a git command takes 3 ms (field note mechanics 2.1, 2.5). The tests use GitPython as an independent
reader of what was written.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.errors import EnvironmentUnusable

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
)
LIST = ("--literal-pathspecs", "ls-files", "-z")  # paths are not patterns
FLAGS = tuple(part for setting in SETTINGS for part in ("-c", setting))

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
        with self.start(*arguments, feed=feed, extra=extra) as running:
            return running.stdout()

    def line(self, *arguments: str, feed: bytes | None = None, extra: Mapping[str, str] | None = None) -> str:
        """stdout of a command that prints one line, e.g. an object id. Raises GitFailed."""
        return os.fsdecode(self.run(*arguments, feed=feed, extra=extra)).removesuffix("\n")

    @contextlib.contextmanager
    def start(
        self, *arguments: str, feed: bytes | None = None, extra: Mapping[str, str] | None = None
    ) -> Iterator[Running]:
        """Start a command now, to read its output later; it is killed at the end of the block if still running."""
        environment = clean_environment(os.environ)
        if self.index is not None:
            environment["GIT_INDEX_FILE"] = str(self.index)
        environment.update(extra or {})
        try:
            process = _Process(
                ["git", *FLAGS, *arguments],
                cwd=self.cwd,
                env=environment,
                stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,  # git's filters and submodule commands are killed with it
            )
        except OSError as error:
            raise _cannot_start(self.cwd, arguments, error) from error
        with process:
            try:
                yield Running(process, ("git", *arguments), feed, self.timeout_s)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Running:
    """A started git process."""

    process: _Process
    command: tuple[str, ...]
    feed: bytes | None
    timeout_s: float

    def finish(self) -> tuple[int, bytes, str]:
        """Wait for the process; returns exit status, stdout, stderr. Raises GitFailed on timeout."""
        try:
            out, err = self.process.communicate(self.feed, self.timeout_s)
        except subprocess.TimeoutExpired as error:
            said = f"no answer within {self.timeout_s:.0f} s"
            raise GitFailed(self.command, -signal.SIGKILL, said) from error
        return self.process.returncode, out, err.decode("utf-8", "backslashreplace")

    def stdout(self) -> bytes:
        """Wait for the process; returns stdout. Raises GitFailed on timeout or an exit status other than 0."""
        status, out, err = self.finish()
        if status:
            raise GitFailed(self.command, status, err)
        return out


class _Process(subprocess.Popen[bytes]):
    """A process whose end is noticed at once: the standard `wait` with a timeout polls with sleeps."""

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises TimeoutExpired."""
        if sys.platform == "linux" and timeout is not None and self.returncode is None:
            with contextlib.suppress(OSError):  # an old kernel: fall back to polling
                fd = os.pidfd_open(self.pid)
                try:
                    select.select([fd], [], [], timeout)
                finally:
                    os.close(fd)
        return super().wait(timeout)


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
        "GIT_NO_LAZY_FETCH": "1",  # a remote of a partial clone may name a program, which a missing object would start
        "LC_ALL": "C",  # messages are matched as text
    }
    return environment


def text(path: bytes) -> str:
    """A git path for display and records: UTF-8, other bytes as `\\xNN`, so that it is valid in JSON."""
    return path.decode("utf-8", "backslashreplace")


def _cannot_start(cwd: Path, arguments: Sequence[str], error: OSError) -> GitFailed:
    if isinstance(error, FileNotFoundError) and cwd.is_dir():
        return GitFailed(["git", *arguments], 127, "git is not installed", hint="install git")
    return GitFailed(["git", *arguments], 126, f"cannot be started in {cwd}: {error.strerror}")


def _hint(stderr: str) -> str:
    said = stderr.lower()
    if "dubious ownership" in said:
        return "the repository belongs to another user; add it to git's safe.directory if you trust it"
    if any(sign in said for sign in ("permission", "read-only file system", "unable to create directory")):
        return "the repository cannot be written; the run can go on without a branch"
    if "no space left" in said or "quota" in said or "file too large" in said:
        return "the disk is full; free some space"
    return ""
