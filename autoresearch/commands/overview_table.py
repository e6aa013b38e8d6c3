"""An overview as lines of text: columns that are left out in an order where there is no room, never folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoresearch.commands.layout import GAP, NARROWEST
from autoresearch.commands.output import number
from autoresearch.core.campaign.stop_rules import span
from autoresearch.core.run.overview import CampaignLine, Overview, PlaceLine, RunLine, short_campaign
from autoresearch.core.run.spec import RunState


@dataclass(frozen=True, slots=True)
class Column:
    """One column, in cells. The higher its rank, the sooner it goes where there is no room."""

    name: str
    rank: int
    least: int  # narrower says nothing
    good: int  # columns of a higher rank than CORE are shown only where all others have so much
    most: int
    cell: Callable[[RunLine, float], str]
    right: bool = False
    middle: bool = False  # what is too long loses its middle: a run id ends in what makes it one
    words: bool = False  # what is too long loses its last word


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


COLUMNS = (
    Column("run", 1, 15, 22, 60, lambda line, now: line.run, middle=True),
    Column("target", 5, 8, 10, 24, lambda line, now: line.place),
    Column("job", 11, 6, 10, 24, lambda line, now: line.job),
    Column("state", 0, 11, 11, 26, _state, words=True),
    Column("idea", 9, 10, 24, 50, lambda line, now: line.idea if line.member else ""),
    Column("step", 3, 4, 6, 9, lambda line, now: "" if line.step is None else str(line.step), right=True),
    Column("metric", 2, 6, 8, 10, _metric, right=True),
    Column("of", 12, 8, 16, 40, lambda line, now: line.metric_name if line.metric_value is not None else ""),
    Column("gpu", 7, 3, 4, 20, _gpu),
    Column("mem", 10, 4, 4, 6, _memory, right=True),
    Column("ran", 6, 5, 6, 8, lambda line, now: _span(line.elapsed_s), right=True),
    Column("left", 4, 6, 6, 8, lambda line, now: _span(line.left_s), right=True),
    Column("node", 13, 6, 10, 24, lambda line, now: line.node),
    Column("reason", 8, 16, 24, 120, lambda line, now: _why(line)),
)
CORE = 5
_ALWAYS = ("run", "state")  # a table without a column that nobody fills is no worse; without these it is none


@dataclass(frozen=True, slots=True)
class Grid:
    """A table that fits: the columns that are shown, their widths, and the lines."""

    columns: tuple[tuple[Column, int], ...]
    header: str
    rows: tuple[str, ...]

    def size(self, name: str) -> int:
        """Cells that a column has; 0 where there is no room for it, or nothing in it."""
        return next((size for column, size in self.columns if column.name == name), 0)


def grid(lines: Sequence[RunLine], now: float, width: int, *, without: str = "") -> Grid:
    """The runs as a table of at most so many cells; one column may be left out."""
    cells = {column.name: [column.cell(line, now) for line in lines] for column in COLUMNS if column.name != without}
    chosen = fit(cells, max(NARROWEST, width))
    header = _row([(column, size, column.name) for column, size in chosen])
    rows = [_row([(column, size, cells[column.name][n]) for column, size in chosen]) for n in range(len(lines))]
    return Grid(tuple(chosen), header, tuple(rows))


def fit(cells: dict[str, list[str]], width: int) -> list[tuple[Column, int]]:
    """Which columns there is room for, and how wide each is."""
    from rich.cells import cell_len

    natural: dict[str, int] = {}
    for column in COLUMNS:
        widest = max(map(cell_len, cells.get(column.name, ())), default=0)
        if widest or column.name in _ALWAYS:
            natural[column.name] = min(column.most, max(widest, len(column.name)))
    sizes: dict[str, int] = {}
    for column in sorted((one for one in COLUMNS if one.name in natural), key=lambda one: one.rank):
        more = column.rank > CORE
        wished = [*(one for one in COLUMNS if one.name in sizes), column]
        needed = {one.name: min(one.good if more else one.least, natural[one.name]) for one in wished}
        if column.name not in _ALWAYS and _width(needed) > width:
            break
        sizes = needed
    for column in sorted(COLUMNS, key=lambda one: one.rank):
        if column.name in sizes:
            spare = max(0, width - _width(sizes))
            sizes[column.name] += min(spare, natural[column.name] - sizes[column.name])
    return [(column, sizes[column.name]) for column in COLUMNS if column.name in sizes]


def _width(sizes: dict[str, int]) -> int:
    return sum(sizes.values()) + GAP * (len(sizes) - 1)


def _row(cells: Sequence[tuple[Column, int, str]]) -> str:
    from rich.cells import cell_len

    parts = []
    for column, size, whole in cells:
        text = whole
        while column.words and cell_len(text) > size and " " in text:
            text = text.rpartition(" ")[0]
        short = cut(text, size, middle=column.middle)
        fill = " " * (size - cell_len(short))
        parts.append(fill + short if column.right else short + fill)
    return (" " * GAP).join(parts).rstrip()


def cut(text: str, width: int, *, middle: bool = False) -> str:
    """At most so many cells of a text, with a mark where some of it is left out."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    if width < 2:
        return text[:width] if width > 0 and text.isascii() else ""
    tail = text[-min(7, width // 2) :] if middle and text.isascii() else ""
    return set_cell_size(text, width - 1 - len(tail)).rstrip() + "…" + tail


def counts(lines: Sequence[RunLine]) -> str:
    """`12 runs: 7 running, 3 pending, 2 unreachable`."""
    if not lines:
        return "nothing runs"
    by_state = [(state, sum(line.state is state for line in lines)) for state in RunState]
    words = ", ".join(f"{n} {state.value}" for state, n in by_state if n)
    return f"{len(lines)} {'run' if len(lines) == 1 else 'runs'}: {words}"


def place_text(target_line: PlaceLine, now: float) -> str:
    """What there is to say about a target."""
    words = [
        f"{target_line.used}/{target_line.slots} slots, {target_line.free} free"
        if target_line.slots
        else f"{target_line.used} living"
    ]
    words += [f"{target_line.pending} pending"] if target_line.pending else []
    words += [f"GPUs {target_line.gpus_leased}/{target_line.gpus} leased"] if target_line.gpus else []
    if target_line.unreachable_since is not None:
        words.append(
            f"unreachable since {span(max(0.0, now - target_line.unreachable_since))}: {target_line.reason}".rstrip(
                ": "
            )
        )
    if target_line.followed is not None:
        why = target_line.trouble or "its Follower is being started"
        words.append("followed" if target_line.followed else f"not followed: {why}")
    return f"{target_line.place}: {', '.join(words)}"


def campaign_text(campaign_line: CampaignLine) -> str:
    """What there is to say about a campaign."""
    if campaign_line.trouble:
        return f"{short_campaign(campaign_line.name)}: {campaign_line.trouble}"
    of = "" if campaign_line.remaining is None else f"/{campaign_line.attempted + campaign_line.remaining}"
    words = [f"{campaign_line.state}, {campaign_line.attempted}{of} attempted"]
    words += (
        [f"{span(max(0.0, campaign_line.deadline_s))} to its deadline"] if campaign_line.deadline_s is not None else []
    )
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
    lines += [campaign_text(campaign) for campaign in overview.campaigns]
    lines += list(overview.remarks)
    lines = [cut(line, width) for line in lines]
    living = shown[:most] if most else shown
    rows = [*living, *over]
    whole = grid(rows, overview.now, width)
    if any(cell_len(_why(line)) > whole.size("reason") for line in rows):  # then on lines of their own
        whole = grid(rows, overview.now, width, without="reason")
    lines += ["", whole.header] if rows else []
    for line, text in zip(rows, whole.rows, strict=True):
        lines += [text, *([cut(f"  {_why(line)}", width)] if _why(line) and not whole.size("reason") else [])]
    if len(living) < len(shown):
        lines.append(f"and {len(shown) - len(living)} more: --limit 0 shows all")
    return lines
