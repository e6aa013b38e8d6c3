"""How to make the run of a row again by hand: what its commit holds, and what to type."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.run.extra_paths import ExtraPath
from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import NotFoundError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.commits import lines_of
from autoresearch.lab.recipes.recipe_of_run import OURS, CommittedRun
from autoresearch.lab.resolve.import_proof import import_environment
from autoresearch.lab.resolve.path_mapping import PathMap, map_launch
from autoresearch.lab.resolve.shown_paths import ShowRules, named_paths, paths_to_show


@dataclass(frozen=True, slots=True)
class OriginalRun:
    """The run of a row, with what its commit holds."""

    ran: CommittedRun
    spec: RunSpec
    checkout: Checkout
    blueprint: Blueprint
    inside: str  # its codebase, relative to the repository; "." is the root
    home: str

    def lines(self) -> Iterator[str]:
        """What to type to run it by hand."""
        root, commit = self.checkout.root, self.ran.row.commit[:12]
        tree = root.with_name(f"{root.name}-{commit}")
        yield shlex.join(["git", "-C", str(root), "worktree", "add", "--detach", str(tree), commit])
        yield from (shlex.join(["ln", "-s", str(root / one.path), str(tree / one.path)]) for one in self._inputs())
        yield f"cd {shlex.quote(os.path.normpath(tree / self.inside))}"
        here = import_environment({}, root, (self.inside, f"{self.inside}/src"))["PYTHONPATH"].split(os.pathsep)
        imports = {"PYTHONPATH": os.pathsep.join(str(tree / os.path.relpath(one, root)) for one in here)}
        for name, value in {**self.blueprint.notes.env, **imports}.items():
            yield f"export {name}={shlex.quote(value)}"
        yield f"export PATH={shlex.quote(str(Path(self.spec.interpreter).parent))}:$PATH"
        yield from self.spec.prepare
        yield f"bash -c {shlex.quote(self._command_in(tree))}"

    def _command_in(self, worktree: Path) -> str:
        """Its command in a worktree."""
        never = (Path(self.spec.interpreter).parent.parent, Path(self.spec.result_dir))
        root = self.checkout.root
        path_map = PathMap(root / self.inside, worktree, root, never, self.home)
        command = map_launch(self.blueprint.launch_command, {}, {}, path_map).command
        recipe = self.ran.recipe_path()
        if recipe.startswith(f"{OURS}/"):  # it lies outside of the repository; the commit has a copy
            outside = self.ran.campaign.recipe if self.ran.campaign else self.spec.recipe
            command = command.replace(outside, str(worktree / recipe))
        return command

    def _inputs(self) -> Iterator[ExtraPath]:
        """What its worktree showed of the checkout, as far as it is there; of a lone run, what its commit lacks now."""
        if self.ran.campaign:
            known: Iterable[ExtraPath] = self.ran.campaign.evaluation_inputs
        else:
            notes, root, records = self.blueprint.notes, self.checkout.root, Path(self.spec.ledger).parent.parent
            own = [os.path.relpath(os.path.realpath(path), root) for path in (self.spec.result_dir, records)]
            named = named_paths(root, Path(self.spec.cwd), [self.spec.command])
            rules = ShowRules(notes.include, notes.exclude, own=(*own, *notes.hide), named=named)
            known = paths_to_show(self.checkout, lines_of(self.checkout, self.ran.row.commit), rules)
        yield from (one for one in known if one.way.is_shown and os.path.lexists(self.checkout.root / one.path))


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
    return OriginalRun(committed_run, spec, checkout, blueprint, inside, environ.get("HOME", ""))
