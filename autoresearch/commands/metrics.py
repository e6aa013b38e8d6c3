"""`autoresearch metrics RUN`: the series of steps and validations of a run or of any log, and where they come from."""

from __future__ import annotations

import json
import shlex
import sys
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.layout import Column, grid, width_of
from autoresearch.commands.output import CommandResult
from autoresearch.core.text.numbers import counted
from autoresearch.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autoresearch.core.metrics.signal import Reading
    from autoresearch.lab.results.readout import Readout

STEP_ROWS = 10
VALIDATION_ROWS = 5
COLUMNS = 5
TOLD = 4  # warnings
WIDE = 30


def metrics(
    run: Annotated[str, Positional(metavar="RUN|FILE", show_default=False, help="A run, or any log.")] = "",
    trainer: Annotated[str, Option(help="Whose log it is; else any usual spelling is read.")] = "",
    metric: Annotated[str, Option(help="A key or an expression, instead of the run's objective.")] = "",
    key: Annotated[list[str] | None, Option(metavar="PATTERN", help="Only these metrics (a glob).")] = None,
    last: Annotated[int, Option(help="Only the newest N steps and validations.")] = 0,
    out: Annotated[str, Option(metavar="FILE", help="Write a table: .csv or .parquet.")] = "",
) -> CommandResult:
    """Metrics by step, validations, and the source that was believed."""
    from autoresearch.lab.results import frames

    if out:
        frames.check_name(Path(out))
    name, found = _read(run, trainer, metric)
    found = found.filtered(key or ())
    if out and any(Path(out).resolve() == Path(read.source.path).resolve() for read in found.reads):
        raise UsageError(f"--out {out} is where the metrics are read from", hint="name another file", code="bad_out")
    if out:
        frames.save(frames.of_readings(found.shown), Path(out))
    payload = _payload(found)
    if output.typed.as_json and not out:  # in which they are read
        _add_newest(payload, found, last)
    what = shlex.quote(name)
    payload["next"] = [] if out else [f"autoresearch metrics {what} --out metrics.csv"]
    if not found.best.readings:
        tail = [] if Path(name).exists() else [f"autoresearch logs {name} --tail 40"]
        payload["next"] = [f"autoresearch explain {what}", *tail]
    if out:
        payload["out"], payload["rows"] = str(Path(out).absolute()), len(found.shown)
    return CommandResult(payload, _lines(name, found, payload))


def _read(run: str, trainer: str, metric: str) -> tuple[str, Readout]:
    """What is read of a run, or of a file or directory that is none."""
    from autoresearch.commands.wiring import parts
    from autoresearch.lab.results import readout
    from autoresearch.lab.runs import lookup

    path = Path(run)
    # a source of a run may be a pattern, of which the newest is read
    every = [path] if run and path.exists() else map(Path, glob(run))  # noqa: PTH207 - it may be absolute
    if matching := [one for one in every if one.exists()]:  # a link may lead nowhere
        path = max(matching, key=lambda one: one.stat().st_mtime_ns)
    a_directory = bool(matching) and path.is_dir()
    if a_directory or not matching:
        a_run = UsageError(
            "--trainer is for a log; a run has its trainer", fix="autoresearch metrics FILE --trainer NAME"
        )
        if trainer and not a_directory:
            raise a_run
        try:
            recorded = lookup.recorded(run or "last", parts())
        except NotFoundError:
            if not a_directory:
                raise
        else:
            if trainer:
                raise a_run
            return recorded.spec.run, readout.of_run(recorded, metric=metric)
    return str(path), readout.of_log(path, trainer=trainer, metric=metric)


def _payload(readout: Readout) -> dict[str, Any]:
    """What is said of the readings, without any of them."""
    objective, believed = readout.objective, readout.source
    value = objective.value(readout.best.readings) if objective else None
    best = objective.best(objective.series(readout.best.readings)) if objective else None
    return {
        "trainer": readout.trainer,
        "source": believed.path if believed else None,
        "source_kind": str(believed.format) if believed else None,
        "sources": [
            {"kind": str(read.source.format), "path": read.source.path, "readings": len(read.readings)}
            for read in readout.reads
        ],
        "metric_name": objective.metric if objective else None,
        "metric_value": value[1] if value else None,
        "step": value[0] if value else None,
        "best": best[1] if best else None,
        "read": readout.best.summary or None,
        "steps": [],
        "validations": [],
        "left_off": len(readout.shown),
        "failure": {"kind": readout.failure[0], "line": readout.failure[1]} if readout.failure else None,
        "warnings": list(readout.warnings),
    }


