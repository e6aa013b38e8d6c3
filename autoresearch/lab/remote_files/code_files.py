"""The code of a run, pushed to a bare repository on its host: a commit, and what its worktree shows beside that."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from autoresearch.core.run.extra_paths import is_within
from autoresearch.core.run.job_launcher import Declined, Unreachable
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.commits import EMAIL, NAME, submodules_of
from autoresearch.git_repo.git import LIST, Git
from autoresearch.git_repo.worktrees import stays_here
from autoresearch.lab.remote_files.remote_host import LONGEST_S, hint_of

REFS = "refs/autoresearch"
# `objects/info` is what `git init` makes last. A clone without its whole history may be pushed, too.
RECEIVE = (
    '[ -e "$0/objects/info" ] || git init -q --bare "$0" >&2 || exit; '
    'exec git -c receive.shallowUpdate -c receive.autogc=false receive-pack "$0"'
)
_SETTINGS = (
    *("-c", "protocol.ext.allow=always", "-c", "push.negotiate=false"),
    *("-c", "core.looseCompression=0", "-c", "pack.compression=1"),
)
_EXACTLY = ("--quiet", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
_DATE = "@0 +0000"  # the same files make the same commit
_MEANINGS = {
    **dict.fromkeys(("No space left", "quota exceeded"), "disk_full"),
    **dict.fromkeys(("git: not found", "git: command not found"), "no_git"),
}


def push(checkout: Checkout, commit: str, words: Sequence[str], scratch: Path, include: Iterable[str] = ()) -> str:
    """Push a commit, with what a worktree of ours shows beside it, or `include:`; returns the commit that was pushed.

    words: the program here that is `RECEIVE` there. scratch: a directory for objects that are in no repository here.
    What was pushed before is not sent again, and a push that is cut leaves nothing. Raises Declined, Unreachable,
    and GitFailed for what git cannot do here.
    """
    url = "ext::" + " ".join(word.replace("%", "%%").replace(" ", "% ") for word in words)
    git, objects = Git(checkout.root, scratch / "index", LONGEST_S), scratch / "objects"
    shutil.rmtree(scratch, ignore_errors=True)  # of a push that was killed
    objects.mkdir(parents=True)
    extra = {
        "GIT_OBJECT_DIRECTORY": str(objects),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(checkout.common_dir / "objects"),
    }
    try:
        own = (one for path in include for one in _files(path, checkout.root / path))
        if files := dict(_beside(checkout, commit) if is_slot(checkout.root) else own):
            commit = _commit(git, commit, files, extra)
        status, _, said = git.ask(*_SETTINGS, "push", *_EXACTLY, url, f"{commit}:{REFS}/{commit}", extra=extra)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if status:
        said = " ".join(line for line in said.splitlines() if url not in line)
        why = f"its code was not pushed: {' '.join(said.split())[-500:]}"
        for sign, code in _MEANINGS.items():
            if sign in said:
                raise Declined(why, code=code, hint=hint_of(code))
        raise Unreachable(why, code="not_pushed")
    return commit


def is_slot(root: Path) -> bool:
    """Whether a directory is one of autoresearch's worktrees, which holds its commit and what is shown beside it."""
    return root.with_name(root.name + ".slot").exists()


def _commit(git: Git, commit: str, files: dict[str, Path], extra: dict[str, str]) -> str:
    """The commit of these files, byte for byte, on another one."""
    words = (*_SETTINGS, "hash-object", "-w", "--no-filters")
    plain = {path: file for path, file in files.items() if not file.is_symlink()}
    named = "".join(f"{file}\n" for file in plain.values())
    ids = git.line(*words, "--stdin-paths", feed=os.fsencode(named), extra=extra).split()
    modes = ["100755" if os.access(file, os.X_OK) else "100644" for file in plain.values()]
    entries = list(zip(modes, ids, plain, strict=True))
    for path, file in files.items():
        if file.is_symlink():
            blob = git.line(*words, "--stdin", feed=os.fsencode(file.readlink()), extra=extra)
            entries.append(("120000", blob, path))
    listed = b"".join(os.fsencode(f"{mode} {blob}\t{path}\0") for mode, blob, path in entries)
    git.run("read-tree", commit, extra=extra)
    git.run("update-index", "-z", "--index-info", feed=listed, extra=extra)
    tree = git.line("write-tree", extra=extra)
    for who in ("AUTHOR", "COMMITTER"):
        extra = extra | {f"GIT_{who}_NAME": NAME, f"GIT_{who}_EMAIL": EMAIL, f"GIT_{who}_DATE": _DATE}
    return git.line("commit-tree", tree, "-p", commit, "-m", "with what its worktree shows", extra=extra)


def _beside(checkout: Checkout, commit: str) -> Iterator[tuple[str, Path]]:
    """What a worktree shows beside its commit and goes to other hosts: path in the tree, and the file or link here."""
    stays = stays_here(checkout.root)
    listed = checkout.git.run(*LIST, "--others", "--modified").split(b"\0")
    paths = {os.fsdecode(path).rstrip("/") for path in listed if path}  # a slash ends the name of a repository
    for path in sorted(paths.union(submodules_of(checkout, commit))):
        if not any(is_within(path, one) for one in stays):
            yield from _files(path, checkout.root / path)


def _files(path: str, here: Path) -> Iterator[tuple[str, Path]]:
    """A file, a link, or the files of a directory; for a link that shows an include, what it shows."""
    if here.is_symlink():
        if not str(here.readlink()).endswith(f"/{path}"):
            yield path, here
            return
        here = Path(os.path.realpath(here))
    if here.is_file():
        yield path, here
    for folder, names, files in os.walk(here):
        names[:] = sorted(name for name in names if name != ".git")
        for one in (Path(folder, name) for name in (*names, *files)):
            if one.is_symlink() or (one.is_file() and one.name != ".git"):
                yield f"{path}/{one.relative_to(here)}", one
