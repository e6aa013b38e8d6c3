"""results.md: all results of a run, as a document for people."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autoresearch.core.diagnosis.failure import Failure
from autoresearch.core.diagnosis.families import table
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.metrics.signal import Reading
from autoresearch.core.text.numbers import number
from autoresearch.lab.results.measure import Measurement
from autoresearch.records.rundir import RunDir
from autoresearch.runner.text import without_html

if TYPE_CHECKING:
    from autoresearch.lab.runs.outcome import Outcome

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


def render_results(
    outcome: Outcome, measurement: Measurement, failure: Failure | None, traceback: str, rundir: RunDir
) -> str:
    """The text of results.md."""
    from autoresearch.lab.render import render

    steps, validations = measurement.steps, measurement.validations
    step_columns = columns_of(steps, STEP_COLUMNS)
    first = _objective_keys(outcome.spec.objective, measurement.readings) if outcome.spec.objective else ()
    validation_columns = columns_of(validations, telling(validations, first))
    stride = max(1, math.ceil(len(steps) / MAX_ROWS))
    return render(
        "results.md.j2",
        outcome=outcome,
        spec=outcome.spec,
        end=outcome.exit,
        elapsed=_duration(outcome.exit.duration_s),
        command=outcome.spec.command,
        facts=_facts(outcome),
        hint=table().remedy(failure.family) if failure else "",
        traceback=traceback.replace("```", "'''"),
        fence="`" * max(3, 1 + max(map(len, re.findall("`+", outcome.spec.command)), default=0)),
        text=without_html,
        validation_columns=validation_columns,
        validation_rows=_rows(validations, validation_columns),
        step_columns=step_columns,
        step_rows=_rows(thinned(steps, stride), step_columns),
        steps_seen=len(steps),
        stride=stride,
        summary=[_summary(name, steps) for name in columns_of(steps, STEP_COLUMNS, limit=40)],
        timing=_timing(outcome),
        warnings=measurement.warnings,
        places=_record_paths(outcome, rundir),
        number=_number,
        cell=_cell,
    )


def _objective_keys(objective: Objective, readings: Sequence[Reading]) -> tuple[str, ...]:
    """The keys that the objective uses."""
    return objective.keys_among({name for reading in readings for name in reading.metrics})


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


def _rows(readings: Sequence[Reading], columns: Sequence[str]) -> list[list[Any]]:
    return [[r.step, *(r.metrics.get(name) for name in columns)] for r in readings]


def thinned(steps: Sequence[Reading], stride: int) -> list[Reading]:
    """Every stride-th step, and always the last one."""
    kept = list(steps[::stride])
    if steps and kept[-1] is not steps[-1]:
        kept.append(steps[-1])
    return kept


def _summary(name: str, steps: Sequence[Reading]) -> tuple[str, float, float, float, float]:
    values = [r.metrics[name] for r in steps if name in r.metrics]
    finite = [v for v in values if math.isfinite(v)] or [math.nan]
    return name, values[0], values[-1], min(finite), max(finite)


def _facts(outcome: Outcome) -> list[tuple[str, str]]:
    spec = outcome.spec
    facts = [
        ("blueprint", spec.blueprint),
        ("trainer", spec.trainer),
        ("recipe", spec.recipe or "none"),
        ("codebase", spec.cwd),
        ("interpreter", spec.interpreter),
        (
            "branch",
            f"{spec.branch} at {spec.commit[:12]}" if spec.commit else "none (see the experiment log)",
        ),
        (
            "parent",
            f"{spec.parent_branch or 'detached'} at {spec.parent_commit[:12]}" if spec.parent_commit else "none",
        ),
        ("seed", "not fixed" if spec.seed is None else f"{spec.seed} ({spec.seed_by})"),
        ("session", spec.session),
        (
            "limits",
            f"first step {_duration(spec.limits.first_step_s)}, in all {_duration(spec.limits.max_s)}, "
            f"grace {_duration(spec.limits.grace_s)}"
            + (f", stall {_duration(spec.limits.stall_s)}" if spec.limits.stall_s is not None else ""),
        ),
        ("return code", "unknown" if outcome.exit.returncode is None else str(outcome.exit.returncode)),
    ]
    if spec.fix_of:
        facts.append(("repairs", spec.fix_of))
    if spec.gpus:
        facts.append(("GPUs", ", ".join(spec.gpus)))
    facts += [(f"env {name}", value) for name, value in spec.environment.items()]
    return facts


def _timing(outcome: Outcome) -> list[tuple[str, str]]:
    end = outcome.exit
    rows = [
        ("started", _stamp(end.started)),
        ("ended", _stamp(end.ended)),
        ("elapsed", _duration(end.duration_s)),
        (
            "first step",
            "none" if end.first_step_s is None else f"step {end.first_step} after {_duration(end.first_step_s)}",
        ),
        ("peak memory of the process tree", _bytes(end.peak_memory_bytes)),
    ]
    if end.gpu_memory_bytes is not None:
        returned = {True: "given back", False: "NOT given back", None: "unknown"}[end.gpu_memory_returned]
        rows.append(("peak GPU memory", f"{_bytes(end.gpu_memory_bytes)}, {returned} at the end"))
    if end.term_sent or end.kill_sent:
        rows.append(("signals sent", f"TERM to {end.term_sent}, KILL to {end.kill_sent} processes"))
    if outcome.spec.sandbox:
        rows.append(("trained in", outcome.spec.sandbox))
    if end.left:
        rows.append(("still alive", ", ".join(str(p) for p in end.left)))
    return rows


def _record_paths(outcome: Outcome, rundir: RunDir) -> list[tuple[str, str]]:
    return [
        ("log", str(rundir.log)),
        ("events", str(rundir.events)),
        ("run directory", str(rundir.path)),
        ("ledger", outcome.spec.ledger),
        ("results", str(outcome.results)),
        *(("tracker", url) for url in outcome.run_urls),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else number(value)


def _cell(value: str) -> str:
    """Text escaped for a table cell."""
    return without_html(" ".join(value.split()).replace("|", "\\|"))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.2f} h"


def _stamp(wall: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(wall)) if wall else "unknown"


def _bytes(count: int | None) -> str:
    return "unknown" if count is None else f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
