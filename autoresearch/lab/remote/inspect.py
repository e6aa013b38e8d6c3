"""Whether a target that is not this machine would take a run now, and what it offers."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.run.job_launcher import Declined, Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.lab.parts import Parts

if TYPE_CHECKING:
    from autoresearch.lab.remote_files.remote_host import InterpreterSearch

_FILES = {True: "seen there under the same paths", False: "copied there and back"}


@dataclass(frozen=True, slots=True)
class Inspected:
    """State of a target as probed now."""

    target: Target
    latency_s: float | None  # the time of all questions; None: it does not answer, or would take no run
    rows: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]  # each begins with the target's name


def inspect(target: Target, parts: Parts, search: InterpreterSearch | None = None) -> Inspected:
    """Probe a target: whatever prevents a run is a finding. Raises UsageError for invalid options.

    search: the interpreter of a run that is to be sent, which must exist there (a pod's image has it, and shared files
    show it). Without one, the target is described, too.
    """
    launcher = parts.launcher_for(target, parts.environ)
    latency, rows = None, [("files", _FILES[launcher.reach.shared])]
    begun = time.monotonic()
    try:
        found = launcher.preflight()
        if not errors(found) and "unreachable" not in [one.code for one in found]:
            if search is None:
                rows += getattr(launcher, "describe", list)()
            elif not launcher.reach.shared and target.kind is not Kind.KUBERNETES:
                search.run(launcher.reach)
            latency = time.monotonic() - begun
    except (Unreachable, Declined) as no:
        found = [Finding(Severity.ERROR, no.code, no.reason, no.hint)]
    named = f"{target.name}: "
    told = [one if one.message.startswith(named) else replace(one, message=named + one.message) for one in found]
    return Inspected(target, latency, tuple(rows), tuple(told))
