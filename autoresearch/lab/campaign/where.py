"""Where the runs of a campaign go: flag over environment over campaign file over blueprint over project over local."""

from __future__ import annotations

from dataclasses import dataclass

from autoresearch.core.finding import Finding, Severity
from autoresearch.core.places import Place, with_slots
from autoresearch.errors import UsageError
from autoresearch.lab.campaign.declare import Declared
from autoresearch.lab.settings import Settings, places_of


@dataclass(frozen=True, slots=True)
class Where:
    """The places of a campaign, each with its slots."""

    places: tuple[Place, ...]
    source: str  # who said so; "" where nobody did
    findings: tuple[Finding, ...] = ()

    @property
    def parallel(self) -> int:
        """Runs at a time."""
        return sum(place.slots for place in self.places)


def where(declared: Declared, project: Settings, note: str) -> Where:
    """Decide it; `note` is what its blueprint says. UsageError names the value that cannot be."""
    value, source = _value(declared, project, note)
    found = places_of(value, project.launchers, source)
    parallel = declared["parallel"] if declared.given("parallel") else None
    if _is_flag(source) and not _is_flag(declared.sources.get("parallel", "")) and all(p.slots for p in found):
        parallel = None  # what was typed now wins over what the file says
    try:
        places = with_slots(found, parallel)
    except ValueError as error:
        hint = "say it once: slots behind each place, or --parallel with a single place that says none"
        raise UsageError(f"{source}: {error}", hint=hint, code="bad_launcher") from None
    return Where(places, source, _overruled(note, source))


def _value(declared: Declared, project: Settings, note: str) -> tuple[object, str]:
    own, setting = declared.sources.get("launcher", ""), project.values["launcher"]
    if _is_flag(own) or (own and not setting.source.startswith("environment")):
        return declared["launcher"], own
    if note and not setting.source.startswith(("environment", "flag")):
        return note, "the blueprint"
    return setting.text, setting.source


def _overruled(note: str, source: str) -> tuple[Finding, ...]:
    if not note or source == "the blueprint":
        return ()
    message = f"the blueprint says `launcher: {note}`, and the campaign decides for its runs ({source})"
    return (Finding(Severity.WARNING, "launcher_overruled", message),)


def _is_flag(source: str) -> bool:
    return source.startswith("flag")
