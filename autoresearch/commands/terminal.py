"""The terminal as a screen of its own: taken, drawn on, lent to another program, and always given back.

Sequences of xterm (ctlseqs, "DEC Private Mode Set"): 1049 the alternate screen, 25 the cursor, 7 wrapping,
2026 a frame that is shown at once where the terminal knows that; one that does not ignores it.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Sequence
from types import FrameType

Line = tuple[str, str]  # text that fits, and its style

TAKE, GIVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
STYLES = {"bold": "1", "dim": "2", "chosen": "7", "good": "32", "waits": "33", "bad": "31;1", "head": "1;4"}
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|\x1b|.", re.DOTALL)
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
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._before = termios.tcgetattr(self._in)
        self._handlers: dict[int, signal._HANDLER] = {}
        self._drawn: list[Line] = []
        self._decode = codecs.getincrementaldecoder("utf-8")("ignore").decode
        self._plain = bool(os.environ.get("NO_COLOR"))
        self._stopping = self._lost = self._resized = False

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
        """Columns and lines."""
        found = shutil.get_terminal_size((80, 24)) if not os.isatty(self._out) else os.get_terminal_size(self._out)
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
        """Show these lines from the top; only those that differ from what is there are written."""
        from rich.cells import cell_len

        if self._resized:
            self._resized = False
            self.forget()
        fresh, width = list(lines), self.size[0]
        frame = [  # at the end of a full line there is nothing to erase but its last cell
            f"\x1b[{n + 1};1H{self._styled(line)}" + ("\x1b[K" if cell_len(line[0]) < width else "")
            for n, line in enumerate(fresh)
            if n >= len(self._drawn) or self._drawn[n] != line
        ]
        if len(fresh) < len(self._drawn):
            frame.append(f"\x1b[{len(fresh) + 1};1H\x1b[J")
        if frame:
            self._write("\x1b[?2026h" + "".join(frame) + "\x1b[?2026l")
        self._drawn = fresh

    def forget(self) -> None:
        """Somebody else may have written on it: everything is drawn anew."""
        self._drawn = []
        self._write("\x1b[2J")

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
        self._write(TAKE)
        self.forget()

    def _give(self) -> None:
        with contextlib.suppress(OSError, termios.error):  # it may be gone
            self._write(GIVE)
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
        elif number == signal.SIGWINCH:
            self._resized = True

    def _styled(self, line: Line) -> str:
        text, style = line
        code = STYLES.get(style, "")
        if not code or (self._plain and style not in ("chosen", "bold", "head")):
            return text
        return f"\x1b[{code}m{text}\x1b[0m"

    def _write(self, text: str) -> None:
        view = memoryview(text.encode("utf-8", "replace"))
        while view:
            view = view[os.write(self._out, view) :]


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
