"""Where the overrides of an idea are applied: in the recipe, on the trainer's command line, or in its environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from autoresearch.core.campaign.overrides import canonical
from autoresearch.core.campaign.recipe_edits import apply_overrides
from autoresearch.core.run.recipe_keys import look_up
from autoresearch.core.run.trainer import ReadsCommands, Recipe, Trainer
from autoresearch.core.text.command_words import with_words
from autoresearch.core.text.shell_words import simple_commands
from autoresearch.errors import BlueprintError
from autoresearch.lab.yaml_files import edit, parse_mapping
from autoresearch.trainers import ask
from autoresearch.trainers.command_settings import value_of

_VARIABLE = re.compile(r"\$[A-Za-z_]\w{0,200}\Z")  # a key that is a variable, for scripts that read one


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """A launch whose settings are to be changed. `recipe`: merged with its parents; None if there is none."""

    trainer: Trainer
    recipe: Recipe | None
    command: str

    def split(
        self, overrides: Mapping[str, object], *, new_keys: bool = False
    ) -> tuple[dict[str, object], dict[str, object]]:
        """Split overrides into (for the recipe, for the command); keys stay as given.

        A setting in the command overrides the recipe, so it can only be changed there. A key missing from the recipe is
        appended to the command of a trainer that accepts settings there; for any other trainer it is an error, unless
        `+`, `new_keys` or the trainer allows to add it. `$NAME` is a variable, set before any command.
        """
        said = ask.settings(self.trainer, {}, self.command)
        optional = self.trainer.space(ask.settings(self.trainer, self.recipe or {}, self.command))
        inside: dict[str, object] = {}
        behind: dict[str, object] = {}
        for key, value in overrides.items():
            name = key.removeprefix("+")
            added = new_keys or key.startswith("+") or name in optional
            known = self.recipe is not None and holds(self.recipe, name)
            fits = known or (self.recipe is not None and added)
            behind_it = isinstance(self.trainer, ReadsCommands) and (name in said or not fits)
            if behind_it or _VARIABLE.match(name):
                behind[name] = value
            else:
                inside[f"+{name}" if added and not known else key] = value
        if inside and self.recipe is None:
            raise BlueprintError(
                f"the recipe key {next(iter(inside)).removeprefix('+')} is to be set, and the blueprint has no recipe",
                hint=f"name it in [exp_yaml_path]; {self.trainer.name} takes no settings on its command line",
                code="no_recipe",
            )
        return inside, behind

    def with_settings(self, settings: Mapping[str, object]) -> str:
        """The command with these keys set. Raises BlueprintError if that is impossible or would have no effect."""
        variables = {key: value for key, value in settings.items() if _VARIABLE.match(key)}
        settings = {key: value for key, value in settings.items() if key not in variables}
        exports = "".join(self._export(key.removeprefix("$"), value) for key, value in variables.items())
        return exports + (self._with_words(settings) if settings else self.command)

    def _export(self, name: str, value: object) -> str:
        if re.search(rf"(?<![\w$]){name}=", self.command):
            raise BlueprintError(
                f"${name} cannot be set for the command, which sets it itself",
                hint=f"take {name}= out of [exp_launch_command]; `- env: {name}=...` in the notes may stay",
                code="bad_value",
            )
        text = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
        return f"export {name}={shlex.quote(text)}; "

    def _with_words(self, settings: Mapping[str, object]) -> str:
        words = ask.arguments(self.trainer, dict(settings))
        longer = with_words(self.command, words, self.trainer.recognises)
        if not longer:
            raise BlueprintError(
                f"the command leaves no place for {' '.join(words)[:100]}: it starts the trainer by way of a script",
                hint="write the trainer's own command into [exp_launch_command]",
                code="no_place_for_settings",
            )
        heard = ask.settings(self.trainer, {}, longer)
        for key, value in settings.items():
            if canonical(look_up(heard, key) or None) != canonical(value or None):
                raise BlueprintError(
                    f"{key} cannot be set to {value!r} behind the command: there it reads {look_up(heard, key)!r}",
                    hint=f"take {key} out of [exp_launch_command], or write another value",
                    code="bad_value",
                )
        return longer


def variables(command: str) -> dict[str, object]:
    """The variables that a command exports, by the override keys that set them."""
    words = [word for simple in simple_commands(command) if simple.name == "export" for word in simple.argv[1:]]
    return {f"${name}": value_of(text) for name, sign, text in (word.partition("=") for word in words) if sign}


def holds(recipe: Recipe, key: str) -> bool:
    """Whether a recipe has this dotted key."""
    try:
        apply_overrides(recipe, {key: None})
    except BlueprintError:
        return False
    return True


def rewritten(text: str, whole: Recipe, overrides: Mapping[str, object], name: str) -> str:
    """The text of a recipe with these keys set; keys that only a parent has (`whole` has all) are added to it."""
    own = parse_mapping(text.encode(), name)
    wanted: dict[str, object] = {}
    for key, value in overrides.items():
        bare = key.removeprefix("+")
        if holds(own, bare) or not holds(whole, bare):
            wanted[key] = value
            continue
        fitted = look_up(apply_overrides(whole, {bare: value}), bare)
        if fitted is None and value is not None:
            message = f"{bare} is an item of a list that a parent of the recipe has: it cannot be changed by itself"
            raise BlueprintError(message, hint="give the whole list", code="bad_value")
        wanted[f"+{bare}"] = fitted
    return edit(text, wanted, name=name)
