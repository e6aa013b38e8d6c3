"""`autoresearch status --watch`: every living run of this account in one table, wherever it is."""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.commands import output
from autoresearch.commands.output import CommandResult
from autoresearch.commands.overview_table import static_lines
from autoresearch.core.run.overview import OverviewFilter
from autoresearch.core.run.spec import RunState
from autoresearch.errors import AutoresearchError, UsageError
from autoresearch.lab.overview.look import Looker
from autoresearch.lab.runs.adopt import adopt_all

if TYPE_CHECKING:
    from autoresearch.core.run.overview import Overview
    from autoresearch.core.run.targets import Target
    from autoresearch.lab.parts import Parts

EVERY_S = 2.0  # between two looks
CARE_S = 30.0  # between two times that what is over is recorded, and what nobody follows is followed
WIDTH = 80  # where no terminal says another


def overview_filter(target: str, campaign: str, states: str) -> OverviewFilter:
    """What the options of `status` choose; `states` are separated by commas. Raises UsageError for an unknown state."""
    words = [word.strip() for word in states.split(",") if word.strip()]
    for word in words:
        if word not in (names := [each.value for each in RunState]):
            near = difflib.get_close_matches(word, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"--state {word!r} is not one of {', '.join(names)}{hint}")
    return OverviewFilter(target, campaign, frozenset(map(RunState, words)))


def watch(parts: Parts, shows: OverviewFilter, *, ended: int, limit: int) -> CommandResult | int:
    """Draw the table every two seconds until Ctrl-C, and return 0; once where this is no terminal, or with --json.

    ended: the number of runs that ended last to add. limit: rows of the table that is drawn once; 0 for all.
    """
    targets, remark = _named(parts)
    if output.typed.as_json or output.agent_or_pipe() or os.environ.get("TERM", "dumb") == "dumb":
        return once(parts, shows, ended=ended, limit=limit)
    from rich.live import Live
    from rich.text import Text

    looker, cared = Looker(parts, targets=targets), float("-inf")
    remarks: list[str] = []
    with Live(auto_refresh=False, vertical_overflow="crop") as live, contextlib.suppress(KeyboardInterrupt):
        while True:
            overview = looker.look(ended=ended)
            if time.monotonic() - cared >= CARE_S or not all(line.state.lives for line in overview.runs):
                remarks, cared = _recorded(parts), time.monotonic()
            overview = _with_remarks(overview, [remark, *remarks])
            width, height = shutil.get_terminal_size()
            lines = static_lines(overview, shows.of(overview.runs), shows.of_ended(overview.over), width)
            live.update(Text("\n".join(lines[: height - 1]), no_wrap=True), refresh=True)
            time.sleep(EVERY_S)
    return 0


def once(parts: Parts, shows: OverviewFilter, *, ended: int, limit: int) -> CommandResult:
    """The table, printed once; what is over is recorded and the rest followed first, as `status` does."""
    targets, remark = _named(parts)
    remarks = [remark, *_recorded(parts)]
    overview = _with_remarks(Looker(parts, targets=targets, once=True).look(ended=ended), remarks)
    shown, over = shows.of(overview.runs), shows.of_ended(overview.over)
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


def _named(parts: Parts) -> tuple[tuple[Target, ...], str]:
    """The targets of the project here, so that those without a run are seen; and why they cannot be read."""
    from autoresearch.lab import settings

    try:
        return settings.load(Path.cwd(), environ=parts.environ).targets(), ""
    except (AutoresearchError, OSError) as error:
        return (), str(error)


def _recorded(parts: Parts) -> list[str]:
    """Have what is over recorded and the rest followed; what could not be recorded, and why."""
    return [f"{one.entry.run}: not recorded: {one.trouble}" for one in adopt_all(parts) if one.trouble]


def _with_remarks(overview: Overview, remarks: list[str]) -> Overview:
    return replace(overview, remarks=(*filter(None, remarks), *overview.remarks))
