"""The client's end of the Agent Client Protocol, for one turn: a program of its own, the parent of the agent.

An agent that speaks ACP (JSON-RPC 2.0, one message a line, on its stdin and stdout) asks back while it works: may it
write this file, may it run that command. Somebody must answer, so a turn of `acp` is this program (standard library
alone), which starts the agent, hands it the prompt from standard input, and answers by the turn's role. What the
adapter `acp` reads is what is printed here: one line of JSON for each thing worth knowing.

    {"acp": "session", "id": "..."}        {"acp": "text", "text": "..."}             the words since the last tool
    {"acp": "tool", "title": "..."}        {"acp": "refused", "what": "..."}          what it was not permitted
    {"acp": "usage", "in": 9, "out": 2}    {"acp": "cost", "usd": 0.1}                the latter of the whole session
    {"acp": "end", "stop": "end_turn"}     {"acp": "error", "message": "...", "fault": "login"}

Source: agentclientprotocol.com, protocol version 1. Seen with OpenCode 1.18.33, Gemini CLI 0.61.0, Qwen Code 0.15.10.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

IN, OUT = 0, 1  # descriptors: the prompt, and the lines for the adapter
VERSION = 1
HANDSHAKE_S = 120.0  # a program that speaks no ACP says nothing to `initialize`, and waits for a person
QUIET_S = 2.0  # Gemini CLI tells the history of a loaded session behind the answer to `session/load`
GOODBYE_S = 20.0  # for the agent to write its session down and to end, when its stdin has
CANCEL_S = 2.0  # for the same after `session/cancel`, and for what does not end by itself
MOST_LINE = 32 << 20  # bytes of one message
AUTH_REQUIRED = -32000
NO_METHOD = -32601
MAY_ALWAYS = ("read", "search", "think")
NEVER = ("fetch", "switch_mode")
CHANGES = ("edit", "delete", "move")

Message = dict[str, Any]


class FailedError(Exception):
    """The turn is over, for this reason; `fault`, a TurnFault's value, names it where the words alone would not."""

    def __init__(self, message: str, fault: str = "") -> None:
        super().__init__(message)
        self.fault = fault


class Cancelled(BaseException):
    """SIGTERM: whoever started this wants it to end."""


def say(acp: str, **fields: object) -> None:
    """One line for the adapter, at once: this may be killed before the next."""
    line = json.dumps({"acp": acp, **fields}).encode() + b"\n"
    while line:
        line = line[os.write(OUT, line) :]


def main() -> int:
    """Parse, ask, and tell how it ended: 0 if the turn came to its end."""
    parser = argparse.ArgumentParser(description="one turn of an agent that speaks the Agent Client Protocol")
    parser.add_argument("--writes", action="store_true", help="files below the working directory may be changed")
    parser.add_argument(
        "--confined", action="store_true", help="a sandbox is around all this: what writes may also run commands"
    )
    parser.add_argument("--session", default="", help="goes on with this one")
    parser.add_argument("--model", default="")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _cancelled)
    try:
        with os.fdopen(IN, "rb") as stream:
            prompt = stream.read().decode("utf-8", "replace")
        with _Conversation(given.command, writes=given.writes, confined=given.confined) as agent:
            agent.turn(prompt, given.session, given.model)
    except FailedError as failed:
        say("error", message=str(failed), fault=failed.fault)
        return 1
    except Cancelled:
        return 128 + signal.SIGTERM
    return 0


