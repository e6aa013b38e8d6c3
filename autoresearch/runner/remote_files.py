"""File operations on a target without a shared file system: make directories, compare and unpack code, list results.

Standard library only, Python 3.9, a single file: `python - <this file and a call of answer()`, or by path.
Each call prints one JSON object; an error is `{"error": sentence, "code": identifier}`.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import json
import os
import shutil
import sys
from fnmatch import fnmatchcase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
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
PIECE = 1 << 20
FEWEST_MODES = 0o111


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
    began = f"{directory}/began"
    if not os.path.exists(began):
        _write(began, b"")  # files older than this one are not the run's
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


def compare(request: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the tree's entries that are missing or different on this host; files not in the tree are removed.

    tree: [path, kind, sha256 or target, size]; kind is `f`, `x` (executable) or `l` (link). links: path -> target,
    symbolic links that replace directories of the tree.
    """
    code, links = request["code"], request["links"]
    for path in links:
        _make_way(code, path)
    keep = {path for path, _, _, _ in request["tree"]} | set(links)
    _remove_others(code, keep)
    for path, target in links.items():
        place = f"{code}/{path}"
        if not (os.path.islink(place) and os.readlink(place) == target):
            _remove(place)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(target, place)
    missing = [n for n, entry in enumerate(request["tree"]) if not _is_there(code, *entry)]
    return {"missing": missing if len(missing) < len(request["tree"]) else None}  # None: all entries


def _is_there(code: str, path: str, kind: str, content: str, size: int) -> bool:
    place = f"{code}/{path}"
    if os.path.islink(place) or kind == "l":
        return kind == "l" and os.path.islink(place) and os.readlink(place) == content
    try:
        if not os.path.isfile(place) or os.path.getsize(place) != size or sha256(place) != content:
            return False
    except OSError:
        return False
    os.chmod(place, 0o755 if kind == "x" else 0o644)
    return True


def _make_way(code: str, path: str) -> None:
    """Remove symbolic links, left by an earlier tree, among the parents of a path."""
    above = os.path.dirname(path)
    while above:
        if os.path.islink(f"{code}/{above}"):
            os.unlink(f"{code}/{above}")
        above = os.path.dirname(above)


def _remove_others(code: str, keep: set[str]) -> None:
    folders = {os.path.dirname(path) for path in keep}
    folders |= {"/".join(folder.split("/")[:n]) for folder in folders for n in range(1, folder.count("/") + 1)}
    for top, names, files in os.walk(code):
        inside = os.path.relpath(top, code)
        for name in list(names) + files:
            path = name if inside == "." else f"{inside}/{name}"
            place = f"{top}/{name}"
            real = os.path.isdir(place) and not os.path.islink(place)
            if (real and path in folders) or (not real and path in keep):
                continue
            if name in names:
                names.remove(name)
            if not (inside == "." and name in LIVES_IN_CODE):
                _remove(place)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def unpack(request: dict[str, Any]) -> dict[str, Any]:
    """Extract an archive into the code directory and delete the archive."""
    _extract(request["archive"], request["code"])
    os.unlink(request["archive"])
    return {}


def fresh(request: dict[str, Any]) -> dict[str, Any]:
    """Replace a directory by the contents of an archive, after checking the archive's SHA-256."""
    archive, place = request["archive"], request["place"]
    if sha256(archive) != request["sha256"]:
        return {"error": f"{archive} is not what was sent: its checksum differs", "code": "archive_changed"}
    _remove(place)
    os.makedirs(place)
    _extract(archive, place)
    return {}


def _extract(archive: str, directory: str) -> None:
    """Files and links of an archive of ours; what stands in their way goes."""
    import tarfile  # takes milliseconds to import

    with tarfile.open(archive) as tar:
        for member in tar:
            _make_way(directory, member.name)
            place = f"{directory}/{member.name}"
            _remove(place)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            source = None if member.issym() else tar.extractfile(member)
            if source is None:
                os.symlink(member.linkname, place)
                continue
            with open(place, "wb") as target:
                shutil.copyfileobj(source, target, PIECE)
            os.chmod(place, 0o755 if member.mode & FEWEST_MODES else 0o644)


# ---------------------------------------------------------------------------------------------- the results


def results(request: dict[str, Any]) -> dict[str, Any]:
    """List the files to copy back, as JSON in the file `answer`: [path, size, sha256], links as [path, -1, target].

    From `places` (directories or files): what matches no pattern of `leave` or, given `only`, what matches one of
    those; files named by `keep` are always listed. The paths of `always` (glob patterns) are listed regardless of
    size. `most`: total bytes of the rest.
    """
    found: dict[str, list[Any]] = {}
    left: dict[str, int] = {}
    room = request["most"]
    for wish, size, path in sorted(_candidates(request)):
        if path in found or path in left:
            continue
        if wish == UNWANTED or (wish == WANTED and size > room):
            left[path] = max(size, 0)
            continue
        try:
            found[path] = [path, size, os.readlink(path) if size < 0 else sha256(path)]
            room -= max(size, 0) if wish == WANTED else 0
        except OSError:  # unreadable, or deleted meanwhile
            left[path] = max(size, 0)
    listed = json.dumps(
        {"files": list(found.values()), "left": sorted(left.items())[:200], "count": len(left)}
    ).encode()
    _write(request["answer"], listed)
    return {"size": len(listed), "files": len(found)}


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
        return -1 if os.path.islink(path) else os.path.getsize(path)
    except OSError:
        return 0


def sha256(path: str) -> str:
    """SHA-256 of a file's bytes, in hex. Raises OSError."""
    import hashlib  # takes 3 ms to import

    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            found.update(piece)
    return found.hexdigest()


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
    "compare": compare,
    "unpack": unpack,
    "fresh": fresh,
    "results": results,
}

if __name__ == "__main__" and len(sys.argv) == 2:  # called by a command in the run's spec
    sys.exit(0 if answer(sys.argv[1]) else 1)
