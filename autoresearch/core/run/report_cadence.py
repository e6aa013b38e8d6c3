"""The cadence of reports: how long to wait before the next one. Nothing sleeps here."""

from __future__ import annotations

NAPS_S = (30.0, 60.0, 120.0, 240.0, 480.0, 960.0)


def nap(looks: int, *, until_limit_s: float | None = None) -> float:
    """Seconds until the next report after `looks` reports: 30 s, 1, 2, 4, 8, 16 min, then always 16 min.

    The wait is cut to `until_limit_s`, the seconds to the nearest limit (plain backoff would notice a 20-minute limit
    11.5 minutes late).
    """
    plain = NAPS_S[min(looks, len(NAPS_S) - 1)]
    return plain if until_limit_s is None else max(0.0, min(plain, until_limit_s))
