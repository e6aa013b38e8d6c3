"""Reports of a plan: progress.md while it runs, final_report.md with its figures at the end."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.plans.model import Stage
from autoresearch.core.plans.view import PlanView, StageRun, Version
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.comparison import changed_paths, read_file
from autoresearch.lab.campaign_report import formatting, plot_png, summary
from autoresearch.lab.campaign_report.plot_data import progress_of
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.plans.plan_dir import INSIDE, PlanDir
from autoresearch.lab.plans.register import PLAN, registered_plan
from autoresearch.lab.plans.stages import campaign_dir_of
from autoresearch.lab.render import render
from autoresearch.records.rundir import write_page

FOLDER = "figures"
MOST_DIFF_LINES = 400
WORDS = {"cell": formatting.cell, "code": formatting.code, "number": formatting.number, "stamp": formatting.stamp}


@dataclass(frozen=True, slots=True)
class StageReport:
    """One concluded stage in the report."""

    run: StageRun
    record: Mapping[str, Any]  # of its conclusion
    question: str
    facts_used: frozenset[str]  # by its conditions
    figure: str  # relative to the report; "" if it could not be drawn
    honest: tuple[str, ...]  # which claims about its campaign are justified, and which are not


@dataclass(frozen=True, slots=True)
class FinalReport:
    """The files that `write_report` wrote."""

    path: Path
    figures: tuple[Path, ...]
    remarks: tuple[str, ...]


def write_progress(plan_dir: PlanDir, view: PlanView) -> None:
    """Write progress.md, what happened so far, from the records."""
    title = registered_plan(plan_dir, view).title
    text = render("progress.md.j2", view=view, title=title, branch=plan_dir.branch, **WORDS)
    write_page(plan_dir.directory / "progress.md", text, durable=False)


def write_report(plan_dir: PlanDir, view: PlanView, *, now: float) -> FinalReport:
    """Write final_report.md and figures/ for the plan as it stands; failures become remarks."""
    plans = {version.number: registered_plan(plan_dir, view, version.number) for version in view.versions}
    drawn: list[Path] = []
    remarks: list[str] = []
    stages = [_stage_report(plan_dir, run, plans[run.version].stage(run.stage), drawn, remarks) for run in view.runs
              if run.conclusion is not None]  # fmt: skip
    picture = draw_stages(plan_dir.directory, [(stage.run, stage.record) for stage in stages])
    drawn += [picture] if picture else []
    values: dict[str, Any] = {
        **WORDS,
        "plan": plans[view.version.number],
        "view": view,
        "written": formatting.stamp(now),
        "stages": stages,
        "claims": _claims(stages),
        "picture": _relative(plan_dir, picture),
        "deviations": _deviations(plan_dir, view, stages),
        "versions": view.versions,
        "approvals": {version.number: _approval(view, version) for version in view.versions},
        "diffs": {version.number: _diff(plan_dir, view, version) for version in view.versions},
        "branch": plan_dir.branch,
        "repository": str(plan_dir.checkout.root),
        "remarks": remarks,
    }
    text = render("final_report.md.j2", **values)
    write_page(plan_dir.report, text)
    return FinalReport(plan_dir.report, tuple(drawn), tuple(remarks))


def _stage_report(
    plan_dir: PlanDir, stage_run: StageRun, stage: Stage | None, drawn: list[Path], remarks: list[str]
) -> StageReport:
    assert stage_run.conclusion is not None and stage is not None
    conditions = [stage.expectation.when, *(outcome.when for outcome in stage.outcomes if outcome.when)]
    facts_used = frozenset(word for condition in conditions for word in condition.words)
    figure = ""
    honest: tuple[str, ...] = ()
    try:
        view = CampaignHistory(campaign_dir_of(plan_dir, stage_run)).state()
        drawn.append(draw_campaign(plan_dir.directory, stage_run.campaign, view))
        figure = _relative(plan_dir, drawn[-1])
        honest = tuple(summary.honest(view, summary.idea_lines(view)))
    except (AutoresearchError, OSError) as error:
        remarks.append(f"stage {stage_run.stage}: its campaign can no longer be read: {error}")
    return StageReport(stage_run, stage_run.conclusion, stage.question, facts_used, figure, honest)


def _relative(plan_dir: PlanDir, path: Path | None) -> str:
    return str(path.relative_to(plan_dir.directory)) if path else ""


def _claims(stages: list[StageReport]) -> list[str]:
    """What may be claimed of the plan as a whole, in words."""
    sure = [f"Confirmed: {_shown(stage, slug)}." for stage in stages for slug in stage.record["confirmed"]]
    kept = [_shown(stage, slug) for stage in stages for slug in stage.record["kept"]
            if slug not in stage.record["confirmed"]]  # fmt: skip
    words = sure or ["Nothing is confirmed: no idea of this plan may be claimed."]
    words += [f"Kept, not confirmed: {'; '.join(kept)}."] if kept else []
    met = [stage.record["met"] for stage in stages]
    counts = ", ".join(f"{met.count(word)} {word}" for word in ("met", "not met", "undecided") if word in met)
    return [*words, f"Expectations: {counts}."] if met else words


def _shown(stage_report: StageReport, slug: str) -> str:
    """An idea with its stage and its number; records of older versions have only its name."""
    sentence = stage_report.record.get("shown", {}).get(slug, {}).get("sentence", slug)
    return f"stage {stage_report.run.stage}, {sentence}"


def _deviations(plan_dir: PlanDir, view: PlanView, stages: list[StageReport]) -> list[str]:
    deviations = [f"stage {stage.run.stage}: {words}" for stage in stages for words in stage.record["deviations"]]
    for version in view.versions:
        if view.approvals.get(version.number, {}).get("do") == "waived":
            deviations.append(f"version {version.number} was run without an approval (--no-human)")
    codes = [version.code for version in view.versions]
    for old, new in zip(view.versions, view.versions[1:], strict=False):
        if old.code != new.code:
            changed = [path for path in changed_paths(plan_dir.checkout, old.code, new.code) if path != PLAN]
            shown = ", ".join(changed[:8]) + (f" and {len(changed) - 8} more" if len(changed) > 8 else "")
            deviations.append(f"version {new.number} begins from other code than version {old.number}: {shown}")
    for stage in stages:
        if stage.record["base_commit"] not in codes:
            deviations.append(
                f"stage {stage.run.stage} began from a base of its own, {stage.record['base_commit'][:12]}"
            )
    return deviations


def _approval(view: PlanView, version: Version) -> str:
    approval = view.approvals.get(version.number)
    if approval is None:
        return "never approved, and never run"
    note = f": {approval['note']}" if approval.get("note") else ""
    if approval["do"] == "waived":
        return f"run without an approval (--no-human), {formatting.stamp(approval['t'])}, by {approval['by']}{note}"
    return f"approved {formatting.stamp(approval['t'])} by {approval['by']}{note}"


def _diff(plan_dir: PlanDir, view: PlanView, version: Version) -> str:
    """How its plan differs from the version before."""
    if version.number == 1:
        return ""
    before, after = (
        read_file(plan_dir.checkout, commit, f"{INSIDE}/{PLAN}").decode("utf-8", "replace").splitlines()
        for commit in (view.versions[version.number - 2].commit, version.commit)
    )
    names = (f"version {version.number - 1}", f"version {version.number}")
    return formatting.block(
        "\n".join(difflib.unified_diff(before, after, *names, lineterm="")), MOST_DIFF_LINES
    ).replace("````", "'''")


def draw_campaign(directory: Path, name: str, state: CampaignState) -> Path:
    """The progress of a campaign."""
    path = _path(directory, name)
    plot_png.write_png(path, progress_of(state, summary.idea_lines(state)))
    return path


def draw_stages(directory: Path, stage_runs: Sequence[tuple[StageRun, Mapping[str, Any]]]) -> Path | None:
    """Baseline and best of every stage side by side; None without values, or if their metrics differ."""
    records = [record for _, record in stage_runs]
    if len({record["metric"] for record in records}) != 1:
        return None
    if not any(_best(record) is not None or _known(record, "baseline") for record in records):
        return None

    def draw(axes: Any) -> None:
        for n, record in enumerate(records, 1):
            _stage(axes, n, record)
        axes.set_xticks(range(1, len(records) + 1), [f"{n} {run.stage}" for n, (run, _) in enumerate(stage_runs, 1)])
        axes.set_xlim(0.4, len(records) + 0.6)
        axes.margins(y=0.2)
        axes.set_ylabel(plot_png.plain(str(records[0]["metric"])), color=plot_png.SOFT)

    path = _path(directory, "stages")
    plot_png.write_figure(path, draw, title="baseline and best of each stage", size=(11, 4))
    return path


def _stage(axes: Any, n: int, record: Mapping[str, Any]) -> None:
    base, best = record["facts"].get("baseline"), _best(record)
    if _known(record, "baseline"):
        noise = record["facts"]["noise"] if _known(record, "noise") else None
        colour = plot_png.BASE
        axes.errorbar(n - 0.1, base, yerr=noise, fmt="s", color=colour, elinewidth=8, ecolor=(0.29, 0.31, 0.34, 0.2))
    if best is not None and record["best"] != "baseline":
        sure = record["best"] in record["confirmed"]
        low, high = _interval(record) or (best, best)
        colour, marker = (plot_png.GREEN, "*") if sure else (plot_png.BLUE, "o")
        axes.errorbar(n + 0.1, best, yerr=[[best - low], [high - best]], fmt=marker, color=colour, markersize=9)
        words = plot_png.plain(f"{record['best'][:24]} ({'confirmed' if sure else 'kept'})")
        axes.annotate(words, (n + 0.1, high), (0, 8), textcoords="offset points", ha="center", fontsize=9, color=colour)


def _best(record: Mapping[str, Any]) -> float | None:
    """The number to show of the best idea; of records of older versions, its search mean."""
    value = record.get("shown", {}).get(record["best"], {}).get("value")
    return float(value) if value is not None else float(record["facts"]["best"]) if _known(record, "best") else None


def _interval(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """The ends of its interval; None without one."""
    shown = record.get("shown", {}).get(record["best"], {})
    low, high = shown.get("value_low"), shown.get("value_high")
    return None if low is None or high is None else (float(low), float(high))


def _known(record: Mapping[str, Any], key: str) -> bool:
    value = record["facts"].get(key)
    return isinstance(value, int | float) and math.isfinite(value)


def _path(directory: Path, name: str) -> Path:
    (directory / FOLDER).mkdir(exist_ok=True)
    return directory / FOLDER / f"{name}.png"
