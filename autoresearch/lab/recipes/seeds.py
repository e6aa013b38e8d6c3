"""Seeds: how a run's seed reaches its training, and how to set another one."""

from __future__ import annotations

import re

from autoresearch.core.blueprint.model import Notes
from autoresearch.core.run.recipe_keys import look_up
from autoresearch.core.run.trainer import ReadsCommands, Recipe, Trainer
from autoresearch.core.statistics.seeding import VARIABLE, SeedWay
from autoresearch.core.text.command_words import with_words
from autoresearch.errors import BlueprintError
from autoresearch.trainers import ask

_FLAG = re.compile(r"(?<![\w-])(--(?:[a-z]+[-_])*seed)(?:=|\s+)\d+(?![\w.])")


def way_of(trainer: Trainer, whole: Recipe, command: str, notes: Notes) -> SeedWay:
    """The way that the notes declare, else the trainer's own key if it is fixed, else a flag in the command.

    Otherwise only the variable, which every run of a campaign gets anyway.
    """
    note = notes.seed
    if note.startswith("$"):
        return SeedWay("variable", note[1:], _number(notes.env.get(note[1:])))
    if note.startswith("-"):
        return SeedWay("flag", note, _number(_of_flag(command, note)))
    if note and not note.isdigit():
        return SeedWay("key", note, _number(look_up(whole, note)))
    key, own = ask.seed_key(trainer, whole), trainer.seed(whole)
    if key and own is not None:
        return SeedWay("key", key, own)
    flags = set() if isinstance(trainer, ReadsCommands) else {match[1] for match in _FLAG.finditer(command)}
    if len(flags) == 1:
        flag = flags.pop()
        return SeedWay("flag", flag, _number(_of_flag(command, flag)))
    set_here = _number(notes.env.get(VARIABLE))
    return SeedWay("variable", VARIABLE, _number(note) if set_here is None else set_here)


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


def refuse(way: SeedWay, command: str, trainer: Trainer) -> None:
    """Raise BlueprintError if the declared way has no effect."""
    if way.kind == "flag":
        with_flag(command, way, way.first, trainer)
    if way.kind == "key" and way.fixed is None and not isinstance(trainer, ReadsCommands):
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
