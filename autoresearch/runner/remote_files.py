"""Requests about files on an ssh host, executed there: make a run's directories, check out its code, send its results.

Standard library only, Python 3.9. What cannot be done is answered as `{"error": sentence, "code": identifier}`.
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

from .basics import is_locked, read_file
from .remote_requests import put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from tarfile import TarFile
    from typing import Any

BIG_VOLUME = "/ephemeral"  # mount point of the large disk on Brev instances
# variable -> the cache's default directory below home, and other variables that move the same cache
CACHES = {
    "HF_HOME": (".cache/huggingface", ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME")),
    "UV_CACHE_DIR": (".cache/uv", ("XDG_CACHE_HOME",)),
    "TORCH_HOME": (".cache/torch", ("XDG_CACHE_HOME",)),
    "TORCHINDUCTOR_CACHE_DIR": ("", ()),
    "TRITON_CACHE_DIR": (".triton/cache", ("TRITON_HOME",)),
    "VLLM_CACHE_ROOT": (".cache/vllm", ("XDG_CACHE_HOME",)),
}
LOGIN = ("HF_TOKEN_PATH", ".cache/huggingface/token")  # lies in the default cache, and is used from there
NO_CONTENT = ("token", "stored_tokens", "CACHEDIR.TAG", ".lock")
LIVES_IN_CODE = (".venv", "venv")  # virtual environments in the code directory survive updates of the code
# What is checked out is what was pushed: no hook, no line endings of the host's, no download of Git LFS.
SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=", "core.autocrlf=false"),
    *("filter.lfs.smudge=", "filter.lfs.process=", "filter.lfs.required=false"),
)
FULL = 1 << 20  # free bytes of a disk on which git could not write
ANSWER = ".answer"  # a member of an archive of absolute paths


# ---------------------------------------------------------------------------------------------- directories


def survey(
    root: str, name: str, code: str, interpreters: list[str], paths: list[str], min_free: float
) -> dict[str, Any]:
    """Create a run's directories; returns them, the free bytes, the interpreter, and which of `paths` are missing."""
    root = _root(root)
    os.makedirs(root, exist_ok=True)
    if not os.access(root, os.W_OK):
        return {"error": f"{root} cannot be written", "code": "not_writable"}
    free = shutil.disk_usage(root).free
    if free < min_free:
        least = f"{min_free / 1e9:g} GB"
        return {"error": f"{root} has {free / 1e9:.1f} GB free, and {least} is the least", "code": "disk_full"}
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
        "free": free,
        "interpreter": _first_python(interpreters, code),
        "lacking": [path for path in paths if not os.path.exists(path)],
        "caches": caches(root, os.path.expanduser("~"), os.environ) if root.startswith(BIG_VOLUME + "/") else {},
    }


def interpreter(root: str, code: str, interpreters: list[str]) -> dict[str, Any]:
    """The interpreter that a run would use on this host; creates nothing."""
    return {"interpreter": _first_python(interpreters, f"{_root(root)}/code/{code}" if code else "")}


def caches(directory: str, home: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that move caches below a directory; only for caches that are neither configured nor already in use."""
    found: dict[str, str] = {}
    for name, (usual, same) in CACHES.items():
        if any(environ.get(other) for other in (name, *same)) or (usual and _holds_something(f"{home}/{usual}")):
            continue
        short = name.lower().replace("_dir", "").replace("_cache", "").replace("_home", "").replace("_root", "")
        found[name] = f"{directory}/cache/{short}"
        if name == "HF_HOME" and not environ.get(LOGIN[0]) and os.path.isfile(f"{home}/{LOGIN[1]}"):
            found[LOGIN[0]] = f"{home}/{LOGIN[1]}"
    return found


def _holds_something(directory: str) -> bool:
    try:
        return any(name not in NO_CONTENT for name in os.listdir(directory))
    except OSError:
        return False


def _root(path: str) -> str:
    """The target's configured root, else a directory on the big volume, else one in the home."""
    if path:
        return os.path.abspath(os.path.expanduser(path))
    home = os.path.expanduser("~")
    big = f"{BIG_VOLUME}/autoresearch"
    if os.access(big if os.path.isdir(big) else BIG_VOLUME, os.W_OK) and os.path.isdir(BIG_VOLUME):
        return big
    return f"{home}/.cache/autoresearch"


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

    From `places` (directories or files): what matches no pattern of `leave` or, given `only`, what matches one of
    those; files named by `keep` are always wanted. The paths of `always` (glob patterns) are wanted regardless of
    size. `most`: total bytes of the rest.
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
            for path in _files(hit):  # weights beside a trainer's state are not needed
                if path == hit or _is_selected(os.path.relpath(path, hit), request, ()):
                    yield NEEDED, _size(path), path
    for place in request["places"]:
        for path in _files(place):
            selected = _is_selected(os.path.relpath(path, place), request, request["only"])
            yield WANTED if selected else UNWANTED, _size(path), path


def _is_selected(relative: str, request: Mapping[str, Any], only: Collection[str]) -> bool:
    parts = relative.split("/")
    if any(fnmatchcase(parts[-1], pattern) for pattern in request["keep"]):
        return True
    if only:
        return any(fnmatchcase(relative, pattern) for pattern in only)
    return not any(fnmatchcase(part, pattern) for part in parts for pattern in request["leave"])


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
