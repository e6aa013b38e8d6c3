"""The terminal as a screen of its own: taken, drawn on by rich, lent to another program, and always given back."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Sequence
from types import FrameType

from autoresearch.core.text.regex import later

Line = tuple[str, str]  # text that fits, and its style

STYLES = {"chosen": "reverse", "good": "green", "waits": "yellow", "bad": "bold red", "head": "bold underline"}
_KEY = later(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|\x1b|.", re.DOTALL)
_NAMES = {
    **{"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left", "\x1b[H": "home", "\x1b[F": "end"},
    **{"\x1bOA": "up", "\x1bOB": "down", "\x1bOC": "right", "\x1bOD": "left", "\x1bOH": "home", "\x1bOF": "end"},
    **{"\x1b[5~": "page up", "\x1b[6~": "page down", "\x1b[1~": "home", "\x1b[4~": "end", "\x1b[3~": "delete"},
    **{"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape", "\x15": "erase"},
    **{"\x02": "page up", "\x06": "page down", "\x0c": "redraw"},
}
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_TOLD = (signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP)


class Terminal:
    """The terminal of stdin and stdout, as long as the block lasts. Ctrl-C is a KeyboardInterrupt as ever.

    SIGTERM and SIGHUP end the program by SystemExit, so that it is given back. Any thread may `wake` it.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._before = termios.tcgetattr(self._in)
        self._handlers: dict[int, signal._HANDLER] = {}
        self._decode = codecs.getincrementaldecoder("utf-8")("ignore").decode
        # of our own: stdout's encoding may lack a letter of a log
        stream = open(self._out, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        self._console = Console(file=stream, force_terminal=True)
        self._live = Live(
            console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._drawn: tuple[tuple[int, int], list[Line]] | None = None
        self._stopping = self._lost = False

    def __enter__(self) -> Terminal:
        self._bell, self._ring = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup = signal.set_wakeup_fd(self._ring, warn_on_full_buffer=False)
        self._handlers = {n: signal.signal(n, _end) for n in _ENDING}
        self._handlers |= {n: signal.signal(n, self._on_signal) for n in _TOLD}
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self._give()
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._bell)
        os.close(self._ring)

    def wake(self) -> None:
        """Have `keys` return; from any thread, also when it is over."""
        with contextlib.suppress(OSError):
            os.write(self._ring, b"\0")

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines; a usual size where the terminal has just gone."""
        try:
            found = os.get_terminal_size(self._out)
        except OSError:
            return 80, 24
        return max(1, found.columns), max(1, found.lines)

    def keys(self, timeout_s: float) -> list[str]:
        """The keys that were pressed; none when the time is over, or somebody woke it. EOFError without a terminal."""
        ready, _, _ = select.select([self._in, self._bell], [], [], timeout_s)
        if self._bell in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._bell, 4096):
                    pass
        if self._stopping:
            self._suspend()
        elif self._lost:
            self._take()
        if self._in not in ready:
            return []
        data = os.read(self._in, 4096)
        if not data:
            raise EOFError
        return [_NAMES.get(key, key) for key in _KEY.findall(self._decode(data))]

    def draw(self, lines: Sequence[Line]) -> None:
        """Show these lines from the top, if they differ from what is there."""
        from rich.text import Text

        fresh = (self.size, list(lines))
        if fresh == self._drawn:
            return
        self._drawn, self._console.size = fresh, self.size
        texts = [Text(text, style=STYLES.get(style, style)) for text, style in lines]
        self._live.update(Text("\n", no_wrap=True, end="").join(texts), refresh=True)

    def forget(self) -> None:
        """Somebody else may have written on it: everything is drawn anew."""
        self._drawn = None

    def lend(self, argv: Sequence[str], environ: dict[str, str]) -> int:
        """Give the terminal to a program until that ends; its exit code.

        Where that program stops itself (tmux on its suspend key), so do we, and it goes on when we do.
        """
        self._give()
        # caught, not ignored: what is ignored stays so in the program
        handlers = {n: signal.signal(n, self._on_signal) for n in (signal.SIGINT, signal.SIGQUIT)}
        child = None
        try:
            child = subprocess.Popen(list(argv), env=environ)
            while True:
                _, status = os.waitpid(child.pid, os.WUNTRACED)
                if not os.WIFSTOPPED(status):
                    child.returncode = os.waitstatus_to_exitcode(status)
                    return child.returncode
                os.kill(os.getpid(), signal.SIGSTOP)
                os.kill(child.pid, signal.SIGCONT)
        finally:
            if child is not None and child.returncode is None:
                child.terminate()
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._stopping = False
            self._take()

    def _take(self) -> None:
        self._lost = False
        raw = termios.tcgetattr(self._in)
        raw[0] &= ~termios.IXON
        raw[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)  # ISIG stays: Ctrl-C, Ctrl-Z are signals
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._in, termios.TCSADRAIN, raw)
        self._live.stop()  # after a SIGCONT it may still count as started
        self._live.start()
        self.forget()

    def _give(self) -> None:
        with contextlib.suppress(OSError, termios.error):  # it may be gone
            self._live.stop()
            termios.tcsetattr(self._in, termios.TCSAFLUSH, self._before)

    def _suspend(self) -> None:
        """Ctrl-Z: the shell finds its terminal as it left it."""
        self._stopping = False
        self._give()
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)
        self._take()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """It only has to end the wait for a key, which its byte in the pipe does."""
        if number == signal.SIGTSTP:
            self._stopping = True
        elif number == signal.SIGCONT:
            self._lost = True  # whoever had it meanwhile may have changed it


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
