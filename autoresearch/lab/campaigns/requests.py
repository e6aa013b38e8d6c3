"""Requests that users make of a campaign from another terminal, and stop requests to its runs."""

from __future__ import annotations

from typing import Any

from autoresearch.records import campaign_records, events
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.order_file import request_stop
from autoresearch.records.rundir import RunDir


def ask(campaign_dir: CampaignDir, do: str, **fields: Any) -> None:
    """Queue a request for the controller, which looks every second; without one, it is read at the next start."""
    campaign_records.add(campaign_dir.requests, do, **fields)


def stop_run(rundir: RunDir, reason: str, *, cause: str = "stop_request") -> None:
    """Ask one run to end now; `cause` is the machine-readable reason for the exit record."""
    events.append(rundir.events, "stop_requested", how="now", reason=reason)
    request_stop(rundir, reason, cause=cause)
