"""What the commits of one campaign's ideas are made of, and what they hold: recipe, settings, blueprint."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from autoresearch.core.blueprint.fields import blueprint_like
from autoresearch.core.blueprint.model import Blueprint, Notes
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.recipe_edits import diff_recipes
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.core.text.session_and_branch_names import slugify
from autoresearch.errors import AutoresearchError, ConflictError, NotFoundError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.commits import entries_of
from autoresearch.git_repo.history import read_file
from autoresearch.lab.recipes.overrides import LaunchSettings, inherited, rewritten
from autoresearch.lab.resolve.launch_command import VARIED, recipe_of, scripts_below, shell_reader
from autoresearch.lab.yaml_files import load_mapping, parse_mapping
from autoresearch.trainers import registry

OURS = ".autoresearch"
BLUEPRINT = f"{OURS}/blueprint.md"
RECIPE = f"{OURS}/recipe.yaml"  # the recipe's copy, if the original is outside of the repository
ARGUMENTS = f"{OURS}/arguments.yaml"  # settings passed on an idea's command line, including its parents'


class IdeaRefused(ConflictError):  # noqa: N818 - it names what happened to the idea
    """This hypothesis cannot be tried; that is recorded, and the campaign continues."""

    code = "refused"


@dataclass(frozen=True, slots=True)
class ChangedSettings:
    """A commit's settings with some keys set."""

    recipe: str | None  # the recipe's text; None: unchanged
    arguments: Mapping[str, object]  # all settings that then go on the command line
    scripts: Mapping[str, bytes]  # the scripts that changed: path in the repository -> text


