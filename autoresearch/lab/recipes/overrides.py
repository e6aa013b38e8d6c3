"""Where the overrides of an idea are applied: in the recipe, on the trainer's command line, or in its environment."""

from __future__ import annotations

import os.path
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from autoresearch.core.blueprint.model import Notes
from autoresearch.core.campaign.overrides import canonical, flatten
from autoresearch.core.campaign.recipe_edits import apply_overrides
from autoresearch.core.run.recipe_keys import look_up
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.core.shell import python_file, simple_commands
from autoresearch.core.shell_settings import (
    as_word,
    hydra_words,
    joins_values,
    listed,
    plain_key,
    settings_in,
    variables_in,
    with_value,
    with_variable,
    with_words,
)
from autoresearch.core.statistics.seeding import UNSEEDED, VARIABLE, SeedWay
from autoresearch.core.text.regex import later
from autoresearch.errors import BlueprintError
from autoresearch.lab.yaml_files import edit, parse_mapping

# A recipe is merged with the parents under `defaults:` as NeMo-RL does it (nemo_rl/utils/config.py, 017238e5). Only
# names of YAML files count: hydra's own `defaults` (verl) name groups, which cannot be resolved from outside.

MOST = 12  # generations
_ANEW = "_override_"  # in a section: it replaces its parent's instead of being merged with it

Read = Callable[[str], Mapping[str, object]]  # the mapping in the file at a path


def parents(recipe: Mapping[str, object]) -> tuple[str, ...]:
    """The parent files as the recipe names them; () without any."""
    named = recipe.get("defaults")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    whole = all(isinstance(name, str) and name.endswith((".yaml", ".yml")) for name in names)
    return tuple(map(str, names)) if whole else ()


def inherited(recipe: Mapping[str, object], path: str, read: Read, *, most: int = MOST) -> dict[str, object]:
    """The recipe at a path merged over its parents, later ones over earlier ones; errors of `read` propagate."""
    names = parents(recipe)
    if names and not most:
        raise BlueprintError(f"{path}: its `defaults` go on for over {MOST} generations", code="bad_recipe")
    found: dict[str, object] = {}
    for name in names:
        place = os.path.normpath(PurePath(path).parent / name)
        found = _merged(found, inherited(read(place), place, read, most=most - 1))
    return _merged(found, {key: value for key, value in recipe.items() if key != "defaults" or not names})


