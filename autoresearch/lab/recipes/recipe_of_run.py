"""The recipe that a run used, read from its commit, for `compare` and `repro`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.errors import AutoresearchError, NotFoundError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.recipes.overrides import LaunchSettings, inherited
from autoresearch.lab.yaml_files import parse_mapping
from autoresearch.readers.tracker_dirs import there
from autoresearch.records.hostile import read_readable

# A run that goes on from the last checkpoint of one that the machine ended.


def settings_from(trainer: Trainer, recipe: Recipe) -> tuple[dict[str, object], str]:
    """The settings that go on from a run with this recipe, and its last checkpoint; {} and "" if it left none."""
    way = trainer.continuation(recipe)
    saved = sorted(there(Path(way.checkpoints)), key=_natural) if way else []
    if way is None or not saved:
        return {}, ""
    named: dict[str, object] = {way.checkpoint_key: str(saved[-1])} if way.checkpoint_key else {}
    return {**way.settings, **named}, str(saved[-1])


def _natural(path: Path) -> list[tuple[int, str]]:
    """step_9 before step_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


OURS = ".autoresearch"
BLUEPRINT = f"{OURS}/blueprint.md"


@dataclass(frozen=True, slots=True)
class CommittedRun:
    """A run with the commit of its code; `row` also says what is known of one that is not over."""

    row: LedgerRow
    spec: RunSpec | None  # None where the run directory is gone
    campaign: CampaignSpec | None  # None for a lone run
    checkout: Checkout | None  # of the repository that holds the commit; None if it is gone

    def recipe_path(self) -> str:
        """The path of the recipe in the commit; "" without one, or if it was not committed."""
        return self._first_held([self.row.recipe])

    def blueprint_path(self) -> str:
        """The path of the blueprint in the commit; "" if none was committed."""
        text = self.spec.blueprint if self.spec else ""
        beside = [] if self.campaign or not text else self._seen_from_root(text)
        return self._first_held([*beside, BLUEPRINT])

    def read(self, path: str) -> bytes:
        """A file of the commit. Raises NotFoundError."""
        from autoresearch.git_repo.history import read_file

        if self.checkout is None or not self.row.commit:
            raise NotFoundError(f"{path}: the commit of {self.row.run_id} is gone")
        return read_file(self.checkout.root, self.row.commit, path)

    def recipe(self) -> Recipe:
        """The recipe from the commit, else from the disk as it is now; {} without a readable one."""
        with contextlib.suppress(AutoresearchError, OSError):
            if name := self.recipe_path():
                return parse_mapping(self.read(name), "recipe")
            if self.spec and self.spec.recipe and not self.campaign:
                return parse_mapping(read_readable(Path(self.spec.recipe)), "recipe")
        return {}

    def asked_for(self) -> str:
        """The command without the name of its Ray job, which we add."""
        spec = self.spec
        return spec.command.replace(f" --submission-id {spec.session}", "", 1) if spec else self.row.command

    def settings(self, trainer: Trainer) -> Recipe:
        """The recipe as its trainer saw it: merged with its parents, overridden by the command's settings."""
        recipe = self.recipe()

        def read(path: str) -> Mapping[str, object]:
            inside = self.checkout and self.row.commit and not path.startswith(("/", "../"))
            return parse_mapping(self.read(path) if inside else read_readable(Path(path)), path)

        place = self.recipe_path() or (self.spec.recipe if self.spec else "")
        with contextlib.suppress(AutoresearchError, OSError):  # a missing parent: use the recipe alone
            recipe = inherited(recipe, place, read)
        return LaunchSettings(trainer, recipe, self.asked_for()).settings

    def _seen_from_root(self, text: str) -> list[str]:
        path = PurePosixPath(text)
        if not path.is_absolute():
            return [str(path)]
        root = PurePosixPath(str(self.checkout.root)) if self.checkout else path
        inside = [str(path.relative_to(root))] if root in path.parents else []
        return [*inside, f"{OURS}/blueprint/{path.name}"]

    def _first_held(self, names: list[str]) -> str:
        for name in filter(None, names):
            with contextlib.suppress(AutoresearchError):
                self.read(name)
                return name
        return ""


def per_run(trainer: Trainer, recipe: Recipe) -> set[str]:
    """The keys that differ between runs of one idea: the seed, and output paths."""
    return {output.key for output in trainer.outputs(recipe)} | ({trainer.seed_key_in(recipe)} - {""})
