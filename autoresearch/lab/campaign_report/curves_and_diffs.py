"""What the report shows beyond journal and ledger: the curves of the runs, the diffs of what was kept.

Both may be gone (a run directory removed, a branch deleted): what cannot be read is left out, and named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.git import Git, GitFailed
from autoresearch.lab.campaign_report import formatting
from autoresearch.lab.campaign_report.plot_data import Curve, thinned
from autoresearch.lab.campaign_report.summary import IdeaLine, IdeaStatus
from autoresearch.lab.results.measure import Measurement, measure
from autoresearch.records import spec_file
from autoresearch.records.rundir import RunDir
from autoresearch.trainers import registry

MOST_RUNS = 300
MOST_DIFFS = 40
DIFF_LINES = 160
BLUEPRINT = ".autoresearch/blueprint.md"  # what we commit beside the code, and differs always


@dataclass(frozen=True, slots=True)
class Diff:
    """How an idea's commit differs from its parent's; `lines` are (CSS class, text)."""

    slug: str
    parent: str
    stat: str
    lines: tuple[tuple[str, str], ...]
    missing: str = ""  # why there is none
    name: str = ""
    parent_name: str = ""


def curves_of(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> tuple[list[Curve], int]:
    """The objective over steps of each run that is over, and how many measured runs could not be read."""
    found: list[Curve] = []
    missing = 0
    rows = [(line, row) for line in idea_lines for row in line.rows]
    for line, row in rows[:MOST_RUNS]:
        points = series_of(row) if row.run_dir else ()
        if points:
            found.append(Curve(row.run_id, line.index, line.slug, line.standing, thinned(points)))
        elif row.metric_value is not None:
            missing += 1
    return found, missing + max(0, len(rows) - MOST_RUNS)


def series_of(row: LedgerRow) -> tuple[tuple[int, float], ...]:
    """Every value of the objective with its step, read again from what the run left; () where that is gone."""
    return tuple(measured_again(row).series)


def measured_again(row: LedgerRow) -> Measurement:
    """What the run left, read again; nothing where that is gone."""
    rundir = RunDir(Path(row.run_dir))
    try:
        spec = spec_file.read(rundir)
        trainer = registry.of_run(spec)
        return measure(spec, trainer, rundir.log, ended=row.returncode == 0)
    except (OSError, ValueError, AutoresearchError):
        return Measurement(())


def diffs_of(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> list[Diff]:
    """What each kept idea changed, the best last; at most 40 ideas, 160 lines each."""
    kept = [line for line in idea_lines if line.standing in (IdeaStatus.KEPT, IdeaStatus.CONFIRMED)]
    ideas = {idea.slug: idea for idea in state.ideas}
    repository = Path(state.spec.repository)
    found = []
    for line in kept[-MOST_DIFFS:]:
        idea = ideas[line.slug]
        diff = diff_of(repository, idea.parent_commit, line.commit, line.slug, line.parent)
        found.append(replace(diff, name=line.name, parent_name=line.parent_name))
    return found


def diff_of(repository: Path, before: str, after: str, slug: str = "", parent: str = "") -> Diff:
    """The bounded diff of two commits, without each one's blueprint; `missing` where git cannot give one.

    The arguments that an idea adds to a command, and the recipe of one that lies elsewhere, are files of ours in it.
    """
    if not (before and after and repository.is_dir()):
        return Diff(slug, parent, "", (), "its commits are not recorded")
    shown = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "-M")
    where = (before, after, "--", ".", f":(exclude,top){BLUEPRINT}")
    git = Git(repository, timeout_s=60.0)
    try:
        stat = git.run(*shown, "--stat=100", *where).decode("utf-8", "replace")
        text = git.run(*shown, *where).decode("utf-8", "replace")
    except GitFailed as failure:
        return Diff(slug, parent, "", (), formatting.plain(failure.message))
    lines = tuple((_kind(line), line) for line in formatting.block(text.rstrip("\n"), DIFF_LINES).split("\n") if text)
    return Diff(slug, parent, formatting.block(stat.rstrip("\n"), 40), lines, "" if text.strip() else "no file differs")


def _kind(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ", "new file", "deleted file", "rename ", "similarity")):
        return "head"
    return {"+": "plus", "-": "minus", "@": "at"}.get(line[:1], "same")
