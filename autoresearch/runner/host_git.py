"""Makes a run's branch from code on a remote host, with that host's git; checkout, index and stash stay untouched.

Standard library only, Python 3.9, a single file, sent with each request like `remote_files`. The rules are those of
local snapshots: tracked files, and untracked ones that are not ignored, up to a size; results and records are left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SETTINGS = ("gc.auto=0", "maintenance.auto=false", "core.hooksPath=/dev/null", "core.fsmonitor=", "core.safecrlf=false")
FLAGS = [word for setting in SETTINGS for word in ("-c", setting)]
ATTEMPTS = 1000
NOBODY = {"NAME": "autoresearch", "EMAIL": "autoresearch@localhost"}


class HostGit:
    """git in one directory; `index`: path of a private index."""

    def __init__(self, cwd: str, index: str = "") -> None:
        self.cwd = cwd
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self.env.update({"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"})
        self.env["GIT_NO_REPLACE_OBJECTS"] = "1"  # a commit is what its hash says
        if index:
            self.env["GIT_INDEX_FILE"] = index

    def try_(self, *words: str, feed: bytes = b"", **env: str) -> tuple[int, bytes, str]:
        """Run git; returns exit code, stdout, stderr."""
        done = subprocess.run(
            ["git", *FLAGS, *words], cwd=self.cwd, env={**self.env, **env}, input=feed, capture_output=True, check=False
        )
        return done.returncode, done.stdout, done.stderr.decode(errors="replace").strip()

    def output(self, *words: str, feed: bytes = b"", **env: str) -> bytes:
        """Run git; returns stdout. Raises OSError for an exit code other than 0."""
        code, out, err = self.try_(*words, feed=feed, **env)
        if code:
            raise OSError(code, f"git {words[0]}: {' '.join(err.split())[:300]}")
        return out

    def line(self, *words: str, feed: bytes = b"", **env: str) -> str:
        """Run a git command that prints one line; returns that line. Raises OSError."""
        return os.fsdecode(self.output(*words, feed=feed, **env)).rstrip("\n")


def keep(request: dict[str, Any]) -> dict[str, Any]:
    """Make the branch; returns {branch, commit, parent, parent_branch, left_out}, or {none: reason}."""
    git = HostGit(request["codebase"])
    code, out, err = git.try_("rev-parse", "--show-toplevel", "--absolute-git-dir")
    if code:
        return {"none": f"{request['codebase']} is not in a git repository" if "not a git" in err else err}
    root, git_dir = os.fsdecode(out).split("\n")[:2]
    head = os.fsdecode(git.try_("rev-parse", "--verify", "--quiet", "HEAD^{commit}")[1]).strip()
    place = tempfile.mkdtemp(prefix="autoresearch-index-")
    try:
        index = f"{place}/index"
        if os.path.exists(f"{git_dir}/index"):
            shutil.copy2(f"{git_dir}/index", index)  # with its mtime: git rereads files not older than the index
        tree, left_out = _tree(HostGit(root, index), root, request)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    git = HostGit(root)
    commit = _commit(git, tree, head, request["message"])
    return {
        "branch": _claim(git, request["branch"], commit),
        "commit": commit,
        "parent": head,
        "parent_branch": os.fsdecode(git.try_("symbolic-ref", "-q", "--short", "HEAD")[1]).strip(),
        "left_out": left_out,
    }


def _tree(host_git: HostGit, root: str, request: dict[str, Any]) -> tuple[str, list[str]]:
    host_git.output("add", "--update", "--", ".")  # tracked files as they are, into the private index
    edited = host_git.output("diff-files", "-z", "--name-only").split(b"\0")  # what `add` could not take
    left_out = [f"{os.fsdecode(path)}/ ({request['submodule_edits']})" for path in edited if path]
    own = [os.path.realpath(path) for path in request["leave_out"]]
    taken = []
    for raw in host_git.output("ls-files", "-z", "--others", "--exclude-standard").split(b"\0"):
        path = os.fsdecode(raw)
        place = os.path.join(root, path)
        if not path or any(os.path.realpath(place).startswith(one + "/") for one in own):
            continue
        if path.endswith("/"):
            left_out.append(f"{path} (a git repository of its own)")
        elif not os.path.islink(place) and not os.path.isfile(place):
            left_out.append(f"{path} (neither a file nor a link)")
        elif not os.path.islink(place) and os.path.getsize(place) > request["max_bytes"]:
            left_out.append(f"{path} (over {request['max_bytes'] >> 20} MB, untracked)")
        else:
            taken.append(raw)
    if taken:
        host_git.output("update-index", "-z", "--add", "--stdin", feed=b"\0".join(taken))
    for path, text in request["extra"].items():
        oid = host_git.line("hash-object", "-w", "--stdin", feed=text.encode("utf-8", "surrogateescape"))
        host_git.output("update-index", "--add", "--cacheinfo", f"100644,{oid},{path}")
    return host_git.line("write-tree"), left_out


def _commit(host_git: HostGit, tree: str, head: str, message: str) -> str:
    words = ["commit-tree", tree, *(["-p", head] if head else []), "-F", "-"]
    feed = message.encode("utf-8", "backslashreplace")
    code, out, _ = host_git.try_(*words, feed=feed)
    if code == 0:
        return os.fsdecode(out).strip()
    names = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in NOBODY.items()}
    return host_git.line(*words, feed=feed, **names)


def _claim(host_git: HostGit, branch: str, commit: str) -> str:
    """Create a branch at `commit` under the first free name; an existing branch is never moved."""
    name, said = branch, ""
    for number in range(2, ATTEMPTS):
        words = ("update-ref", "-m", "autoresearch: snapshot", f"refs/heads/{name}", commit, "0" * len(commit))
        code, _, said = host_git.try_(*words)
        if code == 0:
            return name
        if host_git.try_("rev-parse", "--verify", "--quiet", f"refs/heads/{name}")[0] != 0:
            raise OSError(code, f"git update-ref: {said}")
        name = f"{branch}-{number}"
    raise OSError(1, f"{ATTEMPTS} branches are named like {branch}")


def answer(text: str) -> bool:
    """Execute a JSON request, print the JSON result, return whether it succeeded; like `remote_files.answer`."""
    try:
        found = keep(json.loads(text))
    except OSError as error:
        found = {"none": error.strerror or str(error)}
    sys.stdout.write(json.dumps(found) + "\n")
    return "none" not in found
