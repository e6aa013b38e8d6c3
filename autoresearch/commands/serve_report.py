"""`autoresearch report --serve`: the page of a report, live, to a browser here or behind `ssh -L`."""

from __future__ import annotations

import getpass
import signal
import socket
from typing import Any

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts


def serve_report(name: str, port: int, *, as_json: bool) -> int:
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
