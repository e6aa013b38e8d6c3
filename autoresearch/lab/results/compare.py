"""Compare two runs: differences in configuration, code, environment and limits, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.recipe_edits import ABSENT, diff_recipes
from autoresearch.core.statistics.comparable import why_not
from autoresearch.core.statistics.noise import mean, noise_in
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.history import shown_diff
from autoresearch.lab.campaign_report import formatting
from autoresearch.lab.recipes.recipe_of_run import OURS, CommittedRun, per_run
from autoresearch.lab.results.row_lookup import LedgerMatch
from autoresearch.records.files import read_json
from autoresearch.records.rundir import RunDir
from autoresearch.trainers import registry

DIFF_LINES = 200
Pair = tuple[Any, Any]


def compare(match: LedgerMatch, other_match: LedgerMatch) -> dict[str, Any]:
    """The JSON object of `compare`: pairs hold (of A, of B), and mappings only what differs.

    What cannot be read is left out, and `code` says why. `difference` is B's mean minus A's; None if they measure
    different metrics, or one has no value.
    """
    sides = (match, other_match)
    a, b = map(_metrics, sides)
    refused = why_not(match.row.metric_name, other_match.row.metric_name)
    known = not refused and a["mean"] is not None and b["mean"] is not None
    objective = next((one.objective for side in sides if (one := side.campaign or side.spec)), None)
    commands = match.row.command, other_match.row.command
    config, anyway = _settings(match, other_match)
    code, lines, git = _code(match, other_match)
    return {
        "a": match.row.run_id,
        "b": other_match.row.run_id,
        "metric_name": match.row.metric_name or other_match.row.metric_name or None,
        "better": objective.better_words if objective and objective.direction else None,
        "metrics": {"a": a, "b": b, "difference": b["mean"] - a["mean"] if known else None},
        "not_comparable": refused or None,
        "config": config,
        "per_run": anyway,
        "command_line": commands if commands[0] != commands[1] else None,
        "commits": [side.row.commit or None for side in sides],
        "code": code,
        "diff": lines,
        "environment": _apart(*map(_environment, sides)),
        "limits": _apart(*(asdict(side.spec.limits) if side.spec else {} for side in sides)),
        "next": [line for line in (git, f"autoresearch repro {other_match.name}") if line],
    }


def _metrics(match: LedgerMatch) -> dict[str, Any]:
    """The measured values of a run, and those of its idea."""
    row, values = match.row, match.values
    return {
        "run": row.run_id,
        "status": row.shown_status or None,
        "ending": row.ending or None,
        "last": row.metric_value,
        "best": row.best_value,
        "mean": mean(values) if values else None,
        "sd": noise_in(values).shown_sd,
        "n": len(values),
        "shown": match.shown.to_json() if match.shown else None,
        **{name: getattr(row, name) for name in ("steps", "elapsed_min", "memory_gb", "seed")},
    }


def _environment(match: LedgerMatch) -> dict[str, Any]:
    """Host, programs and recorded variables of a run; secrets stay masked."""
    spec = match.spec
    if spec is None:
        return {"trainer": match.row.trainer, "launcher": match.row.launcher}
    known: dict[str, Any] = {name: getattr(spec, name) for name in ("trainer", "interpreter", "launcher")}
    runner = read_json(RunDir(Path(spec.run_dir)).runner) or {}
    known |= {"host": str(runner.get("host", "")), "gpus": len(runner.get("gpus", spec.gpus))}
    known |= {name: "; ".join(getattr(spec, name)) for name in ("prepare", "evaluate", "cleanup")}
    return known | {f"${name}": value for name, value in spec.environment.items()}


def _settings(committed_run: CommittedRun, other_run: CommittedRun) -> tuple[dict[str, Pair], dict[str, Pair]]:
    """The recipe keys that differ, and those that always differ between runs: seed, output paths."""
    apart, wholes = set[str](), []
    for ran in (committed_run, other_run):
        known = ran.row.trainer in registry.NAMES
        trainer = registry.by_name(ran.row.trainer if known else registry.NAMES[-1])
        wholes.append(flatten(ran.settings(trainer)))
        apart |= per_run(trainer, wholes[-1]) if known else set()
    chosen: dict[str, Pair] = {}
    anyway: dict[str, Pair] = {}
    for change in diff_recipes(*wholes):
        old, new = ("(absent)" if value is ABSENT else value for value in (change.old, change.new))
        (anyway if change.key in apart else chosen)[change.key] = old, new
    return chosen, anyway


def _code(committed_run: CommittedRun, other_run: CommittedRun) -> tuple[str, str, str]:
    """(a summary, the bounded diff, the command for the whole diff); recipes are compared by key, not here."""
    a, here = committed_run.row.commit, committed_run.checkout
    b, there = other_run.row.commit, other_run.checkout
    if not (a and b):
        return "unknown: a commit is not recorded", "", ""
    if a == b:
        return "the same commit", "", ""
    if here is None or there is None or here.common_dir != there.common_dir:
        return "unknown: the commits are not in one repository", "", ""
    ours = {OURS, committed_run.recipe_path(), other_run.recipe_path()} - {""}
    try:
        stat, text = shown_diff(here.root, a, b, without=ours)
    except AutoresearchError as failure:
        return f"unknown: {formatting.plain(failure.message)}", "", ""
    command = f"git -C {here.root} diff {a[:12]} {b[:12]} -- . ':!{OURS}'"
    return stat.rpartition("\n")[2].strip() or "the same", formatting.block(text.rstrip("\n"), DIFF_LINES), command


def _apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Pair]:
    """The differences; empty if a side's run directory is gone."""
    return {key: (a.get(key), b.get(key)) for key in {**a, **b} if a.get(key) != b.get(key)} if a and b else {}
