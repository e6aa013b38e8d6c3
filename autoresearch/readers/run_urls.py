"""Find the URLs that trackers print into a log, at its beginning and again at its end."""

from __future__ import annotations

import os
from pathlib import Path

from autoresearch.core.run.tracker_urls import MOST, run_urls

_ENDS = 4 << 20  # bytes at each end; a tracker starts within minutes


def urls_in(log: Path, ends: int = _ENDS) -> tuple[str, ...]:
    """At most 8 URLs of the run, in printed order without duplicates; () if the log is missing."""
    try:
        with log.open("rb") as file:
            found = run_urls(file.read(ends))
            if (size := file.seek(0, os.SEEK_END)) > ends:
                file.seek(max(ends, size - ends))
                found += run_urls(file.read(ends))
    except OSError:
        return ()
    return tuple(dict.fromkeys(found))[:MOST]
