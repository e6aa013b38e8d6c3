"""Files and programs of a Ray cluster without shared directories: everything goes through the Jobs API.

Written files wait for the next program or job, and go with it as a package of `working_dir` (PUT /api/packages in
ray/dashboard/modules/job/job_head.py, names as in ray/_private/runtime_env/packaging.py, of Ray 2.60, b7f4259e). A
program is a small job that prints its answer to its log: it takes seconds, so few are run. The Runner's files return in
its own job's log, see `core.run.log_stream`; `GET .../logs` returns the whole log each time, so it is requested rarely.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import time
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autoresearch.core.run.job_launcher import DirectoryState, ProgramOutput, Unreachable, Want
from autoresearch.core.run.log_stream import JobLog, read
from autoresearch.launchers.ray_api import RayApi, quoted
from autoresearch.launchers.ray_leftovers import OVER
from autoresearch.runner.basics import parse_object
from autoresearch.runner.remote_requests import PIECE

LOGS_S = 2.0  # between two requests of a job's log ...
LOGS_SHARE = 20.0  # ... and at least so many times the duration of such a request
PACKAGE = 64 << 20  # bytes that may wait: a head takes 100 MB at once
BOOT = 'exec "$(readlink /proc/$PPID/exe)" -S -E -s boot.py '  # the parent's interpreter
_BOOT = """
import base64, json, os, subprocess, sys
what = json.load(open("boot.json"))
for number, (directory, name, mode) in enumerate(what["files"]):
    path, here = os.path.join(directory, name), "file-%d" % number
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(here, "rb") as file:
        data = file.read()
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with open(fd, "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)
    os.unlink(here)
if sys.argv[1] == "become":
    os.chdir(what["cwd"] or "/")
    os.execvpe(what["argv"][0], what["argv"], {**os.environ, **what["env"]})
said = {"code": 127, "out": b"", "err": b""}
try:
    with open("stdin", "rb") as given:
        done = subprocess.run(what["argv"], stdin=given, capture_output=True, cwd=what["cwd"] or None)
    said = {"code": done.returncode, "out": done.stdout[:1 << 22], "err": done.stderr[:1 << 16]}
except FileNotFoundError as error:
    said["err"] = str(error).encode()
text = {k: v if k == "code" else base64.b64encode(v).decode() for k, v in said.items()}
sys.stdout.write("\\x1e" + json.dumps({"said": text}) + "\\n")
"""
_LOOK = """
import base64, json, os, sys
def read(path, at, most):
    try:
        with open(path, "rb") as file:
            file.seek(at)
            return file.read(most)
    except OSError:
        return b""
def record(path):
    try:
        return json.loads(read(path, 0, 1 << 20))
    except ValueError:
        return {}
found = {}
for run, place, offsets in json.loads(sys.argv[1]):
    grown = {name: read(os.path.join(place, name), at, int(sys.argv[2])) for name, at in offsets.items()}
    found[run] = {
        "there": os.path.isdir(place), "runner": record(place + "/runner.json"), "exit": record(place + "/exit.json"),
        "grown": {name: base64.b64encode(piece).decode() for name, piece in grown.items() if piece},
    }
json.dump(found, sys.stdout)
"""


class RayReach:
    """`core.run.job_launcher.Reach` by jobs and their logs."""

    shared = False

    def __init__(self, api: RayApi, clock: Callable[[], float] = time.monotonic) -> None:
        self.api = api
        self.clock = clock
        self.natives: dict[str, str] = {}  # run -> its job, once submitted
        self._directories: dict[str, str] = {}  # remote directory -> run
        self._waiting: dict[tuple[str, str], tuple[bytes, int]] = {}  # (directory, name) -> data, mode
        self._stops: dict[str, Mapping[str, Any]] = {}  # by run: the request that was turned into a signal
        self._logs: dict[str, tuple[float, JobLog]] = {}  # by run: time of the next request, content

    def look(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        """See `Reach`. Reports no heartbeat: the head knows whether a job runs."""
        ours = [want for want in wants if want.run in self.natives]
        self._directories |= {want.directory: want.run for want in ours}
        found = {want.run: self._directory_state(want) for want in ours}
        return found | self._look_there([want for want in wants if want not in ours])

    def put(self, directory: str, files: Mapping[str, bytes], *, private: Collection[str] = ()) -> None:
        """See `Reach`: written with the next program or job. A stop request becomes a stop of the Ray job at once."""
        if set(files) == {"stop"} and directory in self._directories:
            run = self._directories[directory]
            self._stops[run] = parse_object(files["stop"])
            self.api.ask("POST", f"/api/jobs/{quoted(self.natives[run])}/stop")
            return
        for name, data in files.items():
            data = _with_told(data) if name == "spec.json" else data
            self._waiting[directory, name] = data, 0o600 if name in private else 0o644
        if sum(len(data) for data, _ in self._waiting.values()) > PACKAGE:
            self.run(["true"])

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, cwd: str = "") -> ProgramOutput:
        """See `Reach`. The time that Ray needs to start the program does not count."""
        package = self.package(argv, cwd, {}, stdin)
        body = {"entrypoint": BOOT + "say", "runtime_env": {"working_dir": package}}
        body["metadata"] = {"autoresearch": "a program"}
        job = str(self.api.expect(self.api.ask("POST", "/api/jobs/", body), dict).get("submission_id"))
        try:
            self._wait(job, argv[0], timeout_s)
            logs = self.logs(job)
        finally:
            self.api.ask("DELETE", f"/api/jobs/{quoted(job)}")
        self._waiting.clear()
        return _program_output(logs)

    def package(self, argv: Sequence[str], cwd: str, env: Mapping[str, str], stdin: bytes = b"") -> str:
        """Upload a program and the waiting files; returns the URI for `working_dir`. The caller clears the waiting
        files.
        """
        files = [(directory, name, mode) for (directory, name), (_, mode) in self._waiting.items()]
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("boot.py", _BOOT)
            what = {"argv": list(argv), "cwd": cwd, "env": dict(env), "files": files}
            archive.writestr("boot.json", json.dumps(what))
            archive.writestr("stdin", stdin)
            for number, (data, _) in enumerate(self._waiting.values()):
                archive.writestr(f"file-{number}", data)
        data = packed.getvalue()
        # the time makes the name unique: a node does not unpack the same package twice
        name = f"_ray_pkg_{hashlib.sha256(data + repr(time.time_ns()).encode()).hexdigest()[:16]}.zip"
        said = self.api.ask("PUT", f"/api/packages/gcs/{name}", data=data)
        if not said.ok:
            raise Unreachable(f"Ray at {self.api.url} takes no package: {said.last_line}", code="no_package")
        return f"gcs://{name}"

    def sent(self) -> None:
        """Discard the waiting files: they went with a job."""
        self._waiting.clear()

    def logs(self, native: str) -> bytes:
        """All that a job printed; b"" for an unknown job."""
        said = self.api.ask("GET", f"/api/jobs/{quoted(native)}/logs")
        if said.status == 404:
            return b""
        return str(self.api.expect(said, dict).get("logs") or "").encode()

    def clock_offset(self) -> float:
        """See `Reach`: the head's clock, from its answers."""
        return self.api.offset_s

    def close(self) -> None:
        """See `Reach`."""

    def _directory_state(self, want: Want) -> DirectoryState:
        again_at, told = self._logs.get(want.run, (0.0, JobLog(want.run)))
        if (now := self.clock()) >= again_at:
            told = read(self.logs(self.natives[want.run]), want.run)
            after = self.clock()
            self._logs[want.run] = after + max(LOGS_S, LOGS_SHARE * (after - now)), told
        seen = told.seen(want.offsets, PIECE)
        if want.run in self._stops and seen.exit.get("cause") == "sigterm":
            asked = {"cause": "stop_request", "reason": "a stop was requested", **self._stops[want.run]}
            return replace(seen, exit={**seen.exit, **{key: asked[key] for key in ("cause", "reason")}})
        return seen

    def _look_there(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        if not wants:
            return {}
        asked = json.dumps([(want.run, want.directory, dict(want.offsets)) for want in wants])
        said = self.run(["python3", "-c", _LOOK, asked, str(PIECE)])
        try:
            return {run: _seen(one) for run, one in json.loads(said.text).items()}
        except ValueError:
            raise Unreachable(f"Ray at {self.api.url} did not look at files: {said.complaint}") from None

    def _wait(self, job: str, program: str, timeout_s: float) -> None:
        started: float | None = None
        while (said := self.api.job(job) or {}).get("status") not in OVER:
            now = self.clock()
            if said.get("status") == "RUNNING":
                started = now if started is None else started
            if (started is not None and now - started > timeout_s) or (said.get("status") is None):
                self.api.ask("POST", f"/api/jobs/{quoted(job)}/stop")
                raise Unreachable(f"{program} gave no answer within {timeout_s:.0f} s")
            time.sleep(0.2)


def _with_told(spec: bytes) -> bytes:
    return json.dumps({**json.loads(spec), "told": True}).encode()


def _program_output(logs: bytes) -> ProgramOutput:
    for line in logs.split(b"\x1e")[1:]:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            said = json.loads(line.split(b"\n")[0])["said"]
            return ProgramOutput(int(said["code"]), base64.b64decode(said["out"]), base64.b64decode(said["err"]))
    raise Unreachable("a program of ours left no answer in Ray's log of it")


def _seen(one: Mapping[str, Any]) -> DirectoryState:
    grown = {name: base64.b64decode(piece) for name, piece in one["grown"].items()}
    return DirectoryState(
        there=bool(one["there"]),
        claimed=bool(one["runner"]),
        runner=one["runner"],
        exit=one["exit"],
        grown=grown,
        more=any(len(piece) == PIECE for piece in grown.values()),
    )
