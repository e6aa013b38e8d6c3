"""What is done to files at a place that does not see ours: room made, code compared and unpacked, results listed.

Standard library only, Python 3.9, on one file: `python - <this file and a call of answer()`, or by path.
Answers are one JSON object a call; what went wrong is `{"error": sentence, "code": word}`.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
import sys
import tarfile
from fnmatch import fnmatchcase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

BIG_VOLUME = "/ephemeral"  # instances of Brev have their large disk there
# variable -> where its program keeps things without it, below home; other variables that say the same to it
CACHES = {
    "HF_HOME": (".cache/huggingface", ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME")),
    "UV_CACHE_DIR": (".cache/uv", ("XDG_CACHE_HOME",)),
    "TORCH_HOME": (".cache/torch", ("XDG_CACHE_HOME",)),
    "TORCHINDUCTOR_CACHE_DIR": ("", ()),
    "TRITON_CACHE_DIR": (".triton/cache", ("TRITON_HOME",)),
    "VLLM_CACHE_ROOT": (".cache/vllm", ("XDG_CACHE_HOME",)),
}
LOGIN = ("HF_TOKEN_PATH", ".cache/huggingface/token")  # lies in the cache of its program, and stays where it is
NO_CONTENT = ("token", "stored_tokens", "CACHEDIR.TAG", ".lock")
LIVES_IN_CODE = (".venv", "venv")  # a virtual environment made there outlives the code's changes
PIECE = 1 << 20
FEWEST_MODES = 0o111


def answer(text: str) -> bool:
    """Do what a JSON object asks for, print what came of it; whether it went well."""
    request = json.loads(text)
    try:
        found = _DO[request["do"]](request)
    except OSError as error:
        word = {errno.ENOSPC: "disk_full", errno.EDQUOT: "disk_full", errno.EROFS: "read_only"}
        code = word.get(error.errno or 0, "not_writable" if isinstance(error, PermissionError) else "file_trouble")
        found = {"error": f"{error.strerror}: {error.filename}" if error.filename else str(error), "code": code}
    sys.stdout.write(json.dumps(found) + "\n")
    return "error" not in found


# ---------------------------------------------------------------------------------------------- making room


def survey(request: dict[str, Any]) -> dict[str, Any]:
    """Where everything of a run goes, how much room there is, and which of some paths are there."""
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
        _write(began, b"")  # what is older than this is not of this run
    code = _claimed(f"{root}/code/{request['code']}", directory) if request["code"] else ""
    return {
        "root": root,
        "directory": directory,
        "results": results,
        "code": code,
        "free": free,
        "interpreter": _first_python(request["interpreters"], code),
        "lacking": [path for path in request["paths"] if not os.path.exists(path)],
        "rsync": shutil.which("rsync") is not None,
        "caches": caches(root, os.path.expanduser("~"), os.environ) if root.startswith(BIG_VOLUME + "/") else {},
    }


def interpreter(request: dict[str, Any]) -> dict[str, Any]:
    """The interpreter that a run would have here; nothing is made."""
    code = f"{_root(request.get('root') or '')}/code/{request['code']}" if request["code"] else ""
    return {"interpreter": _first_python(request["interpreters"], code)}


def look_at(request: dict[str, Any]) -> dict[str, Any]:
    """Kind (directory, file, other, or "") and whether it may be executed, of each path; and the home."""
    found = {}
    for path in request["paths"]:
        kind = "directory" if os.path.isdir(path) else "file" if os.path.isfile(path) else ""
        found[path] = [kind or ("other" if os.path.exists(path) else ""), os.access(path, os.X_OK)]
    return {"found": found, "home": os.path.expanduser("~")}


def aside(request: dict[str, Any]) -> dict[str, Any]:
    """What an earlier run left at these paths is moved away, under a name that says before which run it was."""
    moved = []
    for path in request["paths"]:
        if os.path.lexists(path):
            moved.append(f"{path}.before-{request['run']}")
            os.rename(path, moved[-1])
    return {"moved": moved}


def caches(directory: str, home: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that send caches below a directory: those that nobody set, of caches that are not in use elsewhere."""
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


