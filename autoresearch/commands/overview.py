"""`autoresearch status` without a name: every living run of this account in one table, wherever it is.

Columns are left out in an order where there is no room, and nothing is folded.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autoresearch.commands import layout, output
from autoresearch.commands.layout import Column, Grid, cut
from autoresearch.commands.output import CommandResult, number
from autoresearch.core.controller.standing import Word
from autoresearch.core.run.spec import RunState
from autoresearch.core.text.numbers import counted, span
from autoresearch.lab.runs.adopt import adopt_all
from autoresearch.lab.runs.overview import JsonObject, lives, look, shown_target

if TYPE_CHECKING:
    from autoresearch.lab.parts import Parts

RECENT = 5  # runs that ended last are shown where nothing runs
WIDTH = 80  # where no terminal says another
OLD_S = 60.0  # how old the last look at a run is, is told from then on


def overview_of(parts: Parts, *, ended: int, limit: int) -> CommandResult:
    """The table, this machine's runs first; other targets are looked at, and what is over is recorded first.

    ended: how many of the last runs that ended it has.
    """
    found = list(adopt_all(parts))
    overview = look(parts, found, ended=ended or (RECENT if not found else 0))
    shown, over, campaigns = sorted(overview["runs"], key=_home), overview["ended"], overview["campaigns"]
    rows = shown[:limit] if limit else shown
    payload: dict[str, Any] = {
        **{name: overview[name] for name in ("ended", "campaigns", "remarks")},
        "runs": rows,
        "count": len(shown),
        "living": sum(map(lives, shown)),
        "left_off": len(shown) - len(rows),
        "next": [
            *(["autoresearch campaign resume --all"] if any(line["interrupted"] for line in campaigns) else []),
            *(command for line in campaigns for command in line["next"]),
            *(f"autoresearch status {line['run']}" for line in (*rows, *over)[:1]),
        ]
        or ["autoresearch run BLUEPRINT"],
    }
    if output.typed.as_json:
        return CommandResult(payload)
    width = shutil.get_terminal_size((WIDTH, 24)).columns
    lines = overview_lines(overview | {"runs": shown}, parts.clock(), width, most=limit)
    return CommandResult(payload, lines)


def _home(line: JsonObject) -> tuple[Any, ...]:
    """The order of the table: this machine's runs first."""
    place = shown_target(line)
    return place != "local", place, line["campaign"] or "", line["created"], line["run"]


# ------------------------------------------------------------------------------------------ the table


def _state(line: JsonObject, now: float) -> str:
    """Its state, and for how long it has waited, or not answered."""
    if line["ending"]:
        return f"{line['ending']} {line['verdict']}"
    silent = line["unreachable_since"] is not None
    waited = now - line["unreachable_since"] if silent else line["queue_s"]
    waits = silent or (line["state"] == RunState.PENDING and not line["elapsed_s"])
    return f"{line['state']} {_span(waited)}".rstrip() if waits else line["state"]


def _gpu(line: JsonObject, now: float) -> str:
    if line["gpus"] and None not in line["gpu_indices"]:
        return ",".join(map(str, line["gpu_indices"]))
    return f"{line['gpu_count']}x" if line["gpu_count"] else ""


def _left(line: JsonObject, now: float) -> str:
    """The time to the nearest limit, of a run that trains."""
    limits = [line[name] for name in ("deadline_s", "first_step_left_s") if line[name] is not None]
    trains = line["elapsed_s"] and line["state"] in (RunState.RUNNING, RunState.UNREACHABLE)
    return _span(min(limits)) if trains and limits else ""


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
    Column("ran", 6, 6, 8, right=True): lambda line, now: _span(line["elapsed_s"] or None),
    Column("left", 4, 6, 8, right=True): _left,
    Column("node", 13, 10, 24): _text("node"),
    Column("reason", 8, 20, 120): lambda line, now: _why(line, now),
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


def campaign_text(campaign: JsonObject) -> str:
    """What there is to say about a campaign."""
    name = short_campaign(campaign["campaign"])
    if campaign["state"] == "unknown":
        return f"{name}: unknown"
    of = "" if campaign["remaining"] is None else f"/{campaign['attempted'] + campaign['remaining']}"
    words = [f"{campaign['state']}, {campaign['attempted']}{of} attempted"]
    words += [f"{_span(campaign['remaining_s'])} to its deadline"] if campaign["remaining_s"] is not None else []
    words += [f"{campaign['living']} living"] if campaign["living"] else []
    if campaign["best_value"] is not None:
        word = campaign["best_shown"]["standing"]
        label = f" ({word})" if word != Word.BASELINE else ""
        value = f"{number(campaign['best_value'])} {campaign['metric_name']}"
        words.append(f"best {campaign['best_name']}: {value}{label}")
    return f"{name}: {', '.join(words)}"


def _why(line: JsonObject, now: float) -> str:
    """Why it stands as it does, and when it was last seen, if that is long ago."""
    reason = f"{line['reason']} ({line['hint']})" if line["hint"] else line["reason"]
    ago = now - line["seen"] if line["seen"] and lives(line) else 0.0
    words = (line["trouble"] or reason or line["newest_output"], f"seen {_span(ago)} ago" if ago > OLD_S else "")
    return ", ".join(filter(None, words))


def overview_lines(overview: Mapping[str, Any], now: float, width: int, *, most: int = 0) -> list[str]:
    """The whole overview (`lab.runs.overview`): at most so many living runs (0: all), each at most two lines."""
    from rich.cells import cell_len

    lines = [counts(overview["runs"])]
    for campaign in overview["campaigns"]:
        lines += [cut(campaign_text(campaign), width), *([f"  {campaign['reason']}"] if campaign["reason"] else [])]
    lines += overview["remarks"]
    living = overview["runs"][:most] if most else overview["runs"]
    rows = [*living, *overview["ended"]]
    whole = grid(rows, now, width)
    if any(cell_len(_why(line, now)) > whole.size("reason") for line in rows):  # then on lines of their own
        whole = grid(rows, now, width, without="reason")
    lines += ["", whole.header] if rows else []
    for line, text in zip(rows, whole.rows, strict=True):
        lines.append(text)
        if _why(line, now) and not whole.size("reason"):
            lines.append(f"  {line['trouble']}" if line["trouble"] else cut(f"  {_why(line, now)}", width))  # in full
    if len(living) < len(overview["runs"]):
        lines.append(f"and {len(overview['runs']) - len(living)} more: --limit 0 shows all")
    return lines
