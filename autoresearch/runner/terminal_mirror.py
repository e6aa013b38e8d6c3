"""The terminal that the Runner was started in: shows the log on it, and detects that it or its tmux server is gone."""

from __future__ import annotations

import errno
import fcntl
import os
import time

from .basics import NEVER, clock, read_file

PACE_S = 0.1  # minimum interval between writes
STUCK_S = 1.0  # ... and while the terminal accepts nothing
BURST = 1 << 16
FAR = 1 << 18  # if the log is more than this many bytes ahead, only its end is shown
KEPT = "@autoresearch_exit_empty"  # a server option: "was 1" or "was 0", the value of exit-empty before us
# Restores `exit-empty`, unless one of our sessions still exists; decided within the server.
RELEASE = (
    *("if-shell", "-F", f"#{{?#{{m:*1*,#{{S:#{{m:ajet_*,#{{session_name}}}}}}}},,#{{{KEPT}}}}}"),
    f"set-option -sF exit-empty '#{{?#{{m:*1,#{{{KEPT}}}}},on,off}}' ; set-option -su {KEPT}",
)


class TerminalMirror:
    """Shows the log on the Runner's terminal: never blocks, and skips what the terminal cannot keep up with.

    The terminal is opened a second time, so that O_NONBLOCK affects no other process; after Ctrl-S, writes then fail
    at once.
    """

    def __init__(self, log: str) -> None:
        self.log = log
        self.next_at = NEVER
        self._at = 0
        self._source = self._tty = -1
        if os.isatty(1):
            try:
                self._tty = os.open(os.ttyname(1), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                pass  # no terminal to write to

    def say(self, text: str) -> int:
        """Write a line of the Runner's own; returns the number of bytes that the terminal accepted."""
        return self._write(text.encode("utf-8", "replace") + b"\n")

    def wake(self, now: float) -> None:
        """Schedule a pump within `PACE_S`: there may be new content."""
        if self._tty >= 0:
            self.next_at = min(self.next_at, now + PACE_S)

    def pump(self, now: float) -> None:
        """Write new content if it is time, as much as the terminal accepts."""
        if now < self.next_at:
            return
        self.next_at = NEVER
        if self._source < 0:
            try:
                self._source = os.open(self.log, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return
        size = os.fstat(self._source).st_size
        self._at = self._at if size >= self._at else 0  # truncated
        missed = size - self._at - BURST // 2
        if missed > FAR and self.say(f"\n[... {missed} bytes skipped; full log: {self.log} ...]"):
            self._at += missed
        data = os.pread(self._source, BURST, self._at)
        written = self._write(data)
        self._at += written
        if self._tty >= 0 and (written < len(data) or len(data) == BURST):
            self.next_at = now + (PACE_S if written else STUCK_S)

    def finish(self, text: str) -> None:
        """Write the rest of the log, as much as the terminal accepts within half a second, and a last line."""
        until = clock() + 0.5
        self.wake(0.0)
        while self.next_at < until and clock() < until:
            time.sleep(max(0.0, self.next_at - clock()))
            self.pump(clock())
        self.say(text)

    def _write(self, data: bytes) -> int:
        try:
            return os.write(self._tty, data) if self._tty >= 0 and data else 0
        except BlockingIOError:
            return 0
        except OSError:  # the terminal is gone
            os.close(self._tty)
            self._tty, self.next_at = -1, NEVER
            return 0


def terminal_is_gone() -> bool:
    """Whether the terminal that the Runner was started in has hung up. False if there never was one."""
    import termios  # takes memory, and is rarely needed

    for fd in (0, 1, 2):
        try:
            fcntl.ioctl(fd, termios.TIOCGWINSZ, b"\0" * 8)
        except OSError as error:
            if error.errno == errno.EIO:
                return True
    return False


def tmux_server_lives() -> bool:
    """Whether the Runner's tmux server is alive. Zombies accept signals too, so the process state is read."""
    _, _, rest = os.environ.get("TMUX", "").partition(",")  # socket,server pid,session
    raw = read_file(f"/proc/{rest.partition(',')[0]}/stat")
    return b"(tmux" in raw and raw.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def release_tmux_server() -> None:
    """Let the tmux server exit if it serves autoresearch's sessions only and the last of them was killed.

    The launcher makes the server outlive its last session (`exit-empty off`), so that a killed session can be told
    from a dead server.
    """
    import subprocess  # takes memory, and is rarely needed

    argv = ["tmux", "-S", os.environ.get("TMUX", "").split(",")[0], "-N", *RELEASE]
    quiet = subprocess.DEVNULL
    try:
        subprocess.run(argv, stdin=quiet, stdout=quiet, stderr=quiet, timeout=10.0, check=False)
    except (OSError, subprocess.TimeoutExpired):
        pass  # no tmux, or one that hangs
