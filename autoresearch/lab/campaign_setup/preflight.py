"""Whether a proposed campaign can be created here, before anything is written; one sentence for each reason."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from autoresearch.core.blueprint.finding import Finding, Severity, raise_on
from autoresearch.core.shell_settings import plain_key
from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.git_repo.branches import branch_commit, is_branch_name
from autoresearch.lab.campaign_setup.campaign_spec import free_prefix, newest_of_blueprint
from autoresearch.lab.campaign_setup.proposer_spec import check_queue, varied_keys
from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign
from autoresearch.lab.campaign_setup.shown_to_runs import named_outputs
from autoresearch.lab.campaigns.campaign_status import has_ended
from autoresearch.lab.campaigns.slots import slots_of
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.proposers.queue_entry import QUEUE
from autoresearch.records import campaign_records


def preflight(proposed: ProposedCampaign) -> ProposedCampaign:
    """The campaign with all that is found about creating it here; writes nothing.

    ConflictError if its prefix is taken, or while one of its blueprint has not ended.
    """
    spec, base = proposed.spec, proposed.base
    findings = [*proposed.findings, *_of_spec(proposed)]
    _refuse_second(proposed)
    findings += check_queue(spec, proposed.launch)
    if taken := branch_commit(base.checkout, spec.branch("baseline")):
        branch = spec.branch("baseline")
        message = f"the branch {branch} exists already (at {taken[:12]}), and its campaign does not"
        raise needs_other_prefix(proposed, message, hint="another prefix keeps both")
    for slot in slots_of(spec, base.checkout):
        slot.check_owner()
    commit = base.commit()
    findings += [*_hide_findings(proposed, commit), *_varied_in_vain(proposed)]
    raise_on(findings, EnvironmentUnusable)
    return replace(proposed, findings=(*findings, *_as_it_is(proposed)))


def _as_it_is(proposed: ProposedCampaign) -> Iterator[Finding]:
    """A warning about files beside the code that no edit of the code changes."""
    spec = proposed.spec
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
    keys = (*spec.proposer.space, *spec.screen_overrides)
    return (*_unchecked_keys(proposed.launch, keys), *_shared_outputs(proposed))


def _unchecked_keys(launch: LaunchSettings, keys: tuple[str, ...]) -> Iterator[Finding]:
    """A warning for keys that neither recipe, command nor trainer knows; an error if they cannot be set at all."""
    applied = launch.applied(dict.fromkeys(keys, 1))
    launch.with_settings(applied.command)  # raises if the command cannot take them
    known = {plain_key(key) for key in (*launch.settings, *applied.recipe)}
    unknown = [key for key in keys if plain_key(key) not in known and not key.startswith("$")]
    if unknown and (launch.recipe is not None or unknown[0].startswith("--")):
        message = f"nothing here names {', '.join(unknown)}: set on the command line, without a check of the name"
        yield Finding(Severity.WARNING, "unchecked_key", message, "compare the name with the trainer's own")


def _varied_in_vain(proposed: ProposedCampaign) -> Iterator[Finding]:
    """Warnings for what ideas set: a variable that no launch or file of the code names, a key that `screen` sets."""
    base, resolved, command = proposed.base, proposed.trainer_settings.resolved, proposed.launch.command
    notes, scripts = resolved.blueprint.notes, (one.text for one in resolved.shell_reading.scripts)
    texts = "\n".join((command, *scripts, *notes.env, *notes.prepare, *notes.evaluate))
    root = Path(os.path.realpath(base.checkout.root))
    own = [path.relative_to(root) for path in map(Path, map(os.path.realpath, base.own_files)) if root in path.parents]
    where = (base.ref or "--untracked", "--", ":(top)", *(f":(top,exclude,literal){path}" for path in own))

    def is_named(name: str) -> bool:
        named = re.search(rf"\b{re.escape(name)}\b", texts)
        return bool(named) or base.checkout.git.ask("grep", "-qwIF", "-e", name, *where)[0] != 1

    varied, cheap = varied_keys(proposed.spec), proposed.spec.screen_overrides
    if unnamed := [key for key in dict.fromkeys((*varied, *cheap)) if key.startswith("$") and not is_named(key[1:])]:
        message = f"nothing here names {', '.join(unnamed)}: no command, no script and no file of the code"
        yield Finding(Severity.WARNING, "unnamed_variable", message, "compare the name with the script's own")
    if alike := [key for key in varied if plain_key(key) in map(plain_key, cheap)]:
        message = f"`screen` sets {', '.join(alike)}, which ideas vary: no cheap run shows what that does"
        yield Finding(Severity.WARNING, "screened_key", message, "screen by another setting, or by a time")


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


# ------------------------------------------------------------------ the campaign before it


def is_running(name: str, hint: str = "") -> ConflictError:
    """The error of a campaign that has a controller already."""
    return ConflictError(f"the campaign {name} is running", hint=hint, fix=f"autoresearch campaign status {name}")


def _refuse_second(proposed: ProposedCampaign) -> None:
    """Raise ConflictError while the newest campaign of its blueprint has not ended, or where one has its prefix."""
    spec, own = proposed.spec, proposed.campaign_dir
    if "prefix" in spec.sources:
        before = own if own.spec.exists() else None
    else:
        before = None if spec.prove else newest_of_blueprint(spec)
    if before is None:
        return
    name = campaign_records.declared_spec(before).name
    if not has_ended(before):
        beside = f"`--set prefix={free_prefix(spec.prefix, proposed.base.checkout)}` starts another one beside it"
        if before.controlled:
            raise is_running(name, beside)
        message = f"the campaign {name} was started and has not ended"
        raise ConflictError(message, hint=beside, fix=f"autoresearch campaign resume {name}")
    if before == own:
        hint = f"start another one; or let that one go on: autoresearch campaign set {name} count=N"
        raise needs_other_prefix(proposed, f"a campaign {name} ended here", hint=hint)


def needs_other_prefix(proposed: ProposedCampaign, message: str, *, hint: str) -> ConflictError:
    """The error of a campaign that could start under another prefix; it names one that is free."""
    fix = shlex.join(("autoresearch", "campaign", "start", str(proposed.file)))
    prefix = free_prefix(proposed.spec.prefix, proposed.base.checkout)
    return ConflictError(message, hint=hint, fix=fix, setting=f"prefix={prefix}", code="prefix_taken")