def _root(wanted: str) -> str:
    """The place's own root, else a directory on the big volume, else in the home."""
    if wanted:
        return os.path.abspath(os.path.expanduser(wanted))
    home = os.path.expanduser("~")
    big = f"{BIG_VOLUME}/autoresearch"
    if os.access(big if os.path.isdir(big) else BIG_VOLUME, os.W_OK) and os.path.isdir(BIG_VOLUME):
        return big
    return f"{home}/.cache/autoresearch"


def _claimed(place: str, directory: str) -> str:
    """A directory for the code of this run alone: `place`, or `place-2` ... where another run may still need it."""
    os.makedirs(os.path.dirname(place), exist_ok=True)
    fd = os.open(os.path.dirname(place) + "/.claims", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        ours = [path[: -len(".run")] for path in glob.glob(glob.escape(place) + "*.run") if _read(path) == directory]
        number, found = 1, place
        while not ours and not _is_free(found):
            number += 1
            found = f"{place}-{number}"
        found = ours[0] if ours else found
        _write(found + ".run", directory.encode())
    finally:
        os.close(fd)
    os.makedirs(found, exist_ok=True)
    return found


def _is_free(place: str) -> bool:
    owner = _read(place + ".run")
    return not owner or not os.path.isdir(owner) or (os.path.exists(f"{owner}/exit.json") and not _held(owner))


def release(request: dict[str, Any]) -> dict[str, Any]:
    """Nothing of the run needs its code directory any more, unless its Runner lives: it may be another one's.

    over: nor will anybody come to read its environment, which may hold secrets.
    """
    note, environment = request["code"] + ".run", request["directory"] + "/environment"
    if _held(request["directory"]):
        return {}
    if request.get("over") and os.path.exists(environment):
        os.unlink(environment)
    if request["code"] and _read(note) == request["directory"]:
        os.unlink(note)
    return {}


def _held(directory: str) -> bool:  # `basics.is_locked`; this file stands alone
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


def _first_python(places: list[str], code: str) -> str:
    """The first interpreter of some paths, in which `{code}` is a directory; "" where there is none."""
    return next(filter(None, (_python_of(place.replace("{code}", code)) for place in places)), "")


def _python_of(place: str) -> str:
    """The interpreter that a path means: itself, or that of a virtual environment; "" where there is none."""
    place = os.path.expanduser(place)
    python = f"{place}/bin/python" if os.path.isdir(place) else place
    return python if os.path.isfile(python) and os.access(python, os.X_OK) else ""


# ------------------------------------------------------------------------------------------------- the code


def compare(request: dict[str, Any]) -> dict[str, Any]:
    """Which entries of a tree are missing or different here, by number; what the tree does not have is removed.

    tree: [path, kind, sha256 or target, size]; kind is `f`, `x` (executable) or `l` (link). links: path -> target,
    which stand in for directories of the tree.
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
    return {"missing": missing if len(missing) < len(request["tree"]) else None}  # None: all of it


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
    """No link of an earlier tree stands above a path."""
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


def _remove(place: str) -> None:
    if os.path.isdir(place) and not os.path.islink(place):
        shutil.rmtree(place)
    elif os.path.lexists(place):
        os.unlink(place)


def unpack(request: dict[str, Any]) -> dict[str, Any]:
    """Put the files of an archive where they belong; the archive goes."""
    code, archive = request["code"], request["archive"]
    with tarfile.open(archive) as tar:
        for member in tar:
            _make_way(code, member.name)
            place = f"{code}/{member.name}"
            _remove(place)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if member.issym():
                os.symlink(member.linkname, place)
                continue
            source = tar.extractfile(member)
            if source is None:
                continue
            with open(place, "wb") as target:
                shutil.copyfileobj(source, target, PIECE)
            os.chmod(place, 0o755 if member.mode & FEWEST_MODES else 0o644)
    os.unlink(archive)
    return {}


def fresh(request: dict[str, Any]) -> dict[str, Any]:
    """Leave exactly the files of an archive in a directory, if it is the archive that was meant."""
    archive, place = request["archive"], request["place"]
    if sha256(archive) != request["sha256"]:
        return {"error": f"{archive} is not what was sent: its checksum differs", "code": "archive_changed"}
    _remove(place)
    os.makedirs(place)
    kept = archive + ".tar"
    shutil.copyfile(archive, kept)
    return unpack({"code": place, "archive": kept})


# ---------------------------------------------------------------------------------------------- the results


def results(request: dict[str, Any]) -> dict[str, Any]:
    """Files to be copied back, into `<answer>`: [place, size, sha256], and links as [place, -1, target].

    Of `places` (directories, files, patterns) what no pattern of `leave` fits, or with `only` what one of those
    does; `always` is taken whatever they say, and `keep` names files that are, too.
    """
    found: dict[str, list[Any]] = {}
    left: dict[str, int] = {}
    room = request["most"]
    named = sorted(_named(request), key=lambda one: (not one[2], one[1]))  # what must come first, then the small
    for path, size, must in named:
        if path in found or path in left or not _is_new(path, request.get("since") or ""):
            continue
        if not (must or size <= room):
            left[path] = size
            continue
        try:
            found[path] = [path, size, os.readlink(path) if size < 0 else sha256(path)]
            room -= 0 if must or size < 0 else size
        except OSError:  # it may not be read, or is gone by now
            left[path] = max(size, 0)
    since = request.get("since") or ""
    left.update({path: size for path, size in _left_out(request) if path not in found and _is_new(path, since)})
    listed = json.dumps({"files": list(found.values()), "left": sorted(left.items())[:200], "count": len(left)})
    _write(request["answer"], listed.encode())
    return {"size": len(listed.encode()), "files": len(found)}


def _named(request: dict[str, Any]) -> Iterator[tuple[str, int, bool]]:
    for place in request["always"]:
        for hit in sorted(glob.glob(place)):
            for path in _files(hit):
                if not _weights(path, hit, request):
                    yield path, _size(path), True
    for place in request["places"]:
        for path in _files(place):
            if _wanted(os.path.relpath(path, place), request):
                yield path, _size(path), False


def _left_out(request: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for place in request["places"]:
        for path in _files(place):
            if not _wanted(os.path.relpath(path, place), request):
                yield path, max(_size(path), 0)


def _wanted(relative: str, request: dict[str, Any]) -> bool:
    parts = relative.split("/")
    if any(fnmatchcase(parts[-1], pattern) for pattern in request["keep"]):
        return True
    if request["only"]:
        return any(fnmatchcase(relative, pattern) for pattern in request["only"])
    return not any(fnmatchcase(part, pattern) for part in parts for pattern in request["leave"])


def _weights(path: str, place: str, request: dict[str, Any]) -> bool:
    """Whether a file below a place that is declared as metrics is none: the weights beside a state."""
    return path != place and not _wanted(os.path.relpath(path, place), {**request, "only": []})


def _is_new(path: str, since: str) -> bool:
    """Whether a file was written after another one."""
    try:
        return not since or os.lstat(path).st_mtime >= os.stat(since).st_mtime
    except OSError:
        return True


def _files(place: str) -> Iterator[str]:
    if os.path.isfile(place) or os.path.islink(place):
        yield place
        return
    for top, names, files in os.walk(place):
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
    """Of a file's bytes."""
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
    "look_at": look_at,
    "aside": aside,
    "release": release,
    "compare": compare,
    "unpack": unpack,
    "fresh": fresh,
    "results": results,
}

if __name__ == "__main__" and len(sys.argv) == 2:  # what a run's own spec asks for
    sys.exit(0 if answer(sys.argv[1]) else 1)
