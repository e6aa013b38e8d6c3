"""A plan is fixed in git, approved, revised: always before the first run that it speaks of."""

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
from autoresearch.lab.plans.plan_dir import INSIDE, PlanPlace, add_record, find, first_record, make, read_view, tree_of
from autoresearch.lab.plans.stages import campaign_place
from autoresearch.lab.yaml_files import parse_any
from autoresearch.launchers.host_sandbox_check import driven_by
from autoresearch.records.rundir import locked

PLAN = "plan.yaml"


def open_plan(name: str, parts: Parts) -> tuple[PlanPlace, Draft | None]:
    """The plan that a word on the command line means: a file, or the name of one that is registered.

    A file is read and checked; for a name the draft is None. Raises NotFoundError or what `read_draft` raises.
    """
    if name.endswith((".yaml", ".yml")) or (name and Path(name).is_file()):
        draft = read_draft(Path(name), parts)
        raise_on_faults(draft)
        assert draft.checkout is not None
        return PlanPlace(draft.checkout, draft.slug), draft
    return find(name, parts), None


def draft_of(view: PlanView, parts: Parts) -> Draft:
    """A registered plan's file as it lies there now. Raises what `read_draft` raises."""
    path = Path(view.version.file)
    try:
        return read_draft(path, parts)
    except NotFoundError as gone:
        where = f"{view.version.commit[:12]}:{INSIDE}/{PLAN}"
        raise NotFoundError(
            f"{path} is gone; the plan is in git as it was registered",
            hint="put it back where it was",
            fix=f"git -C {path.parent} show {where} > {path}",
            code="plan_file_gone",
        ) from gone


def registered_plan(place: PlanPlace, view: PlanView, number: int = 0) -> StagedPlan:
    """The plan as a version of it was registered; 0 is the one that counts. NotFoundError where it is damaged."""
    version = view.versions[number - 1] if number else view.version
    found = read_plan(parse_any(read_file(place.checkout, version.commit, f"{INSIDE}/{PLAN}"), PLAN)).plan
    if found is None:
        raise NotFoundError(f"{PLAN} of version {version.number} is damaged in git", code="plan_damaged")
    return found


def register(place: PlanPlace, draft: Draft, parts: Parts) -> PlanView:
    """Fix a plan in git as version 1; where just this is registered already, nothing is done.

    ConflictError where another plan is registered under its name.
    """
    plan = raise_on_faults(draft)
    make(place, parts)
    with locked(place.directory / "register.lock"):
        if place.tip is not None:
            view = read_view(place)
            need_same(place, view, draft)
            return view
        record = _record(place, draft, parts, number=1, start=plan.stages[0].name, code=_code(place, draft, 1))
        first_record(place, record, f"plan {place.slug}: version 1 is registered", _files(place, draft))
    return read_view(place)


def approve(place: PlanPlace, view: PlanView, parts: Parts, *, note: str = "", asked: bool = True) -> PlanView:
    """A yes to the version that counts; `asked` False: nobody is asked (`--no-human`), which is written down as such.

    Said twice, it is recorded once.
    """
    if view.approved:
        return view
    word = "approved" if asked else "waived"
    record = {
        "t": parts.clock(),
        "do": word,
        "version": view.version.number,
        "digest": view.version.digest,
        "by": _who(parts),
        "note": note,
    }
    said = "is approved" if asked else "is run without an approval (--no-human)"
    add_record(place, record, f"plan {place.slug}: version {view.version.number} {said}")
    return read_view(place)


def revise(place: PlanPlace, draft: Draft, parts: Parts, *, reason: str, at: str = "") -> PlanView:
    """Register what the plan's file says now as its next version; results stay, and it needs its own approval.

    ConflictError while a stage runs under the old one, or where nothing differs.
    """
    plan = raise_on_faults(draft)
    with locked(place.directory / "register.lock"):
        view = read_view(place)
        if view.live and not campaign_place(place, view.live).spec.exists():
            record = {"t": parts.clock(), "do": "withdrawn", "stage": view.live.stage}
            add_record(place, record, f"plan {place.slug}: stage {view.live.stage} could not be started")
            view = read_view(place)
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
        code = _code(place, draft, number)
        record = _record(place, draft, parts, number=number, start=start, code=code) | {"reason": reason.strip()}
        files = {f"{INSIDE}/{name}": None for name in tree_of(place, place.tip or "") if name.startswith("files/")}
        message = f"plan {place.slug}: version {number} is registered: {' '.join(reason.split())[:200]}"
        add_record(place, record, message, {**files, **_files(place, draft)})
        place.flag.unlink(missing_ok=True)
    return read_view(place)


