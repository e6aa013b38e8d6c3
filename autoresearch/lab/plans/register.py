"""Register, approve and revise a plan in git, always before the first run that it applies to."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.plans.model import StagedPlan, read_plan
from autoresearch.core.plans.view import PlanState, PlanView
from autoresearch.errors import ConflictError, NotFoundError, UsageError
from autoresearch.git_repo import branches
from autoresearch.git_repo.comparison import read_file
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans.draft import Draft, raise_on_faults, read_draft
from autoresearch.lab.plans.plan_dir import (
    INSIDE,
    PlanDir,
    add_record,
    create_plan_dir,
    find_plan,
    first_record,
    read_view,
    tree_of,
)
from autoresearch.lab.plans.stages import campaign_dir_of
from autoresearch.lab.yaml_files import parse_any
from autoresearch.launchers.host_sandbox_check import driven_by
from autoresearch.records.rundir import locked

PLAN = "plan.yaml"


def open_plan(name: str, parts: Parts) -> tuple[PlanDir, Draft | None]:
    """The plan named on the command line, by its file or by the name of a registered one.

    A file is read and checked; for a name the draft is None. Raises NotFoundError or what `read_draft` raises.
    """
    if name.endswith((".yaml", ".yml")) or (name and Path(name).is_file()):
        draft = read_draft(Path(name), parts)
        raise_on_faults(draft)
        assert draft.checkout is not None
        return PlanDir(draft.checkout, draft.slug), draft
    return find_plan(name, parts), None


def draft_of(view: PlanView, parts: Parts) -> Draft:
    """Read the file of a registered plan in its present state. Raises what `read_draft` raises."""
    path = Path(view.version.file)
    try:
        return read_draft(path, parts)
    except NotFoundError as gone:
        where = f"{view.version.commit[:12]}:{INSIDE}/{PLAN}"
        raise NotFoundError(
            f"{path} no longer exists; the registered plan is in git",
            hint="restore it",
            fix=f"git -C {path.parent} show {where} > {path}",
            code="plan_file_gone",
        ) from gone


def registered_plan(plan_dir: PlanDir, view: PlanView, number: int = 0) -> StagedPlan:
    """A registered version of the plan; 0 is the current one. NotFoundError if it is damaged."""
    version = view.versions[number - 1] if number else view.version
    plan = read_plan(parse_any(read_file(plan_dir.checkout, version.commit, f"{INSIDE}/{PLAN}"), PLAN)).plan
    if plan is None:
        raise NotFoundError(f"{PLAN} of version {version.number} is damaged in git", code="plan_damaged")
    return plan


def register(plan_dir: PlanDir, draft: Draft, parts: Parts) -> PlanView:
    """Commit a plan as version 1; nothing is done if exactly this is already registered.

    ConflictError if another plan is registered under its name.
    """
    plan = raise_on_faults(draft)
    create_plan_dir(plan_dir, parts)
    with locked(plan_dir.directory / "register.lock"):
        if plan_dir.tip is not None:
            view = read_view(plan_dir)
            need_same(plan_dir, view, draft)
            return view
        record = _record(plan_dir, draft, parts, number=1, start=plan.stages[0].name, code=_code(plan_dir, draft, 1))
        first_record(plan_dir, record, f"plan {plan_dir.slug}: version 1 is registered", _files(plan_dir, draft))
    return read_view(plan_dir)


def approve(plan_dir: PlanDir, view: PlanView, parts: Parts, *, note: str = "", waived: bool = False) -> PlanView:
    """Record the approval of the current version, or that it was waived (`--no-human`); once for each version."""
    if view.approved:
        return view
    record = {
        "t": parts.clock(),
        "do": "waived" if waived else "approved",
        "version": view.version.number,
        "digest": view.version.digest,
        "by": _who(parts),
        "note": note,
    }
    event = "is run without an approval (--no-human)" if waived else "is approved"
    add_record(plan_dir, record, f"plan {plan_dir.slug}: version {view.version.number} {event}")
    return read_view(plan_dir)


def revise(plan_dir: PlanDir, draft: Draft, parts: Parts, *, reason: str, at: str = "") -> PlanView:
    """Register the present file of the plan as its next version, which needs its own approval; results are kept.

    ConflictError while a stage runs under the old version, or if nothing differs.
    """
    plan = raise_on_faults(draft)
    with locked(plan_dir.directory / "register.lock"):
        view = read_view(plan_dir)
        if view.live and not campaign_dir_of(plan_dir, view.live).spec.exists():
            record = {"t": parts.clock(), "do": "withdrawn", "stage": view.live.stage}
            add_record(plan_dir, record, f"plan {plan_dir.slug}: stage {view.live.stage} could not be started")
            view = read_view(plan_dir)
        need_between_stages(view)
        if draft.digest == view.version.digest:
            raise ConflictError(
                f"{draft.path} is version {view.version.number} word for word",
                hint="change it, then revise",
                code="nothing_revised",
            )
        if not reason.strip():
            raise UsageError("why is it revised?", hint="--reason: it goes into git before the next run")
        number = view.version.number + 1
        start = _start(plan, view, at)
        code = _code(plan_dir, draft, number)
        record = _record(plan_dir, draft, parts, number=number, start=start, code=code) | {"reason": reason.strip()}
        files = {
            f"{INSIDE}/{name}": None for name in tree_of(plan_dir, plan_dir.tip or "") if name.startswith("files/")
        }
        message = f"plan {plan_dir.slug}: version {number} is registered: {' '.join(reason.split())[:200]}"
        add_record(plan_dir, record, message, {**files, **_files(plan_dir, draft)})
        plan_dir.flag.unlink(missing_ok=True)
    return read_view(plan_dir)


def need_between_stages(view: PlanView) -> None:
    """Raise ConflictError while a stage runs: its expectation was fixed before it began."""
    if view.live:
        raise ConflictError(
            f"stage {view.live.stage} runs under version {view.version.number}",
            hint="its expectation was fixed before it began; wait for it, or stop its campaign",
            fix=f"autoresearch wait {view.live.campaign} --for 100s",
            code="stage_runs",
        )


def need_same(plan_dir: PlanDir, view: PlanView, draft: Draft) -> None:
    """Raise ConflictError if the plan, or a file that it names, differs from the registered version."""
    if draft.digest == view.version.digest:
        return
    if os.path.realpath(draft.path) != os.path.realpath(view.version.file):
        raise ConflictError(
            f"another plan is registered as {plan_dir.slug}: {view.version.file}",
            hint="a plan is named after its file; rename this one",
            code="plan_taken",
        )
    changed = _changed(plan_dir, view, draft)
    raise ConflictError(
        f"the plan was changed after version {view.version.number} was registered: {', '.join(changed[:5])}",
        hint=f"register the change as a new version, or undo it: git show {plan_dir.branch}:{INSIDE}/{PLAN}",
        fix=f"autoresearch plan revise {draft.path} --reason '...'",
        code="plan_changed",
    )


def _changed(plan_dir: PlanDir, view: PlanView, draft: Draft) -> list[str]:
    """Names of the files that differ from the registered ones."""
    old = set(tree_of(plan_dir, view.version.commit))
    new = _files(plan_dir, draft)
    inside = {name.removeprefix(f"{INSIDE}/"): content for name, content in new.items()}
    changed = [name for name in sorted(old - inside.keys()) if name == PLAN or name.startswith("files/")]
    for name, content in sorted(inside.items()):
        if name not in old or read_file(plan_dir.checkout, view.version.commit, f"{INSIDE}/{name}") != content:
            changed.append(name)
    return [name.removeprefix("files/") for name in changed] or ["the location of its files"]


def _start(plan: StagedPlan, view: PlanView, at: str) -> str:
    """The first stage of a new version: `at`, else the old version's next stage, else the first that never ran."""
    if at:
        if plan.stage(at) is None:
            known = ", ".join(stage.name for stage in plan.stages)
            raise UsageError(f"the plan has no stage {at!r}", hint=f"--at one of {known}")
        return at
    if plan.stage(view.next):
        return view.next
    fresh = [stage.name for stage in plan.stages if not view.times(stage.name)]
    if not fresh:
        raise UsageError("every stage was already run", hint="--at STAGE names the next one", code="no_start")
    return fresh[0]


