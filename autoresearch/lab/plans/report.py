"""What a plan came to: progress.md while it runs, final_report.md with its figures at the end."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.plans.model import Stage
from autoresearch.core.plans.view import PlanView, StageRun, Version
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.comparison import changed_paths, read_file
from autoresearch.lab.campaign_report import formatting, summary
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.plans import figures
from autoresearch.lab.plans.plan_dir import INSIDE, PlanPlace
from autoresearch.lab.plans.register import PLAN, registered_plan
from autoresearch.lab.plans.stages import campaign_place
from autoresearch.lab.render import render
from autoresearch.records.rundir import write_page

MOST_DIFF_LINES = 400
WORDS = {"cell": formatting.cell, "code": formatting.code, "number": formatting.number, "stamp": formatting.stamp}


@dataclass(frozen=True, slots=True)
class StageReport:
    """One concluded stage, as the report tells it."""

    run: StageRun
    said: Mapping[str, Any]  # its record
    question: str
    asked: frozenset[str]  # the words that its conditions ask for
    figure: str  # relative to the report; "" where it could not be drawn
    honest: tuple[str, ...]  # what may be said about its campaign, and what may not


@dataclass(frozen=True, slots=True)
class FinalReport:
    """What was written."""

    path: Path
    figures: tuple[Path, ...]
    remarks: tuple[str, ...]


def write_progress(place: PlanPlace, view: PlanView) -> None:
    """progress.md: what happened so far, for people; made anew from the records."""
    title = registered_plan(place, view).title
    text = render("progress.md.j2", view=view, title=title, branch=place.branch, **WORDS)
    write_page(place.directory / "progress.md", text, durable=False)


def write_report(place: PlanPlace, view: PlanView, *, now: float) -> FinalReport:
    """Write final_report.md and figures/ as the plan stands; what could not be had becomes a remark."""
    plans = {version.number: registered_plan(place, view, version.number) for version in view.versions}
    drawn: list[Path] = []
    remarks: list[str] = []
    stages = [_told(place, run, plans[run.version].stage(run.stage), drawn, remarks) for run in view.runs
              if run.conclusion is not None]  # fmt: skip
    picture = figures.draw_stages(place.directory, [(told.run, told.said) for told in stages])
    drawn += [picture] if picture else []
    values: dict[str, Any] = {
        **WORDS,
        "plan": plans[view.version.number],
        "view": view,
        "written": formatting.stamp(now),
        "stages": stages,
        "claims": _claims(stages),
        "picture": _relative(place, picture),
        "deviations": _deviations(place, view, stages),
        "versions": view.versions,
        "approvals": {version.number: _approval(view, version) for version in view.versions},
        "diffs": {version.number: _diff(place, view, version) for version in view.versions},
        "branch": place.branch,
        "repository": str(place.checkout.root),
        "remarks": remarks,
    }
    text = render("final_report.md.j2", **values)
    write_page(place.report, text)
    return FinalReport(place.report, tuple(drawn), tuple(remarks))


def _told(place: PlanPlace, run: StageRun, stage: Stage | None, drawn: list[Path], remarks: list[str]) -> StageReport:
    assert run.conclusion is not None and stage is not None
    conditions = [stage.expectation.when, *(outcome.when for outcome in stage.outcomes if outcome.when)]
    asked = frozenset(word for condition in conditions for word in condition.words)
    figure = ""
    honest: tuple[str, ...] = ()
    try:
        view = CampaignHistory(campaign_place(place, run)).view()
        found = figures.draw_campaign(place.directory, run.campaign, view)
        drawn += found.paths
        remarks += [remark for remark in found.remarks if remark not in remarks]
        figure = _relative(place, found.paths[0])
        honest = tuple(summary.honest(view, summary.idea_lines(view)))
    except (AutoresearchError, OSError) as error:
        remarks.append(f"stage {run.stage}: its campaign cannot be read any more: {error}")
    return StageReport(run, run.conclusion, stage.question, asked, figure, honest)


def _relative(place: PlanPlace, path: Path | None) -> str:
    return str(path.relative_to(place.directory)) if path else ""


def _claims(stages: list[StageReport]) -> list[str]:
    """What may be claimed of the plan as a whole, in words."""
    sure = [f"{slug} ({told.run.stage})" for told in stages for slug in told.said["confirmed"]]
    kept = [f"{slug} ({told.run.stage})" for told in stages for slug in told.said["kept"]
            if slug not in told.said["confirmed"]]  # fmt: skip
    words = [f"Confirmed: {', '.join(sure)}." if sure else "Nothing is confirmed: no idea of this plan may be claimed."]
    words += [f"Kept, not confirmed: {', '.join(kept)}."] if kept else []
    met = [told.said["met"] for told in stages]
    counts = ", ".join(f"{met.count(word)} {word}" for word in ("met", "not met", "undecided") if word in met)
    return [*words, f"Expectations: {counts}."] if met else words


def _deviations(place: PlanPlace, view: PlanView, stages: list[StageReport]) -> list[str]:
    found = [f"stage {told.run.stage}: {words}" for told in stages for words in told.said["deviations"]]
    for version in view.versions:
        if view.approvals.get(version.number, {}).get("do") == "waived":
            found.append(f"version {version.number} was run without an approval (--no-human)")
    codes = [version.code for version in view.versions]
    for old, new in zip(view.versions, view.versions[1:], strict=False):
        if old.code != new.code:
            changed = [path for path in changed_paths(place.checkout, old.code, new.code) if path != PLAN]
            shown = ", ".join(changed[:8]) + (f" and {len(changed) - 8} more" if len(changed) > 8 else "")
            found.append(f"version {new.number} begins from other code than version {old.number}: {shown}")
    for told in stages:
        if told.said["base_commit"] not in codes:
            found.append(f"stage {told.run.stage} began from a base of its own, {told.said['base_commit'][:12]}")
    return found


def _approval(view: PlanView, version: Version) -> str:
    said = view.approvals.get(version.number)
    if said is None:
        return "never approved, and never run"
    note = f": {said['note']}" if said.get("note") else ""
    if said["do"] == "waived":
        return f"run without an approval (--no-human), {formatting.stamp(said['t'])}, by {said['by']}{note}"
    return f"approved {formatting.stamp(said['t'])} by {said['by']}{note}"


def _diff(place: PlanPlace, view: PlanView, version: Version) -> str:
    """How its plan differs from the version before."""
    if version.number == 1:
        return ""
    before, after = (
        read_file(place.checkout, commit, f"{INSIDE}/{PLAN}").decode("utf-8", "replace").splitlines()
        for commit in (view.versions[version.number - 2].commit, version.commit)
    )
    names = (f"version {version.number - 1}", f"version {version.number}")
    return formatting.block(
        "\n".join(difflib.unified_diff(before, after, *names, lineterm="")), MOST_DIFF_LINES
    ).replace("````", "'''")