@dataclass(frozen=True, slots=True)
class CommitBuilder:
    """What is needed to make commits for the ideas of one campaign."""

    spec: CampaignSpec
    checkout: Checkout
    blueprint: Blueprint  # the campaign's own
    trainer: Trainer

    @classmethod
    def of(cls, campaign_spec: CampaignSpec, checkout: Checkout) -> CommitBuilder:
        """Parse the campaign's blueprint from the text stored in its spec."""
        blueprint = parse_blueprint(campaign_spec.blueprint_text.encode(), campaign_spec.blueprint)
        codebase = Path(campaign_spec.repository) / campaign_spec.codebase
        read = shell_reader(codebase, blueprint.notes.env, _reads(checkout, campaign_spec.base_commit))
        launch = read(blueprint.launch_command)
        return cls(campaign_spec, checkout, blueprint, registry.for_blueprint(blueprint, launch))

    @property
    def evaluation(self) -> Notes:
        """The notes that define how every idea is measured: the campaign's own, whatever blueprint an idea brings."""
        return _notes_of(self.spec.blueprint_text, self.spec.blueprint)

    @property
    def recipe_path(self) -> str:
        """The recipe's path in the tree of every idea; "" if there is none that can be varied."""
        if not self.spec.recipe.lower().endswith(VARIED):
            return ""
        return RECIPE if self.spec.recipe.startswith("/") else self.spec.recipe

    def recipe_text(self, commit: str) -> str:
        """The recipe as a commit holds it."""
        data = _file(self.checkout, commit, self.recipe_path) if self.recipe_path else b""
        return (data or b"").decode("utf-8", "replace")

    def recipe(self, commit: str) -> Mapping[str, object]:
        """The recipe as a commit holds it, parsed."""
        return parse_mapping(self.recipe_text(commit).encode(), self.recipe_path) if self.recipe_path else {}

    def inherited(self, commit: str, text: str | None = None) -> Recipe | None:
        """The recipe (or `text` in its place) merged over its parents; None if the blueprint names no recipe."""
        if not self.recipe_path:
            return None

        def read(path: str) -> Mapping[str, object]:
            if path.startswith(("/", "../")):
                return load_mapping(Path(self.spec.repository) / path)
            return parse_mapping(_file(self.checkout, commit, path), path)

        own = self.recipe_text(commit) if text is None else text
        return inherited(parse_mapping(own.encode(), self.recipe_path), self.recipe_path, read)

    def arguments(self, commit: str) -> Mapping[str, object]:
        """The settings on the command line of the idea in this commit."""
        return _arguments(self.checkout, commit)

    def command(self, arguments: Mapping[str, object]) -> str:
        """The launch command with these settings on it."""
        own = self.blueprint.launch_command
        return LaunchSettings(self.trainer, None, own).with_settings(arguments) if arguments else own

    def launch(self, commit: str, recipe: Recipe | None = None) -> LaunchSettings:
        """What the command and the scripts in a commit can vary. `recipe`: in place of the commit's."""
        command, variables = self.blueprint.launch_command, tuple(self.blueprint.notes.env.items())
        codebase = Path(self.spec.repository) / self.spec.codebase
        scripts = _launch_files(self.checkout, commit, codebase, command, variables)
        own = self.inherited(commit) if recipe is None else recipe
        return LaunchSettings(self.trainer, own, command, scripts, self.spec.flags)

    def whole(self, commit: str) -> Recipe:
        """All that a commit sets: its recipe over its parents, and the settings of the command and its scripts."""
        return replace(self.launch(commit), command=self.command(self.arguments(commit))).settings

    def whole_of_run(self, commit: str) -> Recipe:
        """All that the commit of a run sets, by the command of the blueprint that it ran."""
        own = parse_blueprint(_file(self.checkout, commit, BLUEPRINT), BLUEPRINT)
        return replace(self.launch(commit), command=own.launch_command).settings

    def changed(
        self,
        commit: str,
        overrides: Mapping[str, object],
        arguments: Mapping[str, object],
        *,
        text: str | None = None,
        new_keys: bool = False,
    ) -> ChangedSettings:
        """The commit's recipe, scripts and command with these keys set.

        `arguments`: the settings already on the command. `text`: the recipe to use instead of the commit's.
        """
        recipe = self.inherited(commit, text)
        launch = self.launch(commit, recipe)
        applied = launch.applied(overrides, new_keys=new_keys)
        both = {**arguments, **applied.command}
        self.command(both)  # raises for a setting that would have no effect
        files = {path: script.encode() for path, script in applied.scripts.items()}
        if applied.recipe:
            own = self.recipe_text(commit) if text is None else text
            text = rewritten(own, recipe or {}, applied.recipe, self.recipe_path)
        return ChangedSettings(text, both, files)

    # -- blueprints ----------------------------------------------------------------------------------------------

    def for_idea(self, hypothesis: Hypothesis) -> CommitBuilder:
        """The builder for an idea that brings its own blueprint, which may name another recipe, as its command may."""
        if not hypothesis.blueprint:
            return self
        own, root = self.blueprint_of(hypothesis), Path(self.spec.repository)
        codebase, path = root / self.spec.codebase, None
        if own.yaml_path:
            candidates = [Path(os.path.normpath(base / own.yaml_path)) for base in (codebase, root)]
            path = next((one for one in candidates if one.exists()), candidates[0])
        elif named := recipe_of(shell_reader(codebase, own.notes.env)(own.launch_command), codebase):
            with contextlib.suppress(AutoresearchError):  # it may be no recipe
                path = named if load_mapping(named) else None
        recipe = os.path.relpath(path, root) if path and root in path.parents else str(path or "")
        return replace(self, blueprint=own, spec=replace(self.spec, recipe=recipe))

    def blueprint_of(self, hypothesis: Hypothesis) -> Blueprint:
        """The blueprint that an idea runs: its own if it has one, else the campaign's."""
        if not hypothesis.blueprint:
            return self.blueprint
        return parse_blueprint(hypothesis.blueprint.encode(), f"{hypothesis.slug}.md")

    def blueprint_as(self, hypothesis: Hypothesis, remark: str, *, command: str, result_dir: str = "") -> Blueprint:
        """The blueprint of an idea, valid in any worktree: paths inside the repository are relative."""
        spec, codebase = self.spec, self.spec.codebase
        expected = f"\nExpected: {hypothesis.expected}" if hypothesis.expected else ""
        return blueprint_like(
            self.blueprint_of(hypothesis),
            title=hypothesis.slug,
            purpose=f"{hypothesis.sentence}\n{remark}{expected}",
            launch_command=command,
            codebase_dir=f"./{codebase}",
            venv_exe=spec.interpreter,
            yaml_path=self.recipe_path.removeprefix(f"{codebase}/") if codebase else self.recipe_path,
            result_dir=result_dir or f"{spec.result_dir}/{slugify(hypothesis.slug)}",
            slug=slugify(hypothesis.slug),
            trainer=self.trainer.name,
            evaluate=self.evaluation.evaluate,
            evaluate_s=self.evaluation.evaluate_s,
            metric=spec.objective.metric,
            direction=spec.objective.direction.value,
            constraint=spec.constraints,
            include=spec.include,
            exclude=spec.exclude,
            hide=(),  # the campaign keeps these two, whatever an idea says, and chooses the target
            writable=(),
            launcher="",
        )

    def difference(self, hypothesis: Hypothesis, base: str, files: Mapping[str, bytes | None]) -> str:
        """A sentence on how the idea differs from its parent."""
        if hypothesis.is_baseline:
            return "Nothing is changed: this is what all others are measured against."
        parts = []
        recipe = files.get(self.recipe_path) if self.recipe_path else None
        if recipe is not None:
            changes = diff_recipes(self.recipe(base), parse_mapping(recipe, self.recipe_path))
            parts.append("recipe: " + ", ".join(map(str, changes)))
        if ARGUMENTS in files:
            command = self.command(parse_mapping(files[ARGUMENTS] or b"", ARGUMENTS))
            changes = diff_recipes(self.whole(base), replace(self.launch(base), command=command).settings)
            parts.append("command: " + ", ".join(map(str, changes)))
        if own := [path for path in hypothesis.files if path != self.recipe_path]:
            parts.append(f"files: {', '.join(own)}")
        if hypothesis.patches:
            parts.append(f"{len(hypothesis.patches)} patches")
        return f"Differs from its parent ({hypothesis.parent}) in {'; '.join(parts) or 'its blueprint'}."


