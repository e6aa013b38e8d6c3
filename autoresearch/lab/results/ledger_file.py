"""The ledger that a name means: a campaign's, the one that a run is in, or a file."""

from __future__ import annotations

import contextlib
from pathlib import Path

from autoresearch.errors import NotFoundError
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs import sessions


def ledger_path(name: str, parts: Parts) -> Path:
    """Its file, which may not exist yet. "" is the campaign that runs here, else the newest. Raises NotFoundError."""
    if name.endswith(".tsv"):
        return Path(name).absolute()
    if not name:
        return campaign_registry.find(name, parts).ledger
    try:
        return Path(sessions.spec_of(sessions.find(name, parts)).ledger)
    except NotFoundError as unknown:
        with contextlib.suppress(NotFoundError):
            return campaign_registry.find(name, parts).ledger
        raise unknown from None