def _code(plan_dir: PlanDir, draft: Draft, number: int) -> str:
    """Commit the working tree, from which every stage of this version starts."""
    message = f"plan {plan_dir.slug}: the code that version {number} was registered with"
    shot = snapshot(plan_dir.checkout, message=message, leave_out=[plan_dir.directory.parents[1], *draft.results])
    if number > 1:
        before = read_view(plan_dir).version.code
        if plan_dir.checkout.git.line("rev-parse", f"{before}^{{tree}}") == shot.tree:
            return before
    branches.claim_branch(plan_dir.checkout, f"{plan_dir.prefix}/code-{number}", shot.commit)
    return shot.commit


def _record(plan_dir: PlanDir, draft: Draft, parts: Parts, *, number: int, start: str, code: str) -> dict[str, Any]:
    return {
        "t": parts.clock(),
        "do": "registered",
        "version": number,
        "digest": draft.digest,
        "code": code,
        "start": start,
        "file": str(draft.path),
        "by": _who(parts),
    }


def _files(plan_dir: PlanDir, draft: Draft) -> Mapping[str, bytes]:
    """The files of a version, by path in the tree."""
    files = {f"{INSIDE}/{PLAN}": draft.files[str(draft.path)]}
    root = str(plan_dir.checkout.root)
    for path, content in draft.files.items():
        if path != str(draft.path):
            real = os.path.realpath(path)
            inside = os.path.relpath(real, root) if real.startswith(root + "/") else f"outside{real}"
            files[f"{INSIDE}/files/{inside}"] = content
    return files


def _who(parts: Parts) -> str:
    """Who runs this command: the account, and the coding agent that it acts for, if any."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = str(os.getuid())
    agent = driven_by(parts.environ)
    return f"{name}, by way of {agent}" if agent else name


def need_pursuable(plan_dir: PlanDir, view: PlanView) -> None:
    """Raise ConflictError if the plan cannot be run: it is not approved, or a revision is due."""
    if view.state is PlanState.REVISE:
        raise ConflictError(
            f"the plan {plan_dir.slug} must be revised: {_last_conclusion(view)}",
            hint="change its file, then register the new version",
            fix=f"autoresearch plan revise {view.version.file} --reason '...'",
            code="revision_due",
        )
    if not view.approved and view.state is not PlanState.ENDED:
        raise ConflictError(
            f"version {view.version.number} of the plan {plan_dir.slug} is not approved",
            hint="or run it with `--no-human`, which is recorded",
            fix=f"autoresearch plan approve {plan_dir.slug}",
            code="not_approved",
        )


def _last_conclusion(view: PlanView) -> str:
    record = view.runs[-1].conclusion if view.runs else None
    return f"{view.runs[-1].stage}: {record['conclusion']}" if record else "nothing was concluded yet"
