"""The client's end of the Agent Client Protocol, for one turn: a program of its own, the parent of the agent.

An agent that speaks ACP (JSON-RPC 2.0, one message a line, on its stdin and stdout) asks for permission while it works.
Somebody must answer, so a turn by ACP is this program (standard library alone), which starts the agent, hands it the
prompt from standard input, and answers by the turn's role. The adapter `acp` reads what is printed here, one line of
JSON for each event.

    {"acp": "session"}                     {"acp": "text", "text": "..."}             the words since the last tool
    {"acp": "tool", "title": "..."}        {"acp": "refused", "what": "..."}          what it was not permitted
    {"acp": "usage", "in": 9, "out": 2}    {"acp": "cost", "usd": 0.1}                the latter of the whole session
    {"acp": "end", "stop": "end_turn"}     {"acp": "error", "message": "...", "fault": "login"}

The agent reads and writes files itself: no `fs` is offered to it. Source: agentclientprotocol.com, protocol version 1.
Seen with OpenCode 1.18.33, Gemini CLI 0.61.0, Qwen Code 0.15.10.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

IN, OUT = 0, 1  # descriptors: the prompt, and the lines for the adapter
VERSION = 1
HANDSHAKE_S = 120.0  # a program that speaks no ACP does not answer `initialize`, and waits for a person
GOODBYE_S = 5.0  # for the agent to exit, once its stdin is closed
EXIT_S = 2.0  # for the exit code of an agent that closed its output
MOST_LINE = 32 << 20  # bytes of one message
AUTH_REQUIRED, NO_METHOD = -32000, -32601
READS = ("read", "search", "think")
CHANGES = ("edit", "delete", "move")

Message = dict[str, Any]


class FailedError(Exception):
    """The turn is over, for this reason; `fault`, a TurnFault's value, names it where the words alone would not."""

    def __init__(self, message: str, fault: str = "") -> None:
        super().__init__(message)
        self.fault = fault


def say(acp: str, **fields: object) -> None:
    """One line for the adapter, at once: this may be killed before the next."""
    line = json.dumps({"acp": acp, **fields}).encode() + b"\n"
    while line:
        line = line[os.write(OUT, line) :]


def main() -> int:
    """Parse, ask, and report how it ended: 0 if the turn came to its end."""
    parser = argparse.ArgumentParser(description="one turn of an agent that speaks the Agent Client Protocol")
    parser.add_argument("--writes", action="store_true", help="files below the working directory may be changed")
    parser.add_argument("--confined", action="store_true", help="a sandbox is around this: commands may be run, too")
    parser.add_argument("--web", action="store_true", help="addresses may be fetched")
    parser.add_argument("--model", default="")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with os.fdopen(IN, "rb") as stream:
        prompt = stream.read().decode("utf-8", "replace")
    try:
        with _Conversation(options) as agent:
            agent.turn(prompt, options.model)
    except FailedError as failed:
        say("error", message=str(failed), fault=failed.fault)
        return 1
    return 0


