"""`autoresearch report [NAME]`: what a campaign came to, as it stands; with --serve, live."""

from __future__ import annotations

import getpass
import signal
import socket
from typing import Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import UsageError


def report(
    name: Annotated[str, typer.Argument(metavar="CAMPAIGN", show_default=False)] = "",
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve a campaign's page live; unnamed: all of this project.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of --serve, on 127.0.0.1; by default a free one.")] = 0,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Write the report of a campaign: report.md, report.html, progress.png.

    With --serve, nothing is written: report.html is served and shows what comes, until Ctrl-C.
    """
    if port and not serve:
        words = ["autoresearch report", *([name] if name else []), f"--serve --port {port}"]
        raise UsageError("--port is an option of --serve", fix=" ".join(words))
    if serve:
        return _serve(name, port, as_json=as_json)
    from autoresearch.core.controller.rules import stand_at
    from autoresearch.lab.campaign_report.report import write_report
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.lab.campaigns.campaign_history import CampaignHistory

    parts = real_parts()
    campaign_dir = campaign_registry.find(name, parts)
    state = CampaignHistory(campaign_dir).state()
    written = write_report(campaign_dir, state, stand_at(state, parts.clock()))
    files = [str(path) for path in (written.markdown, written.page, written.picture) if path]
    for remark in written.remarks:
        output.remark(remark)
    lines = [f"{state.spec.name} in {campaign_dir.path}:", *(f"wrote {path}" for path in files)]
    where = {"campaign": state.spec.name, "directory": str(campaign_dir.path)}
    payload = where | {"files": files, "remarks": list(written.remarks), "next": []}
    output.emit("report", payload, as_json=as_json, lines=lines[: output.MAX_LINES])
    return 0


def _serve(name: str, port: int, *, as_json: bool) -> int:
    """Serve a campaign, or with "" all of this project, until Ctrl-C or SIGTERM; 0. Writes nothing."""
    from autoresearch.git_repo.checkout import current_project
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.lab.live_report.server import LiveServer
    from autoresearch.lab.live_report.site import LiveSite

    parts, project = real_parts(), current_project()
    named = campaign_registry.find(name, parts) if name else None
    site = LiveSite(parts, project, named)
    with LiveServer(site, port) as server:
        url = server.url + (site.path_of(named) if named else "")
        number = server.server_port
        tunnel = f"ssh -N -L {number}:127.0.0.1:{number} {getpass.getuser()}@{socket.gethostname()}"
        payload: dict[str, Any] = {
            "state": "serving",
            "url": url,
            "port": number,
            "ssh": tunnel,
            "campaign": named.path.name if named else None,
            "project": str(project),
            "next": [],
        }
        lines = [
            f"{named.path if named else project}: live at",
            f"  {url}",
            "from another machine, with this line there and the same address in its browser:",
            f"  {tunnel}",
            "whoever has the address can read it; Ctrl-C ends it",
        ]
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            output.emit("report", payload, as_json=as_json, lines=lines)
            server.serve_forever()
        except KeyboardInterrupt:
            output.remark("ended; the address is no longer valid")
    return 0
