"""`autoresearch logs RUN`: the tail, a search, or followed live; `--events`: the events, by sequence number."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import UsageError
from autoresearch.records.rundir import RunDir
from autoresearch.runner.masking import mask_text

COUNTED = 1 << 26  # bytes of a log whose lines are counted


def logs(
    run: Annotated[str, typer.Argument(metavar="RUN")] = "last",
    tail: Annotated[int, typer.Option(help="So many last lines.")] = output.MAX_LINES,
    grep: Annotated[str, typer.Option(metavar="REGEX", help="Only lines that match; the newest --tail of them.")] = "",
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run is over.")] = False,
    out: Annotated[str, typer.Option(metavar="FILE", help="Write to a file instead.")] = "",
    events: Annotated[bool, typer.Option("--events", help="The events of the run instead of its log.")] = False,
    since: Annotated[int, typer.Option(help="With --events: only those after this number.")] = 0,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """The log of a run: the tail, a search, or followed live. Escapes are stripped, secrets masked."""
    from autoresearch.lab.runs import sessions
    from autoresearch.lab.runs.run_status import tail_lines

    if tail < 0:
        raise UsageError("--tail is a number of lines, from 0")
    if events:
        if grep or follow or out:
            raise UsageError("--events goes with --since, --tail and --json only")
        return _events(run, since, tail, as_json=as_json)
    if since:
        raise UsageError("--since counts events", fix=f"autoresearch logs {run} --events --since {since}")
    rundir = sessions.find(run, real_parts())
    spec = sessions.spec_of(rundir)
    lines = _matching(rundir.log, grep, tail) if grep else tail_lines(rundir.log, tail)
    if out:
        Path(out).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    if as_json:
        shown = [] if out else output.newest(lines, output.ROOM)
        left = 0 if out else len(lines) - len(shown) if grep else _older(rundir.log, len(shown))
        more = tail if len(shown) < len(lines) else 10 * max(tail, len(lines))
        rest = [f"autoresearch logs {spec.run} --tail {more} --out run.log{_grep(grep)}"] if left else []
        payload = {
            "run": spec.run,
            "log_path": str(rundir.log),
            "lines": shown,
            "count": len(lines),
            "left_off": left,
            "out": out or None,
            "next": [*rest, f"autoresearch status {spec.run}"],
        }
        output.emit("logs", payload, as_json=True)
        return 0
    for line in () if out else lines:
        output.log_text(line)
    if follow:
        _follow(rundir)
    return 0


def _older(log: Path, shown: int) -> int:
    """How many lines stand before the last ones of a log; of a long one, as many as its end says at least."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - COUNTED))
            count = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
    except OSError:
        return 0
    return max(0, count - shown)


def _grep(pattern: str) -> str:
    return f" --grep {shlex.quote(pattern)}" if pattern else ""


def _events(run: str, since: int, tail: int, *, as_json: bool) -> int:
    from autoresearch.commands.live import event_line
    from autoresearch.lab.runs import sessions
    from autoresearch.records.events import read as read_events

    rundir = sessions.find(run, real_parts())
    spec = sessions.spec_of(rundir)
    found, upto = read_events(rundir.events, since)
    shown = found[-tail:] if tail else []
    objects = [{"seq": e.seq, "t": e.t, "s": e.s, "event": e.event, **e.fields} for e in shown]
    objects = output.newest(objects, output.ROOM)
    payload = {
        "run": spec.run,
        "events": objects,
        "left_off": len(found) - len(objects),
        "seq": upto,
        "events_path": str(rundir.events),
        "next": [f"autoresearch logs {spec.run} --events --since {upto}"],
    }
    output.emit("logs", payload, as_json=as_json, lines=[f"{e.seq:>5} {event_line(e)}" for e in shown])
    return 0


def _matching(log: Path, pattern: str, limit: int) -> list[str]:
    """The newest matching lines of the whole log, in constant memory."""
    from collections import deque

    from autoresearch.runner.log_follower import LogFollower
    from autoresearch.runner.text import logical_lines

    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--grep {pattern!r} is not a regular expression: {error}") from None
    found: deque[str] = deque(maxlen=max(1, limit))
    follower = LogFollower(str(log))
    for chunk in follower.poll():
        found.extend(line for line in logical_lines(chunk) if wanted.search(line))
    found.extend(line for line in logical_lines(follower.partial()) if wanted.search(line))
    return [mask_text(line)[:500] for line in found]


def _follow(rundir: RunDir) -> None:
    """Print what comes until the run is over, line by line: only a whole one can be looked through for secrets."""
    import time

    from autoresearch.commands.live import over

    with rundir.log.open("rb") as file:
        file.seek(0, 2)
        rest = b""
        while True:
            ended = over(rundir)
            while data := file.read(1 << 16):
                whole, end, rest = (rest + data).rpartition(b"\n")
                if end:
                    output.log_text(whole.decode("utf-8", "replace"))
            if ended:
                if rest:
                    output.log_text(rest.decode("utf-8", "replace"))
                return
            time.sleep(0.2)
