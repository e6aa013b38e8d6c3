"""A blueprint, and the specs of a run that nobody launched and of a campaign that nobody began."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.spec import CampaignSpec, ProposerSpec, Rules
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.spec import Limits, RunSpec

BLUEPRINT = """# {title}

## [exp_purpose]
- description: {purpose}

## [exp_codebase_dir]
- dir: {codebase}

## [exp_venv_exe]
- path: {python}

## [exp_yaml_path]
- path: {recipe}

## [exp_launch_command]
```bash
{command}
```

## [exp_result_dir]
- dir: {result_dir}

## [exp_max_time]
- time: {max_time} in all, {first_step} to the first step

## Other Notes
{notes}
"""


def blueprint_text(*, trainer: str = "verl", metric: str = "task_pass_rate@1", notes: str = "", **given: str) -> str:
    """A blueprint; its first notes name the trainer and the metric, unless they are empty."""
    usual = {
        "title": "Try it",
        "purpose": "See what it does.",
        "codebase": "./",
        "python": sys.executable,
        "recipe": "NA",
        "command": "python train.py",
        "result_dir": "./results",
        "max_time": "10 minutes",
        "first_step": "5 minutes",
    }
    first = f"- trainer: {trainer}\n" * bool(trainer)
    first += f"- metric: {metric}\n- direction: maximize\n" * bool(metric)
    return BLUEPRINT.format(**{**usual, **given}, notes=first + notes)


def run_spec(run: str, run_dir: Path, **given: Any) -> RunSpec:
    """A lone run that trains nothing; its results and its ledger lie two directories above its own."""
    root = run_dir.parents[1]
    usual = {
        **dict.fromkeys(("slug", "experiment"), run),
        **dict.fromkeys(("purpose", "blueprint", "blueprint_sha", "recipe"), ""),
        **{"campaign": "lone", "index": 1, "replicate": 1, "trainer": "generic", "command": "true"},
        **{"cwd": str(root), "interpreter": "/p", "limits": Limits(), "session": f"ajet_{run}"},
        **{"result_dir": str(root / "results" / run_dir.name), "ledger": str(root / "results.tsv"), "created": 0.0},
    }
    return RunSpec(run=run, run_dir=str(run_dir), **{**usual, **given})


def campaign_spec(**given: Any) -> CampaignSpec:
    """A campaign that maximises pass@1 over a queue; texts are empty unless they are given."""
    usual: dict[str, Any] = {
        one.name: "" for one in fields(CampaignSpec) if one.type == "str" and one.default is MISSING
    }
    usual |= {"objective": Objective("pass@1", Direction.MAXIMIZE), "proposer": ProposerSpec("queue")}
    return CampaignSpec(**{**usual, "rules": Rules(), "created": 0.0, **given})


def events(
    journal: Iterable[Mapping[str, Any]], rows: Iterable[LedgerRow] = (), verdicts: Iterable[Mapping[str, Any]] = ()
) -> list[Mapping[str, Any]]:
    """The events of a campaign: what happened to its ideas, the rows of their runs, what was said of them later."""
    return [*journal, *({"do": "ran", "row": row.cells()} for row in rows), *verdicts]
