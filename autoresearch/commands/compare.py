"""`autoresearch compare A B`: what differs between two runs, and what came of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import layout, output
from autoresearch.commands.layout import GAP
from autoresearch.commands.overview_table import cut
from autoresearch.commands.wiring import parts as real_parts

if TYPE_CHECKING:
    from autoresearch.lab.results.compare import Comparison

SHOWN = 6  # differing keys of a kind, for people
WIDE = 36


def compare(
    a: Annotated[str, typer.Argument(metavar="A", show_default=False, help="Run id, slug, CAMPAIGN:INDEX[.N].")],
    b: Annotated[str, typer.Argument(metavar="B", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Compare two runs: metrics, recipe by key, code, environment, limits."""
    from autoresearch.lab.results import row_lookup
    from autoresearch.lab.results.compare import compare as compared

    parts = real_parts()
    found = compared(row_lookup.find(a, parts), row_lookup.find(b, parts))
    if as_json:
        output.emit("compare", _payload(found), as_json=True)
        return 0
    lines = _lines(found)
    for line in lines:
        output.prose(line)
    room = output.MAX_LINES - len(lines) - 1
    diff = found.diff.splitlines()
    for line in diff[: max(room, 0)]:
        output.log_text(f"  | {line[:200]}")
    if found.git and len(diff) > room:
        output.prose(f"next: {found.git}")
    return 0


def _payload(comparison: Comparison) -> dict[str, Any]:
    return {
        "a": comparison.a.row.run_id,
        "b": comparison.b.row.run_id,
        "metric_name": comparison.metric or None,
        "metrics": {"a": comparison.a.metrics, "b": comparison.b.metrics, "difference": comparison.difference},
        "not_comparable": comparison.refused or None,
        "config": comparison.config,
        "per_run": comparison.per_run,
        "command_line": comparison.command,
        "commits": [comparison.a.row.commit or None, comparison.b.row.commit or None],
        "code": comparison.code,
        "diff": comparison.diff,
        "environment": comparison.environment,
        "limits": comparison.limits,
        "next": [line for line in (comparison.git, f"autoresearch repro {comparison.b.name}") if line],
    }


def _lines(comparison: Comparison) -> list[str]:
    a, b = comparison.a.metrics, comparison.b.metrics
    rows = [["", "A", "B"]]
    rows += [["run", a["run"], b["run"]], ["status", _status(a), _status(b)]]
    rows += [[f"{comparison.metric or 'metric'}, last", output.number(a["last"]), output.number(b["last"])]]
    rows += [["best", output.number(a["best"]), output.number(b["best"])]]
    rows += [["mean of the idea's search runs", _mean(a), _mean(b)]]
    rows += [["steps, seed", f"{_or(a['steps'])}, {_or(a['seed'])}", f"{_or(b['steps'])}, {_or(b['seed'])}"]]
    minutes = [None if m["elapsed_min"] is None else m["elapsed_min"] * 60 for m in (a, b)]
    rows += [["took", output.duration(minutes[0]), output.duration(minutes[1])]]
    lines = _aligned(rows)
    if comparison.difference is not None:
        better = f", {comparison.objective.better_words}" if comparison.objective else ""
        lines.append(
            f"difference of the search means (B - A): {comparison.difference:+.4g}{better}; "
            "a comparison, not a confirmation"
        )
    elif comparison.refused:
        lines.append(f"not compared: {comparison.refused}"[:300])
    lines += [f"{letter} is of {m['shown']['sentence']}"[:400] for letter, m in (("A", a), ("B", b)) if m["shown"]]
    lines += _section("config", comparison.config)
    lines += _section("per run", comparison.per_run, 3)
    if comparison.command:
        lines += ["command:", f"  A {comparison.command[0][:160]!r}", f"  B {comparison.command[1][:160]!r}"]
    lines += _section("environment", comparison.environment, 4)
    lines += _section("limits", comparison.limits, 4)
    lines.append(f"code: {comparison.code}")
    return lines[: output.MAX_LINES - 1]


def _section(title: str, pairs: Mapping[str, tuple[Any, Any]], most: int = SHOWN) -> list[str]:
    from autoresearch.lab.campaign_report.formatting import plain

    if not pairs:
        return [f"{title}: the same"]
    first = list(pairs.items())[:most]
    shown = [f"  {plain(k, 60)}: {plain(_or(x), 60)} -> {plain(_or(y), 60)}" for k, (x, y) in first]
    left = [f"  and {len(pairs) - most} more: --json"] if len(pairs) > most else []
    return [f"{title}:", *shown, *left]


def _aligned(rows: list[list[str]]) -> list[str]:
    names = max(len(row[0]) for row in rows)
    wide = min(WIDE, (layout.columns() - names - 2 * GAP) // 2) if sys.stdout.isatty() else WIDE
    shown = [[row[0], *(cut(cell, wide, middle=True) for cell in row[1:])] for row in rows]
    width = [max(len(row[n]) for row in shown) for n in range(3)]
    return [(" " * GAP).join(cell.ljust(width[n]) for n, cell in enumerate(row)).rstrip() for row in shown]


def _status(side: dict[str, Any]) -> str:
    return f"{side['status']} ({side['ending']})" if side["status"] else "not over"


def _mean(side: dict[str, Any]) -> str:
    spread = f" ± {output.number(side['sd'])}" if side["sd"] is not None else ""
    return f"{output.number(side['mean'])}{spread} (n={side['n']})"


def _or(value: object) -> str:
    return "-" if value is None or value == "" else str(value)