def _cancelled(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Cancelled


class _Conversation:
    """The agent's process and the talk with it; use it in a `with` statement."""

    def __init__(self, command: list[str], *, writes: bool, confined: bool) -> None:
        self._writes, self._confined = writes, confined
        self._cwd = Path.cwd()
        self._program = Path(command[0]).name
        self._number = 0
        self._rest = b""
        self._noise = ""  # the last line that was no message
        self._session = ""
        self._replayed = False  # whether a loaded session told of itself
        self._text: list[str] = []
        self._asked = False  # the prompt is out: what is said now belongs to this turn
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            missing = error.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR)
            fault = "not_installed" if missing else ""
            raise FailedError(f"{command[0]} cannot be started: {error.strerror}", fault) from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in: IO[bytes] = self._process.stdin
        self._out: IO[bytes] = self._process.stdout
        os.set_blocking(self._out.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)

    def __enter__(self) -> _Conversation:
        return self

    def __exit__(self, _: object, raised: BaseException | None, __: object) -> None:
        if isinstance(raised, Cancelled) and self._asked:
            with contextlib.suppress(FailedError):
                self._send({"method": "session/cancel", "params": {"sessionId": self._session}})
        self._flush()
        with contextlib.suppress(OSError):
            self._in.close()
        try:
            self._process.wait(GOODBYE_S if raised is None else CANCEL_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(CANCEL_S)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    # ------------------------------------------------------------------------------------------ the turn

    def turn(self, prompt: str, session: str, model: str) -> None:
        """Shake hands, open or load a session, ask, and hear it out. Raises FailedError."""
        files = {"readTextFile": True, "writeTextFile": True}
        ours = {"clientCapabilities": {"fs": files, "terminal": False}, "clientInfo": _INFO}
        can = self._call("initialize", {"protocolVersion": VERSION, **ours}, HANDSHAKE_S)
        if can.get("protocolVersion") != VERSION:
            spoken = can.get("protocolVersion")
            raise FailedError(
                f"{self._program} speaks version {spoken} of the Agent Client Protocol, autoresearch version {VERSION}"
            )
        opened = self._open(session, _inner(can, "agentCapabilities"))
        if model:
            self._choose(model, opened)
        self._asked = True
        content = [{"type": "text", "text": prompt}]
        ended = self._call("session/prompt", {"sessionId": self._session, "prompt": content})
        self._flush()
        _tell_usage(_inner(ended, "usage") or _inner(ended, "_meta", "quota", "token_count"))
        say("end", stop=str(ended.get("stopReason") or "no reason given"))

    def _open(self, session: str, can: Message) -> Message:
        """A session, new or loaded; its modes and models. Its id is told where it can be loaded later."""
        where = {"cwd": str(self._cwd), "mcpServers": []}
        loads, resumes = can.get("loadSession") is True, "resume" in _inner(can, "sessionCapabilities")
        if not session:
            opened = self._call("session/new", where)
            self._session = str(opened.get("sessionId") or "")
        elif loads or resumes:
            method = "session/load" if loads else "session/resume"
            self._session = session
            try:
                opened = self._call(method, {"sessionId": session, **where})
            except FailedError as failed:
                fault = failed.fault or "session"
                raise FailedError(f"session {session} cannot be loaded: {failed}", fault) from failed
            if loads:
                while self._attend(QUIET_S):
                    pass
                if not self._replayed:  # Qwen Code answers a name that it does not know with an empty session
                    raise FailedError(f"{self._program} knows nothing of session {session}", "session")
        else:
            raise FailedError(f"{self._program} cannot load a session", "session")
        if loads or resumes:
            say("session", id=self._session)
        return opened

    def _choose(self, model: str, opened: Message) -> None:
        """The model, by whichever of the protocol's two ways the agent has; by its name, where its id is another."""
        options = [each for each in opened.get("configOptions") or [] if _inner(each).get("category") == "model"]
        models = _inner(opened, "models").get("availableModels")
        offered = (options[0].get("options") if options else models) or []
        named = (each.get("value") or each.get("modelId") for each in offered if _inner(each).get("name") == model)
        wanted = next(named, model)
        if options:
            chosen = {"configId": options[0].get("id"), "value": wanted}
            self._call("session/set_config_option", {"sessionId": self._session, **chosen})
        elif models is not None:
            self._call("session/set_model", {"sessionId": self._session, "modelId": wanted})
        else:
            raise FailedError(f"{self._program} lets nobody choose a model by ACP: leave `agent_model` empty")

    # ---------------------------------------------------------------------------------- messages, in and out

    def _call(self, method: str, params: Message, seconds: float | None = None) -> Message:
        """Ask the agent, and serve it until it answers. Raises FailedError."""
        self._number += 1
        number, until = self._number, time.monotonic() + (seconds or 0.0)
        self._send({"id": number, "method": method, "params": params})
        while True:
            left = None if seconds is None else max(0.0, until - time.monotonic())
            message = self._receive(left)
            if message is None:
                raise FailedError(
                    f"{self._program} did not answer `{method}` within {seconds:.0f} s: does it speak ACP on stdin? "
                    + (f"It said: {self._noise}" if self._noise else "It said nothing.")
                )
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise _refusal(_inner(message, "error"), method, self._program)
                return _inner(message, "result")
            self._serve(message)

    def _attend(self, seconds: float) -> bool:
        """Serve one message; whether one came in time."""
        message = self._receive(seconds)
        if message is not None:
            self._serve(message)
        return message is not None

    def _send(self, message: Message) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        try:
            self._in.write(line)
            self._in.flush()
        except OSError as error:
            raise self._died() from error

    def _receive(self, seconds: float | None) -> Message | None:
        """The next message; None where none comes in time. Lines that are none are kept for a complaint only."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                if (found := _message(line)) is not None:
                    return found
                self._noise = line.decode("utf-8", "replace").strip()[:300] or self._noise
                continue
            if len(self._rest) > MOST_LINE:
                raise FailedError(f"{self._program} sent a message of more than {MOST_LINE >> 20} MiB")
            if not self._selector.select(None if until is None else max(0.0, until - time.monotonic())):
                return None
            data = os.read(self._out.fileno(), 1 << 20)
            if not data:
                raise self._died()
            self._rest += data

    def _died(self) -> FailedError:
        try:
            code = self._process.wait(CANCEL_S)
        except subprocess.TimeoutExpired:
            return FailedError(f"{self._program} closed its output in the middle of the turn")
        with contextlib.suppress(OSError):  # it may have ended before it was asked anything
            self._rest += os.read(self._out.fileno(), 1 << 16)
        said = [line for line in self._rest.splitlines() if line.strip() and _message(line) is None]
        self._noise = said[-1].decode("utf-8", "replace").strip()[:300] if said else self._noise
        how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        words = f"; it said: {self._noise}" if self._noise else ""
        return FailedError(f"{self._program} {how} in the middle of the turn{words}")

    # ------------------------------------------------------------------------------------ what it asks of us

    def _serve(self, message: Message) -> None:
        method, params = message.get("method"), _inner(message, "params")
        if method == "session/update":
            self._update(_inner(params, "update"))
        if method is None or "id" not in message:  # an answer to nothing that we wait for, or a notification
            return
        try:
            if method == "session/request_permission":
                result = self._permission(params)
            elif method == "fs/read_text_file":
                result = self._read(params)
            elif method == "fs/write_text_file":
                result = self._write(params)
            else:
                self._send({"id": message["id"], "error": {"code": NO_METHOD, "message": f"no method {method}"}})
                return
        except (OSError, ValueError) as error:
            self._send({"id": message["id"], "error": {"code": -32603, "message": str(error)}})
            return
        self._send({"id": message["id"], "result": result})

    def _update(self, update: Message) -> None:
        kind = update.get("sessionUpdate")
        cost = _inner(update, "cost")
        if kind == "usage_update" and cost.get("currency") == "USD":
            say("cost", usd=cost.get("amount"))
        if not self._asked:
            self._replayed = self._replayed or kind in ("user_message_chunk", "agent_message_chunk", "tool_call")
            return
        if kind == "agent_message_chunk":
            self._text.append(str(_inner(update, "content").get("text") or ""))
            _tell_usage(_inner(update, "_meta", "usage"))  # Qwen Code, after each request to the model
        elif kind == "tool_call":
            self._flush()
            say("tool", title=str(update.get("title") or update.get("kind") or "a tool")[:200])

    def _flush(self) -> None:
        """Tell the words that came in pieces."""
        text, self._text = "".join(self._text), []
        if text.strip():
            say("text", text=text)

    def _permission(self, params: Message) -> Message:
        """Allow once what the role may do, reject all else: the first option of that kind."""
        call = _inner(params, "toolCall")
        allowed = self._may(call)
        kinds = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
        if not allowed:
            say("refused", what=f"{call.get('kind') or 'other'}: {str(call.get('title') or 'a tool')[:200]}")
        options = [each for each in params.get("options") or [] if isinstance(each, dict)]
        for kind in kinds:
            for option in options:
                if option.get("kind") == kind:
                    return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
        return {"outcome": {"outcome": "cancelled"}}

    def _may(self, call: Message) -> bool:
        kind = call.get("kind") or "other"
        if kind in MAY_ALWAYS or kind in NEVER:
            return kind in MAY_ALWAYS
        if not self._writes or self._confined:  # within a sandbox of ours that says what can be written
            return self._writes
        places = [each.get("path") for each in call.get("locations") or [] if isinstance(each, dict)]
        return kind in CHANGES and all(isinstance(place, str) and self._is_ours(place) for place in places)

    def _is_ours(self, path: str) -> bool:
        """Whether it lies below the working directory, links followed, and is nothing of git's."""
        try:
            below = (self._cwd / path).resolve().relative_to(self._cwd.resolve())
        except (ValueError, OSError):
            return False
        return ".git" not in below.parts

    def _read(self, params: Message) -> Message:
        with Path(str(params.get("path"))).open(encoding="utf-8", errors="replace", newline="") as file:
            text = file.read(MOST_LINE)
        first, most = params.get("line"), params.get("limit")
        if isinstance(first, int) or isinstance(most, int):
            start = max(0, first - 1) if isinstance(first, int) else 0
            lines = text.splitlines(keepends=True)[start:]
            text = "".join(lines[:most] if isinstance(most, int) else lines)
        return {"content": text}

    def _write(self, params: Message) -> Message:
        path = str(params.get("path"))
        if not (self._writes and (self._confined or self._is_ours(path))):
            say("refused", what=f"edit: {path[:200]}")
            why = "it is outside of the working directory" if self._writes else "this turn may not change files"
            raise ValueError(f"{path} may not be written: {why}")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            file.write(str(params.get("content") or ""))
        return {}


_INFO = {"name": "autoresearch", "title": "autoresearch", "version": "1"}


def _refusal(error: Message, method: str, program: str) -> FailedError:
    """What an error that it answers with means; details that it adds are told as well."""
    words = str(error.get("message") or "an error without words")
    data = error.get("data")
    details = data.get("details") or data.get("message") or data.get("error") if isinstance(data, dict) else data
    if details and str(details) not in words:
        words = f"{words}: {details}"
    if error.get("code") == AUTH_REQUIRED:
        return FailedError(f"{program} is not logged in ({words}): start it once by itself, and log in", "login")
    return FailedError(f"`{method}`: {words}")


def _tell_usage(usage: Message) -> None:
    """Tokens under whichever names an agent has for them; those that it thought with were written, too."""

    def number(*names: str) -> int | None:
        known = [usage[name] for name in names if isinstance(usage.get(name), int)]
        return sum(known) if known else None

    total, written = number("totalTokens"), number("outputTokens", "output_tokens", "thoughtTokens")
    read = number("inputTokens", "input_tokens", "cachedReadTokens", "cachedWriteTokens")
    if total is not None and written is not None and total >= written:
        read = total - written  # whether the cached ones are counted in `inputTokens` differs
    if read is not None or written is not None:
        say("usage", **{"in": read, "out": written})


def _message(line: bytes) -> Message | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _inner(value: object, *keys: str) -> Message:
    """The object at that path; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


if __name__ == "__main__":
    sys.exit(main())
