"""A campaign made by hand, with the real functions: a repository, a journal, a ledger, run directories."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.campaign.fold import fold
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignSpec, ProposerSpec, Rules, Stand, StopFacts, stand
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.diagnosis.failure import Diagnosis
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.limits import Limits
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.lab.results.finished_run import ExaminedRun
from autoresearch.lab.results.judge import Judgement, judge
from autoresearch.lab.results.measure import Measurement
from autoresearch.records import campaign_records, recorded_run
from autoresearch.records.campaign_records import CampaignDir, write_spec
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.recorded_run import FinishedRun
from autoresearch.records.rundir import RunDir
from tests.specs import campaign_spec, run_spec

METRIC = "task_pass_rate@1"
PROOF = {"gain": 0.15, "gain_low": 0.05, "gain_high": 0.25, "coverage": 0.9, "value": 0.65,
         "n": 4, "n_baseline": 5, "failed": 1, "failed_baseline": 0}  # fmt: skip
START = 1_790_000_000.0
RECIPE = "lr: {lr}\nseed: {seed}\nhidden: 96\nmetrics_jsonl_path: {out}/metrics.jsonl\n"


@dataclass
class Made:
    """A campaign that grows line by line, as its controller would write it."""

    place: CampaignDir
    spec: CampaignSpec
    root: Path
    clock: float = START
    heads: dict[str, str] = field(default_factory=dict)  # slug -> commit
    indexes: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)  # runs, by slug: a ledger is not read again for each row

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.root, env=os.environ, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def idea(self, slug: str, sentence: str = "", *, parent: str = "baseline", **more: Any) -> int:
        """An event, a branch and a commit that differs from the parent's."""
        index = self.indexes[slug] = len(self.indexes) + 1
        known = {k: more.pop(k) for k in ("overrides", "files", "kind") if k in more}
        hypothesis = Hypothesis(slug, sentence or f"Try {slug}", parent=parent, **known)
        above = self.heads.get(parent, self.spec.base_commit)
        real = slug != "baseline" and more.pop("git", True)
        commit = self._commit(slug, above, hypothesis) if real else above
        self.heads[slug] = commit
        self._tell(
            "idea",
            index=index,
            hypothesis=hypothesis.to_json(),
            parent="" if slug == "baseline" else parent,
            parent_commit=above,
            commit=commit,
            branch=self.spec.branch(slug),
            fingerprint=slug,
            **more,
        )
        return index

    def run(self, slug: str, value: float | None, status: str = "keep", **more: Any) -> LedgerRow:
        """One run of an idea from its preparation to its row, a run directory with a curve included."""
        index = self.indexes[slug]
        self.counts[slug] += 1
        replicate = self.counts[slug]
        run = f"{slug}-{replicate:06d}"
        why = more.pop("why", "baseline" if slug == "baseline" else "first" if replicate == 1 else "retest")
        run_dir = self.place.path / f"{slug}-{replicate}"
        seed = 40 + replicate
        curve = more.pop("curve", True)
        told = {"index": index, "run": run, "run_dir": str(run_dir), "replicate": replicate, "why": why, "seed": seed}
        self._tell("prepared", **told, commit=self.heads[slug])
        self._tell("started", run=run)
        row = LedgerRow(
            index=index,
            branch=self.spec.branch(slug),
            commit=self.heads[slug],
            recipe="recipe.yaml",
            metric_name=METRIC,
            metric_value=value,
            elapsed_min=5.0,
            command="python train.py",
            status=status,
            description=f"run of {slug}",
            run_id=run,
            replicate=replicate,
            ending=more.pop("ending", "crashed" if status == "crash" else "finished"),
            returncode=1 if status == "crash" else 0,
            seed=seed,
            trainer="generic",
            run_dir=str(run_dir),
            campaign=self.spec.name,
            started=self.clock,
            ended=self.clock + 300,
        )
        row = replace(row, **more)
        if curve:
            self._rundir(row, slug)
        self.clock += 300
        campaign_records.append_row(self.place, row)
        return row

    def _commit(self, slug: str, above: str, hypothesis: Hypothesis) -> str:
        """The branch of an idea, by one process and without a checkout."""
        branch = self.spec.branch(slug)
        files = {
            "recipe.yaml": RECIPE.format(lr=hypothesis.overrides.get("lr", 0.1), seed=0, out="out"),
            f"{slug}.py": f"print('{slug} </script><b>')\n",
            ".autoresearch/blueprint.md": f"# {slug}\n",
        }
        lines = [f"commit refs/heads/{branch}", "committer T <t@example.invalid> 1790000000 +0000", "data 0"]
        lines.append(f"from {above}")
        for path, text in files.items():
            lines += [f"M 100644 inline {path}", f"data {len(text.encode())}", text]
        stream = "\n".join(lines).encode() + b"\n"
        subprocess.run(["git", "fast-import", "--quiet"], cwd=self.root, env=os.environ, input=stream, check=True)
        return self.git("rev-parse", branch)

    def _rundir(self, row: LedgerRow, slug: str) -> None:
        place = RunDir(Path(row.run_dir))
        place.path.mkdir(parents=True)
        place.log.write_text("hello\n")
        metrics = place.path / "metrics.jsonl"
        last = row.metric_value if row.metric_value is not None else 0.1
        with metrics.open("w") as file:
            for step in range(0, 50, 10):
                value = 0.1 + (last - 0.1) * step / 40
                file.write(json.dumps({"step": step, "data": {METRIC: value}}) + "\n")
        recorded_run.write(place, self.run_spec(row, slug, str(metrics)), {})

    def run_spec(self, row: LedgerRow, slug: str, metrics: str) -> RunSpec:
        return run_spec(
            row.run_id,
            Path(row.run_dir),
            slug=slug,
            purpose=f"Try {slug}",
            campaign=self.spec.name,
            experiment=Path(row.run_dir).name,
            index=row.index,
            replicate=row.replicate or 1,
            blueprint=str(self.root / ".autoresearch/blueprint.md"),
            blueprint_sha="ab" * 32,
            recipe=str(self.root / "recipe.yaml"),
            command=row.command,
            cwd=str(self.root),
            limits=Limits(max_s=600.0 if slug == "baseline" else 900.0),
            session=f"ajet_{slug}",
            result_dir=str(self.root.parent / "results" / Path(row.run_dir).name),
            ledger=str(self.place.ledger),
            created=self.clock,
            objective=self.spec.objective,
            branch=row.branch,
            commit=row.commit,
            seed=row.seed,
            environment={"MODE": slug, "HF_TOKEN": "***"},
            sources=(Source(SourceFormat.JSONL, metrics, 1),),
        )

    def tell(self, do: str, **fields: Any) -> None:
        """Any other event."""
        self._tell(do, **fields)

    def checked(self) -> None:
        """The seed has an effect, and no run is a copy."""
        self.tell("seed_check", seen=True, reason="it differs", by="", runs=3, values=9, exact=False, copies=[])

    def verdict(self, do: str, slug: str, **fields: Any) -> None:
        """What is said of an idea after its runs."""
        campaign_records.append(self.place, do, t=self.clock, index=self.indexes[slug], **fields)

    def _tell(self, do: str, **fields: Any) -> None:
        self.clock += 1
        campaign_records.append(self.place, do, t=self.clock, **fields)

    def state(self) -> CampaignState:
        """What is known now, read from the files."""
        return fold(self.spec, campaign_records.read(self.place).events)

    def judged(self, spec: RunSpec, end: ExitRecord, value: float, steps: int = 40) -> Judgement:
        """The verdict on a run of it that measured this."""
        finished = FinishedRun(RunDir(Path(spec.run_dir)), spec, replace(end, last_step=steps))
        return judge(ExaminedRun(finished, Measurement((), last=(steps, value)), Diagnosis()), self.state())

    def stand(self, state: CampaignState | None = None) -> Stand:
        """Where it stands at its own clock."""
        state = state or self.state()
        best = state.best
        facts = StopFacts(state.attempted, best.value if best else None, state.gpu_hours, self.clock, 300.0)
        return stand(self.spec.rules, facts, self.spec.objective)


