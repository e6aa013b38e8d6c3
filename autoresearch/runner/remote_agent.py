"""The remote file agent, a program on another host that does one request and answers it.

Its code arrives over stdin, before the request (`launchers/ssh_connection.py`), and it leaves no file on the host. The
answer begins with a token that only the client knows, so that banners and output of shell startup files are not taken
for it. Bytes are encoded as {"=": base64}. What it started keeps running.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

from . import remote_files, remote_requests
from .basics import is_locked, parse_object, read_file, take_lock
from .processes import process_table, run_id_of, send, start_ticks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, BinaryIO

MOST_SAID = 1 << 20
MOST_SEEN = 2 << 20  # bytes of files per answer; the rest comes with the next one
LEASES = "/var/tmp/autoresearch-gpu"  # as in launchers/gpus.py
SMI = ("nvidia-smi", "--query-gpu=index,uuid,name,memory.total,memory.used", "--format=csv,noheader,nounits")
SMI_S = 30.0
SHOWS_S = 10.0  # a Runner that holds its lock writes runner.json within this time


# -- protocol -------------------------------------------------------------------------------------------------------


def pack(value: Any) -> Any:
    """Encode a value that may contain bytes for JSON: bytes become {"=": base64}."""
    if isinstance(value, bytes):
        return {"=": base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict):
        return {key: pack(part) for key, part in value.items()}
    return [pack(part) for part in value] if isinstance(value, (list, tuple)) else value


def unpack(value: Any) -> Any:
    """Decode a value that `pack` encoded."""
    if isinstance(value, dict):
        if set(value) == {"="}:
            return base64.b64decode(value["="])
        return {key: unpack(part) for key, part in value.items()}
    return [unpack(part) for part in value] if isinstance(value, list) else value


def answer(source: BinaryIO, sink: BinaryIO) -> None:
    """Do the request {op, with, token} that `source` holds as a line, and write the answer to `sink`."""
    request = unpack(json.loads(source.readline()))
    said = {**perform(request), "identity": identity(), "wall": time.time()}
    sink.write(b"\n" + request["token"].encode() + json.dumps(pack(said)).encode() + b"\n")
    sink.flush()


def perform(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do what {op, with: its arguments} asks for: {said}, or {error: {errno, what, path}}."""
    try:
        return {"said": OPERATIONS[request["op"]](**request["with"])}
    except OSError as error:
        return {"error": {"errno": error.errno, "what": error.strerror or str(error), "path": str(error.filename)}}
    except (ValueError, KeyError, TypeError) as error:
        return {"error": {"errno": None, "what": repr(error), "path": ""}}


# -- files and programs ---------------------------------------------------------------------------------------------


def identity() -> dict[str, Any]:
    """Host and boot id, which tell one host from another, and from itself before it was restarted."""
    return {"host": os.uname().nodename, "boot_id": boot_id()}


def boot_id() -> str:
    """The kernel's boot id, which changes with every boot; the same for all containers of a host."""
    return read_file("/proc/sys/kernel/random/boot_id").decode().strip()


def look(wants: list[Mapping[str, Any]]) -> dict[str, Any]:
    """`remote_requests.look` for each {run, directory, offsets}, by run; which run comes first changes."""
    seen, room = {}, MOST_SEEN
    first = random.randrange(len(wants)) if wants else 0
    for want in [*wants[first:], *wants[:first]]:
        found = remote_requests.look(want["directory"], want["offsets"] if room > 0 else {})
        if room <= 0 and found["there"]:
            found["more"] = True
        room -= sum(len(piece) for piece in found.get("grown", {}).values())
        seen[want["run"]] = found
    return seen


