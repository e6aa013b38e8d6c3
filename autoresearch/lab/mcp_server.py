"""The MCP server: reads a client's lines, answers them in any order, and ends with its stdin.

Of its two tools `look` reads, and `act` starts, changes and ends; each takes the words of an autoresearch command line.

Requests are answered at once, except for tool calls: each is a child process with a thread that waits for it, so that a
`status` is answered while a `wait` waits.

The messages are written by hand, as they are four methods: the reference package brings 31 others (70 MB, 0.7 s to
import). Format: modelcontextprotocol.io/specification, versions below; what clients really send: docs/mcp.md.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from autoresearch import __version__
from autoresearch.core.text.durations import parse_duration
from autoresearch.errors import AutoresearchError, ConflictError, UsageError
from autoresearch.launchers import host_sandbox_check
from autoresearch.runner.masking import mask_text, mask_values

WAIT_S = 100  # within the tool timeout of known clients: Codex has 120 s, once 60, lately 300
MOST_WAIT_S = 540
LOOK: Mapping[str, tuple[str, ...]] = {  # what changes nothing, and the flags that would write or send
    "status": (),
    "wait": (),
    "logs": ("--out",),
    "metrics": ("--out",),
    "explain": (),
    "compare": (),
    "campaign status": (),
    "ledger show": ("--out",),
    "doctor": ("--notify",),
    "config show": (),
    "config schema": (),
    "skill show": (),
}
_ENDLESS = ("--follow", "-f", "--serve")
_STARTS = {"run": (), "prove": (), "campaign": ("--yes",), "campaign start": ("--yes",), "campaign resume": ()}
_GROUPS = ("blueprint", "campaign", "config", "ledger", "scaffold", "skill", "swarm")
_ABOUT = {
    "look": f"Read: {', '.join(LOOK)}. `wait RUN` returns when something happens; call it instead of sleeping."
    ' `["skill", "show"]` tells how to work.',
    "act": "Start, change or end: run FILE.md, prove, campaign FILE.yaml, campaign add/skip/fix/set/pause/resume,"
    " note, report, stop RUN --reason WHY ... What is started outlives this session.",
}


@dataclass(frozen=True, slots=True)
class CommandLine:
    """An autoresearch command line that a client requested."""

    argv: Sequence[str]
    cwd: str  # "": the server's
    reads: bool  # it can be ended half-way without loss


def declared() -> list[dict[str, Any]]:
    """The entries of `tools/list`."""
    words = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    properties = {
        "argv": {**words, "description": 'words behind `autoresearch`: ["status", "last"]'},
        "cwd": {"type": "string", "description": "project directory"},
    }
    schema = {"type": "object", "properties": properties, "required": ["argv"], "additionalProperties": False}
    return [
        {
            "name": name,
            "title": f"autoresearch: {name}",
            "description": about,
            "inputSchema": schema,
            "annotations": {
                "readOnlyHint": name == "look",
                "destructiveHint": name == "act",  # it may end a run
                "idempotentHint": name == "look",
                "openWorldHint": False,
            },
        }
        for name, about in _ABOUT.items()
    ]


def command_line(tool: str, arguments: Mapping[str, Any]) -> CommandLine:
    """The command line for a tool's arguments. Raises UsageError with one sentence if they are invalid."""
    words, cwd = arguments.get("argv"), arguments.get("cwd", "")
    if unknown := [name for name in arguments if name not in ("argv", "cwd")]:
        raise UsageError(f"{tool} takes no {unknown[0][:60]!r}", hint="it takes argv, a list of words, and cwd")
    if not isinstance(words, list) or not words:
        raise UsageError(f'{tool}: argv must be a list of words, such as ["status", "last"]')
    if not all(isinstance(word, str) for word in (*words, cwd)):
        raise UsageError(f"{tool}: each word must be a text")
    words = words[1:] if words[0] == "autoresearch" and words[1:] else words
    grouped = words[0] in _GROUPS and words[1:] and words[1].isalpha()
    command = " ".join(words[: 2 if grouped else 1])
    reads, options = tool == "look", words[: words.index("--")] if "--" in words else words
    if reads and command not in LOOK:
        raise UsageError(f"look does not take `{command[:60]}`", hint=f"it takes {', '.join(LOOK)}; act takes the rest")
    if refused := [flag for flag in (*_ENDLESS, *(LOOK[command] if reads else ())) if _has(flag, options)]:
        raise UsageError(f"{tool}: `{command}` is not called with {refused[0]} here")
    if command == "campaign approve":
        raise UsageError("an approval is a person's word: ask your user to type it", fix=f"autoresearch {command}")
    added = [] if _has("--json", options) else ["--json"]
    if not _has("--dry-run", options):
        started = ("--detach", *_STARTS[command]) if command in _STARTS else ()
        added += [flag for flag in started if not _has(flag, options)]
    if command == "wait":
        added += _wait(options)
    at = len(command.split())
    return CommandLine([*words[:at], *added, *words[at:]], cwd, reads or command in LOOK)


