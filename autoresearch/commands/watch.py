"""`autoresearch status` without a name: every living run of this account in one table, wherever it is."""

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
from autoresearch.errors import AutoresearchError, EnvironmentUnusable, UsageError
from autoresearch.lab.overview.look import look
from autoresearch.lab.runs.adopt import adopt_all

if TYPE_CHECKING:
    from autoresearch.core.run.overview import Overview
    from autoresearch.core.run.targets import Target
    from autoresearch.lab.parts import Parts
    from autoresearch.lab.runs.adopt import Adopted

EVERY_S = 2.0  # between two looks, where they are quick
SHARE = 5.0  # of the time of a look passes before the next
RECENT = 5  # runs that ended last are shown where nothing runs
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


def can_draw_again() -> bool:
    """Whether there is a terminal that can, and a person at it."""
    return not (output.typed.as_json or output.agent_or_pipe() or os.environ.get("TERM", "dumb") == "dumb")


def watch(parts: Parts, shows: OverviewFilter, *, ended: int) -> int:
    """Draw the table every two seconds until Ctrl-C. ended: the number of runs that ended last to add."""
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False, vertical_overflow="crop") as live, contextlib.suppress(KeyboardInterrupt):
        while True:
            began = time.monotonic()
            overview = _overview(parts, list(adopt_all(parts)), ended)
            width, height = shutil.get_terminal_size()
            lines = static_lines(overview, shows.of(overview.runs), shows.of_ended(overview.over), width)
            live.update(Text("\n".join(lines[: height - 1]), no_wrap=True), refresh=True)
            time.sleep(max(EVERY_S, SHARE * (time.monotonic() - began)))
    return 0


def once(parts: Parts, shows: OverviewFilter, *, ended: int, limit: int, as_exit_code: bool = False) -> CommandResult:
    """The table, printed once; what is over is recorded and the rest followed first.

    as_exit_code: fails if a run cannot be recorded.
    """
    found = list(adopt_all(parts))
    overview = _overview(parts, found, ended or (RECENT if not found else 0))
    shown, over = shows.of(overview.runs), shows.of_ended(overview.over)
    rows = shown[:limit] if limit else shown
    campaigns = overview.campaigns
    named = [line.run for line in (*rows, *over)][:1]
    payload: dict[str, Any] = {
        "runs": [line.to_json() for line in rows],
        "ended": [line.to_json() for line in over],
        "places": [line.to_json() for line in overview.places],
        "campaigns": [line.to_json() for line in campaigns],
        "count": len(shown),
        "living": sum(line.state.lives for line in shown),
        "recorded": sum(bool(line.ending) for line in shown),
        "left_off": len(shown) - len(rows),
        "states": {state.value: n for state in RunState if (n := sum(line.state is state for line in shown))},
        "remarks": list(overview.remarks),
        "next": [
            *(["autoresearch campaign resume --all"] if any(line.interrupted for line in campaigns) else []),
            *(command for line in campaigns for command in line.next),
            *(f"autoresearch status {run}" for run in named),
        ]
        or ["autoresearch run BLUEPRINT"],
        "exit_code": EnvironmentUnusable.exit_code if as_exit_code and any(one.trouble for one in found) else 0,
    }
    if output.typed.as_json:
        return CommandResult(payload, [], exit_code=payload["exit_code"])
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
    lines = static_lines(overview, shown, over, width, most=limit)
    return CommandResult(payload, lines, exit_code=payload["exit_code"])


def _overview(parts: Parts, adopted_runs: list[Adopted], ended: int) -> Overview:
    targets, remark = _named(parts)
    overview = look(parts, adopted_runs, targets=targets, ended=ended)
    return replace(overview, remarks=(*([remark] if remark else []), *overview.remarks))


def _named(parts: Parts) -> tuple[tuple[Target, ...], str]:
    """The targets of the project here, so that those without a run are seen; and why they cannot be read."""
    from autoresearch.lab import settings

    try:
        return settings.load(Path.cwd(), environ=parts.environ).targets(), ""
    except (AutoresearchError, OSError) as error:
        return (), str(error)
