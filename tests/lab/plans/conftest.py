"""A repository with a blueprint and a plan, and campaigns that are over as soon as they are begun."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.lab.campaign_report import plot_png
from autoresearch.lab.campaign_setup.base_commit import with_base_commit
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans import register, stages
from autoresearch.lab.plans.draft import Draft, read_draft
from autoresearch.lab.plans.plan_dir import PlanDir, read_view
from autoresearch.records.campaign_records import CampaignDir, add, write_spec
from autoresearch.records.index import Index
from autoresearch.records.ledger import Ledger

BLUEPRINT = """# Exp

## [exp_purpose]
- description: See whether it learns.

## [exp_codebase_dir]
- description: Here.
- dir: {codebase}

## [exp_venv_exe]
- description: Any.
- path: {python}

## [exp_yaml_path]
- description: The recipe.
- path: {codebase}/exp.yaml

## [exp_launch_command]
- description: Trains.
```bash
python train.py exp.yaml
```

## [exp_result_dir]
- description: There.
- dir: {results}

## [exp_max_time]
- time: 10 minutes in all, 5 minutes to the first step

## Other Notes
- trainer: verl
- metric: task_pass_rate@1
- direction: maximize
"""

PLAN: dict[str, Any] = {
    "title": "Does the learning rate matter?",
    "question": "What remains when it is right?",
    "topic": "topic.md",
    "stages": [
        {
            "name": "screen",
            "question": "Which one?",
            "campaign": {"blueprint": "exp.md", "baseline": 2},
            "ideas": [
                {"slug": "lr-high", "sentence": "higher", "overrides": {"lr": 0.9}},
                {"slug": "lr-low", "sentence": "lower", "overrides": {"lr": 0.01}},
            ],
            "expectation": {"sentence": "The higher one wins.", "when": "delta(lr-high) > 0.05"},
            "outcomes": [
                {"when": "confirmed", "conclusion": "It matters.", "next": "refine"},
                {"when": "crashed_share > 0.5", "conclusion": "It does not run.", "next": "revise"},
                {"when": "otherwise", "conclusion": "Nothing is proved.", "next": "revise"},
            ],
        },
        {
            "name": "refine",
            "question": "How far?",
            "campaign": {"blueprint": "exp.md", "count": 2, "proposer": "random", "space": {"lr": [0.5, 2.0]}},
            "expectation": {"sentence": "Further.", "when": "best > baseline"},
            "outcomes": [
                {"when": "kept", "conclusion": "More is better.", "next": "end"},
                {"when": "otherwise", "conclusion": "No further.", "next": "end"},
            ],
        },
    ],
}

PROOF = {"gain": 0.09, "gain_low": 0.02, "gain_high": 0.16, "coverage": 0.9, "value": 0.59,
         "n": 5, "n_baseline": 5, "failed": 0, "failed_baseline": 0}  # fmt: skip
Results = Mapping[str, tuple[str, float | None]]  # slug -> status, value; `confirmed` and `demoted` are kept first


@dataclass
class Yard:
    """One repository and its plan."""

    repo: Path
    parts: Parts
    results: dict[str, Results] = field(default_factory=dict)  # by stage
    begun: list[str] = field(default_factory=list)  # the campaigns that were begun
    said: list[str] = field(default_factory=list)
    pictures: Callable[[], None] = lambda: None

    @property
    def file(self) -> Path:
        return self.repo / "lr.plan.yaml"

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.repo, env=os.environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, change: Callable[[dict[str, Any]], object] = lambda _: None) -> Path:
        """Write the plan, changed."""
        plan = copy.deepcopy(PLAN)
        change(plan)
        stages_ = "\n".join(f"  - {json.dumps(stage)}" for stage in plan.pop("stages"))
        head = "\n".join(f"{key}: {json.dumps(value)}" for key, value in plan.items())
        self.file.write_text(f"{head}\nstages:\n{stages_}\n")
        return self.file

    def draft(self) -> Draft:
        return read_draft(self.file, self.parts)

    def approved(self) -> PlanDir:
        """The plan as it lies there, registered and approved."""
        draft = self.draft()
        assert draft.checkout is not None, draft.findings
        plan_dir = PlanDir(draft.checkout, draft.slug)
        view = register.register(plan_dir, draft, self.parts)
        register.approve(plan_dir, view, self.parts)
        return plan_dir

    def records(self, plan_dir: PlanDir) -> list[str]:
        return [str(record["do"]) for record in read_view(plan_dir).records]

    def begin_stage(self, plan_dir: PlanDir, run: Any, draft: Draft, code: str, parts: Parts, say: Any) -> CampaignDir:
        """What stands in for a campaign: it is over, with the results that the test gave."""
        assert draft.plan is not None
        stage = draft.plan.stage(run.stage)
        assert stage is not None
        self.begun.append(run.campaign)
        proposed = stages.stage_campaign(draft, stage, parts, queue=str(draft.path), prefix=run.prefix, base=code)
        there = stages.campaign_dir_of(plan_dir, run)
        there.path.mkdir(parents=True)
        spec = with_base_commit(proposed.spec, proposed.base)
        write_spec(there, spec)
        told: Results = {"baseline": ("keep", 0.5)} | dict(self.results.get(run.stage, {}))
        for index, (slug, (status, value)) in enumerate(told.items(), 1):
            keep = status in ("confirmed", "demoted")
            idea = Hypothesis(slug, f"try {slug}").to_json()
            add(there.journal, "idea", t=index, index=index, hypothesis=idea, commit=spec.base_commit,
                parent="" if index == 1 else "baseline", branch=spec.branch(slug))  # fmt: skip
            name = f"{slug}-{index:06d}"
            add(there.journal, "prepared", t=index, index=index, run=name, run_dir="/nowhere", replicate=1, why="first")
            add(there.journal, "started", t=index, run=name)
            Ledger(there.ledger).append_once(
                LedgerRow(
                    index=index, branch=spec.branch(slug), commit=spec.base_commit, recipe="exp.yaml",
                    metric_name="task_pass_rate@1", metric_value=value, elapsed_min=1.0, command="python train.py",
                    status="keep" if keep else status, description="a run", run_id=name, replicate=1,
                    ending="crashed" if status == "crash" else "finished", returncode=0, seed=1, trainer="verl",
                    run_dir="/nowhere", campaign=spec.name, started=spec.created, ended=spec.created + 60 * index,
                )
            )  # fmt: skip
            if keep:
                add(there.verdicts, status, index=index, slug=slug, delta=(value or 0.0) - 0.5, reason="fresh runs",
                    **PROOF)  # fmt: skip
        add(there.journal, "state", state=CampaignPhase.ENDED.value, reason="stop condition met")
        return there


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    """A plan of two stages whose campaigns cost nothing."""
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "train.py").write_text("print('train')\n")
    (repo / "exp.yaml").write_text("lr: 0.1\ndata.seed: 7\n")
    text = BLUEPRINT.format(codebase=repo, python=sys.executable, results=tmp_path / "results")
    (repo / "exp.md").write_text(text)
    (repo / "topic.md").write_text("# The learning rate\n\nDoes it matter?\n")

    def none(socket: str) -> Any:
        raise AssertionError("nothing is launched here")

    one = Yard(repo, Parts(environ=os.environ, index=Index(tmp_path / "index"), launcher=none))
    one.git("init", "-q")
    one.git("add", "-A")
    one.git("commit", "-qm", "start")
    one.write()
    monkeypatch.chdir(repo)
    monkeypatch.setattr(stages, "begin_stage", one.begin_stage)
    picture = plot_png.write_png  # which costs more than all else here

    def no_picture(path: Path, *_: object) -> None:
        path.touch()

    monkeypatch.setattr(plot_png, "write_png", no_picture)
    one.pictures = lambda: monkeypatch.setattr(plot_png, "write_png", picture)
    return one
