"""`autoresearch report [NAME]`: what a campaign or a plan came to, as it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import UsageError
from autoresearch.records.campaign_records import CampaignDir

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from autoresearch.lab.parts import Parts
    from autoresearch.lab.plans.plan_dir import PlanDir


def report(
    name: Annotated[str, typer.Argument(metavar="CAMPAIGN|PLAN", show_default=False)] = "",
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve a campaign's page live; unnamed: all of this project.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of --serve, on 127.0.0.1; by default a free one.")] = 0,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Write the report of a campaign (report.md, report.html, progress.png) or of a plan (final_report.md, figures).

    With --serve, nothing is written: report.html is served and shows what comes, until Ctrl-C.
    """
    from autoresearch.commands.name_lookup import report_of

    if port and not serve:
        words = ["autoresearch report", *([name] if name else []), f"--serve --port {port}"]
        raise UsageError("--port is an option of --serve", fix=" ".join(words))
    if serve:
        from autoresearch.commands.serve_report import serve_report

        return serve_report(name, port, as_json=as_json)
    parts = real_parts()
    named = report_of(name, parts)
    if isinstance(named, CampaignDir):
        return _of_campaign(named, parts, as_json=as_json)
    return _of_plan(named, parts, as_json=as_json)


def _of_campaign(campaign_dir: CampaignDir, parts: Parts, *, as_json: bool) -> int:
    from autoresearch.core.controller.rules import stand_at
    from autoresearch.lab.campaign_report.report import write_report
    from autoresearch.lab.campaigns.campaign_history import CampaignHistory

    state = CampaignHistory(campaign_dir).state()
    written = write_report(campaign_dir, state, stand_at(state, parts.clock()))
    paths = [path for path in (written.markdown, written.page, written.picture) if path]
    payload = {"campaign": state.spec.name, "directory": str(campaign_dir.path)}
    return _written(payload, f"{state.spec.name} in {campaign_dir.path}", paths, written.remarks, as_json=as_json)


def _of_plan(plan_dir: PlanDir, parts: Parts, *, as_json: bool) -> int:
    from autoresearch.lab.plans.plan_dir import read_view
    from autoresearch.lab.plans.report import write_report

    view = read_view(plan_dir)
    written = write_report(plan_dir, view, now=parts.clock())
    payload = {"plan": plan_dir.slug, "directory": str(plan_dir.directory), "state": view.state.value}
    title = f"{plan_dir.slug} in {plan_dir.directory}"
    return _written(payload, title, (written.path, *written.figures), written.remarks, as_json=as_json)


def _written(
    payload: dict[str, Any], title: str, paths: Iterable[Path], remarks: Iterable[str], *, as_json: bool
) -> int:
    files = [str(path) for path in paths]
    remarks = list(remarks)
    for remark in remarks:
        output.remark(remark)
    lines = [f"{title}:", *(f"wrote {path}" for path in files)]
    whole = payload | {"files": files, "remarks": remarks, "next": []}
    output.emit("report", whole, as_json=as_json, lines=lines[: output.MAX_LINES])
    return 0
