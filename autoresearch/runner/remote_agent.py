"""The post as a program on another host: requests on stdin, a line each; every answer is a line on stdout.

It comes over the same stdin (`launchers/ssh_channel.py`) and leaves no file there. Answers begin with a word that only
the asker knows, so that a banner or what a shell's startup file prints is no answer. Bytes travel as {"=": base64}.
It ends with the connection, or when nobody asks for long; what it started does not.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from . import remote_requests
from .basics import is_locked, parse_object, read_file, take_lock
from .processes import process_table, run_id_of, send, start_ticks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, BinaryIO

SILENT_S = 900  # nobody asks any more: the connection hangs, or the asker does
MOST_SAID = 1 << 20
MOST_SEEN = 8 << 20  # bytes of files in one answer; the rest comes with the next
LEASES = "/var/tmp/autoresearch-gpu"  # as in launchers/gpus.py
SMI = ("nvidia-smi", "--query-gpu=index,uuid,name,memory.total,memory.used", "--format=csv,noheader,nounits")
SMI_S = 30.0
SHOWS_S = 10.0  # a Runner that holds its lock has written who it is so soon
_turn = [0]
_children: list[subprocess.Popen[bytes]] = []  # Runners: to be reaped


# -- what travels ---------------------------------------------------------------------------------------------------


def pack(value: Any) -> Any:
    """JSON for a value that holds bytes."""
    if isinstance(value, bytes):
        return {"=": base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict):
        return {key: pack(part) for key, part in value.items()}
    return [pack(part) for part in value] if isinstance(value, (list, tuple)) else value


def unpack(value: Any) -> Any:
    """The value of what `pack` made."""
    if isinstance(value, dict):
        if set(value) == {"="}:
            return base64.b64decode(value["="])
        return {key: unpack(part) for key, part in value.items()}
    return [unpack(part) for part in value] if isinstance(value, list) else value


def serve(token: str, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer until there is nobody to answer. The first line says who answers; it ends whatever line was begun."""
    sink.write(b"\n")
    _answer(token, sink, {"id": 0, "said": hello()})
    while True:
        signal.alarm(SILENT_S)
        line = source.readline()
        signal.alarm(0)
        if not line.endswith(b"\n"):
            return
        request = unpack(json.loads(line))
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            answer["said"] = OPERATIONS[request["op"]](**request["with"])
        except OSError as error:
            answer["error"] = {"errno": error.errno, "what": error.strerror or str(error), "path": str(error.filename)}
        except (ValueError, KeyError, TypeError) as error:
            answer["error"] = {"errno": None, "what": repr(error), "path": ""}
        for child in [child for child in _children if child.poll() is not None]:
            _children.remove(child)
        _answer(token, sink, answer)


def _answer(token: str, sink: BinaryIO, answer: dict[str, Any]) -> None:
    answer["wall"] = time.time()
    sink.write(token.encode() + b" " + json.dumps(pack(answer)).encode() + b"\n")
    sink.flush()


# -- files and programs ---------------------------------------------------------------------------------------------


def hello() -> dict[str, Any]:
    """Who answers."""
    return {
        "python": list(sys.version_info[:3]),
        "executable": sys.executable,
        "host": os.uname().nodename,
        "boot_id": boot_id(),
        "uid": os.getuid(),
        "home": os.path.expanduser("~"),
        "pid": os.getpid(),
    }


def boot_id() -> str:
    """What tells one start of the kernel from another; the same for all containers on it."""
    return read_file("/proc/sys/kernel/random/boot_id").decode().strip()


def look(wants: list[Mapping[str, Any]]) -> dict[str, Any]:
    """`remote_requests.look` at each of {run, directory, offsets}, by run; whose turn it is to be first changes."""
    seen, room = {}, MOST_SEEN
    _turn[0] += 1
    first = _turn[0] % len(wants) if wants else 0
    for want in [*wants[first:], *wants[:first]]:
        found = remote_requests.look(want["directory"], want["offsets"] if room > 0 else {})
        if room <= 0 and found["there"]:
            found["more"] = True
        room -= sum(len(piece) for piece in found.get("grown", {}).values())
        seen[want["run"]] = found
    return seen


def put(directory: str, files: Mapping[str, bytes], private: list[str]) -> None:
    """See `Reach`."""
    remote_requests.put(directory, files, private)


def read(path: str, offset: int, most: int) -> dict[str, Any]:
    """A piece of a file, and how big that is. Raises OSError."""
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        return {"data": file.read(most), "size": os.fstat(file.fileno()).st_size}