def _has(flag: str, words: Sequence[str]) -> bool:
    return any(word == flag or word.startswith(f"{flag}=") for word in words)


def _wait(words: Sequence[str]) -> list[str]:
    """The flag that a `wait` gets where it has none. Raises UsageError for one that is too long."""
    if not _has("--for", words):
        return [f"--for={WAIT_S}s"]
    at = next(n for n, word in enumerate(words) if word.partition("=")[0] == "--for")
    value = words[at].partition("=")[2] or (words[at + 1] if at + 1 < len(words) else "")
    with contextlib.suppress(ValueError):  # the command says what is wrong with it
        if parse_duration(value) > MOST_WAIT_S:
            raise UsageError(f"wait: --for is at most {MOST_WAIT_S}s in one call", hint="call it again")
    return []


# ------------------------------------------------------------------------------------------ the messages
# JSON-RPC 2.0 as MCP uses it on stdio: one per line, no batches.

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PARSE, REQUEST, METHOD, PARAMS = -32700, -32600, -32601, -32602

Id = str | int | float | None


class RequestRefused(Exception):  # noqa: N818 - it is an answer, not an accident
    """A message whose answer is a JSON-RPC error."""

    def __init__(self, code: int, message: str, id: Id = None) -> None:
        super().__init__(message)
        self.code, self.id = code, id


@dataclass(frozen=True, slots=True)
class Message:
    """A request (it has an id, and expects an answer) or a notification."""

    method: str
    params: Mapping[str, Any]
    id: Id = None
    wants_answer: bool = False


