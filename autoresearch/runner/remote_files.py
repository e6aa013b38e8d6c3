"""File operations on a target without a shared file system: make directories, check out code, send results.

Standard library only, Python 3.9, a single file: `python - <this file and a call of answer()`, or by path.
Each call but `results` prints one JSON object; an error is `{"error": sentence, "code": identifier}`.
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
GIT_SETTINGS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=", "-c", "core.autocrlf=false")
ANSWER = ".answer"  # a member of an archive of absolute paths


def answer(text: str) -> bool:
    """Execute a JSON request and print the JSON result; returns whether it succeeded."""
    request = json.loads(text)
    try:
        found = _DO[request["do"]](request)
    except OSError as error:
        word = {errno.ENOSPC: "disk_full", errno.EDQUOT: "disk_full", errno.EROFS: "read_only"}
        code = word.get(error.errno or 0, "not_writable" if isinstance(error, PermissionError) else "file_trouble")
        found = {"error": f"{error.strerror}: {error.filename}" if error.filename else str(error), "code": code}
    sys.stdout.write(json.dumps(found) + "\n")
    return "error" not in found


# ---------------------------------------------------------------------------------------------- directories


def survey(request: dict[str, Any]) -> dict[str, Any]:
    """Create a run's directories; returns them, the free bytes, the interpreter, and which of `paths` are missing."""
    root = _root(request.get("root") or "")
    os.makedirs(root, exist_ok=True)
    if not os.access(root, os.W_OK):
        return {"error": f"{root} cannot be written", "code": "not_writable"}
    free = shutil.disk_usage(root).free
    if free < request["min_free"]:
        least = f"{request['min_free'] / 1e9:g} GB"
        return {"error": f"{root} has {free / 1e9:.1f} GB free, and {least} is the least", "code": "disk_full"}
    directory = f"{root}/runs/{request['name']}"
    os.makedirs(directory, exist_ok=True)
    results = f"{root}/results/{request['name']}"
    os.makedirs(results, exist_ok=True)
    code = _claimed(f"{root}/code/{request['code']}", directory) if request["code"] else ""
    return {
        "root": root,
        "directory": directory,
        "results": results,
        "code": code,
        "free": free,
        "interpreter": _first_python(request["interpreters"], code),
        "lacking": [path for path in request["paths"] if not os.path.exists(path)],
        "caches": caches(root, os.path.expanduser("~"), os.environ) if root.startswith(BIG_VOLUME + "/") else {},
    }


def interpreter(request: dict[str, Any]) -> dict[str, Any]:
    """The interpreter that a run would use on this host; creates nothing."""
    code = f"{_root(request.get('root') or '')}/code/{request['code']}" if request["code"] else ""
    return {"interpreter": _first_python(request["interpreters"], code)}


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
        ours = [path[: -len(".run")] for path in glob.glob(glob.escape(base) + "*.run") if _read(path) == directory]
        names = [base, *(f"{base}-{number}" for number in range(2, 1000))]
        claimed = ours[0] if ours else next((name for name in names if _is_free(name)), "")
        if not claimed:
            raise OSError(errno.EEXIST, "a thousand code directories are in use", base)
        _write(claimed + ".run", directory.encode())
    finally:
        os.close(fd)
    os.makedirs(claimed, exist_ok=True)
    return claimed


def _is_free(path: str) -> bool:
    owner = _read(path + ".run")
    return not owner or not os.path.isdir(owner) or (os.path.exists(f"{owner}/exit.json") and not _held(owner))


def release(request: dict[str, Any]) -> dict[str, Any]:
    """Release the run's claim on its code directory, for other runs, unless its Runner is alive.

    over: also delete its `environment` file, which may hold secrets and will not be read any more.
    """
    note, environment = request["code"] + ".run", request["directory"] + "/environment"
    if _held(request["directory"]):
        return {}
    if request.get("over") and os.path.exists(environment):
        os.unlink(environment)
    if request["code"] and _read(note) == request["directory"]:
        os.unlink(note)
    return {}


def _held(directory: str) -> bool:  # a copy of `basics.is_locked`: this file must be self-contained
    try:
        fd = os.open(f"{directory}/lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _first_python(candidates: list[str], code: str) -> str:
    """The first interpreter found at some paths, in which `{code}` stands for `code`; "" if there is none."""
    return next(filter(None, (_python_of(path.replace("{code}", code)) for path in candidates)), "")


def _python_of(path: str) -> str:
    """The interpreter at a path, which names it or its virtual environment; "" if there is none."""
    path = os.path.expanduser(path)
    python = f"{path}/bin/python" if os.path.isdir(path) else path
    return python if os.path.isfile(python) and os.access(python, os.X_OK) else ""


# ------------------------------------------------------------------------------------------------- the code


def checkout(request: dict[str, Any]) -> dict[str, Any]:
    """Make the directory `code` hold the files of a commit, and `links` (path -> target), and nothing else.

    git_dir: the bare repository. anew: the directory is made again; else virtual environments in it stay, and so do
    the files that are as they should be.
    """
    code, index = request["code"], request["code"] + ".index"
    for path in (code, index) if request["anew"] else ():
        _remove(path)
    os.makedirs(code, exist_ok=True)
    _remove(index + ".lock")  # of a git that was killed: a code directory has one run at a time
    git = ["git", f"--git-dir={request['git_dir']}", f"--work-tree={code}", *GIT_SETTINGS]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_INDEX_FILE"] = index
    for words in (
        ["read-tree", "--reset", request["commit"]],
        ["clean", "-ffdxq", *(f"--exclude=/{name}" for name in LIVES_IN_CODE)],
        ["read-tree", "--reset", "-u", request["commit"]],
    ):
        done = subprocess.run([*git, *words], env=environment, cwd=code, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            full = os.strerror(errno.ENOSPC) in said
            return {"error": f"git {words[0]} failed: {said}", "code": "disk_full" if full else "git_failed"}
    for path, target in request["links"].items():
        _remove(f"{code}/{path}")
        os.makedirs(os.path.dirname(f"{code}/{path}"), exist_ok=True)
        os.symlink(target, f"{code}/{path}")
    return {}


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


# ---------------------------------------------------------------------------------------------- the results


def results(request: dict[str, Any]) -> dict[str, Any]:
    """Write the files to copy back to stdout, as a tar archive, and release the run's code. What stays there is
    answered by the archive's last member, ANSWER, so that an archive that was cut shows it.

    From `places` (directories or files): what matches no pattern of `leave` or, given `only`, what matches one of
    those; files named by `keep` are always wanted. The paths of `always` (glob patterns) are wanted regardless of
    size. `most`: total bytes of the rest.
    """
    import tarfile  # takes milliseconds to import

    there = os.path.isdir(request["directory"])
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
        gone = {"error": f"{request['directory']} is not there any more", "code": "gone"}
        data = json.dumps({"left": sorted(left.items())} if there else gone).encode()
        member = tarfile.TarInfo(ANSWER)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    return release({**request, "over": True})


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


def _candidates(request: dict[str, Any]) -> Iterator[tuple[int, int, str]]:
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


def _is_selected(relative: str, request: dict[str, Any], only: Collection[str]) -> bool:
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


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _write(path: str, data: bytes) -> None:
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)


_DO = {
    "survey": survey,
    "interpreter": interpreter,
    "release": release,
    "checkout": checkout,
    "results": results,
}

if __name__ == "__main__" and len(sys.argv) == 2:  # called by a command in the run's spec
    sys.exit(0 if answer(sys.argv[1]) else 1)