def made_campaign(folder: Path, name: str = "20261121-sort", **changes: Any) -> Made:
    """A campaign with a baseline of three runs."""
    root = folder / "code"
    root.mkdir()
    (root / "train.py").write_text("print('train')\n")
    (root / "recipe.yaml").write_text(RECIPE.format(lr=0.1, seed=0, out="out"))
    place = CampaignDir(folder / "reports" / name)
    place.path.mkdir(parents=True)
    spec = campaign_spec(
        name=name,
        slug="sort",
        directory=str(place.path),
        repository=str(root),
        trees=str(folder / "trees"),
        blueprint=str(root / "exp.md"),
        blueprint_text="# Sort",
        prefix=f"autoresearch/{name}",
        base="a snapshot of the working tree",
        recipe="recipe.yaml",
        interpreter="/v/python",
        result_dir=str(folder / "results"),
        objective=changes.pop("objective", Objective(METRIC, Direction.MAXIMIZE)),
        proposer=ProposerSpec("tpe"),
        rules=changes.pop("rules", Rules(count=12, deadline=START + 7200)),
        created=START,
    )
    made = Made(place, replace(spec, **changes), root)
    made.git("init", "-q", "-b", "main")
    made.git("add", "-A")
    made.git("commit", "-qm", "start")
    made.spec = replace(made.spec, base_commit=made.git("rev-parse", "HEAD"))
    write_spec(place, made.spec)
    made.idea("baseline", "Change nothing")
    for value in (0.50, 0.52, 0.48):
        made.run("baseline", value)
    return made