def _merged(under: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    found = dict(under)
    for key, value in over.items():
        below = found.get(key)
        if isinstance(value, Mapping) and value.get(_ANEW):
            found[key] = {name: item for name, item in value.items() if name != _ANEW}
        else:
            both = isinstance(value, Mapping) and isinstance(below, Mapping)
            found[key] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return found


_VARIABLE = later(r"\$[A-Za-z_]\w{0,200}\Z")  # a key that is a variable, for scripts that read one
_LETTER = later(r"-\w\Z")  # what it means, only its program knows
_USED = later(r"\$(?:(\w+)|\{(\w+)(?::?[-=][^{}$`]*)?\})")
_OF_MACHINE = later(r"(?:CUDA|NCCL|PYTHON|HF_|WANDB|RAY_|OMP_|TORCH|MASTER_|TOKENIZERS|VLLM|HYDRA|PATH|LD_|HOME)")
"""Variables that say where a run runs, and not how it trains."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a setting is changed: in a script, by its path, in the recipe, or else in the command."""

    key: str  # as it is spelled there
    path: str = ""
    in_recipe: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """What a launch becomes with other settings."""

    recipe: Mapping[str, object]  # keys to set in it; `+` adds one
    command: Mapping[str, object]  # settings of the command, for `with_settings`
    scripts: Mapping[str, str]  # those that hold settings, as they become: path in the repository -> text


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """A launch whose settings are to be changed. `recipe`: merged with its parents; None if there is none."""

    trainer: Trainer
    recipe: Recipe | None
    command: str
    scripts: Mapping[str, str] = field(default_factory=dict)  # started by the command: path in the repository -> text
    flags: Mapping[str, object] = field(default_factory=dict)  # of its program: `--lr`, or hydra's key -> default

    @property
    def settings(self) -> dict[str, object]:
        """All that can be varied, with its value where that is known: recipe, command, scripts, flags, variables."""
        recipe = self.recipe or {}  # its keys stand before those of the command, which override them
        flags = {} if self.own_words else {key.lstrip("-"): value for key, value in self.flags.items()}
        found = {**{key: value for key, value in flags.items() if key not in flatten(recipe)}, **recipe}
        texts = [*reversed([*self.scripts.values()]), self.command]
        known = {name: value for text in texts for name, (value, _) in variables_in(text).items()}
        for text in texts:
            found = self.trainer.settings(found, text)  # type: ignore[assignment]
            if not self.own_words:
                found.update({key: _resolved(value, known) for key, value in settings_in(text).items()})
        return {**found, **{f"${name}": value for name, value in known.items() if not _OF_MACHINE.match(name)}}

    @property
    def own_words(self) -> bool:
        """Whether the trainer itself knows how settings are written on its command line."""
        return self.trainer.takes_arguments

    def key_of(self, key: str) -> str:
        """The key as the launch spells it: `learning_rate` and `--learning-rate` may be `learning-rate`.

        A flag that is not known keeps its dashes: it is passed on as it stands.
        """
        placed = self.placed(key)
        return key if placed is None or placed.key == key else placed.key.lstrip("-")

    def placed(self, key: str) -> Placed | None:
        """Where a key, without `+`, is set; None if it is nowhere.

        What stands in the command, then in a script, overrides the recipe, so it is changed there. `$NAME` is a
        variable, `--flag`, `--flag=` and `-f` a flag even if nobody found it.
        """
        if _VARIABLE.match(key):
            fixed = [path for path, text in self.scripts.items() if _is_fixed(text, key[1:])]
            return Placed(key, fixed[0] if fixed and key[1:] not in variables_in(self.command) else "")
        for path, text in {"": self.command, **self.scripts}.items():
            for name in settings_in(text):
                if plain_key(name) == plain_key(key):
                    return Placed(key if self.own_words else name, path)
        if self.recipe is not None and holds(self.recipe, key):
            return Placed(key, in_recipe=True)
        known = [] if self.own_words else [one for one in self.flags if plain_key(one) == plain_key(key)]
        flag = next(iter(known), key if key.startswith("-") else "")
        return Placed(flag, self._taker({flag: 1})) if flag else None

    def _taker(self, settings: Mapping[str, object]) -> str:
        """The script behind whose training these settings can be written; "" if that is the command, or none."""
        words = self._words(settings, self.command)
        if with_words(self.command, words, self._recognises):
            return ""
        takes = (p for p, text in self.scripts.items() if with_words(text, words, self._recognises, surely=True))
        return next(takes, "")

    def applied(self, overrides: Mapping[str, object], *, new_keys: bool = False) -> Applied:
        """These keys set where they stand; keys of the recipe stay as given.

        A key that is nowhere goes behind the command if its trainer accepts settings there, or its program has such a
        flag (it is then spelled `--flag`); otherwise it is an error, unless `+`, `new_keys` or the trainer allows to
        add it to the recipe. Raises BlueprintError, also if a script holds a setting and it cannot be changed there.
        """
        optional = self.trainer.space(self.trainer.settings(self.recipe or {}, self.command))
        inside, behind = dict[str, object](), defaultdict[str, dict[str, object]](dict)
        for key, value in overrides.items():
            name = key.removeprefix("+")
            placed, added = self.placed(name), new_keys or key != name or name in optional
            if placed is None and self.own_words and not (added and self.recipe is not None):
                placed = Placed(name, self._taker({name: 1}))
            if placed is None and not added and not self.trainer.named:
                self._refuse_unknown(name)
            if placed is None or placed.in_recipe:
                inside[key if placed or not added else f"+{name}"] = value
                continue
            spelled = placed.key
            if value is False and self.flags.get(spelled) is True and spelled.startswith("--"):
                spelled, value = f"--no-{spelled[2:]}", True
            behind[placed.path][spelled] = value
        if inside and self.recipe is None:
            raise BlueprintError(
                f"the recipe key {next(iter(inside)).removeprefix('+')} is to be set, and the blueprint has no recipe",
                hint=f"name it in [exp_yaml_path]; {self.trainer.name} takes no settings on its command line",
                code="no_recipe",
            )
        own = behind.pop("", {})
        return Applied(inside, own, {path: self.with_settings(some, path) for path, some in behind.items()})

    def check(self, overrides: Mapping[str, object]) -> Applied:
        """These keys set. Raises BlueprintError also if the recipe or the command cannot take one."""
        applied = self.applied(overrides)
        apply_overrides(self.recipe or {}, applied.recipe)
        self.with_settings(applied.command)
        return applied

    def _recognises(self, command: str) -> bool:
        if self.own_words:
            return self.trainer.recognises(command)
        return any(python_file(one.argv) for one in simple_commands(command))

    def _refuse_unknown(self, key: str) -> None:
        """Raise BlueprintError for a key that neither recipe, command, scripts nor program have."""
        import difflib

        known = [one for one in flatten(self.settings) if not one.startswith("$") or key.startswith("$")]
        last, name = key.rpartition(".")[2], key.lstrip("-+$")
        near = dict.fromkeys(one for one in known if one.rpartition(".")[2] == last)
        near |= dict.fromkeys(difflib.get_close_matches(key, known, 3))
        offered = f"there are {', '.join(known[:8])}" if known else "this launch has none"
        offered = f"did you mean {' or '.join([*near][:3])}?" if near else offered
        recipe = "key of the recipe, " if self.recipe is not None else ""
        raise BlueprintError(
            f"{key} is no {recipe}flag or `key=value` of the command, of its scripts or of its program; {offered}",
            hint=f"`--{name}` is passed on as it stands (`--{name}=` with `=`); `$NAME` varies a variable of a script"
            + (f", +{key} adds a key to the recipe" if self.recipe is not None else ""),
            code="unknown_key",
        )

    def with_settings(self, settings: Mapping[str, object], path: str = "") -> str:
        """The command, or the script at a path, with these keys set where they stand, else behind its training.

        Raises BlueprintError if that is impossible or would have no effect.
        """
        text, where = (self.scripts[path], path) if path else (self.command, "the command")
        exports, left = "", dict[str, object]()
        for key, value in settings.items():
            if not _VARIABLE.match(key):
                if changed := with_value(text, key, value):
                    text = changed
                else:
                    left[key] = value
            elif not _is_fixed(text, key[1:]):
                exports += f"export {key[1:]}={shlex.quote(as_word(value))}; "
            elif not (text := with_variable(text, key[1:], value)):
                raise BlueprintError(
                    f"{key} cannot be set for {where}, which sets it more than once itself",
                    hint=f"take {key[1:]}= out of {where}; `- env: {key[1:]}=...` in the notes may stay",
                    code="bad_value",
                )
        words = self._words(left, text)
        longer = with_words(text, words, self._recognises, surely=bool(path) and self.own_words)
        if not longer:
            raise BlueprintError(
                f"{where} leaves no place for {' '.join(words)[:100]}: it starts the trainer by way of a script",
                hint="write the trainer's own command into [exp_launch_command]",
                code="no_place_for_settings",
            )
        written, heard = settings_in(longer), self.trainer.settings({}, longer)
        for key, value in left.items():
            whole = heard if self.own_words and not key.startswith("-") else written
            now = look_up({plain_key(one): own for one, own in whole.items()}, plain_key(key))
            if not _LETTER.match(key) and canonical(now or None) != canonical(value or None):
                raise BlueprintError(
                    f"{key} cannot be set to {value!r} behind {where}: there it reads {now!r}",
                    hint=f"take {key} out of {where}, or write another value",
                    code="bad_value",
                )
        return exports + longer

    def _words(self, settings: Mapping[str, object], text: str) -> tuple[str, ...]:
        """The words that set these keys behind the training's own command, as the text has its own."""
        flags = {key: value for key, value in settings.items() if key.startswith("-")}
        plain = {key: value for key, value in settings.items() if not key.startswith("-")}
        words = self.trainer.arguments(plain) if self.own_words else hydra_words(plain, prefix="")
        joined = joins_values(text)
        return (*words, *(word for key, value in flags.items() for word in _flag_of(key, value, joined)))


def _is_fixed(text: str, name: str) -> bool:
    """Whether a text sets a variable, and the environment cannot set another value."""
    return name in (known := variables_in(text)) and not known[name][1]


def _flag_of(key: str, value: object, joined: bool) -> tuple[str, ...]:
    """The words of a flag; `--key=` has its value behind the `=`, and so has any where the command writes all so."""
    items = list(value) if isinstance(value, list | tuple) else [value]
    name = key.removesuffix("=")
    if value is True or value is False or value is None:
        return (name,) if value is True else ()
    if (joined or name != key) and len(items) == 1:
        return (f"{name}={as_word(items[0])}",)
    return (name, *map(as_word, items))


def _resolved(value: object, variables: Mapping[str, object]) -> object:
    """A value that is one variable, as the text sets it."""
    match = _USED.fullmatch(value) if isinstance(value, str) else None
    return variables.get(match[1] or match[2], value) if match else value


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


def seed_way_of(launch: LaunchSettings, whole: Recipe, notes: Notes) -> SeedWay:
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
    if key and own is not None and _can_be_set(launch, key):
        return SeedWay("key", key, own)
    if not launch.own_words and (found := _by_name(launch)):
        return found
    set_here = _number(notes.env.get(VARIABLE))
    return SeedWay("variable", VARIABLE, _number(note) if set_here is None else set_here)


def _can_be_set(launch: LaunchSettings, key: str) -> bool:
    """Whether a key of the trainer's can be set: in the recipe, behind the command, or in a script."""
    try:
        launch.with_settings(launch.applied({key: 1}, new_keys=True).command)
    except BlueprintError:
        return False
    return True


def _by_name(launch: LaunchSettings) -> SeedWay | None:
    """The one setting of the command, its scripts or its program that is a seed by its name; None unless it is one."""
    for texts in ((launch.command,), tuple(launch.scripts.values())):
        standing = {one.key: one for text in texts for one in listed(text) if _is_seed(one.key)}
        if len(standing) > 1:
            return None
        for one in standing.values():
            return SeedWay("key" if one.option == one.key else "flag", one.option, _number(one.value))
    taken = {key: value for key, value in launch.flags.items() if _is_seed(key)}
    plain = {key: value for key, value in taken.items() if plain_key(key) == "seed"} or taken
    if len(plain) != 1:
        return None
    key, value = plain.popitem()
    return SeedWay("flag" if key.startswith("-") else "key", key, _number(value))


def _is_seed(key: str) -> bool:
    return re.fullmatch(r"(?:[a-z]+_)*seed", plain_key(key).rpartition(".")[2]) is not None


def _of_flag(command: str, flag: str) -> str:
    words = [part for one in simple_commands(command) for word in one.argv for part in word.split("=")]
    return words[words.index(flag) + 1] if flag in words[:-1] else ""


def _number(value: object) -> int | None:
    """A whole number, from a recipe or a text; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value.strip()) else None
