"""`autoresearch ledger show`: the rows of a ledger, or with `--out` a file that other tools read."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.campaign_view import state_of
from autoresearch.commands.layout import Column, cut, grid, width_of
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.ledger_row import NUMERIC_COLUMNS, LedgerRow, shown_statuses
from autoresearch.core.text.numbers import counted
from autoresearch.errors import NotFoundError
from autoresearch.lab.campaign_report import formatting
from autoresearch.records.files import finite

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState

BRIEF = ("index", "run_id", "status", "ending", "metric_name", "metric_value", "elapsed_min", "description")
CLAIM, NOTE = "claim", "claim_note"
NAME = "name"  # of the idea, in a campaign
GO_FIRST = ("status", "claim", "ending", "elapsed_min", "metric_name")  # the last one first, where there is no room
LEAST = {"run_id": 15, "description": 12}  # cells; of the others all
NOTE_MOST = 700  # characters of what may be said of an idea that has a claim


def show(
    run: Annotated[str, Positional(metavar="RUN|TSV", help="A run in it, its campaign, or its file.")] = "last",
    last: Annotated[int, Option(help="So many last rows; 0: all.")] = output.MAX_LINES,
    out: Annotated[str, Option(metavar="FILE", help="All of it for other tools: .csv or .parquet.")] = "",
) -> CommandResult:
    """The rows of the ledger that a run is in."""
    from autoresearch.core.controller.standing import standing
    from autoresearch.lab.runs import lookup
    from autoresearch.records import campaign_records
    from autoresearch.records.campaign_records import CampaignDir
    from autoresearch.records.ledger import Ledger

    if out:
        return _export(run, Path(out))
    path = lookup.find_ledger(run, real_parts())
    if not path.is_file():
        raise _none_yet(path)
    ledger, campaign_dir = Ledger(path), CampaignDir(path.parent)
    if path == campaign_dir.ledger and campaign_records.write_ledger(campaign_dir):
        output.remark(f"{path} was not as recorded, and is again; as it was, it is in {path.name}.edited")
    shown, count = ledger.newest(max(0, last))
    if not output.typed.as_json:
        shown = as_shown(shown)
    brief = list(BRIEF)
    notes = dict[int, str]()  # what may be said of ideas that have a claim
    state = state_of(campaign_dir) if campaign_dir.spec.is_file() else None  # of lone runs there is none
    if state:
        names = {str(idea.index): idea.name for idea in state.ideas}
        shown = [{**record, NAME: names.get(record.get("index", ""), "")} for record in shown]
        brief[0] = NAME
    if state and state.said_later:
        notes = {idea.index: standing(state, idea).sentence for idea in state.ideas if idea.confirmed}
        shown = list(_with_claims(shown, state, notes))
        brief.insert(brief.index("status") + 1, CLAIM)
    if output.typed.as_json:
        objects = list(map(as_object, shown))
        objects = objects if last == 0 else output.newest(objects, output.ROOM)
        left = count - len(objects)
        whole = f"autoresearch ledger show {shlex.quote(str(path))} --last 0"
        payload = {"ledger": str(path), "rows": objects, "count": count, "left_off": left}
        return CommandResult(payload | {"next": [whole] if left else []})
    rows = [[r.get(name, "")[:60] for name in brief] for r in shown]
    lines = fitted(brief, rows, width_of(sys.stdout))
    lines += (formatting.plain(note, NOTE_MOST) for note in notes.values())
    lines.append(f"{counted(count, 'row')} in {path}")
    return CommandResult({}, lines)


def as_shown(records: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The last rows of a ledger with `pending` as the status of a run whose idea is still owed more runs."""
    statuses = shown_statuses([LedgerRow.from_cells(record) for record in records])
    return [{**record, "status": status} for record, status in zip(records, statuses, strict=True)]


def _with_claims(
    records: Iterable[Mapping[str, str]], state: CampaignState, notes: Mapping[int, str]
) -> Iterator[dict[str, str]]:
    """Yield the rows with a column `claim`, what was said of run and idea later, and with a note by the index."""
    ideas = {str(idea.index): idea for idea in state.ideas}
    removed = {str(line.get("run")) for line in state.said_later if line["do"] == "outputs_removed"}
    for record in records:
        idea, run = ideas.get(record.get("index", "")), record.get("run_id", "")
        unjudged = idea is not None and run in idea.unjudged
        built = f"built on demoted {idea.marked}" if idea and idea.marked else ""
        marks = ("not judged" if unjudged else "", "its outputs were removed" if run in removed else "", built)
        claim = ", ".join(filter(None, (idea.confirmed if idea else "", *marks)))
        yield {**record, CLAIM: claim, NOTE: notes.get(idea.index, "") if idea else ""}


def as_object(record: Mapping[str, str]) -> dict[str, Any]:
    """A row for programs: numbers as numbers, empty or non-finite ones as None; columns unknown to us stay text."""
    row = LedgerRow.from_cells(record)
    return dict(finite({**record, **{name: getattr(row, name) for name in NUMERIC_COLUMNS & record.keys()}}))


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
