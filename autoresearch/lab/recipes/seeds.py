"""Seeds: how a run's seed reaches its training, and how to set another one."""

from __future__ import annotations

import re

from autoresearch.core.blueprint.model import Notes
from autoresearch.core.run.recipe_keys import look_up
from autoresearch.core.run.trainer import ReadsCommands, Recipe, Trainer
from autoresearch.core.statistics.seeding import VARIABLE, Randomness, SeedWay
from autoresearch.core.text.command_words import with_words
from autoresearch.errors import BlueprintError
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.lab.recipes.shell_settings import plain_key, settings_in
from autoresearch.trainers import ask

_FLAG = re.compile(r"(?<![\w-])(--(?:[a-z]+[-_])*seed)(?:=|\s+)\d+(?![\w.])")


def way_of(
    trainer: Trainer, whole: Recipe, command: str, notes: Notes, launch: LaunchSettings | None = None
) -> SeedWay:
    """The way that the notes declare, else the trainer's own key if it is fixed, else a flag in the command.

    Else, of a trainer that nobody knows, `seed=3` in the command, a flag in a script that it starts (`launch`), or a
    flag that its program takes. Otherwise only the variable, which every run of a campaign gets anyway: also if the
    key is in no recipe, and neither the command nor a script has a place for it.
    """
    note = notes.seed
    if note in (Randomness.RANDOM, Randomness.FIXED):  # no seed reaches it
        return SeedWay("variable", VARIABLE, _number(notes.env.get(VARIABLE)))
    if note.startswith("$"):
        return SeedWay("variable", note[1:], _number(notes.env.get(note[1:])))
    if note.startswith("-"):
        return SeedWay("flag", note, _number(_of_flag(command, note)))
    if note and not note.isdigit():
        return SeedWay("key", note, _number(look_up(whole, note)))
    if launch is not None and not isinstance(trainer, ReadsCommands):
        whole = launch.recipe or {}  # flags come below, as such
    key, own = ask.seed_key(trainer, whole), trainer.seed(whole)
    if key and own is not None and _reaches(trainer, key, command, launch):
        return SeedWay("key", key, own)
    flags = set() if isinstance(trainer, ReadsCommands) else {match[1] for match in _FLAG.finditer(command)}
    if len(flags) == 1:
        flag = flags.pop()
        return SeedWay("flag", flag, _number(_of_flag(command, flag)))
    if launch is not None and not flags and (found := _elsewhere(trainer, launch)):
        return found
    set_here = _number(notes.env.get(VARIABLE))
    return SeedWay("variable", VARIABLE, _number(note) if set_here is None else set_here)


def _reaches(trainer: Trainer, key: str, command: str, launch: LaunchSettings | None) -> bool:
    """Whether a key of the trainer's can be set: in the recipe, behind the command, or in a script."""
    if launch is None or look_up(launch.recipe or {}, key) is not None:
        return True
    if with_words(command, ("x",), trainer.recognises):
        return True
    return any(with_words(text, ("x",), trainer.recognises, surely=True) for text in launch.scripts.values())


def _elsewhere(trainer: Trainer, launch: LaunchSettings) -> SeedWay | None:
    """The one setting of the command, its scripts or its program that is a seed by its name; None unless it is one."""
    if isinstance(trainer, ReadsCommands):
        return None
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
    changed, times = _pattern(way.name).subn(lambda match: f"{way.name}{match[1]}{seed}", command)
    if times:
        return changed
    longer = with_words(command, (way.name, str(seed)), trainer.recognises)
    if not longer:
        raise BlueprintError(
            f"the command leaves no place for `{way.name} {seed}`: it starts the training by way of a script",
            hint=f"write `{way.name} {way.first}` where the script is to get it, or declare `- seed: $NAME`",
            code="no_place_for_seed",
        )
    return longer


def refuse(way: SeedWay, command: str, trainer: Trainer, launch: LaunchSettings | None = None) -> None:
    """Raise BlueprintError if the declared way has no effect."""
    if launch is not None and launch.script_with(way.name):
        return
    if way.kind == "flag":
        with_flag(command, way, way.first, trainer)
    known = launch is not None and way.name in launch.flags
    if way.kind == "key" and way.fixed is None and not known and not isinstance(trainer, ReadsCommands):
        raise BlueprintError(
            f"the notes name the recipe key {way.name} as the seed, and the recipe has no whole number there",
            hint="write the key as the recipe has it, or declare `- seed: --flag` or `- seed: $NAME`",
            code="no_place_for_seed",
        )


def _pattern(flag: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(flag)}(=|\s+)\d+(?![\w.])")


def _of_flag(command: str, flag: str) -> str:
    found = _pattern(flag).search(command)
    return found[0].removeprefix(flag).lstrip("= \t\n") if found else ""


def _number(value: object) -> int | None:
    """A whole number, from a recipe or a text; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value.strip()) else None
