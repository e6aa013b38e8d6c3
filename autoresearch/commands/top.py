"""The live screen of `queue`: looks in the background, draws what changed, and does what the keys ask for."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.commands.log_view import KEYS, LogView
from autoresearch.commands.screen import Action, Prompt, QueueScreen
from autoresearch.commands.terminal import Terminal
from autoresearch.core.run.overview import OverviewFilter, RunLine
from autoresearch.errors import AutoresearchError
from autoresearch.lab.overview.look import Looker
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from collections.abc import Callable

    from autoresearch.core.run.overview import Overview
    from autoresearch.core.run.targets import Target
    from autoresearch.lab.parts import Parts

CARE_S = 30.0  # between two tries to start a Follower, or to have records written
IDLE = 20.0  # a look is followed by a pause of so many times the CPU time that it took
ENDED = 20  # runs that `e` adds
LOG_S = 0.5  # between two looks at a log that is open


class Watch(threading.Thread):
    """Looks again and again, so that a file system that hangs keeps no key from working. Ends with the program."""

    def __init__(self, looker: Looker, ended: int, every_s: float, wake: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.looker, self.ended, self.every_s, self.wake = looker, ended, every_s, wake
        self.latest: Overview | None = None
        self.trouble = ""
        self._again = threading.Event()
        self._cared = float("-inf")
        self._unsettled = 0
        self._collector: subprocess.Popen[bytes] | None = None

    def again(self, *, care: bool = False) -> None:
        """Look now; with `care` see to it at once that every target is followed."""
        if care:
            self._cared = float("-inf")
        self._again.set()

    def run(self) -> None:
        """Until the program ends."""
        share = 0.0  # the first look imports what it needs
        while True:
            self._again.clear()
            began = time.thread_time()
            try:
                self.latest, self.trouble = self.looker.look(ended=self.ended), ""
                self._care()
            except (AutoresearchError, OSError) as error:
                self.trouble = str(error)
            self.wake()
            self._again.wait(max(self.every_s, share * (time.thread_time() - began)))
            share = IDLE

    def _care(self) -> None:
        """Have every target followed, and what is over recorded: a run's own collector comes first."""
        if self._collector is not None and self._collector.poll() is not None:
            self._collector = None
        if time.monotonic() - self._cared < CARE_S:
            return
        self._cared = time.monotonic()
        unsettled, before = self.looker.unsettled(), self._unsettled
        self._unsettled = unsettled
        if unsettled and before and self._collector is None:
            words = [sys.executable, "-P", "-m", "autoresearch", "adopt"]
            nothing = subprocess.DEVNULL
            self._collector = subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing)
        if left := self.looker.unattended():
            threading.Thread(target=_attend, args=(left, self.looker.parts), daemon=True).start()


def _attend(rundirs: list[RunDir], parts: Parts) -> None:
    from autoresearch.lab.remote.start_follower import attend_run

    for rundir in rundirs:
        attend_run(rundir, parts)


def top(
    parts: Parts,
    overview_filter: OverviewFilter,
    *,
    targets: tuple[Target, ...],
    ended: int,
    every_s: float,
    remark: str = "",
) -> int:
    """Be the screen until somebody quits; 0. The runs know nothing of it."""
    screen = QueueScreen(overview_filter, ended=ended, message=remark)
    with Terminal() as terminal:
        watch = Watch(Looker(parts, targets=targets), ended, every_s, terminal.wake)
        watch.start()
        with contextlib.suppress(EOFError):  # the terminal is gone
            while True:
                screen.overview = watch.latest
                if watch.trouble:
                    screen.message = watch.trouble
                terminal.draw(screen.lines(*terminal.size))
                for key in terminal.keys(60.0):
                    action = screen.key(key)
                    if action is not None and action.what == "quit":
                        return 0
                    if action is not None:
                        _do(action, screen, terminal, watch, parts)
    return 0


def _do(action: Action, screen: QueueScreen, terminal: Terminal, watch: Watch, parts: Parts) -> None:
    try:
        match action.what:
            case "refresh":
                watch.again(care=True)
            case "redraw":
                terminal.forget()
            case "ended":
                watch.ended = 0 if watch.ended else screen.ended or ENDED
                watch.again()
            case "log" if action.line:
                _log(action.line, terminal)
            case "attach" if action.line:
                screen.message = _attach(action.line, terminal, parts)
                watch.again()
            case "stop" if action.line:
                screen.message = _stop(action.line, action.text)
                watch.again(care=True)
    except (AutoresearchError, OSError) as error:
        screen.message = str(error)


def _log(line: RunLine, terminal: Terminal) -> None:
    """Show its log until a key comes back."""
    from autoresearch.lab.runs.run_status import tail_lines

    rundir = RunDir(Path(line.run_dir))
    path = rundir.evaluation if rundir.evaluation.exists() and line.state.lives else rundir.log
    view = LogView(line.run, path, tail_lines)
    prompt: Prompt | None = None
    while True:
        width, height = terminal.size
        foot = prompt.question + prompt.text + "_" if prompt else view.message or KEYS
        terminal.draw([*view.lines(width, height - 1), (foot[: width - 1], "bold" if prompt else "dim")])
        for key in terminal.keys(LOG_S):
            if prompt is None and key == "/":
                prompt = Prompt("find: ", view.find)
            elif prompt is None and not view.key(key):
                return
            elif prompt is not None and key in ("enter", "escape"):
                if key == "enter":
                    view.find(prompt.text)
                prompt = None
            elif prompt is not None:
                prompt.text = prompt.text[:-1] if key == "backspace" else prompt.text + key * (len(key) == 1)


def _attach(line: RunLine, terminal: Terminal, parts: Parts) -> str:
    """Lend the terminal to its tmux session; what there is to say when it comes back."""
    from autoresearch.lab.runs import sessions

    info = sessions.session_info(RunDir(Path(line.run_dir)))
    if info is None or not parts.launcher(info.socket).exists(info):
        return f"{line.run} has no session any more; Enter shows its log"
    words = parts.launcher(info.socket).attach_argv(info, os.environ)
    environ = dict(os.environ)
    if "attach-session" in words:
        environ.pop("TMUX", None)  # another server's: tmux would refuse to be nested
    code = terminal.lend(words, environ)
    return "" if code == 0 else f"tmux ended with {code}: {info.attach}"


def _stop(line: RunLine, reason: str) -> str:
    """Ask it to stop, as `stop` does; what there is to say."""
    from autoresearch.lab.runs.sessions import ask_to_stop

    rundir = RunDir(Path(line.run_dir))
    if not rundir.state().lives:
        return f"{line.run} is over already"
    ask_to_stop(rundir, reason)
    return f"{line.run} is asked to stop"
