"""Reproduce a row: a worktree at its commit, the same recipe and seed; and a list of what cannot be the same.

The row's commit says where its run wrote. A second run must not write there, so a follow-up commit, which changes
nothing else, redirects it: the recipe's output keys and the blueprint's result directory.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.fields import BlueprintFields, fields_like, moved
from autoresearch.core.run.extra_paths import ExtraPath
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.text.session_and_branch_names import slugify
from autoresearch.errors import BlueprintError
from autoresearch.git_repo.commits import Change, commit_hypothesis
from autoresearch.git_repo.trees import lines_of
from autoresearch.lab.parts import Parts
from autoresearch.lab.recipes import recipe_of_run as recipes
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.import_proof import import_environment
from autoresearch.lab.resolve.path_mapping import PathMap, map_launch
from autoresearch.lab.resolve.run_names import free_name
from autoresearch.lab.resolve.shown_paths import ShowRules, named_paths, paths_to_show
from autoresearch.lab.results.original_run import OriginalRun, caveats_of, free_worktree, read_original
from autoresearch.lab.results.row_lookup import LedgerMatch
from autoresearch.lab.yaml_files import edit
from autoresearch.records.index import state_home
from autoresearch.runner.masking import MASK

MESSAGE_END = "Nothing but where it writes differs from its commit."


@dataclass(frozen=True, slots=True)
class Redone:
    """A row's code checked out again, ready to run."""

    match: LedgerMatch
    worktree: Path
    follow_up: str  # what is checked out: the row's commit, its outputs redirected
    blueprint: Path
    cwd: Path
    command: str
    result_dir: str
    lines: tuple[str, ...]  # commands to run it by hand
    caveats: tuple[str, ...]  # differences that cannot be avoided


def redo(match: LedgerMatch, parts: Parts) -> Redone:
    """Create the worktree. Raises NotFoundError if the commit, the run directory or the blueprint is gone."""
    old = read_original(match)
    checkout, commit = old.checkout, match.row.commit
    name = slugify(f"{Path(old.spec.ledger).parent.name}-{old.spec.index}-{old.spec.replicate}")
    place = free_worktree(checkout, state_home(parts.environ) / "repro" / name, parts)
    result_dir = _beside(old.spec.result_dir)
    inside = os.path.relpath(old.spec.cwd, old.root)
    mapped = map_launch(match.ran.asked_for(), {}, {}, _path_map(old, place.path))
    overrides, command = _redirected(old, mapped.command, result_dir)
    if old.recipe_path.startswith(f"{recipes.OURS}/"):  # it lies outside of the repository; the commit has a copy
        command = command.replace(old.spec.recipe, str(place.path / old.recipe_path))
    fields = _fields(old, inside, result_dir, command, place.path)
    files: dict[str, bytes | None] = {recipes.BLUEPRINT: render_blueprint(fields).encode()}
    if overrides:
        text = edit(old.recipe, overrides, name=old.recipe_path, new_keys=True)
        files[old.recipe_path] = text.encode()
    message = f"{old.spec.slug}: run {match.row.run_id} once more\n\n{MESSAGE_END}\n"
    made = commit_hypothesis(checkout, commit, Change(files=files), message=message)
    inputs = _inputs(old)
    there = [one for one in inputs if os.path.lexists(checkout.root / one.path)]
    place.switch(made.commit, there)
    cwd = place.path / inside
    return Redone(
        match=match,
        worktree=place.path,
        follow_up=made.commit,
        blueprint=place.path / recipes.BLUEPRINT,
        cwd=cwd,
        command=command,
        result_dir=result_dir,
        lines=tuple(_lines(old.spec, cwd, command, place.path, result_dir)),
        caveats=(
            *(f"{f.message}" for f in mapped.findings),
            *(f"{one.name}, which it saw, is not there any more" for one in inputs if one not in there),
            *caveats_of(old, [one.name for one in there], overrides),
        ),
    )


