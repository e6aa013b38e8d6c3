"""Commit the code that runs to a branch that holds exactly it, without touching the checkout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import ConflictError, EnvironmentUnusable
from autoresearch.git_repo import branches
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.resolve.resolve_run import ResolvedRun
from autoresearch.records import journal
from autoresearch.records.rundir import masked_file

if TYPE_CHECKING:
    from autoresearch.git_repo.snapshot import Snapshot


MOST_EDITED = 20  # paths that are recorded


def keep_code(resolved_run: ResolvedRun) -> ResolvedRun:
    """Create the branch that holds exactly the code that runs; if impossible, record why and continue."""
    spec = _keep(resolved_run)
    if spec.no_snapshot:
        journal.append(Path(spec.result_dir), f"no branch: {spec.no_snapshot}")
    return replace(resolved_run, spec=spec)


def _keep(resolved_run: ResolvedRun) -> RunSpec:
    spec, checkout = resolved_run.spec, resolved_run.options.checkout
    result_dir = Path(spec.result_dir)
    if checkout is None:
        return replace(spec, branch="", no_snapshot=resolved_run.options.no_git)
    parent = branches.branch_commit(checkout, spec.branch) if spec.fix_of else None
    try:
        shot = _snapshot(resolved_run, checkout, parent)
        branch = _publish(spec, checkout, shot, parent)
    except (ConflictError, EnvironmentUnusable) as error:
        return replace(spec, branch="", no_snapshot=error.message)
    recipe = _name_in_commit(checkout, "recipe", resolved_run.resolved.recipe) if resolved_run.resolved.recipe else ""
    left_out = tuple(str(item) for item in shot.left_out)
    journal.append(result_dir, f"branch {branch} at {shot.commit[:12]} holds the code that runs")
    for item in left_out:
        journal.append(result_dir, f"left out of the snapshot: {item}")
    spec = replace(spec, branch=branch, commit=shot.commit, parent_commit=shot.parent)
    omitted = {item.path for item in shot.left_out}
    edited = tuple(path for path in shot.dirty if path not in omitted)[:MOST_EDITED]
    return replace(spec, recipe_in_commit=recipe, left_out=left_out, edited=edited)


def _snapshot(resolved_run: ResolvedRun, checkout: Checkout, parent: str | None) -> Snapshot:
    from autoresearch.git_repo.snapshot import snapshot

    apart = [resolved_run.campaign_dir.parent, Path(resolved_run.spec.result_dir)]
    apart += [checkout.root / path for path in resolved_run.resolved.blueprint.notes.hide]
    extra = _outside_files(resolved_run, checkout)
    return snapshot(checkout, message=_message(resolved_run.spec), extra=extra, leave_out=apart, parent=parent)


def _publish(spec: RunSpec, checkout: Checkout, shot: Snapshot, parent: str | None) -> str:
    if parent:
        try:
            branches.advance_branch(checkout, spec.branch, shot.commit, parent)
            return spec.branch
        except ConflictError as moved:  # checked out or moved by somebody else: the fix gets a new branch
            journal.append(Path(spec.result_dir), moved.message)
    return branches.claim_branch(checkout, spec.branch, shot.commit)


def _message(spec: RunSpec) -> str:
    subject = f"{spec.slug}: follow-up fix of {spec.fix_of}" if spec.fix_of else f"{spec.slug}: run {spec.run}"
    return f"{subject}\n\n{spec.purpose}\n\nCommand: {spec.command}\n"


def _outside_files(resolved_run: ResolvedRun, checkout: Checkout) -> dict[str, bytes]:
    """The blueprint and the recipe, masked; inside the repository they replace the originals in the commit."""
    named = (("blueprint", resolved_run.resolved.path), ("recipe", resolved_run.resolved.recipe))
    return {
        _name_in_commit(checkout, kind, path): masked_file(path.read_bytes(), yaml=kind == "recipe")
        for kind, path in named
        if path is not None
    }


def _name_in_commit(checkout: Checkout, kind: str, path: Path) -> str:
    return _inside(checkout, path) or f".autoresearch/{kind}/{path.resolve().name}"


def masked_files(checkout: Checkout, paths: Iterable[Path]) -> dict[str, bytes]:
    """The files with secrets among these files and folders, masked for the commit."""
    found: dict[str, bytes] = {}
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            name = _inside(checkout, file)
            if name and file.is_file() and (masked := masked_file(data := file.read_bytes())) != data:
                found[name] = masked
    return found


def _inside(checkout: Checkout, path: Path) -> str:
    real, root = path.resolve(), checkout.root.resolve()
    return str(real.relative_to(root)) if root in real.parents else ""
