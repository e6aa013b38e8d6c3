"""The run of a row that is to be made again: what its commit holds, and what to type."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.fields import fields_like
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.run.extra_paths import ExtraPath
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.text.session_and_branch_names import slugify
from autoresearch.errors import BlueprintError, NotFoundError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.trees import lines_of
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.lab.recipes.recipe_of_run import BLUEPRINT, OURS, CommittedRun
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.import_proof import import_environment
from autoresearch.lab.resolve.path_mapping import PathMap, map_launch
from autoresearch.lab.resolve.run_names import free_name
from autoresearch.lab.resolve.shown_paths import ShowRules, named_paths, paths_to_show
from autoresearch.lab.yaml_files import edit
from autoresearch.runner.masking import MASK
from autoresearch.trainers import registry


@dataclass(frozen=True, slots=True)
class OriginalRun:
    """The run of a row, with what its commit holds."""

    ran: CommittedRun
    spec: RunSpec
    checkout: Checkout
    blueprint: Blueprint
    inside: str  # its codebase, relative to the repository; "." is the root
    inputs: tuple[ExtraPath, ...]  # what it sees of the checkout, and no commit holds
    home: str

    @property
    def has_secret(self) -> bool:
        """Whether its blueprint was given a secret, which is masked in the commit."""
        return MASK in render_blueprint(fields_like(self.blueprint))

    def command_in(self, worktree: Path, exists: Callable[[str], bool]) -> str:
        """Its command in a worktree. `exists`: see `PathMap`."""
        never = (Path(self.spec.interpreter).parent.parent, Path(self.spec.result_dir))
        root = self.checkout.root
        path_map = PathMap(root / self.inside, worktree, exists, root, never, self.home)
        command = map_launch(self.blueprint.launch_command, {}, {}, path_map).command
        recipe = self.ran.recipe_path()
        if recipe.startswith(f"{OURS}/"):  # it lies outside of the repository; the commit has a copy
            outside = self.ran.campaign.recipe if self.ran.campaign else self.spec.recipe
            command = command.replace(outside, str(worktree / recipe))
        return command

    def import_path(self, worktree: Path, environ: Mapping[str, str]) -> dict[str, str]:
        """PYTHONPATH with the worktree first: otherwise an editable install of the checkout would win."""
        roots = (self.inside, f"{self.inside}/src")
        return {"PYTHONPATH": import_environment(environ, worktree, roots)["PYTHONPATH"]}

    def lines(self) -> Iterable[str]:
        """What to type to run it by hand."""
        root, commit = self.checkout.root, self.ran.row.commit[:12]
        tree = root.with_name(f"{root.name}-{commit}")
        yield shlex.join(["git", "-C", str(root), "worktree", "add", "--detach", str(tree), commit])
        yield f"cd {shlex.quote(os.path.normpath(tree / self.inside))}"
        for name, value in {**self.blueprint.notes.env, **self.import_path(tree, {})}.items():
            yield f"export {name}={shlex.quote(value)}"
        yield f"export PATH={shlex.quote(str(Path(self.spec.interpreter).parent))}:$PATH"
        yield from self.spec.prepare
        yield f"bash -c {shlex.quote(self.command_in(tree, lambda _: True))}"

    def redirected(self, command: str, worktree: Path) -> dict[str, bytes | None]:
        """The files of a follow-up commit that writes beside the row's result directory: blueprint, recipe."""
        ran, spec, usual, path = self.ran, self.spec, Path(self.spec.result_dir), self.ran.recipe_path()
        result_dir = usual.with_name(free_name(usual.parent, f"{usual.name}-repro"))
        trainer = registry.choose(spec.trainer, spec.command, spec.lines)
        recipe = ran.recipe() if path else None
        own = {
            output.key: str(result_dir / output.name) if output.name else f"{spec.run}-repro"
            for output in trainer.outputs(trainer.settings(recipe or {}, command))
        }
        files: dict[str, bytes | None] = {}
        if recipe is not None or trainer.takes_arguments:
            launch_settings = LaunchSettings(trainer, recipe, command)
            applied = launch_settings.applied(own, new_keys=True)
            try:
                command = launch_settings.with_settings(applied.command)
            except BlueprintError:  # no place behind a script: it writes where that script says
                pass
            if applied.recipe:
                text = ran.read(path).decode("utf-8", "replace")
                files[path] = edit(text, applied.recipe, name=path, new_keys=True).encode()
        fields = fields_like(
            self.blueprint,
            purpose=f"{self.blueprint.purpose}\n\nThe run {spec.run}, made again from its commit.",
            launch_command=command,
            codebase_dir=str(worktree / self.inside),
            venv_exe=spec.interpreter,
            yaml_path=path and str(worktree / path),
            result_dir=str(result_dir),
            slug=slugify(f"{spec.slug}-repro"),
            trainer=spec.trainer,
            metric=spec.objective.metric if spec.objective else "",
            direction=spec.objective.direction.value if spec.objective else "",
            include=(),
            exclude=(),
            launcher="",  # here, unless `--launcher` says otherwise
        )
        return {**files, BLUEPRINT: render_blueprint(fields).encode()}


def read_original(committed_run: CommittedRun, environ: Mapping[str, str]) -> OriginalRun:
    """Read it from its commit. Raises NotFoundError if the commit, the run directory or the blueprint is gone."""
    row, spec, checkout = committed_run.row, committed_run.spec, committed_run.checkout
    run, commit = row.run_id, row.commit
    if spec is None:
        raise NotFoundError(
            f"the run directory of {run} is gone, and with it its command",
            hint=f"its code is at commit {commit[:12] or '(unknown)'}",
            code="run_dir_gone",
        )
    if checkout is None or not commit:
        what = "it was run without a commit" if checkout else "its repository is gone"
        raise NotFoundError(f"{run} cannot be made again: {what}", code="no_commit")
    if not (path := committed_run.blueprint_path()):
        message = f"{checkout.root} holds no commit {commit[:12]} with a blueprint of {run}"
        raise NotFoundError(message, hint="its branch may have been deleted", code="no_commit")
    blueprint = parse_blueprint(committed_run.read(path), Path(path).name)
    campaign = committed_run.campaign
    inside = campaign.codebase or "." if campaign else os.path.relpath(spec.cwd, checkout.root)
    inputs = _inputs(committed_run, spec, checkout, blueprint)
    return OriginalRun(committed_run, spec, checkout, blueprint, inside, inputs, environ.get("HOME", ""))


def _inputs(ran: CommittedRun, spec: RunSpec, checkout: Checkout, blueprint: Blueprint) -> tuple[ExtraPath, ...]:
    """What its worktree showed of the checkout; of a lone run, what its commit lacks now."""
    if ran.campaign:
        known: Iterable[ExtraPath] = ran.campaign.evaluation_inputs
    else:
        notes = blueprint.notes
        records = Path(spec.ledger).parent.parent
        own = [os.path.relpath(os.path.realpath(path), checkout.root) for path in (spec.result_dir, records)]
        named = named_paths(checkout.root, Path(spec.cwd), [spec.command])
        rules = ShowRules(notes.include, notes.exclude, own=(*own, *notes.hide), named=named)
        known = paths_to_show(checkout, lines_of(checkout, ran.row.commit), rules)
    return tuple(one for one in known if one.way.is_shown and os.path.lexists(checkout.root / one.path))
