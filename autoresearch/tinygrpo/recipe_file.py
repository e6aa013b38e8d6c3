"""Read a recipe from YAML and `key=value` overrides, with precise error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from autoresearch.tinygrpo.recipe import RULES, Recipe, RecipeError, Value

# Names of the same settings in other GRPO trainers; used only to suggest tinygrpo's key.
FOREIGN_NAMES = {
    "learning_rate": "lr",
    "optim.lr": "lr",
    "kl_loss_coef": "kl_coef",
    "beta": "kl_coef",
    "num_repeat": "group_size",
    "num_generations": "group_size",
    "rollout_n": "group_size",
    "n": "group_size",
    "train_batch_size": "batch_size",
    "clip_ratio": "clip_high",
    "clip_ratio_low": "clip_low",
    "clip_ratio_high": "clip_high",
    "entropy_coeff": "entropy_coef",
    "loss_agg_mode": "loss_agg",
    "hidden_size": "hidden",
    "steps": "total_steps",
    "max_steps": "total_steps",
    "total_training_steps": "total_steps",
    "n_train": "train_prompts",
    "norm_adv_by_std_in_grpo": "norm_adv_by_std",
}


@dataclass(frozen=True, slots=True)
class RecipeEntry:
    """One `key: value` as written, with its location for error messages (`recipe.yaml:7` or `--set`)."""

    key: str
    value: object
    where: str


def read_recipe(path: Path | None, overrides: Iterable[str] = ()) -> Recipe:
    """The recipe of a YAML file, or all defaults without one, with `key=value` overrides on top.

    Raises RecipeError for anything invalid, in one sentence that names file, line and key.
    """
    values: dict[str, Value] = {}
    if path is not None:
        seen: set[str] = set()
        for entry in _file_entries(path):
            if entry.key in seen:
                raise RecipeError(f"{entry.where}: key '{entry.key}' is given twice.")
            seen.add(entry.key)
            values[entry.key] = _checked(entry)
    for entry in map(_override, overrides):
        values[entry.key] = _checked(entry)
    return Recipe(**values)  # type: ignore[arg-type]  # every value was checked against its key's rule


def nearest_key(key: str) -> str:
    """The valid key that an unknown key most likely means."""
    name = key.lower().replace("-", "_")
    if name in FOREIGN_NAMES:
        return FOREIGN_NAMES[name]
    return max(RULES, key=lambda valid: (name in valid, difflib.SequenceMatcher(None, name, valid).ratio()))


def _file_entries(path: Path) -> Iterator[RecipeEntry]:
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise RecipeError(f"{path}: cannot read the recipe: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise RecipeError(f"{path}: the recipe is not UTF-8 text.") from None
    except yaml.YAMLError as error:
        raise RecipeError(f"{path}: not valid YAML: {' '.join(str(error).split())}.") from None
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise RecipeError(f"{path}:{root.start_mark.line + 1}: a recipe is a list of 'key: value' lines.")
    build = yaml.SafeLoader("")
    for key, value in root.value:
        place = f"{path}:{key.start_mark.line + 1}"
        yield RecipeEntry(str(build.construct_object(key)), build.construct_object(value, deep=True), place)


def _override(word: str) -> RecipeEntry:
    key, equals, text = word.partition("=")
    if not equals:
        raise RecipeError(f"--set: '{word}' is not of the form key=value.")
    try:
        return RecipeEntry(key.strip(), yaml.safe_load(text) if text else "", "--set")
    except yaml.YAMLError:
        return RecipeEntry(key.strip(), text, "--set")


def _checked(recipe_entry: RecipeEntry) -> Value:
    """Convert the value to the key's type, or raise RecipeError."""
    rule = RULES.get(recipe_entry.key)
    if rule is None:
        nearest = nearest_key(recipe_entry.key)
        raise RecipeError(
            f"{recipe_entry.where}: unknown key '{recipe_entry.key}'; the nearest valid key is '{nearest}'."
        )
    value = _converted(recipe_entry.value, rule.kind)
    if value is None or not rule.accepts(value):
        raise RecipeError(
            f"{recipe_entry.where}: '{recipe_entry.key}' must be {rule.accepted()}, not {recipe_entry.value!r}."
        )
    return value


def _converted(value: object, kind: type) -> Value | None:
    """The value as `kind` if it converts without changing its meaning, else None."""
    if isinstance(value, bool) or kind is bool:
        return value if isinstance(value, bool) and kind is bool else None
    if kind is str:
        # a number such as `2026` or an empty value is also accepted as text
        return "" if value is None else str(value) if isinstance(value, (str, int, float)) else None
    if kind is int:
        return value if isinstance(value, int) else None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):  # YAML 1.1 parses `1e-3` (no dot) as text
        try:
            return float(value)
        except ValueError:
            return None
    return None
