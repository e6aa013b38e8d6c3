"""Whether a proposed campaign can be created here, before anything is written; one sentence for each reason."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.git_repo.branches import branch_commit, is_branch_name
from autoresearch.git_repo.extras import empty_submodules
from autoresearch.lab.campaign_setup.campaign_spec import free_prefix, other_code, other_terms
from autoresearch.lab.campaign_setup.queue_checks import check_queue
from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign
from autoresearch.lab.campaign_setup.shown_to_runs import named_outputs
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.slots import slots_of
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.lab.recipes.shell_settings import plain_key
from autoresearch.proposers.queue_entry import QUEUE
from autoresearch.records import campaign_records


def preflight(proposed: ProposedCampaign) -> ProposedCampaign:
    """The campaign with all that is found about creating it here; writes nothing. ConflictError if its prefix is taken.
    """
    spec, base, campaign_dir = proposed.spec, proposed.base, proposed.campaign_dir
    findings = [*proposed.findings, *_of_spec(proposed)]
    if campaign_dir.controlled and "prefix" in spec.sources:
        raise is_running(spec.name)
    known = CampaignHistory(campaign_dir).state() if campaign_dir.spec.exists() else None
    findings += check_queue(spec, proposed.launch, known)
    if known is not None:
        refuse_other_terms(proposed)
    elif taken := branch_commit(base.checkout, spec.branch("baseline")):
        branch = spec.branch("baseline")
        message = f"the branch {branch} exists already (at {taken[:12]}), and its campaign does not"
        raise needs_other_prefix(proposed, message, hint="another prefix keeps both")
    for slot in slots_of(spec, base.checkout):
        slot.check_owner()
    commit = base.commit()
    findings += _hide_findings(proposed, commit)
    if bad := errors(findings):
        raise EnvironmentUnusable(bad[0].message, hint=bad[0].hint, code=bad[0].code)
    return replace(proposed, findings=(*findings, *_as_it_is(proposed, commit)))


def _as_it_is(proposed: ProposedCampaign, commit: str) -> Iterator[Finding]:
    """Warnings about files beside the code that are missing, or that no edit of the code changes."""

    spec, checkout = proposed.spec, proposed.base.checkout
    if empty := empty_submodules(checkout, commit):
        message = f"the submodule {empty[0]} is empty here, and so for every run"
        yield Finding(Severity.WARNING, "submodules", message, f"git submodule update --init {shlex.join(empty)}")
    edited = spec.research.agent or spec.proposer.name == QUEUE
    if edited and (built := [one.path for one in spec.shown if one.way.is_shown and one.path.endswith(".so")]):
        message = f"{built[0]} was built and is not in git: every run sees it as it is, whatever an idea edits"
        yield Finding(Severity.WARNING, "built_code", message, "a `prepare:` of the notes builds it anew for each run")


def _of_spec(proposed: ProposedCampaign) -> tuple[Finding, ...]:
    """Warnings about outputs and search space. UsageError or BlueprintError for what no campaign can do."""
    spec = proposed.spec
    if not is_branch_name(spec.branch("baseline")):
        hint = "see `git help check-ref-format`"
        raise UsageError(f"git accepts no branch with the prefix {spec.prefix!r}", hint=hint, code="bad_prefix")
    if odd := [path for path in (spec.repository, spec.result_dir) if len(path.splitlines()) > 1]:
        raise UsageError(
            f"{odd[0]!r} has a line break in it, and the blueprint of an idea holds a path on one line",
            hint="give the directory another name; single runs work in it as it is",
            code="odd_path",
        )
    if spec.rules.budget_gpu_hours is not None and not spec.gpus_per_run:
        raise UsageError(
            "the budget is in GPU hours, and no run of this campaign has a GPU: it would never be spent",
            hint="--gpus all, or another stop rule: --count, --deadline, `--set target=`",
            code="no_gpu_to_count",
        )
    return (*_unchecked_keys(proposed.launch, tuple(spec.proposer.space)), *_shared_outputs(proposed))


def _unchecked_keys(launch: LaunchSettings, keys: tuple[str, ...]) -> Iterator[Finding]:
    """A warning for keys that neither recipe, command nor trainer knows; an error if they cannot be set at all."""
    applied = launch.applied(dict.fromkeys(keys, 1))
    launch.with_settings(applied.command)  # raises if the command cannot take them
    known = {plain_key(key) for key in (*launch.settings, *applied.recipe)}
    unknown = [key for key in keys if plain_key(key) not in known and not key.startswith("$")]
    if unknown and (launch.recipe is not None or unknown[0].startswith("--")):
        message = f"nothing here names {', '.join(unknown)}: set on the command line, without a check of the name"
        yield Finding(Severity.WARNING, "unchecked_key", message, "compare the name with the trainer's own")


def _shared_outputs(proposed: ProposedCampaign) -> Iterator[Finding]:
    """A warning for outputs outside of the repository that every run would overwrite."""
    launch, spec = proposed.launch, proposed.spec
    own = {output.key for output in launch.trainer.outputs(launch.settings)}  # each run is given another one
    ours = {PurePosixPath(spec.repository), PurePosixPath(spec.result_dir)}
    shared = [
        f"{key} {value}"
        for key, value in named_outputs(launch).items()
        if key not in own and value.startswith("/") and not ours & {PurePosixPath(value), *PurePosixPath(value).parents}
    ]
    if shared:
        message = f"all runs write to the same place ({', '.join(shared)}): each overwrites the files of the one before"
        hint = "a relative path is written in the worktree of the run, and kept in its run directory"
        yield Finding(Severity.WARNING, "shared_output", message, hint)


def _hide_findings(proposed: ProposedCampaign, commit: str) -> Iterator[Finding]:
    """Whether `hide:` names files that git does not hold: whoever can read the repository reads every commit of it."""
    spec, checkout = proposed.spec, proposed.base.checkout
    root = Path(os.path.realpath(checkout.root))
    for text in spec.hide:
        for include in spec.include:
            if PurePosixPath(text) in (PurePosixPath(include), *PurePosixPath(include).parents):
                message = f"hide: {text} holds {include}, which `include:` shows to every run"
                yield Finding(Severity.ERROR, "hide_included", message, "name what is hidden one by one")
        path = checkout.root / text
        real = Path(os.path.realpath(path))
        if not path.exists():
            message = f"hide: {text} is not there: {path}"
            yield Finding(Severity.ERROR, "hide_missing", message, "make it, or take it out")
        elif real in (root, *root.parents):
            message = f"hide: {text} holds the whole repository"
            yield Finding(Severity.ERROR, "hide_all", message, "name a part of it")
        elif root in real.parents:
            name = real.relative_to(root).as_posix()
            found = checkout.git.run("log", "--all", "-1", "--format=%h", "--", f":(literal){name}").decode().strip()
            if checkout.git.run("ls-tree", "--name-only", commit, "--", f":(literal){name}"):
                message = f"hide: {text} is tracked by git, so that whoever reads the repository can read it"
                hint = f"git rm -r --cached {name}; add /{name} to .gitignore; commit. `evaluate` finds it all the same"
                yield Finding(Severity.ERROR, "hide_tracked", message, hint)
            elif found:
                message = f"hide: {text} was in git until {found}, and what it held then can still be read there"
                yield Finding(Severity.WARNING, "hide_in_history", message, "use answers that no commit ever held")


# ------------------------------------------------------------------ the campaign that has its name


def is_running(name: str) -> ConflictError:
    """The error of a campaign that has a controller already."""
    return ConflictError(f"the campaign {name} is running", fix=f"autoresearch campaign status {name}")


def refuse_other_terms(proposed: ProposedCampaign) -> None:
    """Raise ConflictError unless the existing campaign differs in its stop rules alone, and has ended if it was named.

    It then continues under the new rules, and its baseline is used again.
    """
    from autoresearch.core.controller.rules import stand_at

    spec, old = proposed.spec, CampaignHistory(proposed.campaign_dir).state()
    if old.phase is not CampaignPhase.ENDED and "prefix" in spec.sources:
        raise ConflictError(
            f"the campaign {spec.name} was started and has not ended",
            hint="or start another one under another prefix",
            fix=f"autoresearch campaign resume {spec.name}",
        )
    _refuse(proposed, other_terms(old.spec, spec))
    if (stood := stand_at(replace(old, spec=replace(old.spec, rules=spec.rules)), spec.created)).met:
        raise needs_other_prefix(
            proposed,
            f"the campaign {spec.name} has ended, and nothing would be tried: {stood.met}",
            hint="start another one; or let that one go on: "
            f"autoresearch campaign set {spec.name} count={(spec.rules.count or old.attempted) + 10}",
            code="nothing_to_try",
        )


def refuse_other_code(proposed: ProposedCampaign) -> None:
    """Raise ConflictError if the code changed: the campaign would continue from its old base, without the changes."""
    old = campaign_records.read_spec(proposed.campaign_dir).base_commit
    _refuse(proposed, other_code(old, proposed.spec, proposed.base))


def _refuse(proposed: ProposedCampaign, differs: str) -> None:
    if differs:
        name = proposed.spec.name
        raise needs_other_prefix(
            proposed,
            f"a campaign {name} ended here with another {differs}",
            hint=f"start another one; or continue that one as it was: autoresearch campaign set {name} count=N",
        )


def needs_other_prefix(
    proposed: ProposedCampaign, message: str, *, hint: str, code: str = "prefix_taken"
) -> ConflictError:
    """The error of a campaign that could start under another prefix; it names one that is free."""
    fix = shlex.join(("autoresearch", "campaign", "start", str(proposed.file)))
    prefix = free_prefix(proposed.spec.prefix, proposed.base.checkout)
    return ConflictError(message, hint=hint, fix=fix, setting=f"prefix={prefix}", code=code)
