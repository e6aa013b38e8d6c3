"""A server that answers as Ray 2.60's head does: recorded answers, and entrypoints that really run on this machine.

Faults: `silent` answers nothing, `no_agent` takes no job, `token` wants one, `lose_answers` does what was asked and
says nothing, `hold` leaves new jobs pending, `hiccups` are answers that come half, or busy.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
import urllib.parse
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VERSION = {"version": "4", "ray_version": "2.60.0", "ray_commit": "b7f4259e", "session_name": "session_1"}
WAITS = "Job has not started yet. It may be waiting for resources (CPUs, GPUs, memory, custom resources) to become "
NO_AGENT = "No available agent to submit job, please try again later."
TAKEN = """Traceback (most recent call last):
  File "ray/dashboard/modules/job/job_head.py", line 419, in submit_job
    resp = await job_agent_client.submit_job_internal(submit_request)
RuntimeError: Request failed with status code 400: Traceback (most recent call last):
ValueError: Job with submission_id {name} already exists. Please use a different submission_id.
.
"""
UNKNOWN_KEY = """Traceback (most recent call last):
  File "ray/dashboard/modules/job/common.py", line 445, in validate_request_type
    return request_type(**json_data)
TypeError: JobSubmitRequest.__init__() got an unexpected keyword argument '{key}'
"""
NOT_OVER = "RuntimeError: Attempted to delete job '{name}', but it is in a non-terminal state {status}.\n"
KEYS = ("entrypoint", "submission_id", "runtime_env", "metadata")
KEYS += ("entrypoint_num_gpus", "entrypoint_num_cpus", "entrypoint_resources")
OVER = ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass
class Entry:
    """One job: what the list says of it, and its process."""

    said: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None
    out: bytes = b""
    stopping: bool = False

    @property
    def status(self) -> str:
        return str(self.said["status"])


@dataclass
class FakeRay:
    """The server; made, it answers at `address`."""

    silent: bool = False
    no_agent: bool = False
    token: str = ""
    lose_answers: bool = False
    hiccups: list[str] = field(default_factory=list)  # for the next GETs, the last first: busy, half
    hold: bool = False
    jobs: dict[str, Entry] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    lock: threading.RLock = field(default_factory=threading.RLock)
    threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _answers(self))
        self._spawn(self.server.serve_forever, 0.05)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def _spawn(self, what: Any, *args: Any) -> None:
        thread = threading.Thread(target=what, args=args)
        self.threads.append(thread)
        thread.start()

    def close(self) -> None:
        """End what runs, and the server."""
        for entry in self.jobs.values():
            if entry.process and entry.process.poll() is None:
                _signal(entry.process.pid, signal.SIGKILL)
        self.server.shutdown()
        self.server.server_close()
        for thread in self.threads:
            thread.join()

    def submit(self, body: dict[str, Any]) -> tuple[int, Any]:
        if self.no_agent:
            return 500, NO_AGENT
        if unknown := [key for key in body if key not in KEYS]:
            return 400, UNKNOWN_KEY.format(key=unknown[0])
        name = body.get("submission_id") or f"raysubmit_{len(self.jobs)}"
        if name in self.jobs:
            return 500, TAKEN.format(name=name)
        said = {"type": "SUBMISSION", "job_id": None, "submission_id": name, "driver_info": None, "status": "PENDING"}
        said |= {"entrypoint": body["entrypoint"], "message": WAITS, "error_type": None, "driver_exit_code": None}
        said |= {"metadata": body.get("metadata"), "runtime_env": body.get("runtime_env")}
        said |= {"driver_agent_http_address": None}
        self.jobs[name] = Entry(said)
        if not self.hold:
            self.begin(name)
        return 200, {"job_id": name, "submission_id": name}

    def begin(self, name: str) -> None:
        """Let a job start."""
        entry = self.jobs[name]
        entry.said |= {"status": "RUNNING", "message": "Job is currently running."}
        entry.said["driver_agent_http_address"] = "http://127.0.0.1:52365"
        env = {**os.environ, **((entry.said["runtime_env"] or {}).get("env_vars") or {})}
        entry.process = subprocess.Popen(
            entry.said["entrypoint"],
            shell=True,
            start_new_session=True,
            env={**env, "RAY_ADDRESS": "127.0.0.1:6379"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._spawn(self._follow, entry)

    def _follow(self, entry: Entry) -> None:
        assert entry.process and entry.process.stdout
        with entry.process.stdout as out:
            while piece := out.read1(1 << 16):  # type: ignore[attr-defined]
                entry.out += piece
        code = entry.process.wait()
        with self.lock:
            if entry.stopping:
                entry.said |= {"status": "STOPPED", "message": "Job was intentionally stopped."}
            elif code == 0:
                said = {"status": "SUCCEEDED", "message": "Job finished successfully.", "driver_exit_code": 0}
                entry.said |= said
            else:
                message = f"Job entrypoint command failed with exit code {code}, last available logs (truncated to "
                message += "20,000 chars):\n" + entry.out.decode(errors="replace")[-200:]
                entry.said |= {"status": "FAILED", "message": message, "driver_exit_code": code}
                entry.said["error_type"] = "JOB_ENTRYPOINT_COMMAND_ERROR"

    def stop(self, name: str) -> tuple[int, Any]:
        entry = self.jobs[name]
        if entry.status == "RUNNING" and entry.process and not entry.stopping:
            entry.stopping = True
            _signal(entry.process.pid, signal.SIGTERM)
        return 200, {"stopped": entry.status == "RUNNING"}

    def delete(self, name: str) -> tuple[int, Any]:
        entry = self.jobs[name]
        if entry.status not in OVER:
            return 500, NOT_OVER.format(name=name, status=entry.status)
        del self.jobs[name]
        return 200, {"deleted": True}

    def fail(self, name: str, error_type: str, message: str = "") -> None:
        """Have a job fail as Ray itself has it fail; what runs is killed."""
        entry = self.jobs[name]
        if entry.process:
            _signal(entry.process.pid, signal.SIGKILL)
            self.until_over(name)
        entry.said |= {"status": "FAILED", "error_type": error_type, "message": message, "driver_exit_code": None}

    def until_over(self, name: str) -> None:
        deadline = time.monotonic() + 60
        while self.jobs[name].status not in OVER:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def _signal(pid: int, number: int) -> None:
    """To a process and all below it: Ray's supervisor does so."""
    with contextlib.suppress(OSError):
        for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            _signal(child, number)
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _answers(ray: FakeRay) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
            with ray.lock:
                ray.asked[f"{self.command} {path}"] += 1
                if ray.silent:
                    self.close_connection = True
                    return
                status, said = self.answer(path.strip("/").split("/"), body)
            if ray.lose_answers and self.command != "GET":
                self.close_connection = True
                return
            raw = (said if isinstance(said, str) else json.dumps(said)).encode()
            hiccup = ray.hiccups.pop() if ray.hiccups and self.command == "GET" else ""
            self.send_response(503 if hiccup == "busy" else status)
            self.send_header("Content-Length", str(len(raw) + 9 * (hiccup == "half")))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_DELETE = do_PUT = handle_any  # noqa: N815 - the base class wants them so

        def answer(self, parts: list[str], body: bytes) -> tuple[int, Any]:
            given = self.headers.get("Authorization") or self.headers.get("X-Ray-Authorization") or ""
            if ray.token and not given:
                return 401, "Unauthorized: Missing authentication token"
            if ray.token and given != f"Bearer {ray.token}":
                return 403, "Forbidden: Invalid authentication token"
            if parts == ["api", "version"]:
                return 200, VERSION
            if parts == ["api", "jobs"]:
                if self.command == "POST":
                    return ray.submit(json.loads(body))
                return 200, [entry.said for entry in ray.jobs.values()]
            return self.one(parts, self.command)

        def one(self, parts: list[str], command: str) -> tuple[int, Any]:
            name = parts[2]
            if name not in ray.jobs:
                return 404, f"Job {name} does not exist"
            if parts[3:] == ["stop"]:
                return ray.stop(name)
            if parts[3:] == ["logs"]:
                return 200, {"logs": ray.jobs[name].out.decode()}
            return ray.delete(name) if command == "DELETE" else (200, ray.jobs[name].said)

    return Answers
