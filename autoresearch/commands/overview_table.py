"""An overview as lines of text: columns that are left out in an order where there is no room, never folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autoresearch.commands import layout
from autoresearch.commands.layout import Column, Grid, cut
from autoresearch.commands.output import number
from autoresearch.core.run.overview import CampaignLine, Overview, PlaceLine, RunLine, short_campaign
from autoresearch.core.run.spec import RunState
from autoresearch.core.text.numbers import span


def _state(line: RunLine, now: float) -> str:
    if line.state is RunState.ENDED and line.ending:
        return f"{line.ending} {line.verdict}"
    since = "" if line.since is None else f" {span(max(0.0, now - line.since))}"
    waits = line.state in (RunState.PENDING, RunState.UNREACHABLE, RunState.STARTING)
    return line.state.value + (since if waits else "")


def _gpu(line: RunLine, now: float) -> str:
    known = [str(gpu.index) for gpu in line.gpus if gpu.index is not None]
    if not known or len(known) < len(line.gpus):
        return f"{line.gpu_count}x" if line.gpu_count else ""
    return ",".join(known)


def _memory(line: RunLine, now: float) -> str:
    used = [gpu.used_mib for gpu in line.gpus if gpu.used_mib is not None]
    return f"{sum(used) / 1024:.0f}G" if used else ""


def _span(seconds: float | None) -> str:
    return "" if seconds is None else span(max(0.0, seconds))


def _metric(line: RunLine, now: float) -> str:
    return "" if line.metric_value is None else number(line.metric_value)


COLUMNS: dict[Column, Callable[[RunLine, float], str]] = {
    Column("run", 0, 15, 60, middle=True): lambda line, now: line.run,
    Column("target", 5, 8, 24): lambda line, now: line.place,
    Column("job", 11, 10, 24): lambda line, now: line.job,
    Column("state", -1, 11, 26, words=True): _state,
    Column("idea", 9, 16, 50): lambda line, now: line.idea if line.member else "",
    Column("step", 3, 6, 9, right=True): lambda line, now: "" if line.step is None else str(line.step),
    Column("metric", 2, 6, 10, right=True): _metric,
    Column("of", 12, 12, 40): lambda line, now: line.metric_name if line.metric_value is not None else "",
    Column("gpu", 7, 4, 20): _gpu,
    Column("mem", 10, 4, 6, right=True): _memory,
    Column("ran", 6, 6, 8, right=True): lambda line, now: _span(line.elapsed_s),
    Column("left", 4, 6, 8, right=True): lambda line, now: _span(line.left_s),
    Column("node", 13, 10, 24): lambda line, now: line.node,
    Column("reason", 8, 20, 120): lambda line, now: _why(line),
}


def grid(lines: Sequence[RunLine], now: float, width: int, *, without: str = "") -> Grid:
    """The runs as a table of at most so many cells; one column may be left out."""
    columns = {column: cell for column, cell in COLUMNS.items() if column.name != without}
    rows = [[cell(line, now) for cell in columns.values()] for line in lines]
    return layout.grid(list(columns), rows, width)


def counts(lines: Sequence[RunLine]) -> str:
    """`12 runs: 7 running, 3 pending, 2 unreachable`."""
    if not lines:
        return "nothing runs"
    by_state = [(state, sum(line.state is state for line in lines)) for state in RunState]
    words = ", ".join(f"{n} {state.value}" for state, n in by_state if n)
    return f"{len(lines)} {'run' if len(lines) == 1 else 'runs'}: {words}"


def place_text(target_line: PlaceLine, now: float) -> str:
    """What there is to say about a target_line."""
    slots = f"{target_line.used}/{target_line.slots} slots, {target_line.free} free"
    words = [slots if target_line.slots else f"{target_line.used} living"]
    words += [f"{target_line.pending} pending"] if target_line.pending else []
    words += [f"GPUs {target_line.gpus_leased}/{target_line.gpus} leased"] if target_line.gpus else []
    if target_line.unreachable_since is not None:
        since = f"unreachable since {_span(now - target_line.unreachable_since)}"
        words.append(f"{since}: {target_line.reason}" if target_line.reason else since)
    if target_line.followed is not None:
        why = target_line.trouble or "its Follower is being started"
        words.append("followed" if target_line.followed else f"not followed: {why}")
    return f"{target_line.place}: {', '.join(words)}"


def campaign_text(campaign_line: CampaignLine) -> str:
    """What there is to say about a campaign_line."""
    if campaign_line.state == "unknown":
        return f"{short_campaign(campaign_line.name)}: unknown"
    of = "" if campaign_line.remaining is None else f"/{campaign_line.attempted + campaign_line.remaining}"
    words = [f"{campaign_line.state}, {campaign_line.attempted}{of} attempted"]
    words += [f"{_span(campaign_line.deadline_s)} to its deadline"] if campaign_line.deadline_s is not None else []
    words += [f"{campaign_line.running} living"] if campaign_line.running else []
    if campaign_line.best_value is not None:
        label = f" ({campaign_line.best_label})" if campaign_line.best_label else ""
        value = f"{number(campaign_line.best_value)} {campaign_line.metric_name}"
        words.append(f"best {campaign_line.best_name}: {value}{label}")
    return f"{short_campaign(campaign_line.name)}: {', '.join(words)}"


def _why(line: RunLine) -> str:
    return line.trouble or line.reason or line.newest_output


def static_lines(
    overview: Overview, shown: Sequence[RunLine], over: Sequence[RunLine], width: int, *, most: int = 0
) -> list[str]:
    """The whole overview for a pipe: at most so many runs (0: all), each at most two lines."""
    from rich.cells import cell_len

    lines = [counts(overview.runs)]
    lines += [place_text(place, overview.now) for place in overview.places if place.used or place.slots or place.gpus]
    lines = [cut(line, width) for line in lines]
    for campaign in overview.campaigns:
        lines += [cut(campaign_text(campaign), width), *([f"  {campaign.reason}"] if campaign.reason else [])]
    lines += list(overview.remarks)
    living = shown[:most] if most else shown
    rows = [*living, *over]
    whole = grid(rows, overview.now, width)
    if any(cell_len(_why(line)) > whole.size("reason") for line in rows):  # then on lines of their own
        whole = grid(rows, overview.now, width, without="reason")
    lines += ["", whole.header] if rows else []
    for line, text in zip(rows, whole.rows, strict=True):
        lines.append(text)
        if _why(line) and not whole.size("reason"):
            lines.append(f"  {line.trouble}" if line.trouble else cut(f"  {_why(line)}", width))  # trouble in full
    if len(living) < len(shown):
        lines.append(f"and {len(shown) - len(living)} more: --limit 0 shows all")
    return lines
