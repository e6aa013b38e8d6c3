"""The MCP server: reads a client's lines, answers them in any order, and ends with its stdin.

Requests are answered at once, except for tool calls: each is a child process with a thread that waits for it, so that a
`status` is answered while a `wait` waits.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from autoresearch import __version__
from autoresearch.errors import AutoresearchError, ConflictError, UsageError
from autoresearch.lab.mcp import messages
from autoresearch.lab.mcp.messages import Id, Message, RequestRefused
from autoresearch.lab.mcp.tools import CommandLine, command_line, declared
from autoresearch.launchers import host_sandbox_check

LONGEST_LINE = 1 << 20  # bytes; the longest sensible one has a few thousand
MOST_CALLS = 8  # running at a time
MOST_TEXT = 10_000  # characters of an answer
PATIENCE_S = 30.0  # for a launch in progress when the client disconnects

INSTRUCTIONS = (
    'Runs RL experiments unattended. act ["run", "exp.md"], then look ["wait", RUN] until it has ended, then look'
    ' ["status", RUN]; never sleep: wait returns early. A run goes on without you. Paths are absolute or relative to'
    " {here}. Answers hold `next`, errors `fix`: command lines, whose words behind `autoresearch` are argv."
)
BEYOND_S = 570.0  # a command that takes this much longer than it was asked to wait is given up
TICK_S = 5.0

# The kernel ends the child together with this server (PR_SET_PDEATHSIG), so that no waiting command survives it. The
# child's parent is the thread that started it, which stays until the end. `-c`: before any other import.
_TETHERED = """
import os, sys
from autoresearch.runner.libc import process_control
process_control(1, 15)
if os.getppid() != int(sys.argv.pop(1)): os._exit(1)
from autoresearch.cli import main
main()
"""


class McpServer:
    """One client's server. `write` gets whole lines, from several threads, one at a time."""

    def __init__(self, write: Callable[[bytes], None], here: str) -> None:
        self._write = write
        self._here = here
        self._client = ""
        self._lock = threading.Lock()  # of what is written, and of `_calls`
        self._calls: dict[tuple[type, Id], tuple[ToolCall, threading.Thread]] = {}

    def serve(self, stream: BinaryIO) -> None:
        """Answer until the stream ends; then only runs are left, which live on their own."""
        try:
            for line in _lines(stream):
                self._take(line)
        finally:
            self.close()

    def close(self) -> None:
        """End calls that only read or wait; wait a while for those with effects, and still answer them."""
        with self._lock:
            left = list(self._calls.values())
        for call, _ in left:
            if call.order.reads:
                call.stop()
        until = time.monotonic() + PATIENCE_S
        for _, thread in left:
            thread.join(max(0.0, until - time.monotonic()))

    def _take(self, line: bytes | None) -> None:
        """Process one line; None stands for one that was too long to read."""
        try:
            if line is None:
                raise RequestRefused(messages.PARSE, f"a message has at most {LONGEST_LINE} bytes")
            message = messages.read(line)
            if message is None:
                return
            if not message.wants_answer:
                self._hear(message)
            elif (result := self._answer(message)) is not None:
                self._send(messages.answer(message.id, result))
        except RequestRefused as refused:
            self._send(messages.refusal(refused))

    def _hear(self, message: Message) -> None:
        """Handle a notification; only `cancelled` has an effect."""
        if message.method == "notifications/cancelled":
            with self._lock:
                found = self._calls.get(_key(message.params.get("requestId")))
            if found:
                found[0].stop()

    def _answer(self, message: Message) -> Mapping[str, Any] | None:
        """The result of a request; None if a thread will send it."""
        if message.method == "initialize":
            return self._introduced(message.params)
        if message.method == "ping":
            return {}
        if message.method == "tools/list":
            return {"tools": declared()}
        if message.method == "tools/call":
            return self._called(message)
        raise RequestRefused(messages.METHOD, f"there is no method {message.method[:80]!r}", message.id)

    def _introduced(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        about = params.get("clientInfo")
        name = str(about.get("name", "")) if isinstance(about, dict) else ""
        self._client = re.sub(r"[^A-Za-z0-9-]+", "-", name).strip("-")[:40]
        return {
            "protocolVersion": messages.negotiated(params.get("protocolVersion")),
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "autoresearch", "title": "autoresearch", "version": __version__},
            "instructions": INSTRUCTIONS.format(here=self._here),
        }

    def _called(self, message: Message) -> Mapping[str, Any] | None:
        name, given = message.params.get("name"), message.params.get("arguments", {})
        if name not in ("look", "act"):
            raise RequestRefused(messages.PARAMS, f"there is no tool {str(name)[:80]!r}, but look and act", message.id)
        if not isinstance(given, dict | None):
            raise RequestRefused(messages.PARAMS, "arguments must be an object", message.id)
        try:
            call = ToolCall(command_line(str(name), given or {}), self._client)
        except AutoresearchError as error:  # the model's own mistake: it must see it to correct it
            return messages.as_result(failure(error), failed=True)
        meta = message.params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        return self._begun(call, message.id, token)

    def _begun(self, call: ToolCall, id: Id, token: object) -> Mapping[str, Any] | None:
        thread = threading.Thread(target=self._carry_out, args=(call, id, token), daemon=True)
        with self._lock:
            if _key(id) in self._calls:
                raise RequestRefused(messages.REQUEST, "a call with this id is under way", id)
            if len(self._calls) >= MOST_CALLS:
                busy = ConflictError(f"{MOST_CALLS} calls are under way", hint="wait for one of them", code="busy")
                return messages.as_result(failure(busy), failed=True)
            self._calls[_key(id)] = (call, thread)
        thread.start()
        return None

    def _carry_out(self, call: ToolCall, id: Id, token: object) -> None:
        """The thread of one call: run it, report progress, answer unless it was cancelled."""

        def tick(elapsed: float) -> None:
            if isinstance(token, str | int) and not call.stopped:
                params: dict[str, Any] = {"progressToken": token, "progress": round(elapsed, 1)}
                self._send(messages.notification("notifications/progress", params | _total(call, elapsed)))

        try:
            payload, failed = call.run(tick)
        except AutoresearchError as error:
            payload, failed = failure(error), True
        with self._lock:
            del self._calls[_key(id)]
        if not call.stopped:
            self._send(messages.answer(id, messages.as_result(messages.fitted(payload, MOST_TEXT), failed=failed)))

    def _send(self, line: bytes) -> None:
        with self._lock:
            self._write(line)


def _total(call: ToolCall, elapsed: float) -> dict[str, float]:
    return {"total": call.order.waits_s} if call.order.waits_s > elapsed else {}


def _key(id: Any) -> tuple[type, Id]:
    """A dictionary key that distinguishes the ids 1 and "1"."""
    return (type(id), id) if isinstance(id, str | int | float) else (type(None), None)


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """The lines of a stream; None for one that is too long, which is skipped without storing it."""
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) <= LONGEST_LINE or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE)
        yield None


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
