"""Requests about files, executed on their host: see a run directory, make one, check out its code, send its results.

Standard library only, Python 3.9, by a copy of this file on another host, or in process. Nothing here makes decisions
about a run. What cannot be done is answered as `{"error": sentence, "code": identifier}`, or raises OSError.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import io
import json
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase

from .basics import is_locked, parse_object, read_file, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from tarfile import TarFile
    from typing import Any

PIECE = 1 << 20  # bytes of one file per answer
GROWING = ("run.log", "events.jsonl", "evaluation.log")
CLAIMS = ("claim", "runner.json")  # either shows that a Runner was started in the directory
LIVES_IN_CODE = (".venv", "venv")  # virtual environments in the code directory survive updates of the code
# What is checked out is what was pushed: no hook, no line endings of the host's, no download of Git LFS.
SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=", "core.autocrlf=false"),
    *("filter.lfs.smudge=", "filter.lfs.process=", "filter.lfs.required=false"),
)
LEAST_FREE = int(1e9)  # bytes of a disk to which a run is sent
FULL = 1 << 20  # free bytes of a disk on which git could not write
ANSWER = ".answer"  # a member of an archive of absolute paths


# ------------------------------------------------------------------------------------------ a run directory


def look(directory: str, offsets: Mapping[str, int]) -> dict[str, Any]:
    """State of a run directory on this host, and what its files grew by since `offsets` (bytes by file name).

    The keys are those of `core.run.job_launcher.DirectoryState`.
    """
    if not _is_there(directory):
        return {"there": False}
    grown, more = {}, False
    record = parse_object(read_file(f"{directory}/exit.json"))  # first: once it exists, the other files are complete
    for name in (*GROWING, *(name for name in offsets if name.startswith("/"))):  # or any file, by absolute path
        if name not in offsets:
            continue
        piece = read_from(name if name.startswith("/") else f"{directory}/{name}", offsets[name], PIECE)
        more = more or len(piece) == PIECE
        if piece:
            grown[name] = piece
    return {
        "there": True,
        "claimed": any(os.path.exists(f"{directory}/{name}") for name in CLAIMS),
        "alive": is_locked(f"{directory}/lock"),
        "beat": _mtime(f"{directory}/lock"),
        "runner": parse_object(read_file(f"{directory}/runner.json")),
        "exit": record,
        "evaluating": os.path.exists(f"{directory}/evaluation.log"),
        "grown": grown,
        "more": more,
    }


def _is_there(directory: str) -> bool:
    """Open the directory instead of only calling stat: on NFS, open makes the kernel revalidate it with the server
    (close-to-open; see nfs_lookup_verify_inode in Linux' fs/nfs/dir.c). Otherwise a file that did not exist at the
    first look may stay invisible for up to a minute."""
    try:
        os.close(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return os.path.isdir(directory)
    return True


def read_from(path: str, offset: int, most: int) -> bytes:
    """At most `most` bytes of a file from `offset` on; b"" if there are none (yet)."""
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            return file.read(most)
    except OSError:
        return b""


def put(directory: str, files: Mapping[str, bytes], private: Collection[str] = ()) -> None:
    """Write files, each atomically; names may contain slashes, and `private` ones get mode 0600. Raises OSError."""
    for name, data in files.items():
        path = f"{directory}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = f"{path}.{os.getpid()}.tmp"
        fd = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600 if name in private else 0o644
        )
        try:
            write_all(fd, data)
            os.fsync(fd)
        except OSError:
            os.unlink(temporary)
            raise
        finally:
            os.close(fd)
        os.rename(temporary, path)


def _mtime(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


# ---------------------------------------------------------------------------------------------- directories


def survey(root: str, name: str, code: str, interpreters: list[str]) -> dict[str, Any]:
    """Create a run's directories; returns them and the interpreter."""
    root = _root(root)
    os.makedirs(root, exist_ok=True)
    if not os.access(root, os.W_OK):
        return {"error": f"{root} cannot be written", "code": "not_writable"}
    free = shutil.disk_usage(root).free
    if free < LEAST_FREE:
        return {"error": f"{root} has {free / 1e9:.1f} GB free, and 1 GB is the least", "code": "disk_full"}
    directory = f"{root}/runs/{name}"
    os.makedirs(directory, exist_ok=True)
    results = f"{root}/results/{name}"
    os.makedirs(results, exist_ok=True)
    code = _claimed(f"{root}/code/{code}", directory) if code else ""
    return {
        "root": root,
        "directory": directory,
        "results": results,
        "code": code,
        "interpreter": _first_python(interpreters, code),
    }


def interpreter(root: str, code: str, interpreters: list[str]) -> dict[str, Any]:
    """The interpreter that a run would use on this host; creates nothing."""
    return {"interpreter": _first_python(interpreters, f"{_root(root)}/code/{code}" if code else "")}


def _root(path: str) -> str:
    """The target's configured root, else a directory in the home."""
    return os.path.abspath(os.path.expanduser(path or "~/.cache/autoresearch"))


def _claimed(base: str, directory: str) -> str:
    """Claim a code directory for this run alone: `base`, or `base-2` ... if another run may still need it."""
    os.makedirs(os.path.dirname(base), exist_ok=True)
    fd = os.open(os.path.dirname(base) + "/.claims", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        ours = [path[: -len(".run")] for path in glob.glob(glob.escape(base) + "*.run") if _owner(path) == directory]
        names = [base, *(f"{base}-{number}" for number in range(2, 1000))]
        claimed = ours[0] if ours else next((name for name in names if _is_free(name)), "")
        if not claimed:
            raise OSError(errno.EEXIST, "a thousand code directories are in use", base)
        put(os.path.dirname(base), {os.path.basename(claimed) + ".run": directory.encode()})
    finally:
        os.close(fd)
    os.makedirs(claimed, exist_ok=True)
    return claimed


def _is_free(path: str) -> bool:
    owner = _owner(path + ".run")
    over = os.path.exists(f"{owner}/exit.json") and not is_locked(f"{owner}/lock")
    return over or not owner or not os.path.isdir(owner)


def _owner(note: str) -> str:
    return os.fsdecode(read_file(note)).strip()


def release(code: str, directory: str, *, over: bool = False) -> dict[str, Any]:
    """Release the run's claim on its code directory, for other runs, unless its Runner is alive.

    over: also delete its `environment` file, which may hold secrets and will not be read any more.
    """
    note, environment = code + ".run", directory + "/environment"
    if is_locked(f"{directory}/lock"):
        return {}
    if over and os.path.exists(environment):
        os.unlink(environment)
    if code and _owner(note) == directory:
        os.unlink(note)
    return {}


def _first_python(candidates: list[str], code: str) -> str:
    """The first interpreter found at some paths, in which `{code}` stands for `code`; "" if there is none."""
    return next(filter(None, (_python_of(path.replace("{code}", code)) for path in candidates)), "")


def _python_of(path: str) -> str:
    """The interpreter at a path, which names it or its virtual environment; "" if there is none."""
    path = os.path.expanduser(path)
    python = f"{path}/bin/python" if os.path.isdir(path) else path
    return python if os.path.isfile(python) and os.access(python, os.X_OK) else ""


# ------------------------------------------------------------------------------------------------- the code


def checkout(code: str, git_dir: str, commit: str, links: Mapping[str, str], *, anew: bool = False) -> dict[str, Any]:
    """Make the directory `code` hold the files of a commit, and `links` (path -> target), and nothing else.

    git_dir: the bare repository. anew: the directory is made again; else virtual environments in it stay, and so do
    the files that are as they should be.
    """
    gate = os.open(f"{code}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)  # against one whose link was cut
        for path in (code, f"{code}.index") if anew else (f"{code}.index.lock",):  # of a git that was killed
            _remove(path)
        os.makedirs(code, exist_ok=True)
        for words in (
            ["read-tree", "--reset", commit],
            ["clean", "-ffdxq", *(f"--exclude=/{name}" for name in LIVES_IN_CODE)],
            ["read-tree", "--reset", "-u", commit],
        ):
            if said := _git(code, git_dir, words):
                full = shutil.disk_usage(code).free < FULL
                return {"error": f"git {words[0]} failed: {said}", "code": "disk_full" if full else "git_failed"}
        for path, target in links.items():
            _remove(f"{code}/{path}")
            os.makedirs(os.path.dirname(f"{code}/{path}"), exist_ok=True)
            os.symlink(target, f"{code}/{path}")
    finally:
        os.close(gate)
    return {}


def _git(code: str, git_dir: str, words: list[str]) -> str:
    """Run git on a code directory, with an index beside it; returns what it complains of, "" if it succeeds."""
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", f"--git-dir={git_dir}", f"--work-tree={code}", *settings, *words],
        env={**environment, "GIT_INDEX_FILE": f"{code}.index"},
        cwd=code,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    said = " ".join(done.stderr.decode("utf-8", "replace").split())[:500]
    return (said or f"exit code {done.returncode}") if done.returncode else ""


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


# ---------------------------------------------------------------------------------------------- the results


def results(code: str, directory: str, request: Mapping[str, Any]) -> None:
    """Write the files to copy back to stdout, as a tar archive, and release the run's code. What stays there is
    answered by the archive's last member, ANSWER, so that an archive that was cut shows it.

    From `places` (directories or files): files of at most `largest` bytes or, given `only`, what matches one of those
    patterns; together at most `most` bytes. The paths of `always` (glob patterns) are wanted regardless of size.
    """
    import tarfile  # takes milliseconds to import

    there = os.path.isdir(directory)
    left: dict[str, int] = {}
    seen: set[str] = set()
    room = request["most"]
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for wish, size, path in sorted(_candidates(request)) if there else ():
            if path in seen:
                continue
            seen.add(path)
            if wish == UNWANTED or (wish == WANTED and size > room) or not _add(tar, path):
                left[path] = size
            elif wish == WANTED:
                room -= size
        gone = {"error": f"{directory} is not there any more", "code": "gone"}
        data = json.dumps({"left": sorted(left.items())} if there else gone).encode()
        member = tarfile.TarInfo(ANSWER)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    release(code, directory, over=True)


def _add(tar: TarFile, path: str) -> bool:
    """Add a file or a link to an archive; returns whether it could be read."""
    member = tar.tarinfo(path)
    try:
        if os.path.islink(path):
            member.type, member.linkname = b"2", os.readlink(path)
            tar.addfile(member)
            return True
        file = open(path, "rb")
    except OSError:  # unreadable, or deleted meanwhile
        return False
    with file:
        member.size = os.fstat(file.fileno()).st_size
        tar.addfile(member, file)
    return True


NEEDED, WANTED, UNWANTED = range(3)


def _candidates(request: Mapping[str, Any]) -> Iterator[tuple[int, int, str]]:
    """How much each file is wanted, its size, its path."""
    for place in request["always"]:
        for hit in sorted(glob.glob(place)):
            for path in _files(hit):  # weights beside metrics are not needed
                size, name = _size(path), os.path.basename(path)
                metrics = path == hit or any(fnmatchcase(name, pattern) for pattern in request["metrics"])
                yield NEEDED if metrics or size <= request["largest"] else UNWANTED, size, path
    for place in request["places"]:
        for path in _files(place):
            size, relative = _size(path), os.path.relpath(path, place)
            named = any(fnmatchcase(relative, pattern) for pattern in request["only"])
            yield WANTED if named or (not request["only"] and size <= request["largest"]) else UNWANTED, size, path


def _files(directory: str) -> Iterator[str]:
    if os.path.isfile(directory) or os.path.islink(directory):
        yield directory
        return
    for top, names, files in os.walk(directory):
        names.sort()
        for name in sorted(files) + [name for name in names if os.path.islink(f"{top}/{name}")]:
            path = f"{top}/{name}"
            if os.path.islink(path) or os.path.isfile(path):
                yield path


def _size(path: str) -> int:
    try:
        return 0 if os.path.islink(path) else os.path.getsize(path)
    except OSError:
        return 0
