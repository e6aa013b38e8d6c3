"""`autoresearch ledger show`: the rows of a ledger, or with `--out` a file that other tools read."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.campaign_view import state_of
from autoresearch.commands.layout import Column, Whole, cut, grid, width_of
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.text.numbers import counted
from autoresearch.errors import NotFoundError, UsageError

FORMATS = ("table", "tsv", "json", "md")
NAME = "name"  # of the idea, in a campaign
GO_FIRST = ("status", "claim", "ending", "elapsed_min", "metric_name")  # the last one first, where there is no room
LEAST = {"run_id": 15, "description": 12}  # cells; of the others all
NOTE_MOST = 700  # characters of what may be said of an idea that has a claim


def show(
    run: Annotated[str, Positional(metavar="RUN|TSV", help="A run in it, its campaign, or its file.")] = "last",
    style: Annotated[str, Option("--format", help=f"One of {', '.join(FORMATS)}.")] = "table",
    last: Annotated[int, Option(help="So many last rows.")] = output.MAX_LINES,
    out: Annotated[str, Option(metavar="FILE", help="All of it for other tools: .csv or .parquet.")] = "",
) -> CommandResult:
    """The rows of the ledger that a run is in."""
    from autoresearch.core.controller.standing import standing
    from autoresearch.core.run.ledger_row import LedgerRow
    from autoresearch.core.statistics.comparable import mixed
    from autoresearch.lab.campaign_report import formatting
    from autoresearch.lab.runs import lookup
    from autoresearch.records import campaign_records, ledger_views
    from autoresearch.records.campaign_records import CampaignDir
    from autoresearch.records.ledger import Ledger

    if style not in FORMATS:
        raise UsageError(f"--format {style!r} is not one of {', '.join(FORMATS)}")
    if out:
        return _export(run, Path(out))
    path = lookup.find_ledger(run, real_parts())
    if not path.is_file():
        raise _none_yet(path)
    ledger, campaign_dir = Ledger(path), CampaignDir(path.parent)
    if path == campaign_dir.ledger and campaign_records.write_ledger(campaign_dir):
        output.remark(f"{path} was not as recorded, and is again; as it was, it is in {path.name}.edited")
    header = ledger.header()
    records = list(ledger.records())
    output.typed.as_json = output.typed.as_json or style == "json"
    if not output.typed.as_json and style != "tsv":
        records = list(ledger_views.for_people(records))
    shown = records[-last:] if last > 0 else records
    brief = list(ledger_views.BRIEF)
    notes = dict[int, str]()  # what may be said of ideas that have a claim
    state = state_of(campaign_dir) if campaign_dir.spec.is_file() else None  # of lone runs there is none
    if state:
        names = {str(idea.index): idea.name for idea in state.ideas}
        shown = [{**record, NAME: names.get(record.get("index", ""), "")} for record in shown]
        brief[0] = NAME
    if state and state.said_later:
        notes = {idea.index: standing(state, idea).sentence for idea in state.ideas if idea.confirmed}
        shown = list(ledger_views.with_claims(shown, state, notes))
        header = (*header, ledger_views.CLAIM, ledger_views.NOTE)
        brief.insert(brief.index("status") + 1, ledger_views.CLAIM)
    warning = mixed(LedgerRow.from_cells(record) for record in shown)
    if output.typed.as_json:
        objects = list(ledger_views.as_objects(shown))
        objects = objects if style == "json" else output.newest(objects, output.ROOM)
        left = len(records) - len(objects)
        whole = f"autoresearch ledger show {shlex.quote(str(path))} --format json --last 0"
        payload = {"ledger": str(path), "rows": objects, "count": len(records), "left_off": left}
        return CommandResult(payload | {"warning": warning or None, "next": [whole] if left else []})
    lines = list[str]()
    if style == "tsv":
        lines += map(Whole, ledger_views.as_tsv(header, shown))
    elif style == "md":
        lines += map(Whole, ledger_views.as_markdown(shown, brief))
        lines += (Whole(f"\n{formatting.cell(note, NOTE_MOST)}") for note in notes.values())
    else:
        rows = [[r.get(name, "")[:60] for name in brief] for r in shown]
        lines += fitted(brief, rows, width_of(sys.stdout))
        lines += (formatting.plain(note, NOTE_MOST) for note in notes.values())
        lines.append(f"{counted(len(records), 'row')} in {output.near(path)}")
    if warning:
        output.remark(f"warning: {warning}")
    return CommandResult({}, lines)


def _export(name: str, out: Path) -> CommandResult:
    """Write it for other tools."""
    from autoresearch.lab.results import frames

    frames.check_name(out)
    frame = frames.ledger_frame(name, real_parts())
    ledger, path = Path(frame.attrs["path"]), out.absolute()
    if not ledger.is_file():
        raise _none_yet(ledger)
    frames.save(frame, path)
    kind = out.suffix.lower()[1:]
    payload = {"ledger": str(ledger), "format": kind, "path": str(path), "rows": len(frame), "next": []}
    return CommandResult(payload, [f"wrote {path}: {counted(len(frame), 'row')} of {ledger}"])


def _none_yet(path: Path) -> NotFoundError:
    return NotFoundError(f"{path}: there is no ledger yet", hint="its first row comes with the end of its first run")


def fitted(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The rows as lines of at most so many cells: columns go in an order, the description takes what room is left."""
    ranks = {name: rank for rank, name in enumerate(GO_FIRST, 1)}
    most = {"run_id": max(15, width // (4 if NAME in names else 3))}
    if NAME in names:  # says more than what ends in the same words
        most[NAME] = max(20, width // 3)
        ranks |= {"description": 1, "status": 0}
    cells = [
        Column(name, ranks.get(name, 0), LEAST.get(name, width), most.get(name, width), middle=name == "run_id")
        for name in names
    ]
    shown = grid(cells, rows, width)
    lines = [shown.header, *shown.rows]
    measured = {row[names.index("metric_name")] for row in rows}
    if not shown.size("metric_name") and len(measured) == 1:
        lines.append(cut(f"metric_value is {measured.pop()}", width))
    return lines
