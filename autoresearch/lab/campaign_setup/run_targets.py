"""Where the runs of a campaign go: flag over environment over campaign file over blueprint over project over local."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.parser import BlueprintInvalid, parse_blueprint
from autoresearch.core.run.targets import Target, with_slots
from autoresearch.errors import UsageError
from autoresearch.lab.campaign_setup.campaign_options import CampaignFile
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote_files.interpreter import InterpreterSearch
from autoresearch.lab.resolve.gpu_check import GpuRequest, RemoteGpus, elsewhere
from autoresearch.lab.resolve.host_check import remote_findings
from autoresearch.lab.settings import Settings, targets_of
from autoresearch.launchers import gpus


@dataclass(frozen=True, slots=True)
class CampaignTargets:
    """The places of a campaign, each with its slots."""

    places: tuple[Target, ...]
    source: str  # who said so; "" where nobody did
    findings: tuple[Finding, ...] = ()

    @property
    def parallel(self) -> int:
        """Runs at a time."""
        return sum(place.slots for place in self.places)

    @property
    def here(self) -> bool:
        """Whether some runs are on this machine."""
        return any(place.is_local for place in self.places)

    def checked(self, parts: Parts, interpreter: Path, *, prepared: bool) -> tuple[Finding, ...]:
        """What every place says about itself now; one that cannot be used, or has no such interpreter, is an error.

        `prepared`: the runs have a `prepare` command, which may make it there.
        """
        found = list(self.findings)
        for place in self.places:
            found += remote_findings(place, parts, InterpreterSearch(place, str(interpreter), "", prepared))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class GpuTerms:
    """The GPUs of this machine that a campaign may lease, and how many each run gets."""

    uuids: tuple[str, ...]
    per_run: int
    wanted: int  # by the recipe; 0 where it says nothing, or nobody shall look
    said: bool  # whether anybody said how many each run gets

    def findings(self, where: CampaignTargets, project: Settings, environ: Mapping[str, str]) -> tuple[Finding, ...]:
        """What the recipe asks for against what each run is given, here and at the other places."""
        if not self.wanted:
            return ()
        far = RemoteGpus(None, self.per_run if self.said else self.wanted)
        found = [one for place in where.places if not place.is_local for one in GpuRequest(self.wanted).at(place, far)]
        if where.here:
            here = GpuRequest(self.wanted, self.per_run, elsewhere(project, self.wanted))
            found = [*here.compared(environ), *found]
        return tuple(found)


def gpu_terms(campaign_file: CampaignFile, where: CampaignTargets, wanted: int, parts: Parts) -> GpuTerms:
    """Decide them. UsageError where one run needs more than the pool here holds."""
    uuids = _pool(campaign_file["gpus"], parts) if where.here else ()
    per_run, said = campaign_file["gpus_per_run"], campaign_file.given("gpus_per_run")
    if not where.here:
        own = [place.options["gpus_per_run"] for place in where.places if "gpus_per_run" in place.options]
        return GpuTerms((), per_run if said else max(own, default=wanted), wanted, said)
    if (per_run or 0) > len(uuids):
        raise UsageError(
            f"one run needs {per_run} GPUs, and the pool holds {len(uuids)}",
            hint="--gpus all, or --gpus 0,1: the pool; `--set gpus_per_run=N`: how many of it each run gets",
            code="too_few_gpus",
        )
    return GpuTerms(uuids, min(1, len(uuids)) if per_run is None else per_run, wanted, said)


def _pool(wanted: str, parts: Parts) -> tuple[str, ...]:
    """The GPUs of the pool: `all`, indices or UUIDs; a number picks free ones."""
    if wanted in ("", "none", "0"):
        return ()
    found = gpus.visible(gpus.find(), parts.environ)
    return gpus.select(wanted, found, taken=gpus.taken(found, parts.environ))


def where(campaign_file: CampaignFile, project: Settings, note: str) -> CampaignTargets:
    """Decide it; `note` is what its blueprint says. UsageError names the value that cannot be."""
    value, source = _value(campaign_file, project, note)
    places = _with_slots(project.sharing(targets_of(value, project.launchers, source)), campaign_file, source)
    return CampaignTargets(places, source, (*_overruled(note, source), *_overruled_ideas(campaign_file["queue"])))


def _with_slots(places: tuple[Target, ...], campaign_file: CampaignFile, source: str) -> tuple[Target, ...]:
    """Each with its slots; where they contradict `parallel`, what was typed now wins over what a file says."""
    parallel = campaign_file["parallel"] if campaign_file.given("parallel") else None
    typed_now = source.startswith(("flag", "environment"))
    try:
        return with_slots(places, parallel)
    except ValueError as error:
        if typed_now and not _is_flag(campaign_file.sources["parallel"]):
            return with_slots(places, None)
        hint = "say it once: slots behind each place, or --parallel with a single place that says none"
        raise UsageError(f"{source}: {error}", hint=hint, code="bad_launcher") from None


def _value(campaign_file: CampaignFile, project: Settings, note: str) -> tuple[object, str]:
    own, setting = campaign_file.sources.get("launcher", ""), project.values["launcher"]
    if _is_flag(own) or (own and not setting.source.startswith("environment")):
        return campaign_file["launcher"], own
    if note and not setting.source.startswith(("environment", "flag")):
        return note, "the blueprint"
    return setting.text, setting.source


def _overruled(note: str, source: str) -> tuple[Finding, ...]:
    if not note or source == "the blueprint":
        return ()
    message = f"the blueprint says `launcher: {note}`, and the campaign decides for its runs ({source})"
    return (Finding(Severity.WARNING, "launcher_overruled", message),)


def _overruled_ideas(queue: str) -> tuple[Finding, ...]:
    """One remark about blueprints of a queue that say where they would go."""
    names = [path.name for path in sorted(Path(queue).glob("*.md")) if _says_where(path)] if queue else []
    if not names:
        return ()
    some = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    message = f"`launcher:` in the notes of {some} is not read: the campaign decides for its runs"
    return (Finding(Severity.WARNING, "launcher_overruled", message),)


def _says_where(path: Path) -> bool:
    try:
        data = path.read_bytes()
        return b"launcher" in data and bool(parse_blueprint(data, path.name).notes.launcher)
    except (OSError, BlueprintInvalid):  # said by whoever reads the queue
        return False


def _is_flag(source: str) -> bool:
    return source.startswith("flag")
