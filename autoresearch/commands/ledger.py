"""`autoresearch ledger show` and `export`: the rows of a ledger, and files that other tools read."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.text.counted import counted
from autoresearch.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState
    from autoresearch.records.campaign_records import CampaignDir

FORMATS = ("table", "tsv", "json", "md")
NAME = "name"  # of the idea, in a campaign
GO_FIRST = ("metric_name", "elapsed_min", "ending", "claim", "status")  # where a terminal is too narrow
LEAST = 16  # cells of a description
NOTE_MOST = 700  # characters of what may be said of an idea that has a claim


def show(
    run: Annotated[str, typer.Argument(metavar="RUN|TSV", help="A run in it, its campaign, or its file.")] = "last",
    style: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = "table",
    last: Annotated[int, typer.Option(help="So many last rows.")] = output.MAX_LINES,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """The rows of the ledger that a run is in."""
    from autoresearch.core.run.ledger_row import LedgerRow
    from autoresearch.core.statistics.comparable import mixed
    from autoresearch.lab.campaign_report import formatting
    from autoresearch.lab.results.frames import ledger_path
    from autoresearch.records import ledger_views
    from autoresearch.records.campaign_records import CampaignDir, entries
    from autoresearch.records.ledger import Ledger

    if style not in FORMATS:
        raise UsageError(f"--format {style!r} is not one of {', '.join(FORMATS)}")
    path = ledger_path(run, real_parts())
    if not path.is_file():
        raise NotFoundError(f"{path}: there is no ledger yet", hint="its first row comes with the end of its first run")
    ledger = Ledger(path)
    header = ledger.header()
    records = list(ledger.records())
    if not as_json and style in ("md", "table"):
        records = list(ledger_views.for_people(records))
    shown = records[-last:] if last > 0 else records
    brief = list(ledger_views.BRIEF)
    campaign_dir, notes = CampaignDir(path.parent), dict[int, str]()
    state = _state(campaign_dir)
    if state:
        names = {str(idea.index): idea.name for idea in state.ideas}
        shown = [{**record, NAME: names.get(record.get("index", ""), "")} for record in shown]
        brief[0] = NAME
    if verdicts := list(entries(campaign_dir.verdicts)):
        notes = _claim_notes(state) if state else {}
        shown = list(ledger_views.with_claims(shown, verdicts, notes))
        header = (*header, ledger_views.CLAIM, ledger_views.NOTE)
        brief.insert(brief.index("status") + 1, ledger_views.CLAIM)
    warning = mixed(LedgerRow.from_cells(record) for record in shown)
    if as_json or style == "json":
        objects = list(ledger_views.as_objects(shown))
        if as_json and style != "json":
            objects = output.newest(objects, output.ROOM)
        whole = f"autoresearch ledger show {shlex.quote(str(path))} --format json --last 0"
        payload = {
            "ledger": str(path),
            "rows": objects,
            "count": len(records),
            "left_off": len(records) - len(objects),
            "warning": warning or None,
            "next": [whole] if len(objects) < len(records) else [],
        }
        output.emit("ledger show", payload, as_json=True)
    elif style == "tsv":
        for line in ledger_views.as_tsv(header, shown):
            output.say(line)
    elif style == "md":
        for line in ledger_views.as_markdown(shown, brief):
            output.say(line)
        for note in notes.values():
            output.say(f"\n{formatting.cell(note, NOTE_MOST)}")
    else:
        rows = [[r.get(name, "")[:60] for name in brief] for r in shown]
        if sys.stdout.isatty():
            for line in fitted(brief, rows, shutil.get_terminal_size().columns):
                output.prose(line)
        else:
            output.table([brief, *rows])
        for note in notes.values():
            output.prose(formatting.plain(note, NOTE_MOST))
        output.prose(f"{counted(len(records), 'row')} in {output.near(path)}")
    if warning and not as_json:
        output.remark(f"warning: {warning}")
    return 0


def _state(campaign_dir: CampaignDir) -> CampaignState | None:
    """The state of a ledger's campaign; None for the ledger of lone runs."""
    from autoresearch.lab.campaigns.campaign_history import CampaignHistory

    return CampaignHistory(campaign_dir).state() if campaign_dir.spec.is_file() else None


def export(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="A campaign, a run in it, or its file.")] = "",
    form: Annotated[str, typer.Option("--to", metavar="FORM", help="csv, parquet or tensorboard.")] = "",
    out: Annotated[str, typer.Option(metavar="PATH", help="The file, or TensorBoard's directory.")] = "",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Write a ledger for other tools. TensorBoard gets each run's metrics by step, and what its idea changed."""
    from pathlib import Path

    from autoresearch.lab.results import ledger_export

    for option, value in (("--to", form), ("--out", out)):
        if not value:
            form = form if form in ledger_export.FORMS else "csv"
            file = out or ("tensorboard" if form == "tensorboard" else f"ledger.{form}")
            words = [*([name] if name else []), "--to", form, "--out", file]
            fix = shlex.join(["autoresearch", "ledger", "export", *words])
            raise UsageError(f"ledger export needs {option}", hint=f"--to {', '.join(ledger_export.FORMS)}", fix=fix)
    done = ledger_export.export(name, form, Path(out), real_parts())
    for remark in done.remarks:
        output.remark(remark)
    payload = {"ledger": str(done.ledger), "format": form, "path": str(done.path), "rows": done.rows}
    payload |= {"remarks": list(done.remarks), "next": []}
    rows = counted(done.rows, "row")
    output.emit("ledger export", payload, as_json=as_json, lines=[f"wrote {done.path}: {rows} of {done.ledger}"])
    return 0


def _claim_notes(state: CampaignState) -> dict[int, str]:
    """What may be said of each idea that has a claim, by its index."""
    from autoresearch.core.campaign.shown_value import shown_value

    return {idea.index: shown_value(state, idea).sentence for idea in state.ideas if idea.confirmed}


def fitted(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The rows as lines of at most so many cells: columns go in an order, the description takes what room is left."""
    from rich.cells import cell_len

    from autoresearch.commands.layout import GAP
    from autoresearch.commands.overview_table import cut

    sizes = {name: max(cell_len(row[n]) for row in (names, *rows)) for n, name in enumerate(names)}
    sizes["run_id"] = min(sizes["run_id"], max(15, width // 3))
    text = sizes["description"]
    if NAME in sizes:  # says more than what ends in the same words
        sizes["run_id"], sizes[NAME] = min(sizes["run_id"], max(15, width // 4)), min(sizes[NAME], max(20, width // 3))
    for name in ("metric_name", "elapsed_min", "ending", "description", "claim") if NAME in sizes else GO_FIRST:
        if "description" in sizes:
            sizes["description"] = min(text, LEAST)
        if sum(sizes.values()) + GAP * (len(sizes) - 1) <= width:
            break
        sizes.pop(name, None)
    if "description" in sizes:
        sizes["description"] = 0
        sizes["description"] = max(1, min(text, width - sum(sizes.values()) - GAP * (len(sizes) - 1)))
    lines = []
    for row in (names, *rows):
        cells = [(size, cut(row[names.index(name)], size, middle=name == "run_id")) for name, size in sizes.items()]
        lines.append((" " * GAP).join(cell + " " * (size - cell_len(cell)) for size, cell in cells).rstrip())
    measured = {row[names.index("metric_name")] for row in rows}
    if "metric_name" not in sizes and len(measured) == 1:
        lines.append(cut(f"metric_value is {measured.pop()}", width))
    return lines
