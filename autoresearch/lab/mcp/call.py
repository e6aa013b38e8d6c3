"""One tool call: an autoresearch command line as a child process, and the one JSON object that it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autoresearch.errors import AutoresearchError, UsageError
from autoresearch.lab.mcp.tools import CommandLine
from autoresearch.launchers import host_sandbox_check

BEYOND_S = 570.0  # a command that takes this much longer than it was asked to wait is given up
TICK_S = 5.0

# The kernel ends the child together with this server (PR_SET_PDEATHSIG), so that no waiting command survives it. The
# child's parent is the thread that started it, which stays until the end. `-c`: before any other import.
_TETHERED = """
import os, sys
from autoresearch.runner.libc import process_control
process_control(1, 15, 0, 0, 0)
if os.getppid() != int(sys.argv.pop(1)): os._exit(1)
from autoresearch.cli import main
main()
"""


class ToolCall:
    """A command that is running or over. `stop` may be called from another thread."""

    def __init__(self, command_line: CommandLine, client: str = "") -> None:
        self.order = command_line
        self.client = client
        self.stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(self, tick: Callable[[float], None]) -> tuple[dict[str, Any], bool]:
        """The object that the command printed, and whether it failed; `tick` gets the elapsed time every few seconds.

        Raises AutoresearchError if it could not be started.
        """
        process = self._started()
        began = time.monotonic()
        while True:
            try:
                out, err = process.communicate(timeout=TICK_S)
                return read(out, err, process.returncode)
            except subprocess.TimeoutExpired:
                elapsed = time.monotonic() - began
                tick(elapsed)
                if elapsed > self.order.waits_s + BEYOND_S:
                    return self._given_up(process, elapsed), True

    def stop(self) -> None:
        """The answer is no longer wanted: end a command that only reads; let one with effects go on."""
        with self._lock:
            self.stopped = True
            if self._process is not None and self.order.reads:
                self._process.terminate()

    def _started(self) -> subprocess.Popen[bytes]:
        cwd = Path(self.order.cwd or ".").absolute()
        if not cwd.is_dir():
            raise UsageError(f"cwd: there is no directory {cwd}")
        program = ["-c", _TETHERED, str(os.getpid())] if self.order.reads else ["-m", "autoresearch"]
        with self._lock:
            if self.stopped:
                raise UsageError("the call was cancelled")
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", *program, *self.order.argv],
                    cwd=cwd,
                    env=surroundings(os.environ, self.client),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=not self.order.reads,  # a client that ends our group does not end a launch
                )
            except OSError as error:
                raise AutoresearchError(f"the command could not be started: {error}") from None
            return self._process

    def _given_up(self, process: subprocess.Popen[bytes], elapsed: float) -> dict[str, Any]:
        if self.order.reads:
            process.kill()
        threading.Thread(target=process.communicate, daemon=True).start()  # reap it when it ends
        error = AutoresearchError(
            f"no answer after {elapsed:.0f} s: autoresearch {' '.join(self.order.argv[:2])}",
            hint="" if self.order.reads else "it was left to go on; look what became of it",
            fix="" if self.order.reads else "autoresearch status",
            code="no_answer",
        )
        return failure(error)


def surroundings(environ: Mapping[str, str], client: str) -> dict[str, str]:
    """The environment of a command: ours, plus the driving client, which clients rarely pass to their servers."""
    found = dict(environ)
    if client and not host_sandbox_check.driven_by(environ):
        found["AI_AGENT"] = client
    return found


def read(out: bytes, err: bytes, code: int) -> tuple[dict[str, Any], bool]:
    """The object on a command's stdout. Without one it failed, whatever its exit code."""
    try:
        payload = json.loads(out)
    except (ValueError, RecursionError):
        payload = None
    if isinstance(payload, dict):
        return payload if not code else {"exit_code": code, **payload}, code != 0
    last = err.decode("utf-8", "replace").strip().splitlines()[-1:]
    error = AutoresearchError(f"the command printed no answer and exited with {code}", hint="".join(last)[:500])
    return failure(error), True


def failure(error: AutoresearchError) -> dict[str, Any]:
    """An error in the form of the CLI's `--json`."""
    detail = {"code": error.code, "message": error.message, "hint": error.hint, "fix": error.fix}
    return {"ok": False, "exit_code": error.exit_code, "error": detail, "next": [error.fix] if error.fix else []}
