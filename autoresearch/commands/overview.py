"""`autoresearch status` without a name: every living run of this account in one table, wherever it is.

Columns are left out in an order where there is no room, and nothing is folded.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.commands import layout, output
from autoresearch.commands.layout import Column, Grid, cut
from autoresearch.commands.output import CommandResult, number
from autoresearch.core.run.spec import RunState
from autoresearch.core.text.numbers import counted, span
from autoresearch.errors import AutoresearchError, EnvironmentUnusable, UsageError
from autoresearch.lab.overview.look import JsonObject, lives, look, shown_target
from autoresearch.lab.runs.adopt import adopt_all

if TYPE_CHECKING:
    from autoresearch.core.run.targets import Target
    from autoresearch.lab.parts import Parts
    from autoresearch.lab.runs.adopt import Adopted

EVERY_S = 2.0  # between two looks, where they are quick
SHARE = 5.0  # of the time of a look passes before the next
RECENT = 5  # runs that ended last are shown where nothing runs
WIDTH = 80  # where no terminal says another


def run_filter(target: str, campaign: str, states: str) -> Callable[[JsonObject], bool]:
    """Whether a run is one that the options of `status` choose; of those that are over, `states` leaves none out.

    Raises UsageError for an unknown state.
    """
    words = [word.strip() for word in states.split(",") if word.strip()]
    for word in words:
        if word not in (names := [each.value for each in RunState]):
            near = difflib.get_close_matches(word, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"--state {word!r} is not one of {', '.join(names)}{hint}")

    def shows(line: JsonObject) -> bool:
        there = not target or target in (line["place"], line["launcher"], shown_target(line))
        return there and campaign in (line["campaign"] or "") and (not words or line["state"] in (*words, "ended"))

    return shows


def can_draw_again() -> bool:
    """Whether there is a terminal that can, and a person at it."""
    return not (output.typed.as_json or output.agent_or_pipe() or os.environ.get("TERM", "dumb") == "dumb")


def watch(parts: Parts, shows: Callable[[JsonObject], bool], *, ended: int) -> int:
    """Draw the table every two seconds until Ctrl-C. ended: the number of runs that ended last to add."""
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False, vertical_overflow="crop") as live, contextlib.suppress(KeyboardInterrupt):
        while True:
            began = time.monotonic()
            width, height = shutil.get_terminal_size()
            lines = static_lines(_overview(parts, list(adopt_all(parts)), shows, ended), parts.clock(), width)
            live.update(Text("\n".join(lines[: height - 1]), no_wrap=True), refresh=True)
            time.sleep(max(EVERY_S, SHARE * (time.monotonic() - began)))
    return 0


def once(
    parts: Parts, shows: Callable[[JsonObject], bool], *, ended: int, limit: int, as_exit_code: bool = False
) -> CommandResult:
    """The table, printed once; other targets are looked at, and what is over is recorded first.

    as_exit_code: fails if a run cannot be recorded.
    """
    found = list(adopt_all(parts))
    overview = _overview(parts, found, shows, ended or (RECENT if not found else 0))
    shown, over, campaigns = overview["shown"], overview["ended"], overview["campaigns"]
    rows = shown[:limit] if limit else shown
    payload: dict[str, Any] = {
        **{name: overview[name] for name in ("ended", "places", "campaigns", "remarks")},
        "runs": rows,
        "count": len(shown),
        "living": sum(map(lives, shown)),
        "recorded": sum(bool(line["ending"]) for line in shown),
        "left_off": len(shown) - len(rows),
        "states": {state.value: n for state in RunState if (n := sum(line["state"] == state for line in shown))},
        "next": [
            *(["autoresearch campaign resume --all"] if any(line["interrupted"] for line in campaigns) else []),
            *(command for line in campaigns for command in line["next"]),
            *(f"autoresearch status {line['run']}" for line in (*rows, *over)[:1]),
        ]
        or ["autoresearch run BLUEPRINT"],
        "exit_code": EnvironmentUnusable.exit_code if as_exit_code and any(one.trouble for one in found) else 0,
    }
    if output.typed.as_json:
        return CommandResult(payload, [], exit_code=payload["exit_code"])
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
    return CommandResult(
        payload, static_lines(overview, parts.clock(), width, most=limit), exit_code=payload["exit_code"]
    )


def _overview(
    parts: Parts, adopted_runs: list[Adopted], shows: Callable[[JsonObject], bool], ended: int
) -> dict[str, list[Any]]:
    """The overview, with the `ended` runs and those of its runs that are `shown`, this machine's first."""
    targets, remarks = _named(parts)
    overview = look(parts, adopted_runs, targets=targets, ended=ended)

    def home(line: JsonObject) -> tuple[Any, ...]:
        place = shown_target(line)
        return place != "local", place, line["campaign"] or "", line["created"], line["run"]

    shown = sorted(filter(shows, overview["runs"]), key=home)
    over = list(filter(shows, overview["ended"]))
    return overview | {"remarks": remarks + overview["remarks"], "shown": shown, "ended": over}


