"""results.md: all results of a run, as a document for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autoresearch.core.diagnosis.failure import table
from autoresearch.core.metrics.signal import Reading
from autoresearch.lab.campaign_report.formatting import cell, minutes, number, stamp
from autoresearch.lab.disk.usage import gb
from autoresearch.lab.results.finished_run import ExaminedRun
from autoresearch.lab.results.measure import thinned
from autoresearch.records import journal
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.recorded_run import Outcome
from autoresearch.runner.text import without_html

CELL_MAX = 4000  # characters
MAX_ROWS = 40
STEP_COLUMNS = (
    "critic/rewards/mean",
    "reward",
    "actor/kl_loss",
    "kl",
    "actor/pg_loss",
    "loss",
    "actor/entropy",
    "entropy",
    "actor/grad_norm",
    "grad_norm",
    "timing_s/step",
)  # shown where a trainer has them, in this order; else its first few
VALIDATION_PREFIXES = ("task_pass_rate@", "val-core/", "mean_reward", "eval_reward")  # shown before bookkeeping
MAX_COLUMNS = 7


def render_results(examined: ExaminedRun, outcome: Outcome) -> str:
    """The text of results.md."""
    from autoresearch.lab.render import render

    spec, end, rundir = outcome.spec, outcome.exit, outcome.rundir
    steps, validations = examined.measurement.steps, examined.measurement.validations
    names = {name for reading in examined.measurement.readings for name in reading.metrics}
    first = (spec.objective.key_among(names),) if spec.objective else ()
    facts = journal.facts(spec) | ({} if spec.commit else {"branch": "none (see the experiment log)"})
    return render(
        "results.md.j2",
        outcome=outcome,
        spec=spec,
        end=end,
        elapsed=minutes(end.duration_s / 60),
        facts=facts | {"return code": "unknown" if end.returncode is None else str(end.returncode)},
        hint=table().remedy(examined.failure.kind) if examined.failure else "",
        traceback=examined.diagnosis.traceback.replace("```", "'''"),
        command=journal.command_block(spec),
        text=without_html,
        validations=validations,
        validation_columns=columns_of(validations, telling(validations, first)),
        steps=thinned(steps, MAX_ROWS),
        step_columns=columns_of(steps, STEP_COLUMNS),
        steps_seen=len(steps),
        stride=math.ceil(len(steps) / MAX_ROWS),
        summary=[_summary(name, steps) for name in columns_of(steps, STEP_COLUMNS, limit=40)],
        timing=_timing(end, spec.sandbox),
        warnings=outcome.warnings,
        places=[
            *(("events", rundir.events), ("results", outcome.results)),
            *(("tracker", url) for url in outcome.run_urls),
        ],
        number=number,
        cell=lambda value: cell(str(value), CELL_MAX),
    )


def telling(validations: Sequence[Reading], first: Sequence[str]) -> tuple[str, ...]:
    """The metrics to show for validations: the objective's, then the main ones, without bookkeeping."""
    names = sorted({n for r in validations for n in r.metrics if n.startswith(VALIDATION_PREFIXES)})
    return tuple(dict.fromkeys((*first, *names)))


def columns_of(readings: Sequence[Reading], preferred: Sequence[str], *, limit: int = MAX_COLUMNS) -> list[str]:
    """The metrics that fit into a table: the wanted ones that exist, then the first of the others."""
    names: dict[str, None] = {}
    for reading in readings:
        names.update(dict.fromkeys(reading.metrics))
    chosen = [name for name in preferred if name in names]
    chosen += [name for name in names if name not in chosen]
    return chosen[:limit]


def _summary(name: str, steps: Sequence[Reading]) -> tuple[str, float, float, float, float]:
    values = [r.metrics[name] for r in steps if name in r.metrics]
    finite = [v for v in values if math.isfinite(v)] or [math.nan]
    return name, values[0], values[-1], min(finite), max(finite)


def _timing(end: ExitRecord, sandbox: str) -> list[tuple[str, str]]:
    first = "none" if end.first_step_s is None else f"step {end.first_step} after {minutes(end.first_step_s / 60)}"
    rows = [
        ("started", stamp(end.started)),
        ("ended", stamp(end.ended)),
        ("elapsed", minutes(end.duration_s / 60)),
        ("first step", first),
        ("peak memory of the process tree", "" if end.peak_memory_bytes is None else gb(end.peak_memory_bytes)),
    ]
    if end.gpu_memory_bytes is not None:
        returned = {True: "given back", False: "NOT given back", None: "unknown"}[end.gpu_memory_returned]
        rows.append(("peak GPU memory", f"{gb(end.gpu_memory_bytes)}, {returned} at the end"))
    if end.term_sent or end.kill_sent:
        rows.append(("signals sent", f"TERM to {end.term_sent}, KILL to {end.kill_sent} processes"))
    rows += [("trained in", sandbox), ("still alive", ", ".join(map(str, end.left)))]
    return [(name, value) for name, value in rows if value]