def _inputs(old: OriginalRun) -> list[ExtraPath]:
    """What its worktree showed of the checkout; of a lone run, what its commit lacks now."""
    if old.match.ran.campaign:
        return [one for one in old.match.ran.campaign.evaluation_inputs if one.way.is_shown]
    checkout, notes = old.checkout, old.blueprint.notes
    own = [os.path.relpath(os.path.realpath(path), checkout.root) for path in (old.spec.result_dir, old.spec.run_dir)]
    rules = ShowRules(notes.include, notes.exclude, own=(*own, *notes.hide), named=named_paths(
        checkout.root, Path(old.spec.cwd), [old.spec.command]
    ))
    entries = lines_of(checkout, old.match.row.commit)
    return [one for one in paths_to_show(checkout, entries, rules) if one.way.is_shown]


def _beside(result_dir: str) -> str:
    """A result directory that does not exist yet, beside the row's."""
    path = Path(result_dir)
    return str(path.parent / free_name(path.parent, f"{path.name}-repro"))


def _path_map(old: OriginalRun, worktree: Path) -> PathMap:
    tree = old.checkout.git.run("ls-tree", "-r", "-t", "--name-only", "-z", old.match.row.commit)
    held = set(os.fsdecode(tree).split("\0"))
    interpreter = Path(old.spec.interpreter)
    return PathMap(
        codebase=Path(old.spec.cwd),
        worktree=worktree,
        exists=lambda path: path in held,
        root=old.root,
        never=(interpreter.parent.parent, Path(old.spec.result_dir)),
    )


def _fields(old: OriginalRun, inside: str, result_dir: str, command: str, worktree: Path) -> BlueprintFields:
    """The blueprint of the row, adapted to the new worktree."""
    own, spec = old.blueprint, old.spec
    recipe = old.recipe_path and (str(worktree / old.recipe_path))
    return fields_like(
        own,
        title=f"{own.title}, once more",
        purpose=f"{own.purpose}\n\nThe run {spec.run}, made again from its commit.",
        launch_command=command,
        codebase_dir=str(worktree / inside),
        venv_exe=spec.interpreter,
        yaml_path=recipe,
        result_dir=result_dir,
        slug=slugify(f"{spec.slug}-repro"),
        trainer=spec.trainer,
        metric=spec.objective.metric if spec.objective else "",
        direction=spec.objective.direction.value if spec.objective else "",
        include=(),
        exclude=(),
        launcher="",  # here, unless `--launcher` says otherwise
    )


def _redirected(old: OriginalRun, command: str, result_dir: str) -> tuple[dict[str, object], str]:
    """The recipe's output keys with new paths, and the command, with those that it sets."""
    recipe = old.match.ran.recipe() if old.recipe_path else None
    whole = old.trainer.settings(recipe or {}, command)
    own = {
        output.key: str(Path(result_dir) / output.name) if output.name else f"{old.spec.run}-repro"
        for output in old.trainer.outputs(whole)
    }
    launch = LaunchSettings(old.trainer, recipe, command)
    if recipe is None and not old.trainer.takes_arguments:
        return {}, command
    inside, behind = launch.split(own, new_keys=True)
    try:
        return inside, launch.with_settings(behind) if behind else command
    except BlueprintError:  # no place behind a script: it writes where that script says
        return inside, command


def import_path(worktree: Path, cwd: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH with the worktree first: otherwise an editable install of the checkout would win."""
    inside = os.path.relpath(cwd, worktree)
    return {"PYTHONPATH": import_environment(environ, worktree, (inside, f"{inside}/src"))["PYTHONPATH"]}


def _lines(spec: RunSpec, cwd: Path, command: str, worktree: Path, result_dir: str) -> Iterable[str]:
    """Commands to run it by hand, with gaps for masked variables."""
    yield f"cd {shlex.quote(str(cwd))}"
    for name, value in spec.environment.items():
        if MASK in value:
            yield f"export {name}=...  # it was masked in the record: give it yourself"
        elif name != "PYTHONPATH":
            yield f"export {name}={shlex.quote(moved(value, spec.result_dir, result_dir))}"
    yield f"export PYTHONPATH={shlex.quote(import_path(worktree, cwd, {})['PYTHONPATH'])}"
    yield f"export PATH={shlex.quote(str(Path(spec.interpreter).parent))}:$PATH"
    yield from spec.prepare
    yield f"bash -c {shlex.quote(command)}"