@lru_cache(maxsize=4)
def _notes_of(text: str, name: str) -> Notes:
    return parse_blueprint(text.encode(), name).notes


@lru_cache(maxsize=256)
def _arguments(checkout: Checkout, commit: str) -> Mapping[str, object]:
    with contextlib.suppress(NotFoundError):
        return parse_mapping(read_file(checkout.root, commit, ARGUMENTS), ARGUMENTS)
    return {}


# A commit never changes, and its recipe is read some twenty times per idea: each uncached read starts git.
@lru_cache(maxsize=256)
def _file(checkout: Checkout, commit: str, path: str) -> bytes:
    return read_file(checkout.root, commit, path)


@lru_cache(maxsize=256)
def _launch_files(
    checkout: Checkout, commit: str, codebase: Path, command: str, variables: tuple[tuple[str, str], ...]
) -> Mapping[str, str]:
    """The scripts that a command starts, as a commit holds them."""
    read = shell_reader(codebase, dict(variables), _reads(checkout, commit))
    return scripts_below(checkout.root, read(command), codebase)


def _reads(checkout: Checkout, commit: str) -> Callable[[Path, int], bytes]:
    """Reads the first bytes of a file of the checkout as a commit holds it."""

    def read(path: Path, most: int) -> bytes:
        whole = Path(os.path.normpath(path))
        name = str(whole.relative_to(checkout.root)) if checkout.root in whole.parents else ""
        if not name or os.fsencode(name) not in entries_of(checkout, commit):
            raise FileNotFoundError(2, "No such file or directory")
        return _file(checkout, commit, name)[:most]

    return read