def _add_newest(payload: dict[str, Any], readout: Readout, last: int) -> None:
    """Add the newest readings, as many as an agent should read; `next` has a file with all of them."""
    from autoresearch.core.metrics.signal import SignalKind

    kinds = (readout.of(SignalKind.STEP), readout.of(SignalKind.VALIDATION))
    steps, validations = (readings[-last:] if last > 0 else readings for readings in kinds)
    room = output.ROOM - len(json.dumps(payload, default=str))
    payload["validations"] = output.newest(validations, room // 2, _reading)
    payload["steps"] = output.newest(steps, room - len(json.dumps(payload["validations"])), _reading)
    payload["left_off"] -= len(payload["validations"]) + len(payload["steps"])


def _reading(reading: Reading) -> dict[str, Any]:
    """A reading as JSON; `ordinal`: no line names its step, which was counted."""
    return {"step": reading.step, "metrics": dict(reading.metrics), **({"ordinal": True} if reading.ordinal else {})}


def _lines(name: str, readout: Readout, payload: dict[str, Any]) -> Iterator[str]:
    """What people see; made only where it is printed."""
    from autoresearch.core.metrics.signal import SignalKind
    from autoresearch.lab.results.results_md import STEP_COLUMNS, telling

    steps, validations = readout.of(SignalKind.STEP), readout.of(SignalKind.VALIDATION)
    yield f"{name} ({readout.trainer}): {counted(len(steps), 'step')}, {counted(len(validations), 'validation')}"
    yield f"from {payload['source_kind']} {payload['source']}" if readout.source else "no source holds a metric"
    if payload["read"]:
        yield payload["read"]
    others = [
        f"{s['kind']} ({s['readings']})" for s in payload["sources"] if s["path"] != payload["source"] and s["readings"]
    ]
    if others:
        yield f"checked against {', '.join(others)}"[:200]
    if readout.objective:
        best = f" (best {output.number(payload['best'])})" if payload["best"] is not None else ""
        at = f" at step {payload['step']}{best}" if payload["metric_value"] is not None else ""
        yield f"{readout.objective.metric} = {output.number(payload['metric_value'])}{at}"[:200]
    asked = (readout.objective.key,) if readout.objective else ()
    yield from _table("step", steps, (*asked, *STEP_COLUMNS), STEP_ROWS)
    yield from _table("validation", validations, telling(validations, asked), VALIDATION_ROWS)
    if readout.failure:
        yield f"failure: {readout.failure[0]}: {payload['failure']['line']}"[:300]
    yield from (f"warning: {text}"[:300] for text in payload["warnings"][:TOLD])
    if payload.get("out"):
        yield f"wrote {counted(payload['rows'], 'row')} to {payload['out']}"


def _table(title: str, readings: Sequence[Reading], first_columns: Sequence[str], rows: int) -> list[str]:
    """At most `rows` rows, the first and the last among them; a few columns, as many as a terminal has room for."""
    from autoresearch.lab.results.measure import thinned
    from autoresearch.lab.results.results_md import columns_of

    if not readings:
        return []
    names = columns_of(readings, tuple(dict.fromkeys(first_columns)), limit=COLUMNS)
    heads = [title, *(name if len(name) <= WIDE else "…" + name[1 - WIDE :] for name in names)]
    cells = [
        [str(reading.step), *(output.number(reading.metrics.get(name)) for name in names)]
        for reading in thinned(readings, rows - 1)
    ]
    shown = grid(
        [Column(head, max(0, n - 1), right=True) for n, head in enumerate(heads)],
        cells,
        width_of(sys.stdout),
    )
    return [shown.header, *shown.rows]