def need_between_stages(view: PlanView) -> None:
    """ConflictError while a stage runs: what it is expected to show was fixed before it began."""
    if view.live:
        raise ConflictError(
            f"stage {view.live.stage} runs under version {view.version.number}",
            hint="what it is expected to show was fixed before it began; wait for it, or stop its campaign",
            fix=f"autoresearch campaign wait {view.live.campaign} --for 100s",
            code="stage_runs",
        )


def need_same(place: PlanPlace, view: PlanView, draft: Draft) -> None:
    """ConflictError where the plan, or a file that it names, is no longer what was registered."""
    if draft.digest == view.version.digest:
        return
    if os.path.realpath(draft.path) != os.path.realpath(view.version.file):
        raise ConflictError(
            f"another plan is registered as {place.slug}: {view.version.file}",
            hint="a plan is called by its file; rename this one",
            code="plan_taken",
        )
    changed = _changed(place, view, draft)
    raise ConflictError(
        f"the plan was changed after version {view.version.number} was registered: {', '.join(changed[:5])}",
        hint=f"register the change as a new version, or take it back: git show {place.branch}:{INSIDE}/{PLAN}",
        fix=f"autoresearch plan revise {draft.path} --reason '...'",
        code="plan_changed",
    )


def _changed(place: PlanPlace, view: PlanView, draft: Draft) -> list[str]:
    """Which of its files differ from the registered ones."""
    old = set(tree_of(place, view.version.commit))
    new = _files(place, draft)
    inside = {name.removeprefix(f"{INSIDE}/"): content for name, content in new.items()}
    found = [name for name in sorted(old - inside.keys()) if name == PLAN or name.startswith("files/")]
    for name, content in sorted(inside.items()):
        if name not in old or read_file(place.checkout, view.version.commit, f"{INSIDE}/{name}") != content:
            found.append(name)
    return [name.removeprefix("files/") for name in found] or ["where they lie"]


def _start(plan: StagedPlan, view: PlanView, at: str) -> str:
    """Where a new version begins: as told, where the old one was going, else at the first stage that never ran."""
    if at:
        if plan.stage(at) is None:
            known = ", ".join(stage.name for stage in plan.stages)
            raise UsageError(f"the plan has no stage {at!r}", hint=f"--at one of {known}")
        return at
    if plan.stage(view.next):
        return view.next
    fresh = [stage.name for stage in plan.stages if not view.times(stage.name)]
    if not fresh:
        raise UsageError("every stage of it was run before", hint="--at STAGE says where it goes on", code="no_start")
    return fresh[0]


def _code(place: PlanPlace, draft: Draft, number: int) -> str:
    """The commit that every stage of this version begins from: the working tree as it is."""
    message = f"plan {place.slug}: the code that version {number} was registered with"
    shot = snapshot(place.checkout, message=message, leave_out=[place.directory.parents[1], *draft.results])
    if number > 1:
        before = read_view(place).version.code
        if place.checkout.git.line("rev-parse", f"{before}^{{tree}}") == shot.tree:
            return before
    branches.claim_branch(place.checkout, f"{place.prefix}/code-{number}", shot.commit)
    return shot.commit


def _record(place: PlanPlace, draft: Draft, parts: Parts, *, number: int, start: str, code: str) -> dict[str, Any]:
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


def _files(place: PlanPlace, draft: Draft) -> Mapping[str, bytes]:
    """What a version holds, by its path in the tree."""
    found = {f"{INSIDE}/{PLAN}": draft.files[str(draft.path)]}
    root = str(place.checkout.root)
    for path, content in draft.files.items():
        if path != str(draft.path):
            real = os.path.realpath(path)
            inside = os.path.relpath(real, root) if real.startswith(root + "/") else f"outside{real}"
            found[f"{INSIDE}/files/{inside}"] = content
    return found


def _who(parts: Parts) -> str:
    """Whose command it is: the account, and the coding agent that typed it."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = str(os.getuid())
    agent = driven_by(parts.environ)
    return f"{name}, by way of {agent}" if agent else name


def need_pursuable(place: PlanPlace, view: PlanView) -> None:
    """What speaks against `plan run`: no approval, or a revision is due. ConflictError with what to type."""
    if view.state is PlanState.REVISE:
        raise ConflictError(
            f"the plan {place.slug} is to be revised: {_last_words(view)}",
            hint="change its file, then register the new version",
            fix=f"autoresearch plan revise {view.version.file} --reason '...'",
            code="revision_due",
        )
    if not view.approved and view.state is not PlanState.ENDED:
        raise ConflictError(
            f"version {view.version.number} of the plan {place.slug} is not approved",
            hint="or `--no-human`, which is written down",
            fix=f"autoresearch plan approve {place.slug}",
            code="not_approved",
        )


def _last_words(view: PlanView) -> str:
    said = view.runs[-1].conclusion if view.runs else None
    return f"{view.runs[-1].stage}: {said['conclusion']}" if said else "nothing was concluded yet"
