"""Checks a scaffold by running its files, before any server is started or any GPU is taken.

The collector must return items, and one episode must run to a finite reward: against the given endpoint, or against a
stand-in model: a local OpenAI-compatible endpoint that gives every request the same answer. It costs nothing, and shows
whether an agent uses the given endpoint at all.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

from autoresearch.agentjet.scaffold import (
    AGENT_TIMEOUT_S,
    BLUEPRINT,
    COLLECTOR,
    DEBUG,
    EPISODE,
    PROGRAMS,
    REWARD_TIMEOUT_S,
    ROLL,
)
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.run.hooks import Endpoint, ScaffoldResult
from autoresearch.errors import BlueprintError, EnvironmentUnusable, NotFoundError
from autoresearch.runner.masking import MASK, mask_text
from autoresearch.runner.text import plain

COLLECT_S = 300.0  # for a data set of millions of rows
JOB_S = 300.0  # for importing ajet and building a configuration
_END_S = 30.0  # for a program that ends its own agent first
_SHOWN = 400
_MOST_OUTPUT = 1 << 18
_MOST_BODY = 1 << 26
REPLY = "I do not know."


class CheckFailed(BlueprintError):  # noqa: N818 - it names what happened
    """The files do not work; the message says which and why."""

    code = "check_failed"


def check_scaffold(directory: Path, python: str, endpoint: Endpoint, item: str = "") -> ScaffoldResult:
    """Run the collector and one episode with this interpreter, or that of the blueprint beside the files.

    Raises NotFoundError if files are missing and CheckFailed for the first failure; it says how to repeat the check.
    """
    try:
        return _check(directory, python or _interpreter(directory), endpoint, item)
    except CheckFailed as failed:
        failed.fix = f"autoresearch scaffold check {directory}"
        failed.hint = failed.hint or "mend the file that is named, or write all of them again with --force"
        raise


def _interpreter(directory: Path) -> str:
    """What the blueprint beside the files names, else our own."""
    path = directory / BLUEPRINT
    named = parse_blueprint(path.read_bytes(), str(path)).venv_exe if path.is_file() else ""
    return named if named and Path(named).is_file() else sys.executable


def _check(directory: Path, python: str, endpoint: Endpoint, item: str) -> ScaffoldResult:
    files = [directory / name for name in (*PROGRAMS, "reward.py")]
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise NotFoundError(
            f"{directory} lacks {', '.join(missing)}", hint="`autoresearch scaffold blackbox` writes them"
        )
    for path in files:
        try:
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise CheckFailed(f"{path}: {error}") from None
    collected = _json(directory, python, [COLLECTOR], {}, COLLECT_S)
    count = collected.get("count")
    if not isinstance(count, int) or count < 1:
        raise CheckFailed(f"{COLLECTOR}: {collected.get('error', 'it returns no item')}")
    first = {str(key): plain(str(value), _SHOWN) for key, value in (collected.get("first") or {}).items()}
    item = item or first.get("id", "")
    requests = None
    if endpoint.base_url:
        reward, seconds = _episode(directory, python, endpoint, item)
    else:
        with stand_in_model() as model:
            reward, seconds = _episode(directory, python, Endpoint(model.base_url, "stand-in"), item)
            _refuse_unused(model)
            requests = model.requests
    used = endpoint.base_url or "a stand-in model"
    return ScaffoldResult(count, first, item, reward, seconds, used, requests, _client(directory, python))


def _refuse_unused(model: StandIn) -> None:
    if model.requests:
        return
    if model.unknown:
        raise CheckFailed(
            f"the agent asked {model.unknown[0]}, and the stand-in model knows /v1/chat/completions only",
            hint="try it with --base-url URL --api-key-env NAME",
        )
    raise CheckFailed(
        f"{EPISODE}: the agent never asked the model, so that nothing it does could be trained",
        hint="hand {base_url} and {api_key} to it; OPENAI_BASE_URL and OPENAI_API_KEY are in its environment",
    )


def _episode(directory: Path, python: str, endpoint: Endpoint, item: str) -> tuple[float, float]:
    # The file ends itself after the agent's and the reward's time; the timeout is for one that does not.
    text = (directory / EPISODE).read_text(encoding="utf-8", errors="replace")
    times = dict(re.findall(r"^(AGENT_TIMEOUT_S|REWARD_TIMEOUT_S) = ([\d.]{1,12})", text, re.MULTILINE))
    agent = times.get("AGENT_TIMEOUT_S", AGENT_TIMEOUT_S)
    limit_s = float(agent) + float(times.get("REWARD_TIMEOUT_S", REWARD_TIMEOUT_S)) + 60.0
    words = [EPISODE, "--item", item, "--base-url", endpoint.base_url]
    answer = _json(directory, python, words, {"OPENAI_API_KEY": endpoint.api_key or "none"}, limit_s)
    reward = answer.get("reward")
    if "error" in answer or not isinstance(reward, int | float) or not math.isfinite(reward):
        error = str(answer.get("error", "it tells no finite reward"))
        error = error.replace(endpoint.api_key, MASK) if endpoint.api_key else error
        raise CheckFailed(f"{EPISODE}: {plain(mask_text(error), 2 * _SHOWN)}")
    return float(reward), float(answer.get("seconds") or 0.0)


def _client(directory: Path, python: str) -> tuple[str, ...]:
    """Have agent_roll.py build its configuration if AgentJet is installed; else return a remark."""
    probe = ["-c", "import importlib.util as u; raise SystemExit(0 if u.find_spec('ajet') else 7)"]
    if _run(directory, python, probe, {}, JOB_S)[0]:
        return (f"AgentJet is not installed for {python}: {ROLL} and {DEBUG} were compiled, not run",)
    with tempfile.TemporaryDirectory(prefix="prepared-") as scratch:
        words = [ROLL, "--prepare-only", "--result-dir", scratch]
        returncode, _, said = _run(directory, python, words, {}, JOB_S)
    if returncode:
        raise CheckFailed(f"{ROLL} --prepare-only ended with {returncode}: {plain(said, _SHOWN)}")
    return ()


def _json(
    directory: Path, python: str, words: Sequence[str], extra: Mapping[str, str], limit_s: float
) -> dict[str, Any]:
    """The object on the last line that a program of the scaffold prints."""
    returncode, output, said = _run(directory, python, words, extra, limit_s)
    try:
        value = json.loads(output.rpartition("\n")[2])
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise CheckFailed(f"{words[0]} ended with {returncode}: {plain(mask_text(said), _SHOWN)}")
    return value


def _run(
    directory: Path, python: str, words: Sequence[str], extra: Mapping[str, str], limit_s: float
) -> tuple[int, str, str]:
    """Run a program of the scaffold: its exit code, the end of its output, and the last line of what went wrong."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **extra}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [python, *words], cwd=directory, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            )  # fmt: skip
        except OSError as error:
            raise EnvironmentUnusable(f"{python} cannot be started: {error.strerror}") from None
        try:
            returncode = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"{words[0]} ran longer than {limit_s:.0f} s and was ended") from None
        finally:
            _end(process)
        printed, complained = _end_of(output), _end_of(errors)
    return returncode, printed, (complained or printed or "it said nothing").splitlines()[-1]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and its group if it still runs, as after a timeout or Ctrl-C."""
    if process.poll() is None:
        process.terminate()  # it ends its agent
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _end_of(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MOST_OUTPUT))
    return file.read().decode("utf-8", "replace").strip()


@dataclass(slots=True)
class StandIn:
    """Its address and counters: `requests` counts them, `unknown` lists unsupported paths."""

    base_url: str
    requests: int = 0
    unknown: list[str] = field(default_factory=list)


@contextlib.contextmanager
def stand_in_model() -> Iterator[StandIn]:
    """Answer chat completions, whole or streamed, while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.daemon_threads = True
    state = StandIn(f"http://127.0.0.1:{server.server_address[1]}/v1")
    server.state = state  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Answers(BaseHTTPRequestHandler):
    timeout = 60
    protocol_version = "HTTP/1.0"  # the connection ends with the answer

    def do_GET(self) -> None:
        if self.path.rstrip("/").endswith("/models"):
            self._send({"object": "list", "data": [{"id": "stand-in", "object": "model", "owned_by": "autoresearch"}]})
        else:
            self._unknown()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length") or "0"
        body = self.rfile.read(min(int(length), _MOST_BODY)) if length.isdecimal() else b""
        if not self.path.partition("?")[0].rstrip("/").endswith("/chat/completions"):
            self._unknown()
            return
        self._state.requests += 1
        try:
            request = json.loads(body)
        except ValueError:
            self._send({"error": {"message": "the body is no JSON"}}, 400)
            return
        if isinstance(request, dict) and request.get("stream"):
            self._stream()
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": REPLY}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 5, "total_tokens": 6}
            self._send({**_head("chat.completion"), "choices": [choice], "usage": usage})

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""

    @property
    def _state(self) -> StandIn:
        state = self.server.state  # type: ignore[attr-defined]
        assert isinstance(state, StandIn)
        return state

    def _unknown(self) -> None:
        self._state.unknown.append(f"{self.command} {self.path[:80]}")
        self._send({"error": {"message": f"this stand-in has no {self.path[:80]}"}}, 404)

    def _stream(self) -> None:
        reply: dict[str, object] = {"delta": {"role": "assistant", "content": REPLY}, "finish_reason": None}
        over: dict[str, object] = {"delta": {}, "finish_reason": "stop"}
        events = [{**_head("chat.completion.chunk"), "choices": [{"index": 0, **part}]} for part in (reply, over)]
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self._raw(text.encode(), 200, "text/event-stream")

    def _send(self, value: dict[str, object], status: int = 200) -> None:
        self._raw(json.dumps(value).encode(), status, "application/json")

    def _raw(self, body: bytes, status: int, kind: str) -> None:
        with contextlib.suppress(ConnectionError):  # the agent may be gone already
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


def _head(kind: str) -> dict[str, object]:
    return {"id": "stand-in", "object": kind, "created": int(time.time()), "model": "stand-in"}
