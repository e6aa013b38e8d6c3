"""Slots: autoresearch's own linked worktrees, outside the user's checkout, switched from commit to commit.

Creating a worktree of 10k files takes some 140 ms (seconds on a churned ext4), switching one a fraction of it
(field note mechanics 2.2). Only autoresearch uses a slot: whatever a run left in it is removed, symbolic links are
never followed, and an unusable slot is created again. git's registry of worktrees is read from its files
(gitrepository-layout(5), "worktrees").
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.run.extra_paths import ExtraPath
from autoresearch.errors import ConflictError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.commits import EXACT, write_files
from autoresearch.git_repo.extras import fill_submodules, is_as_in, show
from autoresearch.git_repo.git import Git, GitFailed
from autoresearch.git_repo.remove_tree import remove_pipes, wipe
from autoresearch.records.hostile import write_atomically
from autoresearch.runner.basics import failpoint

REMOVING = ".removing"  # the end of the name of a worktree's directory that is being removed
REASON = "autoresearch"  # prefix of the reason of every lock made by autoresearch
ATTEMPTS = 3  # concurrent `worktree add` fails now and then (field note mechanics 2.4)

@dataclass(frozen=True, slots=True)
class Slot:
    """One linked worktree at `path`, detached and locked, used by one run at a time; create it with `slot`.

    Nothing exists before the first `switch`. The marker file beside it, `<path>.slot`, holds the repository and the
    reason that the directory belongs to, which permits wiping it; a directory without a marker, or with another
    owner's, is refused.
    """

    checkout: Checkout
    path: Path
    reason: str

    @property
    def marker(self) -> Path:
        """The file that records the slot's owner."""
        return self.path.with_name(self.path.name + ".slot")

    def switch(self, commit: str, extras: Iterable[ExtraPath] = (), *, anew: bool = False) -> None:
        """Make the slot hold exactly the files of `commit` and what is shown of the checkout; leftovers are removed.

        anew: every file is written again, also those that are as they should be.

        A slot that was deleted, moved, locked or broken by hand is repaired or created again. Raises GitFailed,
        ConflictError for a directory that is not autoresearch's, NotFoundError if a path that is included is gone,
        EnvironmentUnusable if leftovers can neither be removed nor set aside.
        """
        new, filled = self.checkout.commit(commit), False
        if place := self._registered():
            with contextlib.suppress(GitFailed, OSError):  # e.g. a broken index: the slot is then created again
                self._fill(place, new, anew=anew)
                filled = True
        if not filled:
            self._fill(self._make(new), new, anew=True)
        failpoint("repository.switched")
        self.show(extras)

    def show(self, paths: Iterable[ExtraPath]) -> None:
        """Show these paths of the checkout beside the commit's files. Raises NotFoundError as `switch` does."""
        self._mark(show(self.checkout.root, self.path, paths))

    def check_owner(self) -> None:
        """Raise ConflictError if the slot belongs to another repository that still exists, or to another reason."""
        owner = owner_at(self.marker)
        if owner is None or owner == self._owner or not owner[0].is_dir():
            return
        raise ConflictError(
            f"the worktree {self.path} belongs to {owner[1].removeprefix(f'{REASON}: ')} of {owner[0].parent}",
            hint=f"use other `trees`; or, once that has ended for good, remove {self.path} and {self.marker}",
            code="slot_taken",
        )

    def remove(self) -> None:
        """Unregister the worktree and remove its directory; idempotent. Another owner's slot is left alone.

        The directory is renamed first, so that what a kill leaves is known by its name and no half-removed worktree.
        """
        if not self._is_ours():
            return
        aside = self.path.with_name(f".{self.path.name}{REMOVING}")
        wipe(aside)  # of an earlier one
        if os.path.lexists(self.path):
            self.path.rename(aside)
        failpoint("repository.retired")
        self._unregister()
        self.marker.unlink(missing_ok=True)
        wipe(aside)

    def unsaved(self) -> tuple[str, ...]:
        """What would be lost with the worktree: paths, or a sentence; empty if a branch or tag holds all of it.

        Ignored files do not count. Raises GitFailed.
        """
        if not os.path.lexists(self.path):
            return ()
        place = self._registered()
        if place is None:
            return () if _is_empty(self.path) else ("git does not know it any more",)
        if changed := self.changes():
            return changed
        head = self._head(place)
        if self._git(place, "for-each-ref", "--count=1", "--format=%(refname)", "--contains", head).strip():
            return ()
        return (f"its commit {head[:12]} is in no branch",)

    def changes(self, *, untracked: bool = True) -> tuple[str, ...]:
        """Paths that differ from the commit, but not ignored ones and the checkout's own."""
        place = self._registered()
        if place is None:
            return ()
        remove_pipes(self.path)
        others = "--untracked-files=all" if untracked else "--untracked-files=no"
        listed = self._git(place, "status", "--porcelain", "-z", "--no-renames", others)
        paths = (os.fsdecode(record[3:]) for record in listed.split(b"\0") if record)
        return tuple(path for path in paths if not is_as_in(self.checkout.root, self.path, path))

    def untracked(self) -> tuple[str, ...]:
        """Paths of all files that are not in the index, ignored ones included, but not the checkout's own.

        A nested repository is left out.
        """
        place = self._registered()
        remove_pipes(self.path)
        listed = self._git(place, "ls-files", "--others", "-z") if place else b""
        paths = (os.fsdecode(path) for path in listed.split(b"\0") if path and not path.endswith(b"/"))
        return tuple(path for path in paths if not is_as_in(self.checkout.root, self.path, path))

    def check_commit(self, commit: str) -> None:
        """Raise ConflictError if the slot has another owner by now, or is not at `commit`, the commit of its run."""
        self.check_owner()
        place = self._registered()
        head = self._head(place) if place else ""
        if head != commit:
            what = f"is at {head[:12]}" if head else "is gone"
            raise ConflictError(
                f"the worktree {self.path} {what}, and not at {commit[:12]}, the commit of its run",
                hint="nothing but the campaign should switch or commit there",
                code="foreign_commit",
            )

    def _head(self, worktree: Path) -> str:
        return self._git(worktree, "rev-parse", "HEAD").decode().strip()

    def _registered(self) -> Path | None:
        """git's admin directory of this worktree, if both point at each other and the slot is ours; else None."""
        admin = admin_of(self.path)
        if admin is None or not self._is_ours() or os.path.realpath(admin.parent) != str(admins(self.checkout)):
            return None
        sound = path_of(admin) == self.path and all((admin / name).is_file() for name in ("HEAD", "commondir"))
        return admin if sound else None

    def _make(self, commit: str) -> Path:
        """Create the worktree without files, replacing what is at the path, and return its admin directory."""
        self._claim()
        wipe(self.path)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                # -f twice: a slot's registration stays locked after its directory is gone
                options = ("-f", "-f", "--detach", "--no-checkout", "--lock")
                self.checkout.git.run("worktree", "add", *options, "--", str(self.path), commit)
                break
            except GitFailed:
                if attempt == ATTEMPTS:
                    raise
                wipe(self.path)
        failpoint("repository.slot_added")
        place = self._registered()
        if place is None:
            raise ConflictError(f"{self.path} did not become a worktree of {self.checkout.root}", code="slot_lost")
        return place

    def _claim(self) -> None:
        """Write the marker, unless the directory belongs to another owner: ConflictError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.marker.exists() and os.path.lexists(self.path) and not _is_empty(self.path):
            raise ConflictError(
                f"{self.path} exists and is no worktree of ours",
                hint="move it away, or let the campaign keep its worktrees elsewhere",
                code="slot_taken",
            )
        self.check_owner()
        self._mark([])

    def _mark(self, stays: Sequence[str]) -> None:
        """Write the marker: the owner, and what the slot shows that goes to no other host."""
        record = {"repository": str(self.checkout.common_dir), "reason": self.reason, "stays": stays}
        data = json.dumps(record).encode() + b"\n"
        if not self.marker.exists() or self.marker.read_bytes() != data:
            write_atomically(self.marker, data, durable=False)

    @property
    def _owner(self) -> tuple[Path, str]:
        return self.checkout.common_dir, self.reason

    def _is_ours(self) -> bool:
        """Whether a marker exists and names no other owner; one truncated by a full disk names none."""
        return self.marker.exists() and owner_at(self.marker) in (None, self._owner)

    def _fill(self, worktree: Path, commit: str, *, anew: bool) -> None:
        """Set index, HEAD and files to the commit and remove the rest."""
        lock, reason = worktree / "locked", self.reason.encode()
        if not lock.is_file() or lock.read_bytes() != reason:  # `git worktree prune`, part of gc, leaves it alone
            write_atomically(lock, reason, durable=False)
        for name in ("index.lock", "HEAD.lock"):  # of a git that was killed: nobody else works in a slot
            (worktree / name).unlink(missing_ok=True)
        write_files(worktree, worktree / "index", self.path, commit, anew=anew)
        failpoint("repository.cleaned")
        self._git(worktree, "update-ref", "--no-deref", "HEAD", commit)
        fill_submodules(self.checkout, self.path, commit)

    def _git(self, worktree: Path, *arguments: str) -> bytes:
        # Always name the repository: if the slot's .git file is missing, git would find another one in a parent.
        return Git(self.path).run(f"--git-dir={worktree}", f"--work-tree={self.path}", *EXACT, *arguments)

    def _unregister(self) -> None:
        for admin in admins(self.checkout).glob("*"):
            if path_of(admin) == self.path:
                shutil.rmtree(admin, ignore_errors=True)


def slot(checkout: Checkout, path: Path, *, reason: str = "") -> Slot:
    """The slot at `path`; creates nothing yet. `reason` is shown by `git worktree list` as the lock's reason.

    Raises ConflictError for a path inside the user's checkout.
    """
    real = Path(os.path.realpath(path))
    if real == checkout.root or checkout.root in real.parents:
        raise ConflictError(
            f"{real} lies inside the checkout {checkout.root}",
            hint="worktrees are kept outside, e.g. in $XDG_STATE_HOME/autoresearch",
            code="slot_inside",
        )
    words = " ".join(f"{REASON}: {reason or 'a slot of a campaign'}".split())
    return Slot(checkout, real, words)


def owner_at(marker: Path) -> tuple[Path, str] | None:
    """The git directory of the repository, and the reason, that a marker records; None for an unreadable one."""
    try:
        record = json.loads(marker.read_bytes())
        return Path(str(record["repository"])), str(record["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def stays_here(worktree: Path) -> frozenset[str]:
    """The paths in a slot that are the checkout's and go to no other host, as its marker has them."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return frozenset(json.loads(worktree.with_name(f"{worktree.name}.slot").read_bytes()).get("stays", ()))
    return frozenset()


def admins(checkout: Checkout) -> Path:
    """The directory of git's admin directories of linked worktrees (gitrepository-layout(5), "worktrees")."""
    return checkout.common_dir / "worktrees"


def admin_of(path: Path) -> Path | None:
    """The admin directory that a worktree's .git file names; None if it names none."""
    try:
        words = (path / ".git").read_bytes()
    except OSError:
        return None
    target = os.fsdecode(words.removeprefix(b"gitdir: ").removesuffix(b"\n"))
    return Path(os.path.realpath(path / target)) if words.startswith(b"gitdir: ") else None


def path_of(admin: Path) -> Path | None:
    """The worktree that an admin directory names (by a relative path from git 2.48 on, if configured), or None."""
    try:
        target = os.fsdecode((admin / "gitdir").read_bytes().removesuffix(b"\n"))
    except OSError:
        return None
    return Path(os.path.realpath((admin / target).parent))


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())
