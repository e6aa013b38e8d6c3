"""One connection to a host: an ssh process with the remote file agent at its other end, one line per request.

The agent's program (`runner/remote_agent.py` and its imports) is sent first, so the host needs nothing but Python 3.9.
Every call has a deadline; a call that misses it or fails half-way ends the connection.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import secrets
import selectors
import subprocess
import tempfile
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from autoresearch.core.run.job_launcher import Unreachable
from autoresearch.launchers.ssh_words import SshWords, meaning
from autoresearch.runner import remote_agent

MOST_NOISE = 4096
PARTS = (
    "basics",
    "libc",
    "processes",
    "remote_requests",
    "remote_agent",
)  # in the order in which they import each other
# Every shell accepts it: no `$`, `!`, backslash or quote within the single quotes.
FIRST = (
    'import sys; sys.version_info < (3, 9) and sys.exit("ajet: python " + sys.version.split()[0]); '
    "import base64, zlib; exec(zlib.decompress(base64.b64decode(sys.stdin.buffer.readline())).decode())"
)
_LOADER = """
import sys, types
package = types.ModuleType("ajet_remote")
package.__path__ = []
sys.modules["ajet_remote"] = package
for name, text in SOURCES:
    module = types.ModuleType("ajet_remote." + name)
    module.__package__ = "ajet_remote"
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(compile(text, "<autoresearch " + name + ">", "exec"), module.__dict__)
module.serve(TOKEN, sys.stdin.buffer, sys.stdout.buffer)
"""


def program(token: str) -> bytes:
    """The agent's program as one line."""
    folder = Path(remote_agent.__file__).parent
    sources = [(name, (folder / f"{name}.py").read_text()) for name in PARTS]
    text = f"SOURCES = {sources!r}\nTOKEN = {token!r}\n{_LOADER}"
    return base64.b64encode(zlib.compress(text.encode())) + b"\n"


def command_line(python: str, setup: str) -> str:
    """The command for the remote login shell."""
    words = f"exec {python} -E -s -c '{FIRST}'"
    return f"{setup}\n{words}" if setup else words


class Channel:
    """One open connection. Not thread-safe."""

    def __init__(self, ssh_words: SshWords, command: str, environ: Mapping[str, str], patience_s: float) -> None:
        """Connect. Raises Unreachable."""
        self.words = ssh_words
        self.token = secrets.token_hex(8)
        self.noise = b""
        self.rest = b""
        self.last_id = 0
        self.hello: Mapping[str, Any] = {}  # the host's identity; see `remote_agent.hello`
        self.offset_s = 0.0
        self.best_trip_s = float("inf")
        self.complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the connection
        self.process = subprocess.Popen(
            ssh_words.master(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            env=dict(environ),
            start_new_session=True,  # Ctrl-C must not reach it
            bufsize=0,
        )
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        try:
            self._exchange(program(self.token), 0, time.monotonic() + patience_s)
        except Unreachable:
            self.close()
            raise

    def ask(self, operation: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """One call. Raises Unreachable (the connection is unusable then), OSError (of the remote host, as is
        its path).
        """
        self.last_id += 1
        request = {"id": self.last_id, "op": operation, "with": remote_agent.pack(dict(arguments))}
        begun = time.monotonic()
        wall = time.time()
        answer = self._exchange(json.dumps(request).encode() + b"\n", self.last_id, begun + timeout_s)
        self._compare_clocks(answer, time.monotonic() - begun, wall)
        if "error" in answer:
            error = answer["error"]
            raise OSError(error["errno"] or errno.EIO, error["what"], f"{self.words.host}:{error['path']}")
        return answer["said"]

    def _compare_clocks(self, answer: Mapping[str, Any], trip_s: float, wall: float) -> None:
        """Update the clock offset, remote minus local, by the quickest answer."""
        if trip_s <= self.best_trip_s:
            self.best_trip_s, self.offset_s = trip_s, float(answer["wall"]) - (wall + trip_s / 2)

    def _exchange(self, data: bytes, number: int, deadline: float) -> dict[str, Any]:
        """Send, and read until the answer of this number is complete."""
        out, into = self.process.stdin, self.process.stdout
        assert out is not None and into is not None
        view = memoryview(data)
        with selectors.DefaultSelector() as selector:
            selector.register(into, selectors.EVENT_READ)
            selector.register(out, selectors.EVENT_WRITE)
            while True:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise self._silent()
                for key, _ in ready:
                    if key.fileobj is out:
                        view = view[self._send(view) :]
                        if not view:
                            selector.unregister(out)
                    elif answer := self._receive(number):
                        return answer

    def _send(self, view: memoryview) -> int:
        assert self.process.stdin is not None
        try:
            return os.write(self.process.stdin.fileno(), view[: 1 << 16])
        except BlockingIOError:
            return 0
        except BrokenPipeError:  # the other pipe says why it ended
            return len(view)

    def _receive(self, number: int) -> dict[str, Any] | None:
        assert self.process.stdout is not None
        try:
            piece = os.read(self.process.stdout.fileno(), 1 << 20)
        except BlockingIOError:
            return None
        if not piece:
            raise self._over()
        *lines, self.rest = (self.rest + piece).split(b"\n")
        found = None
        for line in lines:
            if line.startswith(self.token.encode() + b" "):
                found = self._read(line, number) or found
            else:
                self._note(line + b"\n")
        if len(self.rest) > MOST_NOISE and not self.rest.startswith(self.token.encode()):
            self._note(self.rest)
            self.rest = self.rest[-len(self.token) :]
        return found

    def _note(self, noise: bytes) -> None:
        self.noise = (self.noise + noise)[-MOST_NOISE:]

    def _read(self, line: bytes, number: int) -> dict[str, Any] | None:
        try:
            answer = json.loads(line[len(self.token) + 1 :])
        except ValueError as error:
            raise Unreachable(f"{self.words.host}: a broken answer: {error}", code="noise") from error
        if answer["id"] == 0:
            self.hello = answer["said"]
        whole: dict[str, Any] = remote_agent.unpack(answer)
        return whole if answer["id"] == number else None

    def _silent(self) -> Unreachable:
        """The error for a passed deadline."""
        self.complaints.seek(0)
        said = self.complaints.read().decode("utf-8", "replace")
        why = meaning(self.words, None, said, self.noise.decode("utf-8", "replace"))
        if why.code == "no_answer":
            return Unreachable(f"{self.words.host}: it does not answer in time", code="timeout")
        return why

    def _over(self) -> Unreachable:
        """The error for an ended connection."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5.0)
        self.complaints.seek(0)
        said = self.complaints.read().decode("utf-8", "replace")
        return meaning(self.words, self.process.poll(), said, (self.noise + self.rest).decode("utf-8", "replace"))

    def close(self) -> None:
        """End the connection; processes started through it go on."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        try:  # the agent exits when its stdin ends, and ssh with it
            self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.complaints.close()
