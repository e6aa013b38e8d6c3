"""The remote file agent, a program on another host that does one request and answers it.

Its code arrives over stdin, before the request (`launchers/ssh.py`), and it leaves no file on the host. The
answer begins with a token that only the client knows, so that banners and output of shell startup files are not taken
for it. Bytes are encoded as {"=": base64}. What it started keeps running.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from . import remote_files
from .basics import parse_object, read_file
from .processes import process_table, run_id_of, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, BinaryIO

MOST_SAID = 1 << 20
MOST_SEEN = 2 << 20  # bytes of files per answer; the rest comes with the next one
REFUSED = 5  # the exit status of a Runner whose run has one already


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
    """`remote_files.look` for each {run, directory, offsets}, by run; which run comes first changes."""
    seen, room = {}, MOST_SEEN
    first = random.randrange(len(wants)) if wants else 0
    for want in [*wants[first:], *wants[:first]]:
        found = remote_files.look(want["directory"], want["offsets"] if room > 0 else {})
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


def spawn(directory: str, argv: list[str], environment: Mapping[str, str], wait_s: float) -> dict[str, Any]:
    """Start the Runner of a run directory in its own session; returns its pid once it is up.

    A second one refuses to start: then it is the pid of the first.
    """
    with open(f"{directory}/runner.err", "ab") as complaints:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            cwd=directory,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    until, pause = time.monotonic() + wait_s, 0.005
    while True:
        code = child.poll()  # before that look: what has ended has written it
        pid = parse_object(read_file(f"{directory}/runner.json")).get("pid")
        if pid or code not in (None, REFUSED) or time.monotonic() > until:
            break
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    if not pid and code not in (None, REFUSED):
        said = read_file(f"{directory}/runner.err")[-2000:].decode("utf-8", "replace")
        return {"failed": code, "said": said}
    if pid and pid != child.pid and os.path.exists(f"{directory}/environment"):  # sent again: the first has its own
        os.unlink(f"{directory}/environment")
    return {"pid": pid}


def end(run: str, directory: str, hard: bool) -> int:
    """Send TERM to the Runner; with `hard`, KILL to it and all processes with the run's id. Returns how many."""
    record = parse_object(read_file(f"{directory}/runner.json"))
    ours = record.get("run") == run and record.get("boot_id") == boot_id()
    lives = ours and _lives(record.get("pid"), record.get("start_ticks"))
    sent = send([record["pid"]], signal.SIGKILL if hard else signal.SIGTERM) if lives else 0
    until = time.monotonic() + 10.0
    while hard and time.monotonic() < until:
        found = [number for number in process_table() if _belongs(number, run)]
        if not found:
            break
        sent += send(found, signal.SIGKILL)
        time.sleep(0.02)
    return sent


def _lives(pid: int | None, ticks: int | None) -> bool:
    """Whether the process with this pid and start time is alive. Zombies are dead: the parent may reap them late."""
    raw = read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split() if pid else b""
    return bool(raw) and int(raw[19]) == ticks and raw[0] not in b"ZXx"


def _belongs(pid: int, run: str) -> bool:
    name, _, rest = read_file(f"/proc/{pid}/stat").partition(b"(")[2].rpartition(b")")
    if pid == os.getpid() or name == b"tmux: server" or not rest or rest.split()[0] in b"ZXx":
        return False
    return run_id_of(pid) == run


# -- the host -------------------------------------------------------------------------------------------------------


def probe(programs: list[str]) -> dict[str, Any]:
    """Describe the host before anything is sent to it."""
    return {
        **identity(),
        "python": list(sys.version_info[:3]),
        "executable": sys.executable,
        "uid": os.getuid(),
        "user": os.environ.get("USER") or os.environ.get("LOGNAME") or "",
        "programs": {name: shutil.which(name) or "" for name in programs},
        "ends_at_logout": _ends_at_logout(),
    }


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
    "put": remote_files.put,
    "run": run,
    "spawn": spawn,
    "end": end,
    "probe": probe,
    "survey": remote_files.survey,
    "interpreter": remote_files.interpreter,
    "checkout": remote_files.checkout,
    "release": remote_files.release,
}