class _Conversation:
    """The agent's process and the talk with it; use it in a `with` statement."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._cwd = Path.cwd()
        self._program = Path(options.command[0]).name
        self._number = 0
        self._noise = ""  # the last line that was no message
        self._session = ""
        self._text: list[str] = []
        try:
            self._process = subprocess.Popen(options.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            missing = error.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR)
            fault = "not_installed" if missing else ""
            raise FailedError(f"{options.command[0]} cannot be started: {error.strerror}", fault) from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in: IO[bytes] = self._process.stdin
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()  # of its output; b"" is the end
        threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()

    def __enter__(self) -> _Conversation:
        return self

    def __exit__(self, _: object, raised: BaseException | None, __: object) -> None:
        self._flush()
        with contextlib.suppress(OSError):
            self._in.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GOODBYE_S if raised is None else 0)
        self._process.kill()
        self._process.wait()

    # ------------------------------------------------------------------------------------------ the turn

    def turn(self, prompt: str, model: str) -> None:
        """Shake hands, open a session, ask, and wait for the end. Raises FailedError."""
        info = {"name": "autoresearch", "title": "autoresearch", "version": "1"}
        files = {"readTextFile": False, "writeTextFile": False}
        ours = {"clientCapabilities": {"fs": files, "terminal": False}, "clientInfo": info}
        agent = self._call("initialize", {"protocolVersion": VERSION, **ours}, HANDSHAKE_S)
        if (version := agent.get("protocolVersion")) != VERSION:
            raise FailedError(
                f"{self._program} speaks version {version} of the Agent Client Protocol, autoresearch version {VERSION}"
            )
        opened = self._call("session/new", {"cwd": str(self._cwd), "mcpServers": []})
        self._session = str(opened.get("sessionId") or "")
        say("session")
        if model:
            self._choose(model, opened)
        content = [{"type": "text", "text": prompt}]
        ended = self._call("session/prompt", {"sessionId": self._session, "prompt": content})
        self._flush()
        _tell_usage(_inner(ended, "usage") or _inner(ended, "_meta", "quota", "token_count"))
        say("end", stop=str(ended.get("stopReason") or "no reason given"))

    def _choose(self, model: str, opened: Message) -> None:
        """The model, by whichever of the protocol's two ways the agent has; by its name, where its id is another."""
        options = [each for each in opened.get("configOptions") or [] if _inner(each).get("category") == "model"]
        models = _inner(opened, "models").get("availableModels")
        offered = (options[0].get("options") if options else models) or []
        named = (each.get("value") or each.get("modelId") for each in offered if _inner(each).get("name") == model)
        model_id = next(named, model)
        if options:
            option = {"configId": options[0].get("id"), "value": model_id}
            self._call("session/set_config_option", {"sessionId": self._session, **option})
        elif models is not None:
            self._call("session/set_model", {"sessionId": self._session, "modelId": model_id})
        else:
            raise FailedError(f"{self._program} lets nobody choose a model by ACP: leave `agent_model` empty")

    # ---------------------------------------------------------------------------------- messages, in and out

    def _listen(self, stream: IO[bytes]) -> None:
        for line in iter(lambda: stream.readline(MOST_LINE), b""):
            self._lines.put(line)
        self._lines.put(b"")

    def _call(self, method: str, params: Message, seconds: float | None = None) -> Message:
        """Ask the agent, and serve it until it answers. Raises FailedError."""
        self._number += 1
        number, until = self._number, time.monotonic() + (seconds or 0.0)
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._receive(None if seconds is None else max(0.0, until - time.monotonic()))
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

    def _send(self, message: Message) -> None:
        """To an agent that is gone, nothing: the end of its output, which is read next, tells more."""
        with contextlib.suppress(OSError):
            self._in.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._in.flush()

    def _receive(self, seconds: float | None) -> Message | None:
        """The next message; None where none comes in time. Lines that are none are kept for a complaint only."""
        until = time.monotonic() + (seconds or 0.0)
        while True:
            try:
                line = self._lines.get(timeout=None if seconds is None else max(0.0, until - time.monotonic()))
            except queue.Empty:
                return None
            if not line:
                raise self._died()
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(message := json.loads(line), dict):
                    return message
            self._noise = line[:1200].decode("utf-8", "replace").strip()[:300] or self._noise

    def _died(self) -> FailedError:
        try:
            code = self._process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            return FailedError(f"{self._program} closed its output in the middle of the turn")
        how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        noise = f"; it said: {self._noise}" if self._noise else ""
        return FailedError(f"{self._program} {how} in the middle of the turn{noise}")

    # ------------------------------------------------------------------------------------ what it asks of us

    def _serve(self, message: Message) -> None:
        method, params = message.get("method"), _inner(message, "params")
        if method == "session/update":
            self._update(_inner(params, "update"))
        elif method == "session/request_permission":
            self._send({"id": message.get("id"), "result": {"outcome": self._permission(params)}})
        elif method is not None and "id" in message:
            self._send({"id": message["id"], "error": {"code": NO_METHOD, "message": f"no method {method}"}})

    def _update(self, update: Message) -> None:
        kind = update.get("sessionUpdate")
        cost = _inner(update, "cost")
        if kind == "usage_update" and cost.get("currency") == "USD":
            say("cost", usd=cost.get("amount"))
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
        allowed = self._may(str(call.get("kind") or "other"), call.get("locations") or [])
        if not allowed:
            say("refused", what=f"{call.get('kind') or 'other'}: {str(call.get('title') or 'a tool')[:200]}")
        options = [each for each in params.get("options") or [] if isinstance(each, dict)]
        for kind in ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always"):
            for option in options:
                if option.get("kind") == kind:
                    return {"outcome": "selected", "optionId": option.get("optionId")}
        return {"outcome": "cancelled"}

    def _may(self, kind: str, locations: Sequence[object]) -> bool:
        if kind in READS or kind == "fetch":
            return kind in READS or self._options.web
        if kind == "switch_mode" or not self._options.writes:
            return False
        if self._options.confined:  # the sandbox says what can be written
            return True
        return kind in CHANGES and all(self._is_ours(_inner(each).get("path")) for each in locations)

    def _is_ours(self, path: object) -> bool:
        """Whether it lies below the working directory, links followed, and is nothing of git's."""
        try:
            below = (self._cwd / str(path)).resolve().relative_to(self._cwd.resolve())
        except (ValueError, OSError):
            return False
        return path is not None and ".git" not in below.parts


def _refusal(error: Message, method: str, program: str) -> FailedError:
    """What an error that it answers with means, with the details that it adds."""
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


def _inner(value: object, *keys: str) -> Message:
    """The object at that path; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


if __name__ == "__main__":
    sys.exit(main())
