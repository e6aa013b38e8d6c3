"""Files and programs of an ssh host: one connection, kept open and restored when it is lost."""

from __future__ import annotations

import contextlib
import errno
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from autoresearch.core.metrics.python_values import truth
from autoresearch.core.run.job_launcher import DirectoryState, ProgramOutput, Unreachable, Want
from autoresearch.core.run.targets import Target
from autoresearch.errors import EnvironmentUnusable
from autoresearch.launchers.ssh_channel import Channel, command_line
from autoresearch.launchers.ssh_words import SshWords, words_of

ANSWER_S = 30.0
PIECE = 1 << 20  # bytes of a file in one call
PAUSES_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # after so many failures in a row; the last one repeats


class SshReach:
    """`Reach` of a host.

    `runs_here`: Runners are started on that very host, so that a free lock proves its Runner dead; otherwise (a login
    node of a cluster) it proves nothing.
    """

    def __init__(
        self,
        target: Target,
        environ: Mapping[str, str],
        *,
        runs_here: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.target = target
        self.environ = environ
        self.runs_here = runs_here
        self.clock = clock
        self.shared = bool(truth(target.text("shared")))
        self._words: SshWords | None = None
        self._channel: Channel | None = None
        self._failures = 0
        self._not_before = 0.0  # by the clock: no connection is tried until then
        self._why = Unreachable("nobody was asked yet")
        self._offset_s = 0.0

    # -- core.run.job_launcher.Reach -----------------------------------------------------------------------------------

    def look(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        """See `Reach`."""
        asked = [{"run": w.run, "directory": w.directory, "offsets": dict(w.offsets)} for w in wants]
        found: Mapping[str, Any] = self.call("look", wants=asked)
        return {run: self._seen(one) for run, one in found.items()}

    def _seen(self, answer: Mapping[str, Any]) -> DirectoryState:
        """A free lock proves something only on the Runner's own host."""
        runner = answer.get("runner") or {}
        elsewhere = not self.runs_here or (runner and not self.is_host_of(runner))
        return DirectoryState(
            **{**answer, "alive": None if elsewhere and not answer.get("alive") else answer.get("alive")}
        )

    def put(self, directory: str, files: Mapping[str, bytes], *, private: Collection[str] = ()) -> None:
        """See `Reach`; raises OSError if it cannot be written remotely (a full disk)."""
        self.call("put", directory=directory, files=dict(files), private=list(private))

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, cwd: str = "") -> ProgramOutput:
        """See `Reach`."""
        words = {"argv": list(argv), "stdin": stdin, "timeout_s": timeout_s, "cwd": cwd}
        said = self.call("run", within_s=timeout_s + ANSWER_S, again=False, **words)
        if said.get("late"):
            raise Unreachable(
                f"{self.destination}: {argv[0]} gave no answer within {timeout_s:.0f} s", code="no_answer"
            )
        return ProgramOutput(said["returncode"], said["out"], said["err"])

    def clock_offset(self) -> float:
        """See `Reach`."""
        return self._offset_s

    def close(self) -> None:
        """See `Reach`."""
        self._drop()

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._words and self._words.socket:  # a killed connection leaves it
            with contextlib.suppress(OSError):
                Path(self._words.socket).unlink(missing_ok=True)

    # -- more than a Reach ----------------------------------------------------------------------------------------

    @property
    def destination(self) -> str:
        """The host, as ssh and rsync (DESTINATION:PATH) name it."""
        return self.words.host

    @property
    def words(self) -> SshWords:
        """ssh's command lines. Raises EnvironmentUnusable (no ssh on this machine, an invalid option)."""
        if self._words is None:
            try:
                self._words = words_of(self.target, self.environ)
            except FileNotFoundError as error:
                message = f"ssh is not on PATH; {self.target.name} is reached by it"
                hint = "install OpenSSH's client (Debian: openssh-client)"
                raise EnvironmentUnusable(message, code="no_ssh", hint=hint) from error
            except (ValueError, OSError) as error:
                message = f"launchers.{self.target.name}: {error}"
                raise EnvironmentUnusable(message, code="ssh_options", hint="see `ssh -G HOST`") from error
        return self._words

    def rsync_shell(self) -> str:
        """The argument of `rsync -e`: by the shared connection if there is one, else by its own."""
        return shlex.join(self.words.sharing())

    def is_host_of(self, identity: Mapping[str, Any]) -> bool:
        """Whether a process with this `host` and `boot_id` runs, or ran, on the host that answers now.

        One name may stand for several login nodes; a restarted host keeps its name.
        """
        known = self.hello
        return any(identity.get(name) == known[name] for name in ("host", "boot_id"))

    @property
    def hello(self) -> Mapping[str, Any]:
        """The remote host's identity: host, boot_id, uid, home, python, executable. Connects if needed."""
        return self._connected().hello

    def probe(self, *, paths: Sequence[str] = (), programs: Sequence[str] = ()) -> dict[str, Any]:
        """Resources of the host; see `runner.remote_agent.probe`."""
        found: dict[str, Any] = self.call("probe", paths=list(paths), programs=list(programs))
        return found

    def send(self, source: Path, path: str) -> int:
        """Upload a file in pieces, renamed when complete; returns its size. Raises OSError."""
        offset, temporary = 0, f"{path}.part"
        with source.open("rb") as file:
            while piece := file.read(PIECE):
                offset = self.call("write", path=temporary, offset=offset, data=piece)
            if not offset:
                self.call("write", path=temporary, offset=0, data=b"")
        said = self.run(["mv", "-f", "--", temporary, path])
        if said.returncode != 0:
            raise OSError(errno.EIO, said.complaint, f"{self.destination}:{path}")
        return offset

    def call(self, op: str, *, within_s: float = ANSWER_S, again: bool = True, **arguments: Any) -> Any:
        """One call of `runner.remote_agent.OPERATIONS`. Raises Unreachable, OSError (of the remote host).

        again: if the connection turns out to be dead, reconnect at once and repeat the call. Every operation but `run`
        may be repeated.
        """
        fresh = self._channel is None
        try:
            return self._ask(op, arguments, within_s)
        except Unreachable as silent:
            if fresh or not again or silent.code == "timeout":
                raise
        return self._ask(op, arguments, within_s)

    def _ask(self, op: str, arguments: Mapping[str, Any], within_s: float) -> Any:
        channel = self._connected()
        try:
            said = channel.ask(op, arguments, within_s)
        except OSError:
            raise
        except Unreachable as silent:
            self._lose(silent)
            raise
        except BaseException:  # a late answer would be taken for the next call's
            self._drop()
            raise
        self._offset_s = channel.offset_s
        return said

    def _connected(self) -> Channel:
        if self._channel is not None:
            return self._channel
        if self.clock() < self._not_before:
            raise self._why
        words = self.words
        if words.socket:  # /tmp may have been cleaned up
            Path(words.socket).parent.mkdir(mode=0o700, exist_ok=True)
        python = self.target.text("python", "python3")
        home, rest = ("~/", python[2:]) if python.startswith("~/") else ("", python)  # every remote shell expands that
        command = command_line(home + shlex.quote(rest), self.target.text("setup"))
        try:
            self._channel = Channel(words, command, self.environ, words.connect_s + ANSWER_S)
        except Unreachable as silent:
            self._lose(silent)
            raise
        except FileNotFoundError as error:
            self._words = None
            raise EnvironmentUnusable("ssh is not on PATH", code="no_ssh") from error
        self._failures = 0
        return self._channel

    def _lose(self, silent: Unreachable) -> None:
        """Drop the connection and set the time of the next try; the first one is immediate."""
        self._drop()
        self._why = silent
        self._not_before = self.clock() + PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
        self._failures += 1