def write(path: str, offset: int, data: bytes) -> int:
    """Write a piece of a file, made with its folders if need be; its size then. Whole is whoever writes the last."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(fd, offset)
        view = memoryview(data)
        while view:
            written = os.pwrite(fd, view, offset)
            view, offset = view[written:], offset + written
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def run(argv: list[str], stdin: bytes, timeout_s: float, cwd: str) -> dict[str, Any]:
    """Run a short program; with all that it started it is ended when its time is over."""
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or None,
            start_new_session=True,
        )
    except (FileNotFoundError, PermissionError) as error:
        return {"returncode": 127, "out": b"", "err": str(error).encode()}
    try:
        out, err = child.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe:
                pipe.close()
        child.wait()
        return {"late": True}
    return {"returncode": child.returncode, "out": out[:MOST_SAID], "err": err[:MOST_SAID]}


# -- Runners --------------------------------------------------------------------------------------------------------


def started(directory: str) -> dict[str, Any]:
    """Who runs, or ran, in a far directory; {} where nobody was started yet.

    A Runner that has just begun is waited for: who it is stands in a file that it is about to write.
    """
    until = time.monotonic() + SHOWS_S
    while True:
        record = parse_object(read_file(f"{directory}/runner.json"))
        held = is_locked(f"{directory}/lock")
        if record or not held or time.monotonic() > until:
            break
        time.sleep(0.02)
    begun = held or record.get("trainer_pid")
    if not (begun or any(os.path.exists(f"{directory}/{name}") for name in ("claim", "exit.json"))):
        return {}
    if record and os.path.exists(f"{directory}/environment"):  # it was sent again, and nobody will read it now
        os.unlink(f"{directory}/environment")
    who = {"pid": None, "start_ticks": None, "boot_id": boot_id(), "host": os.uname().nodename}
    return {**{name: record.get(name, default) for name, default in who.items()}, "already": True}


def spawn(
    directory: str, argv: list[str], environment: Mapping[str, str], gpus: list[str], wait_s: float
) -> dict[str, Any]:
    """Start the Runner of a far directory, once, detached from everything of ours; who it is, when it has shown.

    One at a time, by a lock of that directory; two Runners that get past it are told apart by the Runner's own lock.
    """
    gate = os.open(f"{directory}/spawning", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not take_lock(gate, fcntl.LOCK_EX, wait_s):
            raise OSError(11, "somebody else starts it", directory)
        found = started(directory)
        if found:
            return found
        leases = _show_gpus(directory, gpus, environment) if gpus else []
        shown = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
        with open(f"{directory}/runner.err", "ab") as complaints:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                cwd=directory,
                env={**os.environ, **environment, **shown},
                start_new_session=True,
            )
        _children.append(child)
        ticks = start_ticks(child.pid)
        _await(directory, child, leases, wait_s)
        code = child.poll()
        if code is not None:
            found = started(directory)
            if not found:
                said = read_file(f"{directory}/runner.err")[-2000:].decode("utf-8", "replace")
                return {"failed": code, "said": said}
        return {"pid": child.pid, "start_ticks": ticks, "boot_id": boot_id(), "host": os.uname().nodename, **found}
    finally:
        os.close(gate)


def _await(directory: str, child: subprocess.Popen[bytes], leases: list[str], wait_s: float) -> None:
    """Until the Runner holds its lock and its leases, so that whoever comes next sees them taken, or is gone."""
    until, pause = time.monotonic() + wait_s, 0.005
    while time.monotonic() < until and child.poll() is None:
        if all(is_locked(path) for path in (f"{directory}/lock", *leases)):
            return
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


def _show_gpus(directory: str, uuids: list[str], environment: Mapping[str, str]) -> list[str]:
    """Write down which GPUs the run gets: in its spec and in the environment of its trainer. Their lease files."""
    folder = environment.get("AUTORESEARCH_GPU_LEASES") or lease_folder()
    leases = [make_lease(folder, uuid) for uuid in uuids]
    shown = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(uuids)}
    spec = parse_object(read_file(f"{directory}/spec.json"))
    spec.update(gpus=uuids, leases=leases, lease_shares=1)
    spec["environment"] = {**(spec.get("environment") or {}), **shown}
    files = {"spec.json": json.dumps(spec).encode()}
    if os.path.exists(f"{directory}/environment"):
        kept = [
            item
            for item in read_file(f"{directory}/environment").split(b"\0")
            if item and os.fsdecode(item).partition("=")[0] not in shown
        ]
        files["environment"] = b"\0".join([*kept, *(f"{name}={value}".encode() for name, value in shown.items())])
    remote_requests.put(directory, files, ("environment",))
    return leases


def lease_folder() -> str:
    """Where this host keeps the leases of its GPUs, for all who use it."""
    return os.environ.get("AUTORESEARCH_GPU_LEASES") or LEASES


def make_lease(folder: str, uuid: str) -> str:
    """The lease file of a GPU, open to every user of the host; it is named and made as in launchers/gpus.py."""
    name = "".join(c if (c.isascii() and c.isalnum()) or c == "-" else "_" for c in uuid)
    path = f"{folder}/{name}.lock"
    if not os.path.isdir(folder):
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o1777)
    if not os.path.exists(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
        os.chmod(path, 0o666)
    os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    return path


def gpus() -> dict[str, Any]:
    """What nvidia-smi says (text), which lease files are held, and which GPUs this login may see."""
    folder = lease_folder()
    try:
        said = subprocess.run(SMI, stdin=subprocess.DEVNULL, capture_output=True, timeout=SMI_S, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        said = b""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {
        "smi": said.decode("utf-8", "replace"),
        "held": [name.split(".")[0] for name in names if is_locked(f"{folder}/{name}")],
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def poll(handles: list[Mapping[str, Any]]) -> dict[str, str]:
    """Of each {run, directory, pid, start_ticks, boot_id}: `lives`, `gone`, or `unknown` where its far directory is
    another run's."""
    now, found = boot_id(), {}
    for one in handles:
        if one["pid"] is None:
            lives = is_locked(f"{one['directory']}/lock")
        else:
            lives = one["boot_id"] == now and _lives(one["pid"], one["start_ticks"])
        record = {} if lives else parse_object(read_file(f"{one['directory']}/runner.json"))
        found[one["run"]] = "lives" if lives else "gone" if record.get("run", one["run"]) == one["run"] else "unknown"
    return found


