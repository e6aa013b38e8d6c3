"""`autoresearch queue`: every living run of this account on one screen, wherever it is."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.overview import SORTS, OverviewFilter
from autoresearch.core.run.spec import RunState
from autoresearch.core.text.durations import parse_duration
from autoresearch.errors import AutoresearchError, UsageError

if TYPE_CHECKING:
    from autoresearch.core.run.overview import Overview, RunLine
    from autoresearch.core.run.targets import Target
    from autoresearch.lab.parts import Parts

WIDTH = 80  # of the static form, where no terminal says another


def queue(
    target: Annotated[
        str, typer.Option(metavar="TARGET", help="Only runs there: local, slurm, ssh:gpu1, a name.")
    ] = "",
    campaign: Annotated[str, typer.Option(metavar="NAME", help="Only runs of this campaign.")] = "",
    state: Annotated[str, typer.Option(metavar="STATE,...", help="Only runs in these states.")] = "",
    sort: Annotated[str, typer.Option(metavar="COLUMN", help=f"One of {', '.join(SORTS)}.")] = "target",
    last: Annotated[int, typer.Option(metavar="N", help="With so many of the last runs that ended.")] = 0,
    limit: Annotated[int, typer.Option(metavar="N", help="Rows of the static form; 0: all.")] = output.MAX_LINES,
    every: Annotated[str, typer.Option(metavar="DURATION", help="How often the screen looks again.")] = "2s",
    once: Annotated[bool, typer.Option("--once", help="Print it once, also on a terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """One screen over all launchers: runs, states, step, metric, GPU, time left; logs, stop, attach by a key."""
    overview_filter = _filter(target, campaign, state, sort)
    every_s = _every(every)
    if last < 0 or limit < 0:
        raise UsageError("--last and --limit are numbers of rows, from 0")
    parts = real_parts()
    if as_json or once or output.agent_or_pipe() or os.environ.get("TERM", "dumb") == "dumb":
        return _static(parts, overview_filter, last, limit, as_json=as_json)
    from autoresearch.commands.top import top

    targets, remark = _named(parts)
    return top(parts, overview_filter, targets=targets, ended=last, every_s=every_s, remark=remark)


def _filter(target: str, campaign: str, state: str, sort: str) -> OverviewFilter:
    if sort not in SORTS:
        raise UsageError(_near("--sort", sort, SORTS))
    states = [word.strip() for word in state.split(",") if word.strip()]
    for word in states:
        if word not in set(RunState):
            raise UsageError(_near("--state", word, RunState))
    return OverviewFilter(target, campaign, frozenset(map(RunState, states)), sort=sort)


def _near(option: str, word: str, known: Any) -> str:
    import difflib

    names = [str(name) for name in known]
    near = difflib.get_close_matches(word, names, n=1)
    return f"{option} {word!r} is not one of {', '.join(names)}" + (f"; did you mean {near[0]}?" if near else "")


def _every(text: str) -> float:
    try:
        return max(0.2, parse_duration(text))
    except ValueError as error:
        raise UsageError(f"--every: {error}", hint="durations look like 2s or 1m") from None


def _named(parts: Parts) -> tuple[tuple[Target, ...], str]:
    """The targets of the project here, so that those without a run are seen; and why they cannot be read."""
    from autoresearch.lab import settings

    try:
        return settings.load(Path.cwd(), environ=parts.environ).targets(), ""
    except (AutoresearchError, OSError) as error:
        return (), str(error)


def _static(parts: Parts, overview_filter: OverviewFilter, ended: int, limit: int, *, as_json: bool) -> int:
    from dataclasses import replace

    from autoresearch.commands.overview_table import static_lines
    from autoresearch.lab.overview.look import Looker

    targets, remark = _named(parts)
    remarks = [*([remark] if remark else []), *_settle(parts)]
    looker = Looker(parts, targets=targets, once=True)
    found = looker.look(ended=ended)
    found = replace(found, remarks=(*remarks, *found.remarks))
    shown, over = overview_filter.of(found.runs), overview_filter.of_ended(found.over)
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
    payload = _payload(found, shown, over, limit)
    lines = static_lines(found, shown, over, width, most=limit)
    output.emit("queue", payload, as_json=as_json, lines=lines)
    return 0


def _settle(parts: Parts) -> list[str]:
    """Record what is over and have the rest followed, as `status` does; what cannot be recorded now."""
    from autoresearch.lab.runs.adopt import adopt_all

    return [f"{found.entry.run}: not recorded: {found.trouble}" for found in adopt_all(parts) if found.trouble]


def _payload(overview: Overview, shown: list[RunLine], over: list[RunLine], limit: int) -> dict[str, Any]:
    rows = shown[:limit] if limit else shown
    first = rows[0].run if rows else ""
    return {
        "runs": [line.to_json() for line in rows],
        "ended": [line.to_json() for line in over],
        "places": [line.to_json() for line in overview.places],
        "campaigns": [line.to_json() for line in overview.campaigns],
        "count": len(shown),
        "left_off": len(shown) - len(rows),
        "states": {state.value: n for state in RunState if (n := sum(line.state is state for line in shown))},
        "remarks": list(overview.remarks),
        "next": [f"autoresearch status {first}"] if first else ["autoresearch run BLUEPRINT"],
    }
