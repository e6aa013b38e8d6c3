"""The recipe that a run used, read from its commit, for `compare` and `repro`."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.errors import AutoresearchError, NotFoundError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.comparison import read_file
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.lab.recipes.recipe_parents import inherited
from autoresearch.lab.resolve.trainer_settings import copy_of
from autoresearch.lab.results.row_lookup import LedgerMatch
from autoresearch.lab.yaml_files import parse_mapping
from autoresearch.trainers import ask

OURS = ".autoresearch"
BLUEPRINT = f"{OURS}/blueprint.md"


def recipe_path(match: LedgerMatch, checkout: Checkout) -> str:
    """The path of the recipe in a run's commit; "" without one, or if it was not committed."""
    if match.campaign is not None:
        own = match.campaign.recipe
        names = [f"{OURS}/recipe.yaml"] if own.startswith("/") else [own]
    else:
        text = match.spec.recipe if match.spec else match.row.recipe if match.row else ""
        names = _seen_from(PurePosixPath(text), checkout) if text else []
    return next((name for name in names if name and _holds(checkout, match.commit, name)), "")


def blueprint_path(match: LedgerMatch, checkout: Checkout) -> str:
    """The path of the blueprint in a run's commit; "" if none was committed."""
    text = match.spec.blueprint if match.spec else ""
    beside = [] if match.campaign or not text else _seen_from(PurePosixPath(text), checkout, "blueprint")
    return next((name for name in (*beside, BLUEPRINT) if _holds(checkout, match.commit, name)), "")


def _seen_from(path: PurePosixPath, checkout: Checkout, kind: str = "recipe") -> list[str]:
    root = PurePosixPath(str(checkout.root))
    if not path.is_absolute():
        return [str(path)]
    inside = [str(path.relative_to(root))] if root in path.parents else []
    return [*inside, f"{OURS}/{kind}/{path.name}"]


def _holds(checkout: Checkout, commit: str, name: str) -> bool:
    if not commit:
        return False
    try:
        read_file(checkout, commit, name)
    except AutoresearchError:
        return False
    return True


def recipe_text(match: LedgerMatch, checkout: Checkout | None) -> str:
    """The recipe's text from the run's commit, else from the disk as it is now; "" without one."""
    if checkout and match.commit and (name := recipe_path(match, checkout)):
        return read_file(checkout, match.commit, name).decode("utf-8", "replace")
    text = match.spec.recipe if match.spec else ""
    if match.campaign or not text:
        return ""
    try:
        return Path(text).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def parsed(text: str, name: str) -> Mapping[str, object]:
    """The recipe as a mapping; {} if it cannot be read as one."""
    try:
        return parse_mapping(text.encode(), name)
    except (AutoresearchError, NotFoundError):
        return {}


def per_run(trainer: Trainer, recipe: Recipe) -> set[str]:
    """The keys that differ between runs of one idea: the seed, and output paths."""
    return {output.key for output in trainer.outputs(recipe)} | ({ask.seed_key(trainer, recipe)} - {""})


def asked_for(spec: RunSpec) -> str:
    """The command of a run without autoresearch's additions: recording options or recipe copy, and Ray job name."""
    words = f" {shlex.join(spec.added)}"
    command = spec.command.replace(words, "", 1) if spec.added else spec.command
    if spec.recipe:
        copy = copy_of(Path(spec.result_dir), Path(spec.recipe))
        command = command.replace(shlex.quote(str(copy)), shlex.quote(spec.recipe))
    return command.replace(f" --submission-id {spec.session}", "", 1)


def whole(match: LedgerMatch, checkout: Checkout | None, trainer: Trainer) -> Recipe:
    """The recipe as the run's trainer saw it: merged with its parents, overridden by the command's settings."""
    recipe = parsed(recipe_text(match, checkout), "recipe")
    place = recipe_path(match, checkout) if checkout and match.commit else match.spec.recipe if match.spec else ""

    def read(path: str) -> Mapping[str, object]:
        inside = checkout is not None and match.commit and not path.startswith(("/", "../"))
        data = read_file(checkout, match.commit, path) if inside and checkout else Path(path).read_bytes()
        return parse_mapping(data, path)

    with contextlib.suppress(AutoresearchError, OSError):  # a missing parent: use the recipe alone
        recipe = inherited(recipe, place, read)
    command = asked_for(match.spec) if match.spec else match.row.command if match.row else ""
    return LaunchSettings(trainer, recipe, command).settings