def run(
    argv: list[str], stdin: bytes, timeout_s: float, cwd: str, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a short program: {returncode, out, err}, or {late: True} if it timed out and its process group was killed."""
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or None,
            env=env,
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
    """Identity of the Runner that runs or ran in a run directory; {} if none was started yet.

    Waits up to `SHOWS_S` for a Runner that has just begun to write its runner.json.
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
    if record and os.path.exists(f"{directory}/environment"):  # sent again, but the Runner has already read the first
        os.unlink(f"{directory}/environment")
    who = {"pid": None, "start_ticks": None, "boot_id": boot_id(), "host": os.uname().nodename}
    return {**{name: record.get(name, default) for name, default in who.items()}, "already": True}


def spawn(
    directory: str,
    argv: list[str],
    environment: Mapping[str, str],
    gpus: list[str],
    shown: Mapping[str, str],
    wait_s: float,
) -> dict[str, Any]:
    """Start the Runner of a run directory, once and in its own session; returns its identity once it is up.

    gpus: the UUIDs to lease. shown: the variables that show them to the trainer.
    The directory's `spawning` lock serializes calls; should two Runners get past it, the Runner's own lock admits one.
    """
    gate = os.open(f"{directory}/spawning", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not take_lock(gate, fcntl.LOCK_EX, wait_s):
            raise OSError(11, "somebody else starts it", directory)
        found = started(directory)
        if found:
            return found
        leases = _show_gpus(directory, gpus, shown, environment) if gpus else []
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
    """Wait until the Runner holds its lock and leases, so that the next caller sees them taken, or has exited."""
    until, pause = time.monotonic() + wait_s, 0.005
    while time.monotonic() < until and child.poll() is None:
        if all(is_locked(path) for path in (f"{directory}/lock", *leases)):
            return
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


def _show_gpus(directory: str, uuids: list[str], shown: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Write the run's GPUs into its spec and the trainer's environment; returns the GPUs' lease files."""
    folder = environment.get("AUTORESEARCH_GPU_LEASES") or lease_folder()
    leases = [f"{folder}/{re.sub('[^0-9A-Za-z-]', '_', uuid)}.lock" for uuid in uuids]  # as in launchers/gpus.py
    for path in leases:
        make_lease(path)
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
    """The folder of this host's GPU lease files, shared by all users."""
    return os.environ.get("AUTORESEARCH_GPU_LEASES") or LEASES


def make_lease(path: str) -> None:
    """Create a GPU's lease file for every user of the host, without taking it. Raises OSError if it cannot be opened.

    Never O_CREAT on an existing file: in a sticky directory the kernel forbids that even to root if the file is another
    user's (fs.protected_regular).
    """
    folder = os.path.dirname(path)
    if not os.path.exists(folder):
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o1777)  # past the umask
    if not os.path.exists(path):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            os.chmod(path, 0o666)
        except FileExistsError:
            pass
    os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))


def gpus() -> dict[str, Any]:
    """nvidia-smi's output (text), the held leases, and the value of CUDA_VISIBLE_DEVICES."""
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
    """For each {run, directory, pid, start_ticks, boot_id}: `lives`, `gone`, or `unknown` if the directory belongs to
    another run."""
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
    """Whether the process with this pid and start time is alive. Zombies are dead: the parent may reap them late."""
    raw = read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split() if pid else b""
    return bool(raw) and int(raw[19]) == ticks and raw[0] not in b"ZXx"


def end(run: str, directory: str, pid: int | None, start_ticks: int | None, hard: bool) -> int:
    """Send TERM to the Runner; with `hard`, KILL to it and all processes with the run's id. Returns how many."""
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


# -- the host -------------------------------------------------------------------------------------------------------


def probe(paths: list[str], programs: list[str]) -> dict[str, Any]:
    """Describe the host before anything is sent to it. For each path: whether it exists, whether it (or its nearest
    existing parent) is writable, and the free and total bytes of its disk."""
    return {
        **identity(),
        "python": list(sys.version_info[:3]),
        "executable": sys.executable,
        "uid": os.getuid(),
        "user": os.environ.get("USER") or os.environ.get("LOGNAME") or "",
        "programs": {name: shutil.which(name) or "" for name in programs},
        "paths": {path: _volume(path) for path in paths},
        "ends_at_logout": _ends_at_logout(),
    }


def _volume(path: str) -> dict[str, Any]:
    full = os.path.abspath(os.path.expanduser(path))
    holder = full
    while not os.path.exists(holder):
        holder = os.path.dirname(holder)
    total, _, free = shutil.disk_usage(holder)
    there = os.path.exists(full)
    writable = os.access(holder, os.W_OK | os.X_OK) if os.path.isdir(holder) else os.access(holder, os.W_OK)
    return {"path": full, "there": there, "writable": writable, "free": free, "total": total}


def _ends_at_logout() -> bool:
    """Whether systemd kills this user's processes at logout (logind.conf(5): KillUserProcesses)."""
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
    "look": look,
    "put": remote_requests.put,
    "run": run,
    "started": started,
    "spawn": spawn,
    "gpus": gpus,
    "poll": poll,
    "end": end,
    "probe": probe,
    "survey": remote_files.survey,
    "interpreter": remote_files.interpreter,
    "checkout": remote_files.checkout,
    "release": remote_files.release,
}
