"""What `doctor --launcher` reports about a target: whether it answers, how fast, what it offers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.run.job_launcher import (
    Declined,
    Describes,
    Unreachable,
)
from autoresearch.core.run.targets import Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.parts import Parts

_FILES = {True: "seen there under the same paths", False: "copied there and back"}


@dataclass(frozen=True, slots=True)
class Inspected:
    """State of a target as probed now."""

    target: Target
    answers: bool
    latency_s: float | None  # one round trip over an open connection; with shared files, the time of all probes
    clock_offset_s: float | None  # remote minus local
    rows: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]

    @property
    def fit(self) -> bool:
        """Whether a run could be sent to it."""
        return not errors(self.findings)


def inspect(
    target: Target,
    parts: Parts,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Inspected:
    """Probe a target that is not local. Raises nothing: whatever prevents a run is a finding."""
    try:
        launcher = parts.launcher_for(target, parts.environ)
    except AutoresearchError as error:
        wrong = Finding(Severity.ERROR, error.code, error.message, error.hint)
        return Inspected(target, False, None, None, (), (wrong,))
    found: list[Finding] = []
    latency, offset, rows = None, None, [("files", _FILES[launcher.reach.shared])]
    try:
        begun = clock()
        found += launcher.preflight()
        if not errors(found):
            rows += launcher.describe() if isinstance(launcher, Describes) else ()
            if not launcher.reach.shared:
                begun = clock()
                launcher.reach.run(["true"])
            latency, offset = clock() - begun, launcher.reach.clock_offset()
    except (Unreachable, Declined) as no:
        found = [one for one in found if one.code != "unreachable"]  # the preflight's weaker finding of the same
        found.append(Finding(Severity.ERROR, no.code, no.reason, no.hint))
    except AutoresearchError as error:
        found.append(Finding(Severity.ERROR, error.code, error.message, error.hint))
    finally:
        launcher.reach.close()
    return Inspected(target, latency is not None, latency, offset, tuple(rows), tuple(found))
