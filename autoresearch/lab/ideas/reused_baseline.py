"""The baseline's runs of an earlier campaign, taken for those of a new one where all that is recorded agrees.

Compared are the tree and the settings of the baseline, its command, preparation, evaluation and variables; interpreter,
plug-ins and the packages beside it (none was installed since the run began); this host, the GPUs and how they are
shared, the sandbox, the linked inputs (none was changed since), and the seeds. A run counts that finished with its
metric, keeps the constraints, and has nothing suspicious in its row.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from autoresearch.core.campaign.hypothesis import baseline_hypothesis
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea, IdeaRun
from autoresearch.core.metrics.constraint import MEMORY, breach, of_cell, parsed
from autoresearch.core.run.ending import Ending, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.text.numbers import counted
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.campaigns.earlier import earlier_campaigns, measured_by
from autoresearch.lab.ideas import idea_commit
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.lab.ideas.fingerprint import fingerprint_of, own_files
from autoresearch.lab.recipes import seeds
from autoresearch.records import evidence
from autoresearch.records.rundir import RunDir, read_json
from autoresearch.runner.basics import failpoint

_SAME = (
    "interpreter", "recipe", "gpus", "gpus_per_run", "runs_per_gpu", "include", "exclude", "hide", "min_steps",
    "places",
)  # fmt: skip
"""Fields of the two specs that have to agree."""


@dataclass(frozen=True, slots=True)
class ReusableBaseline:
    """The runs of an earlier campaign's baseline that stand for those of this one, in their order."""

    campaign: str
    runs: tuple[IdeaRun, ...]
    rows: tuple[LedgerRow, ...]

    @property
    def words(self) -> str:
        """`the baseline is that of night-3: 3 runs of it (baseline-ab12cd, ...)`."""
        names = ", ".join(run.run for run in self.runs)
        return f"the baseline is that of {self.campaign}: {counted(len(self.runs), 'run')} of it ({names})"


def reusable_at_start(builder: CommitBuilder) -> ReusableBaseline | None:
    """What a campaign that has not begun would take over; its baseline is committed, and has no branch."""
    idea = idea_commit.conceive(builder, CampaignState(builder.spec), baseline_hypothesis(), 1)
    return reusable(builder, idea)


def reusable(builder: CommitBuilder, idea: Idea) -> ReusableBaseline | None:
    """The first runs of the newest earlier baseline that agrees in all that is recorded, as many as are wanted."""
    if not builder.spec.earlier:
        return None
    first, ours = _first_seed(builder, idea.commit), idea.hypothesis
    for campaign in earlier_campaigns(builder.spec.earlier):
        theirs, spec = campaign.state.baseline, campaign.state.spec
        if theirs is None or not _agree(spec, builder.spec):
            continue
        apart = own_files(spec) | own_files(builder.spec)
        try:
            marks = {fingerprint_of(builder, one.commit, ours, apart) for one in (idea, theirs)}
        except AutoresearchError:  # a commit of another clone, or of a branch that was removed
            continue
        if len(marks) > 1:
            continue
        pairs = list(_runs(theirs, builder.spec))[: builder.spec.replicates]
        if pairs and pairs[0][0].seed == first:
            runs, rows = zip(*pairs, strict=True)
            return ReusableBaseline(campaign.name, runs, rows)
    return None


def reuse_baseline(context: CampaignContext) -> None:
    """Take over the runs of an earlier baseline; safe to repeat: the rows first, then the one line that counts them."""
    state, builder = context.state, context.builder
    assert state.baseline is not None, "it was committed before"
    found = reusable(builder, state.baseline)
    for row in found.rows if found else ():
        flags = row.flags or f"reused: a run of the campaign {row.campaign}"  # that one may have taken it over, too
        own = replace(row, index=state.baseline.index, campaign=context.spec.name, flags=flags)
        evidence.record(context.campaign_dir.ledger, own)
        failpoint("campaign.reused_row")
    runs = [asdict(run) for run in found.runs] if found else []
    context.note("reused", index=state.baseline.index, campaign=found.campaign if found else "", runs=runs)
    if found:
        context.say(found.words)
        context.write_documents()


def _first_seed(builder: CommitBuilder, commit: str) -> int:
    launch = replace(builder.launch(commit), command=builder.command(builder.arguments(commit)))
    return seeds.way_of(launch, builder.whole(commit), builder.blueprint.notes).first


def _agree(campaign_spec: CampaignSpec, other_spec: CampaignSpec) -> bool:
    """Whether two campaigns run their baselines in the same way, as far as their specs tell."""
    old, new = campaign_spec, other_spec
    if any(getattr(old, name) != getattr(new, name) for name in _SAME) or measured_by(old) != measured_by(new):
        return False
    boxed = [bool(one.research.agent) and one.research.sandbox != "off" for one in (old, new)]
    plugins = not (old.plugins and new.plugins) or old.plugins == new.plugins
    return boxed[0] == boxed[1] and plugins and all(place.is_local for place in new.places)


def _runs(idea: Idea, campaign_spec: CampaignSpec) -> Iterator[tuple[IdeaRun, LedgerRow]]:
    """The runs that count, in the order of their replicates, up to the first that does not."""
    rows = {row.run_id: row for row in idea.rows if row.run_id not in idea.smoke}
    changed = max((_changed(path) for path in _inputs(campaign_spec)), default=0.0)
    mine = sorted((run for run in idea.runs if run.why == "baseline"), key=lambda run: run.replicate)
    for number, run in enumerate(mine, 1):
        row = rows.get(run.run)
        if row is None or run.replicate != number or not _counts(row, campaign_spec) or changed > (row.started or 0.0):
            return
        yield IdeaRun(run.run, row.run_dir, number, "baseline", run.commit, run.seed, started=True, reused=True), row


def _counts(row: LedgerRow, campaign_spec: CampaignSpec) -> bool:
    rundir = RunDir(Path(row.run_dir))
    told = (read_json(rundir.runner) or {}).get("host")
    if row.status != Verdict.KEEP or row.ending != Ending.FINISHED or row.failure or told != os.uname().nodename:
        return False
    values = of_cell(row.constraints) | ({} if row.memory_gb is None else {MEMORY: row.memory_gb})
    value, suspicious = row.metric_value, row.flags and not row.flags.startswith("reused: ")
    measured = value is not None and math.isfinite(value) and row.metric_name == campaign_spec.objective.metric
    whole = row.seed is not None and rundir.collected.exists()
    return measured and whole and not suspicious and breach(parsed(campaign_spec.constraints), values, ()) is None


def _inputs(campaign_spec: CampaignSpec) -> Iterator[Path]:
    """What is no part of the tree: the installed packages, and the linked inputs with what lies directly in them."""
    for lib in ("lib", "lib64"):
        yield from (Path(campaign_spec.interpreter).parent.parent / lib).glob("python3*/site-packages")
    for name in (*(one.path for one in campaign_spec.shown if one.way.is_shown), *campaign_spec.hide):
        path = Path(campaign_spec.repository) / name
        yield path
        if path.is_dir():
            yield from path.iterdir()


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return math.inf
