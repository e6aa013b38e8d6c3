"""Where the runs of a campaign go: flag over environment over campaign file over blueprint over project over local."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.parser import BlueprintInvalid, parse_blueprint
from autoresearch.core.run.targets import Target, with_slots
from autoresearch.errors import UsageError
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote_files.interpreter import InterpreterSearch
from autoresearch.lab.resolve.gpu_check import GpuRequest, RemoteGpus, checks, elsewhere
from autoresearch.lab.resolve.host_check import remote_findings
from autoresearch.lab.settings import Settings, targets_of
from autoresearch.launchers import gpus


@dataclass(frozen=True, slots=True)
class CampaignTargets:
    """The targets of a campaign, each with its slots."""

    targets: tuple[Target, ...]
    source: str  # of the value: a flag, a file, the environment
    findings: tuple[Finding, ...] = ()

    @property
    def parallel(self) -> int:
        """Runs at a time."""
        return sum(target.slots for target in self.targets)

    @property
    def here(self) -> bool:
        """Whether some runs are on this machine."""
        return any(target.is_local for target in self.targets)

    def checked(self, parts: Parts, interpreter: Path, *, prepared: bool) -> tuple[Finding, ...]:
        """Query every target; one that cannot be used, or has no such interpreter, is an error.

        `prepared`: the runs have a `prepare` command, which may create the interpreter there.
        """
        findings = list(self.findings)
        for target in self.targets:
            findings += remote_findings(target, parts, InterpreterSearch(target, str(interpreter), "", prepared))
        return tuple(findings)


@dataclass(frozen=True, slots=True)
class CampaignGpus:
    """The GPUs of this machine that a campaign may lease, and how many each run gets."""

    uuids: tuple[str, ...]
    per_run: int
    needed: int  # by the recipe; 0 if it does not say, or if this is not to be checked
    is_set: bool  # whether `per_run` was given
    shown: tuple[Finding, ...] = ()  # on how runs are shown their GPUs

    def findings(
        self, campaign_targets: CampaignTargets, settings: Settings, environ: Mapping[str, str]
    ) -> tuple[Finding, ...]:
        """Compare what the recipe asks for with what each run is given, here and on remote targets."""
        if not self.needed:
            return self.shown
        remote = RemoteGpus(None, self.per_run if self.is_set else self.needed)
        remote_targets = [target for target in campaign_targets.targets if not target.is_local]
        findings = [one for target in remote_targets for one in GpuRequest(self.needed).at(target, remote)]
        if campaign_targets.here:
            here = GpuRequest(self.needed, self.per_run, elsewhere(settings, self.needed))
            findings = [*here.compared(environ), *findings]
        return (*self.shown, *findings)


def gpus_checked(campaign_file: CampaignFile, settings: Settings) -> bool:
    """Whether recipes that ask for more GPUs than there are are refused."""
    return bool(campaign_file["gpu_check"]) and checks(settings.text("gpu_check"))


def campaign_gpus(
    campaign_file: CampaignFile, campaign_targets: CampaignTargets, needed: int, parts: Parts
) -> CampaignGpus:
    """The GPUs of a campaign whose recipe needs so many. UsageError if one run needs more than the pool here holds."""
    pool = gpus.choose(campaign_file["gpus"] if campaign_targets.here else "none", parts.environ)
    uuids = pool.uuids
    per_run, is_set = campaign_file["gpus_per_run"], campaign_file.is_set("gpus_per_run")
    if not campaign_targets.here:
        own = [
            target.options["gpus_per_run"] for target in campaign_targets.targets if "gpus_per_run" in target.options
        ]
        return CampaignGpus((), per_run if is_set else max(own, default=needed), needed, is_set)
    if (per_run or 0) > len(uuids):
        raise UsageError(
            f"one run needs {per_run} GPUs, and the pool holds {len(uuids)}",
            hint="--gpus all, or --gpus 0,1: the pool; `--set gpus_per_run=N`: how many of it each run gets",
            code="too_few_gpus",
        )
    return CampaignGpus(uuids, min(1, len(uuids)) if per_run is None else per_run, needed, is_set, pool.findings)


def campaign_targets(campaign_file: CampaignFile, settings: Settings, note: str) -> CampaignTargets:
    """The targets of a campaign; `note`: the blueprint's. UsageError names the invalid value."""
    value, source = _value(campaign_file, settings, note)
    targets = _with_slots(settings.sharing(targets_of(value, settings.launchers, source)), campaign_file, source)
    return CampaignTargets(targets, source, (*_overruled(note, source), *_overruled_ideas(campaign_file["queue"])))


def _with_slots(targets: tuple[Target, ...], campaign_file: CampaignFile, source: str) -> tuple[Target, ...]:
    """Each with its slots; if they contradict `parallel`, what was typed now wins over a file."""
    parallel = campaign_file["parallel"] if campaign_file.is_set("parallel") else None
    typed_now = source.startswith(("flag", "environment"))
    try:
        return with_slots(targets, parallel)
    except ValueError as error:
        if typed_now and not _is_flag(campaign_file.sources["parallel"]):
            return with_slots(targets, None)
        hint = "say it once: slots behind each target, or --parallel with a single target that says none"
        raise UsageError(f"{source}: {error}", hint=hint, code="bad_launcher") from None


def _value(campaign_file: CampaignFile, settings: Settings, note: str) -> tuple[object, str]:
    own, setting = campaign_file.sources.get("launcher", ""), settings.values["launcher"]
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
    """One warning about blueprints of a queue that name a target of their own."""
    names = [path.name for path in sorted(Path(queue).glob("*.md")) if _names_target(path)] if queue else []
    if not names:
        return ()
    some = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    message = f"`launcher:` in the notes of {some} is not read: the campaign decides for its runs"
    return (Finding(Severity.WARNING, "launcher_overruled", message),)


def _names_target(path: Path) -> bool:
    try:
        data = path.read_bytes()
        return b"launcher" in data and bool(parse_blueprint(data, path.name).notes.launcher)
    except (OSError, BlueprintInvalid):  # reported when the queue is read
        return False


def _is_flag(source: str) -> bool:
    return source.startswith("flag")