@pytest.fixture
def campaign(tmp_path: Path) -> Callable[..., Made]:
    """A campaign with a baseline of three runs; more of it is up to the test."""
    return partial(made_campaign, tmp_path)


@pytest.fixture
def lived(campaign: Callable[..., Made]) -> Made:
    """One of everything: kept, discarded, crashed, confirmed, demoted, not judged, skipped, still running."""
    made = campaign()
    made.idea("lr-up", "A larger step <script>alert(1)</script> | learns", overrides={"lr": 0.2})
    made.run("lr-up", 0.58)
    made.run("lr-up", 0.60)
    made.idea("lr-down", "A smaller step is steadier", overrides={"lr": 0.05})
    made.run("lr-down", 0.42, "discard")
    made.idea("oom", "Twice the batch", parent="lr-up")
    made.run("oom", None, "crash", failure="memory", curve=False)
    made.idea("flat", "Change the warm-up", parent="lr-up")
    made.run("flat", 0.595, "discard")
    made.idea("lucky", "Another schedule", parent="lr-up")
    made.run("lucky", 0.66)
    made.idea("child", "On the lucky one", parent="lucky")
    made.run("child", 0.67)
    made.idea("plumbing", "Ten steps only")
    made.verdict("smoke", "plumbing", run=made.run("plumbing", 0.11, "discard").run_id)
    made.idea("best", "Lower KL", parent="lr-up", overrides={"lr": 0.3})
    for value in (0.70, 0.72, 0.69):
        made.run("best", value)
    made.tell("skipped", hypothesis=Hypothesis("again", "The same once more").to_json(), reason="equal to lr-up")
    made.run("best", 0.71, why="confirm")
    made.verdict("confirmed", "best", reason="+0.19 over 8 fresh baseline runs, p 0.001", **PROOF)
    made.verdict("demoted", "lucky", reason="fresh runs: +0.01, p 0.4", delta=0.01)  # as older versions wrote it
    made.verdict("marked", "child", of="lucky")
    made.idea("now", "Under way")
    made.tell("prepared", index=made.indexes["now"], run="now-000001", run_dir="/nowhere", replicate=1, why="first")
    made.tell("started", run="now-000001")
    return made