def read_message(line: bytes) -> Message | None:
    """Parse a line; None for one without effect (an empty line, an answer to us). Raises RequestRefused."""
    if not line.strip():
        return None
    try:
        found = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RequestRefused(PARSE, f"this is no JSON in UTF-8: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise RequestRefused(REQUEST, "a message is a JSON object, one per line")
    if "method" not in found and ("result" in found or "error" in found):
        return None
    id = found.get("id")
    if ("id" in found and id is None) or not _is_id(id):
        raise RequestRefused(REQUEST, "the id of a request is a text or a number")
    if found.get("jsonrpc") != "2.0" or not isinstance(found.get("method"), str):
        raise RequestRefused(REQUEST, 'a message holds "jsonrpc": "2.0" and a method', id)
    params = found.get("params")
    if not isinstance(params, dict | None):
        raise RequestRefused(PARAMS, "params must be an object", id)
    return Message(found["method"], params or {}, id, wants_answer="id" in found)


def _is_id(value: object) -> bool:
    """Whether it is a text or a number that JSON can hold; 1e999 parses as one that it cannot."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, bool) and isinstance(value, str | int | None)


def answer(id: Id, result: Mapping[str, Any]) -> bytes:
    """The line that answers a request."""
    return _line({"id": id, "result": result})


def refusal(refused: RequestRefused) -> bytes:
    """The error line for a message; its id is null if the message had no readable one."""
    return _line({"id": refused.id, "error": {"code": refused.code, "message": mask_text(str(refused))}})


def _line(fields: Mapping[str, Any]) -> bytes:
    """ASCII: it is the same in encodings other than UTF-8."""
    return json.dumps({"jsonrpc": "2.0", **fields}, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def negotiated(version: object) -> str:
    """The protocol version: the client's if we support it, else our newest, which it may then decline."""
    return version if isinstance(version, str) and version in VERSIONS else VERSIONS[-1]


def as_result(payload: Mapping[str, Any], *, failed: bool) -> dict[str, Any]:
    """A tool's result, without secrets: the object, and its text for clients that read only that."""
    payload = mask_values(dict(payload))
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return {"content": [{"type": "text", "text": text}], "structuredContent": payload, "isError": failed}


def fitted(payload: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The payload in at most `most` characters of JSON: its largest entries are halved, and `cut` names them.

    The newest half of a list stays (log lines, rows and events end with them), and the beginning of a text.
    """
    found: dict[str, Any] = dict(payload)
    cut: list[str] = []
    while len(json.dumps(found, ensure_ascii=False, separators=(",", ":"))) > most:
        name = max((key for key in found if key != "cut"), key=lambda key: len(json.dumps(found[key])))
        value = found[name]
        if isinstance(value, str):
            found[name] = value[: len(value) // 2]
        elif isinstance(value, list):
            found[name] = value[(len(value) + 1) // 2 :]
        elif isinstance(value, dict) and len(value) > 1:
            found[name] = dict(list(value.items())[: len(value) // 2])
        else:
            found[name] = None
        cut = [*cut, *([] if name in cut else [name])]
        found["cut"] = cut
    return found


# ------------------------------------------------------------------------------------------ the server

MOST_CALLS = 8  # running at a time
MOST_TEXT = 10_000  # characters of an answer
PATIENCE_S = 30.0  # for a launch in progress when the client disconnects

INSTRUCTIONS = (
    'Runs RL experiments unattended. act ["run", "exp.md"], then look ["wait", RUN] until it has ended, then look'
    ' ["status", RUN]; never sleep: wait returns early. A run goes on without you. Paths are absolute or relative to'
    " {here}. Answers hold `next`, errors `fix`: command lines, whose words behind `autoresearch` are argv."
)

# The kernel ends the child together with this server (PR_SET_PDEATHSIG), so that no waiting command survives it. The
# child's parent is the thread that started it, which stays until the end. `-c`: before any other import.
_TETHERED = """
import os, sys
from autoresearch.runner.processes import process_control
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
        self._calls: dict[Id, tuple[ToolCall, threading.Thread]] = {}

    def serve(self, stream: BinaryIO) -> None:
        """Answer until the stream ends; then only runs are left, which live on their own."""
        try:
            for line in stream:
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

    def _take(self, line: bytes) -> None:
        """Process one line."""
        try:
            message = read_message(line)
            if message is None:
                return
            if not message.wants_answer:
                self._hear(message)
            elif (result := self._answer(message)) is not None:
                self._send(answer(message.id, result))
        except RequestRefused as refused:
            self._send(refusal(refused))

    def _hear(self, message: Message) -> None:
        """Handle a notification; only `cancelled` has an effect."""
        if message.method == "notifications/cancelled":
            id = message.params.get("requestId")
            with self._lock:
                found = self._calls.get(id) if isinstance(id, str | int | float) else None
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
        raise RequestRefused(METHOD, f"there is no method {message.method[:80]!r}", message.id)

    def _introduced(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        about = params.get("clientInfo")
        name = str(about.get("name", "")) if isinstance(about, dict) else ""
        self._client = re.sub(r"[^A-Za-z0-9-]+", "-", name).strip("-")[:40]
        return {
            "protocolVersion": negotiated(params.get("protocolVersion")),
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "autoresearch", "title": "autoresearch", "version": __version__},
            "instructions": INSTRUCTIONS.format(here=self._here),
        }

    def _called(self, message: Message) -> Mapping[str, Any] | None:
        name, given = message.params.get("name"), message.params.get("arguments", {})
        if name not in ("look", "act"):
            raise RequestRefused(PARAMS, f"there is no tool {str(name)[:80]!r}, but look and act", message.id)
        if not isinstance(given, dict | None):
            raise RequestRefused(PARAMS, "arguments must be an object", message.id)
        try:
            call = ToolCall(command_line(str(name), given or {}), self._client)
        except AutoresearchError as error:  # the model's own mistake: it must see it to correct it
            return as_result(failure(error), failed=True)
        return self._begun(call, message.id)

    def _begun(self, call: ToolCall, id: Id) -> Mapping[str, Any] | None:
        thread = threading.Thread(target=self._carry_out, args=(call, id), daemon=True)
        with self._lock:
            if id in self._calls:
                raise RequestRefused(REQUEST, "a call with this id is under way", id)
            if len(self._calls) >= MOST_CALLS:
                busy = ConflictError(f"{MOST_CALLS} calls are under way", hint="wait for one of them", code="busy")
                return as_result(failure(busy), failed=True)
            self._calls[id] = (call, thread)
        thread.start()
        return None

    def _carry_out(self, call: ToolCall, id: Id) -> None:
        """The thread of one call: run it, answer unless it was cancelled."""
        try:
            payload, failed = call.run()
        except AutoresearchError as error:
            payload, failed = failure(error), True
        with self._lock:
            del self._calls[id]
        if not call.stopped:
            self._send(answer(id, as_result(fitted(payload, MOST_TEXT), failed=failed)))

    def _send(self, line: bytes) -> None:
        with self._lock:
            self._write(line)


class ToolCall:
    """A command that is running or over. `stop` may be called from another thread."""

    def __init__(self, command_line: CommandLine, client: str = "") -> None:
        self.order = command_line
        self.client = client
        self.stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(self) -> tuple[dict[str, Any], bool]:
        """The object that the command printed, and whether it failed.

        Raises AutoresearchError if it could not be started.
        """
        process = self._started()
        out, err = process.communicate()
        return read(out, err, process.returncode)

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
            except (OSError, ValueError) as error:  # a word that no command line can hold
                raise AutoresearchError(f"the command could not be started: {error}") from None
            return self._process


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