def _named(parts: Parts) -> tuple[tuple[Target, ...], list[str]]:
    """The targets of the project here, so that those without a run are seen; and why they cannot be read."""
    from autoresearch.lab import settings

    try:
        return settings.load(Path.cwd(), environ=parts.environ).targets(), []
    except (AutoresearchError, OSError) as error:
        return (), [str(error)]


# ------------------------------------------------------------------------------------------ the table


def _state(line: JsonObject, now: float) -> str:
    if line["ending"]:
        return f"{line['ending']} {line['verdict']}"
    waits = line["state"] in (RunState.PENDING, RunState.UNREACHABLE, RunState.STARTING)
    return f"{line['state']} {_span(now - line['since'])}" if waits and line["since"] is not None else line["state"]


def _gpu(line: JsonObject, now: float) -> str:
    if line["gpus"] and None not in line["gpu_indices"]:
        return ",".join(map(str, line["gpu_indices"]))
    return f"{line['gpu_count']}x" if line["gpu_count"] else ""


def _memory(line: JsonObject, now: float) -> str:
    used = [mib for mib in line["gpu_memory_mib"] if mib is not None]
    return f"{sum(used) / 1024:.0f}G" if used else ""


def _span(seconds: float | None) -> str:
    return "" if seconds is None else span(max(0.0, seconds))


def _metric(line: JsonObject, now: float) -> str:
    return "" if line["metric_value"] is None else number(line["metric_value"])


def idea_of(line: JsonObject) -> str:
    """Campaign and idea of a run: `sort #3 lr=3e-3`, `sort #3.2 lr=3e-3` for its second run; "" of a lone one."""
    if not line["why"]:
        return ""
    index, _, words = (line["name"] or f"#{line['index']} {line['slug']}").partition(" ")
    again = f".{line['replicate']}" if line["replicate"] > 1 else ""
    return f"{short_campaign(line['campaign'])} {index}{again} {words}"


def short_campaign(name: str) -> str:
    """A campaign's name without its date."""
    date, _, rest = name.partition("-")
    return rest if rest and len(date) == 8 and date.isdecimal() else name


def _text(name: str) -> Callable[[JsonObject, float], str]:
    return lambda line, now: "" if line[name] is None else str(line[name])


COLUMNS: dict[Column, Callable[[JsonObject, float], str]] = {
    Column("run", 0, 15, 60, middle=True): _text("run"),
    Column("target", 5, 8, 24): lambda line, now: shown_target(line),
    Column("job", 11, 10, 24): _text("job"),
    Column("state", -1, 11, 26, words=True): _state,
    Column("idea", 9, 16, 50): lambda line, now: idea_of(line),
    Column("step", 3, 6, 9, right=True): _text("step"),
    Column("metric", 2, 6, 10, right=True): _metric,
    Column("of", 12, 12, 40): lambda line, now: line["metric_name"] if line["metric_value"] is not None else "",
    Column("gpu", 7, 4, 20): _gpu,
    Column("mem", 10, 4, 6, right=True): _memory,
    Column("ran", 6, 6, 8, right=True): lambda line, now: _span(line["elapsed_s"]),
    Column("left", 4, 6, 8, right=True): lambda line, now: _span(line["left_s"]),
    Column("node", 13, 10, 24): _text("node"),
    Column("reason", 8, 20, 120): lambda line, now: _why(line),
}


