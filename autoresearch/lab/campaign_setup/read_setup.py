"""What a campaign is resolved from: its file, what that names (blueprint, trainer, repository, targets), and this host.

Where its runs go: flag over environment over campaign file over blueprint over project over local.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity, raise_on
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.run.targets import Target, with_slots
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout, NoCheckout
from autoresearch.git_repo.git import GitFailed
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.lab.campaign_setup.campaign_keys import CampaignFile
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.resolve_blueprint import raise_on_errors, read_blueprint, resolve_blueprint
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer
from autoresearch.lab.settings import Settings, targets_of
from autoresearch.lab.settings import load as load_settings
from autoresearch.trainers import ray_job, registry

WORKING_TREE = "the working tree"  # as it is on disk, in the place of a revision


@dataclass(frozen=True, slots=True)
class CampaignSetup:
    """All that the decisions about one campaign read. They add to `sources` and `findings`."""

    file: CampaignFile
    settings: Settings
    trainer_settings: TrainerSettings
    checkout: Checkout
    targets: tuple[Target, ...]  # each with its slots
    parts: Parts
    sources: dict[str, str] = field(default_factory=dict)  # key -> origin of its value
    findings: list[Finding] = field(default_factory=list)

    @property
    def blueprint(self) -> Blueprint:
        """The blueprint of the baseline."""
        return self.trainer_settings.resolved.blueprint

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of this process with those of the notes."""
        return {**self.parts.environ, **self.blueprint.notes.env}

    @property
    def here(self) -> bool:
        """Whether some runs are on this machine."""
        return any(target.is_local for target in self.targets)

    @property
    def gpu_check(self) -> bool:
        """Whether recipes that ask for more GPUs than there are are refused."""
        return bool(self.file["gpu_check"]) and self.settings.is_on("gpu_check")

    def warn(self, code: str, message: str, hint: str = "") -> None:
        """Add a warning."""
        self.findings.append(Finding(Severity.WARNING, code, message, hint))


def read_setup(campaign_file: CampaignFile, parts: Parts) -> CampaignSetup:
    """Read what a campaign file names, and check what its trainer takes.

    Raises UsageError, BlueprintError, or EnvironmentUnusable for code outside of a repository.
    """
    settings = load_settings(campaign_file.blueprint.parent, environ=parts.environ)
    resolved = resolve_blueprint(read_blueprint(campaign_file.blueprint), environ=parts.environ)
    targets, source = _targets(campaign_file, settings, resolved.blueprint.notes.launcher)
    raise_on_errors(resolved)
    checkout = campaign_checkout(resolved.codebase)
    trainer = registry.for_blueprint(resolved.blueprint, resolved.shell_reading)
    trainer_settings = ask_trainer(trainer, resolved, job="ajet_campaign").with_flags(parts.environ)
    setup = CampaignSetup(campaign_file, settings, trainer_settings, checkout, targets, parts)
    setup.sources.update(campaign_file.sources)
    if source != "built-in":
        setup.sources["launcher"] = source
    # the runs of a campaign have directories of their own below that one
    setup.findings.extend(one for one in resolved.findings if one.code != "hide_alone")
    _check_trainer(setup)
    _warn_overruled(setup, source)
    return setup


def _check_trainer(setup: CampaignSetup) -> None:
    """Raise BlueprintError for the first error in recipe and command."""
    trainer_settings, blueprint = setup.trainer_settings, setup.blueprint
    findings = trainer_settings.findings()
    job = ray_job.find(blueprint.launch_command)
    if job is not None and job.submission_id:
        message = f"every run would submit the Ray job {job.submission_id}, and Ray takes a name only once"
        hint = "take --submission-id out: each run gets one of its own"
        findings.append(Finding(Severity.ERROR, "ray_job_named_for_all", message, hint))
    raise_on(findings)
    trainer_settings.refuse_seed()
    parallel = sum(target.slots for target in setup.targets)
    raise_on(registry.server(trainer_settings.trainer).check_server(blueprint, setup.targets, parallel))
    setup.findings.extend(findings)
    if isinstance(setup.file["screen"], float) and blueprint.notes.evaluate:
        message = "`screen` after a time looks at what the training prints, not at the evaluation, which comes after it"
        setup.warn("screened_by_prints", message)


def campaign_checkout(codebase: Path) -> Checkout:
    """The repository of the code. EnvironmentUnusable if there is none, or if it has no commit."""
    checkout = repository.locate(codebase)
    if isinstance(checkout, NoCheckout):
        instead = f"{checkout.remedy}, or " if checkout.remedy else ""
        raise EnvironmentUnusable(
            f"a campaign, and a proof, keeps every idea on a branch, and {checkout.reason}",
            hint=f"{instead}run single blueprints with `autoresearch run`",
            fix=checkout.fix,
            code="no_repository",
        )
    if not checkout.head:
        message = f"the repository {checkout.root} has no commit yet"
        raise EnvironmentUnusable(message, fix="git add -A && git commit -m start", code="no_commit")
    return checkout


# ------------------------------------------------------------------ where the runs go


def _targets(campaign_file: CampaignFile, settings: Settings, note: str) -> tuple[tuple[Target, ...], str]:
    """The targets, and where they are named. `note`: the blueprint's. UsageError names the invalid value."""
    setting, own = settings.values["launcher"], campaign_file.sources.get("launcher", "")
    if own.startswith("flag") or (own and not setting.source.startswith("environment")):
        value, source = campaign_file["launcher"], own
    elif note and not setting.source.startswith(("environment", "flag")):
        value, source = note, "the blueprint"
    else:
        value, source = setting.text, setting.source
    targets = targets_of(value, settings.launchers, source)
    parallel = campaign_file["parallel"] if campaign_file.is_set("parallel") else None
    try:
        return with_slots(targets, parallel), source
    except ValueError as error:
        typed_now = source.startswith(("flag", "environment"))
        if typed_now and not campaign_file.sources["parallel"].startswith("flag"):  # wins over `parallel` of a file
            return with_slots(targets, None), source
        hint = "say it once: slots behind each target, or --parallel with a single target that says none"
        raise UsageError(f"{source}: {error}", hint=hint, code="bad_launcher") from None


def _warn_overruled(setup: CampaignSetup, source: str) -> None:
    """Warn of a target in the blueprint where the campaign decides for its runs."""
    note = setup.blueprint.notes.launcher
    if note and source != "the blueprint":
        message = f"the blueprint says `launcher: {note}`, and the campaign decides for its runs ({source})"
        setup.warn("launcher_overruled", message)


def code_of(checkout: Checkout, revision: str) -> str:
    """The commit of a revision; of WORKING_TREE a tree, the same whenever the files are. UsageError for no commit."""
    if revision == WORKING_TREE:
        return snapshot(checkout, message="the working tree, for a proof").tree
    try:
        return checkout.commit(revision)
    except GitFailed:
        command = any(map(str.isspace, revision))
        hint = "commands stand behind `--`: autoresearch prove -- 'A' 'B'" if command else "`git branch -a` lists them"
        raise UsageError(f"{revision} is no commit of {checkout.root}", hint=hint) from None
