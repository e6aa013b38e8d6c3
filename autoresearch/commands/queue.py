"""`autoresearch queue`: every living run of this account on one screen, wherever it is, or printed once."""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, output
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.overview import OverviewFilter
from autoresearch.core.run.spec import RunState
from autoresearch.errors import AutoresearchError, UsageError
from autoresearch.lab.overview.look import Looker
from autoresearch.records.rundir import RunDir
from autoresearch.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from autoresearch.commands.screen import Action, LogScreen, QueueScreen
    from autoresearch.commands.terminal import Terminal
    from autoresearch.core.run.overview import Overview, RunLine
    from autoresearch.core.run.targets import Target
    from autoresearch.lab.parts import Parts

EVERY_S = 2.0  # between two looks, at least
WIDTH = 80  # of the static form, where no terminal says another
CARE_S = 30.0  # between two tries to start a Follower, or to have records written
IDLE = 20.0  # a look is followed by a pause of so many times the CPU time that it took
ENDED = 20  # runs that `e` adds
KEY_S = 60.0  # a wait for keys, which news of the runs end
LOG_S = 0.5  # between two looks at a log that is open


def queue(
    target: Annotated[
        str, Option(metavar="TARGET", help="Only runs there: local, slurm, ssh:gpu1, a name.")
    ] = "",
    campaign: Annotated[str, Option(metavar="NAME", help="Only runs of this campaign.")] = "",
    state: Annotated[str, Option(metavar="STATE,...", help="Only runs in these states.")] = "",
    last: Annotated[int, Option(metavar="N", help="With so many of the last runs that ended.")] = 0,
    limit: Annotated[int, Option(metavar="N", help="Rows of the static form; 0: all.")] = output.MAX_LINES,
    once: Annotated[bool, Option("--once", hidden=True)] = False,
) -> CommandResult | int:
    """One screen over all launchers: runs, states, step, metric, GPU, time left; logs, stop, attach by a key."""
    states = [word.strip() for word in state.split(",") if word.strip()]
    for word in states:
        if word not in (names := [each.value for each in RunState]):
            near = difflib.get_close_matches(word, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"--state {word!r} is not one of {', '.join(names)}{hint}")
    overview_filter = OverviewFilter(target, campaign, frozenset(map(RunState, states)))
    if last < 0 or limit < 0:
        raise UsageError("--last and --limit are numbers of rows, from 0")
    parts = real_parts()
    targets, remark = _named(parts)
    if output.typed.as_json or once or output.agent_or_pipe() or os.environ.get("TERM", "dumb") == "dumb":
        return _static(parts, targets, overview_filter, last, limit, [remark] if remark else [])
    from autoresearch.commands.screen import QueueScreen

    screen = QueueScreen(overview_filter, ended=last, message=remark)
    return _screen(screen, Looker(parts, targets=targets))


def _named(parts: Parts) -> tuple[tuple[Target, ...], str]:
    """The targets of the project here, so that those without a run are seen; and why they cannot be read."""
    from autoresearch.lab import settings

    here = Path.cwd()
    try:
        return settings.load(here, environ=parts.environ).targets(), ""
    except (AutoresearchError, OSError) as error:
        return (), str(error)


def _static(
    parts: Parts,
    targets: tuple[Target, ...],
    overview_filter: OverviewFilter,
    ended: int,
    limit: int,
    remarks: list[str],
) -> CommandResult:
    """Print it once; what is over is recorded and the rest followed first, as `status` does."""
    from autoresearch.commands.overview_table import static_lines
    from autoresearch.lab.runs.adopt import adopt_all

    remarks += [f"{one.entry.run}: not recorded: {one.trouble}" for one in adopt_all(parts) if one.trouble]
    overview = Looker(parts, targets=targets, once=True).look(ended=ended)
    overview = replace(overview, remarks=(*remarks, *overview.remarks))
    shown, over = overview_filter.of(overview.runs), overview_filter.of_ended(overview.over)
    rows = shown[:limit] if limit else shown
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
    payload: dict[str, Any] = {
        "runs": [line.to_json() for line in rows],
        "ended": [line.to_json() for line in over],
        "places": [line.to_json() for line in overview.places],
        "campaigns": [line.to_json() for line in overview.campaigns],
        "count": len(shown),
        "left_off": len(shown) - len(rows),
        "states": {state.value: n for state in RunState if (n := sum(line.state is state for line in shown))},
        "remarks": list(overview.remarks),
        "next": [f"autoresearch status {rows[0].run}"] if rows else ["autoresearch run BLUEPRINT"],
    }
    return CommandResult(payload, static_lines(overview, shown, over, width, most=limit))


# ------------------------------------------------------------------------------------------ the live screen


class Watch(threading.Thread):
    """Looks again and again, so that a file system that hangs keeps no key from working. Ends with the program."""

    def __init__(self, looker: Looker, ended: int, wake: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.looker, self.ended, self.wake = looker, ended, wake
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
            self._again.wait(max(EVERY_S, share * (time.thread_time() - began)))
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
            words = [sys.executable, "-P", "-m", "autoresearch", "status"]
            nothing = subprocess.DEVNULL
            self._collector = subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing)
        if left := self.looker.unattended():
            threading.Thread(target=self._attend, args=(left,), daemon=True).start()

    def _attend(self, rundirs: list[RunDir]) -> None:
        from autoresearch.lab.remote.start_follower import attend_run

        for rundir in rundirs:
            attend_run(rundir, self.looker.parts)


def _screen(screen: QueueScreen, looker: Looker) -> int:
    """Be the screen until somebody quits; 0. The runs know nothing of it."""
    from autoresearch.commands.terminal import Terminal

    log: LogScreen | None = None
    with Terminal() as terminal, contextlib.suppress(EOFError):  # the terminal is gone
        watch = Watch(looker, screen.ended, terminal.wake)
        watch.start()
        while True:
            screen.overview = watch.latest
            screen.message = watch.trouble or screen.message
            terminal.draw((log or screen).lines(*terminal.size))
            for key in terminal.keys(LOG_S if log else KEY_S):
                action = (log or screen).key(key)
                if action is None:
                    continue
                if action.what == "quit":
                    return 0
                if action.what == "log" and action.line:
                    log = _log_of(action.line)
                elif action.what == "back":
                    log = None
                else:
                    _do(action, screen, terminal, watch)
    return 0


def _do(action: Action, screen: QueueScreen, terminal: Terminal, watch: Watch) -> None:
    try:
        match action.what:
            case "refresh":
                watch.again(care=True)
            case "redraw":
                terminal.forget()
            case "ended":
                watch.ended = 0 if watch.ended else screen.ended or ENDED
                watch.again()
            case "attach" if action.line:
                screen.message = _attach(action.line, terminal, watch.looker.parts)
                watch.again()
            case "stop" if action.line:
                screen.message = _stop(action.line, action.text)
                watch.again(care=True)
    except (AutoresearchError, OSError) as error:
        screen.message = str(error)


def _log_of(line: RunLine) -> LogScreen:
    from autoresearch.commands.screen import LogScreen
    from autoresearch.lab.runs.run_status import tail_lines

    rundir = RunDir(Path(line.run_dir))
    path = rundir.evaluation if rundir.evaluation.exists() and line.state.lives else rundir.log
    return LogScreen(line.run, path, tail_lines)


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