def _lives(pid: int | None, ticks: int | None) -> bool:
    """Zombies are dead: whoever has to read their exit code may take his time."""
    raw = read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split() if pid else b""
    return bool(raw) and int(raw[19]) == ticks and raw[0] not in b"ZXx"


def end(run: str, directory: str, pid: int | None, start_ticks: int | None, hard: bool) -> int:
    """TERM to the Runner; or KILL, and to every process that carries this run's id. How many got a signal."""
    record = parse_object(read_file(f"{directory}/runner.json"))
    known = [(pid, start_ticks)]
    if record.get("boot_id") == boot_id() and record.get("run") == run:
        known.append((record.get("pid"), record.get("start_ticks")))
    runners = {number for number, ticks in known if number and _lives(number, ticks)}
    sent = send(runners, signal.SIGKILL if hard else signal.SIGTERM)
    until = time.monotonic() + 10.0
    while hard and time.monotonic() < until:
        found = [number for number in process_table() if _belongs(number, run)]
        if not found:
            break
        sent += send(found, signal.SIGKILL)
        time.sleep(0.02)
    return sent


def _belongs(pid: int, run: str) -> bool:
    name, _, rest = read_file(f"/proc/{pid}/stat").partition(b"(")[2].rpartition(b")")
    if pid == os.getpid() or name == b"tmux: server" or not rest or rest.split()[0] in b"ZXx":
        return False
    return run_id_of(pid) == run


# -- what there is --------------------------------------------------------------------------------------------------


def probe(paths: list[str], programs: list[str]) -> dict[str, Any]:
    """What is asked before anything is sent there. Of a path: whether it is there, whether it (or what will hold it)
    can be written, and how many bytes are free."""
    return {
        **hello(),
        "user": os.environ.get("USER") or os.environ.get("LOGNAME") or "",
        "environment": dict(os.environ),
        "programs": {name: shutil.which(name) or "" for name in programs},
        "paths": {path: _place(path) for path in paths},
        "ends_at_logout": _ends_at_logout(),
    }


def _place(path: str) -> dict[str, Any]:
    full = os.path.abspath(os.path.expanduser(path))
    holder = full
    while not os.path.exists(holder):
        holder = os.path.dirname(holder)
    total, _, free = shutil.disk_usage(holder)
    there = os.path.exists(full)
    writable = os.access(holder, os.W_OK | os.X_OK) if os.path.isdir(holder) else os.access(holder, os.W_OK)
    return {"path": full, "there": there, "writable": writable, "free": free, "total": total}


def _ends_at_logout() -> bool:
    """Whether systemd ends whatever a user leaves running (logind.conf(5): KillUserProcesses), and this one, too."""
    folder = "/etc/systemd/logind.conf.d"
    files = [f"{folder}/{name}" for name in sorted(os.listdir(folder))] if os.path.isdir(folder) else []
    kills = False
    for path in ["/etc/systemd/logind.conf", *files]:
        for line in read_file(path).decode("utf-8", "replace").splitlines():
            name, _, value = line.strip().partition("=")
            if name.strip() == "KillUserProcesses":
                kills = value.strip().lower() in ("yes", "true", "1", "on")
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    return kills and os.getuid() != 0 and not os.path.exists(f"/var/lib/systemd/linger/{user}")


OPERATIONS: dict[str, Callable[..., Any]] = {
    "hello": hello,
    "look": look,
    "put": put,
    "read": read,
    "write": write,
    "run": run,
    "started": started,
    "spawn": spawn,
    "gpus": gpus,
    "poll": poll,
    "end": end,
    "probe": probe,
}