def grid(lines: Sequence[JsonObject], now: float, width: int, *, without: str = "") -> Grid:
    """The runs as a table of at most so many cells; one column may be left out."""
    columns = {column: cell for column, cell in COLUMNS.items() if column.name != without}
    rows = [[cell(line, now) for cell in columns.values()] for line in lines]
    return layout.grid(list(columns), rows, width)


def counts(lines: Sequence[JsonObject]) -> str:
    """`12 runs: 7 running, 3 pending, 2 unreachable`."""
    if not lines:
        return "nothing runs"
    by_state = [(state, sum(line["state"] == state for line in lines)) for state in RunState]
    words = ", ".join(f"{n} {state.value}" for state, n in by_state if n)
    return f"{counted(len(lines), 'run')}: {words}"


OLD_S = 60.0  # how old the last look is, is told from then on


def place_text(line: JsonObject, now: float) -> str:
    """What there is to say about a target."""
    slots = f"{line['used']}/{line['slots']} slots, {line['free']} free"
    words = [slots if line["slots"] else f"{line['used']} living"]
    words += [f"{line['pending']} pending"] if line["pending"] else []
    words += [f"GPUs {line['gpus_leased']}/{line['gpus']} leased"] if line["gpus"] else []
    if line["unreachable_since"] is not None:
        since = f"unreachable since {_span(now - line['unreachable_since'])}"
        words.append(f"{since}: {line['reason']}" if line["reason"] else since)
    elif line["seen"] is not None and now - line["seen"] > OLD_S:
        words.append(f"seen {_span(now - line['seen'])} ago")
    return f"{shown_target(line)}: {', '.join(words)}"


def campaign_text(campaign: JsonObject) -> str:
    """What there is to say about a campaign."""
    name = short_campaign(campaign["campaign"])
    if campaign["state"] == "unknown":
        return f"{name}: unknown"
    of = "" if campaign["remaining"] is None else f"/{campaign['attempted'] + campaign['remaining']}"
    words = [f"{campaign['state']}, {campaign['attempted']}{of} attempted"]
    words += [f"{_span(campaign['deadline_s'])} to its deadline"] if campaign["deadline_s"] is not None else []
    words += [f"{campaign['running']} living"] if campaign["running"] else []
    if campaign["best_value"] is not None:
        label = f" ({campaign['best_label']})" if campaign["best_label"] else ""
        value = f"{number(campaign['best_value'])} {campaign['metric_name']}"
        words.append(f"best {campaign['best_name']}: {value}{label}")
    return f"{name}: {', '.join(words)}"


def _why(line: JsonObject) -> str:
    return line["trouble"] or line["reason"] or line["newest_output"] or ""


def static_lines(overview: Mapping[str, Any], now: float, width: int, *, most: int = 0) -> list[str]:
    """The whole overview (`lab.overview.look`): at most so many living runs (0: all), each at most two lines."""
    from rich.cells import cell_len

    lines = [counts(overview["runs"])]
    lines += [place_text(one, now) for one in overview["places"] if one["used"] or one["slots"] or one["gpus"]]
    lines = [cut(line, width) for line in lines]
    for campaign in overview["campaigns"]:
        lines += [cut(campaign_text(campaign), width), *([f"  {campaign['reason']}"] if campaign["reason"] else [])]
    lines += overview["remarks"]
    living = overview["shown"][:most] if most else overview["shown"]
    rows = [*living, *overview["ended"]]
    whole = grid(rows, now, width)
    if any(cell_len(_why(line)) > whole.size("reason") for line in rows):  # then on lines of their own
        whole = grid(rows, now, width, without="reason")
    lines += ["", whole.header] if rows else []
    for line, text in zip(rows, whole.rows, strict=True):
        lines.append(text)
        if _why(line) and not whole.size("reason"):
            lines.append(f"  {line['trouble']}" if line["trouble"] else cut(f"  {_why(line)}", width))  # in full
    if len(living) < len(overview["shown"]):
        lines.append(f"and {len(overview['shown']) - len(living)} more: --limit 0 shows all")
    return lines
