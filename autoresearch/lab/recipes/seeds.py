"""Seeds: how a run's seed reaches its training, and how to set another one."""

from __future__ import annotations

import re

from autoresearch.core.blueprint.model import Notes
from autoresearch.core.run.recipe_keys import look_up
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.core.shell import simple_commands
from autoresearch.core.statistics.seeding import UNSEEDED, VARIABLE, SeedWay
from autoresearch.core.text.command_words import with_words
from autoresearch.errors import BlueprintError
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.lab.recipes.shell_settings import plain_key, settings_in, with_value


def way_of(launch: LaunchSettings, whole: Recipe, notes: Notes) -> SeedWay:
    """The way that the notes declare, else the trainer's own key if it is fixed.

    Else, of a trainer that nobody knows, the one flag or `seed=3` in the command, else in a script that it starts, else
    a flag that its program takes. Otherwise only the variable, which every run of a campaign gets anyway: also if the
    key is in no recipe, and neither the command nor a script has a place for it. `whole`: as the trainer sees it.
    """
    note, trainer = notes.seed, launch.trainer
    if note in UNSEEDED:
        return SeedWay("variable", VARIABLE, _number(notes.env.get(VARIABLE)))
    if note.startswith("$"):
        return SeedWay("variable", note[1:], _number(notes.env.get(note[1:])))
    if note.startswith("-"):
        return SeedWay("flag", note, _number(_of_flag(launch.command, note)))
    if note and not note.isdigit():
        return SeedWay("key", note, _number(look_up(whole, note)))
    seen = whole if launch.own_words else launch.recipe or {}  # flags come below, as such
    key, own = trainer.seed_key_in(seen), trainer.seed(seen)
    if key and own is not None and _reaches(launch, key):
        return SeedWay("key", key, own)
    if not launch.own_words and (found := _by_name(launch)):
        return found
    set_here = _number(notes.env.get(VARIABLE))
    return SeedWay("variable", VARIABLE, _number(note) if set_here is None else set_here)


def _reaches(launch: LaunchSettings, key: str) -> bool:
    """Whether a key of the trainer's can be set: in the recipe, behind the command, or in a script."""
    recognises = launch.trainer.recognises
    if look_up(launch.recipe or {}, key) is not None or with_words(launch.command, ("x",), recognises):
        return True
    return any(with_words(text, ("x",), recognises, surely=True) for text in launch.scripts.values())


def _by_name(launch: LaunchSettings) -> SeedWay | None:
    """The one setting of the command, its scripts or its program that is a seed by its name; None unless it is one."""
    for texts in ((launch.command,), tuple(launch.scripts.values())):
        standing = {key: value for text in texts for key, value in settings_in(text).items() if _is_seed(key)}
        if len(standing) > 1:
            return None
        for key, value in standing.items():
            flag = any(re.search(rf"(?<![\w-])--{re.escape(key)}\b", text) for text in texts)
            return SeedWay("flag" if flag else "key", f"--{key}" if flag else key, _number(value))
    taken = {key: value for key, value in launch.flags.items() if _is_seed(key)}
    plain = {key: value for key, value in taken.items() if plain_key(key) == "seed"} or taken
    if len(plain) != 1:
        return None
    key, value = plain.popitem()
    return SeedWay("flag" if key.startswith("-") else "key", key, _number(value))


def _is_seed(key: str) -> bool:
    return re.fullmatch(r"(?:[a-z]+_)*seed", plain_key(key).rpartition(".")[2]) is not None


def with_flag(command: str, way: SeedWay, seed: int, trainer: Trainer) -> str:
    """The command with this seed after its flag. Raises BlueprintError if the flag cannot be inserted."""
    if changed := with_value(command, way.name, seed):
        return changed
    longer = with_words(command, (way.name, str(seed)), trainer.recognises)
    if not longer:
        raise BlueprintError(
            f"the command leaves no place for `{way.name} {seed}`: it starts the training by way of a script",
            hint=f"write `{way.name} {way.first}` where the script is to get it, or declare `- seed: $NAME`",
            code="no_place_for_seed",
        )
    return longer


def refuse(way: SeedWay, launch: LaunchSettings) -> None:
    """Raise BlueprintError if the declared way has no effect."""
    if launch.script_with(way.name):
        return
    if way.kind == "flag":
        with_flag(launch.command, way, way.first, launch.trainer)
    if way.kind == "key" and way.fixed is None and way.name not in launch.flags and not launch.own_words:
        raise BlueprintError(
            f"the notes name the recipe key {way.name} as the seed, and the recipe has no whole number there",
            hint="write the key as the recipe has it, or declare `- seed: --flag` or `- seed: $NAME`",
            code="no_place_for_seed",
        )


def _of_flag(command: str, flag: str) -> str:
    words = [part for one in simple_commands(command) for word in one.argv for part in word.split("=")]
    return words[words.index(flag) + 1] if flag in words[:-1] else ""


def _number(value: object) -> int | None:
    """A whole number, from a recipe or a text; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value.strip()) else None
