"""Commits the ideas of one campaign, and reads recipes from those commits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from autoresearch.core.blueprint.model import Blueprint, Notes
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.errors import ConflictError, NotFoundError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.comparison import read_file
from autoresearch.git_repo.git import GitFailed
from autoresearch.lab.recipes.overrides import LaunchSettings, rewritten
from autoresearch.lab.recipes.recipe_parents import inherited
from autoresearch.lab.resolve.files import Files
from autoresearch.lab.resolve.launch_texts import LaunchTexts
from autoresearch.lab.resolve.scripts import shell_reader
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
        read = shell_reader(codebase, blueprint.notes.env, CommitFiles(checkout, campaign_spec.base_commit))
        launch = read(blueprint.launch_command, blueprint.notes.prepare)
        return cls(campaign_spec, checkout, blueprint, registry.for_blueprint(blueprint, shell_reading=launch))

    @property
    def evaluation(self) -> Notes:
        """The notes that define how every idea is measured: the campaign's own, whatever blueprint an idea brings."""
        return parse_blueprint(self.spec.blueprint_text.encode(), self.spec.blueprint).notes

    @property
    def recipe_path(self) -> str:
        """The recipe's path in the tree of every idea; "" if there is none."""
        if not self.spec.recipe:
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
        own = self.recipe_text(commit) if text is None else text
        return inherited(parse_mapping(own.encode(), self.recipe_path), self.recipe_path, self._reader(commit))

    def _reader(self, commit: str) -> Callable[[str], Mapping[str, object]]:
        def read(path: str) -> Mapping[str, object]:
            if path.startswith(("/", "../")):
                return load_mapping(Path(self.spec.repository) / path)
            return parse_mapping(_file(self.checkout, commit, path), path)

        return read

    def arguments(self, commit: str) -> Mapping[str, object]:
        """The settings on the command line of the idea in this commit."""
        try:
            return parse_mapping(_file(self.checkout, commit, ARGUMENTS), ARGUMENTS) if self._has_any(commit) else {}
        except NotFoundError:
            return {}

    def _has_any(self, commit: str) -> bool:
        """Whether to look for settings; also True if git fails, because reading them then reports the error."""
        with contextlib.suppress(GitFailed):
            return _holds(self.checkout, commit, ARGUMENTS)
        return True

    def command(self, arguments: Mapping[str, object]) -> str:
        """The launch command with these settings on it."""
        own = self.blueprint.launch_command
        return LaunchSettings(self.trainer, None, own).with_settings(arguments) if arguments else own

    def launch(self, commit: str, recipe: Recipe | None = None) -> LaunchSettings:
        """What the command and the scripts in a commit can vary. `recipe`: in place of the commit's."""
        command, variables = self.blueprint.launch_command, tuple(self.blueprint.notes.env.items())
        scripts, flags = _launch_files(self.checkout, commit, self._codebase, command, variables)
        own = self.inherited(commit) if recipe is None else recipe
        return LaunchSettings(self.trainer, own, command, scripts, {**flags, **self.spec.flags})

    @property
    def _codebase(self) -> Path:
        return Path(self.spec.repository) / self.spec.codebase

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
        inside, behind = launch.split(overrides, new_keys=new_keys)
        behind, scripts = launch.placed(behind)
        both = {**arguments, **behind}
        self.command(both)  # raises for a setting that would have no effect
        files = {path: script.encode() for path, script in scripts.items()}
        if inside:
            own = self.recipe_text(commit) if text is None else text
            text = rewritten(own, recipe or {}, inside, self.recipe_path)
        return ChangedSettings(text, both, files)

    def for_idea(self, hypothesis: Hypothesis) -> CommitBuilder:
        """The builder for an idea that brings its own blueprint, which may name another recipe."""
        if not hypothesis.blueprint:
            return self
        own = self.blueprint_of(hypothesis)
        return replace(self, blueprint=own, spec=replace(self.spec, recipe=self._recipe_named(own.yaml_path)))

    def _recipe_named(self, path: str) -> str:
        """A recipe path as in the spec: relative to the repository if it lies within it."""
        if not path:
            return ""
        root = Path(self.spec.repository)
        places = [Path(os.path.normpath(base / path)) for base in (root / self.spec.codebase, root)]
        found = next((place for place in places if place.exists()), places[0])
        return str(found.relative_to(root)) if root in found.parents else str(found)

    def blueprint_of(self, hypothesis: Hypothesis) -> Blueprint:
        """The blueprint that an idea runs: its own if it has one, else the campaign's."""
        if not hypothesis.blueprint:
            return self.blueprint
        return parse_blueprint(hypothesis.blueprint.encode(), f"{hypothesis.slug}.md")


# A commit never changes, and its recipe is read some twenty times per idea: each uncached read is a git process.
@lru_cache(maxsize=256)
def _file(checkout: Checkout, commit: str, path: str) -> bytes:
    return read_file(checkout, commit, path)


@lru_cache(maxsize=256)
def _launch_files(
    checkout: Checkout, commit: str, codebase: Path, command: str, variables: tuple[tuple[str, str], ...]
) -> tuple[Mapping[str, str], Mapping[str, object]]:
    """The scripts that a command starts, as a commit holds them, and the flags of its program."""
    texts = LaunchTexts(command, codebase, dict(variables), CommitFiles(checkout, commit))
    return texts.scripts(checkout.root), texts.flags()


@dataclass(frozen=True, slots=True)
class CommitFiles(Files):
    """The files of the checkout as a commit holds them."""

    checkout: Checkout
    commit: str

    def kind(self, path: Path) -> str:
        """See `Files`; directories are not looked for."""
        name = self._name(path)
        return "file" if name and _holds(self.checkout, self.commit, name) else ""

    def executable(self, path: Path) -> bool:
        """See `Files`."""
        return bool(self.kind(path))

    def read(self, path: Path, most: int) -> bytes:
        """See `Files`."""
        if not self.kind(path):
            raise FileNotFoundError(2, "No such file or directory")
        return _file(self.checkout, self.commit, self._name(path))[:most]

    def _name(self, path: Path) -> str:
        """The path in the repository; "" outside of it."""
        whole = Path(os.path.normpath(path))
        return str(whole.relative_to(self.checkout.root)) if self.checkout.root in whole.parents else ""


@lru_cache(maxsize=256)
def _holds(checkout: Checkout, commit: str, path: str) -> bool:
    return bool(checkout.git.run("ls-tree", "-z", "--name-only", "--full-tree", commit, "--", path))
