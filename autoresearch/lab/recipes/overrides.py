"""Where the overrides of an idea are applied: in the recipe, on the trainer's command line, or in its environment."""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from autoresearch.core.blueprint.model import Notes
from autoresearch.core.campaign.overrides import canonical, flatten
from autoresearch.core.campaign.recipe_edits import apply_overrides
from autoresearch.core.run.recipe_keys import look_up
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.core.shell import python_file, simple_commands
from autoresearch.core.statistics.seeding import UNSEEDED, VARIABLE, SeedWay
from autoresearch.core.text.command_words import with_words
from autoresearch.core.text.regex import later
from autoresearch.errors import BlueprintError
from autoresearch.lab.recipes.shell_settings import (
    as_word,
    joins_values,
    plain_key,
    settings_in,
    spelled_in,
    variables_in,
    with_value,
    with_variable,
)
from autoresearch.lab.yaml_files import edit, parse_mapping
from autoresearch.trainers.command_settings import hydra_words

# Merges a recipe with the parents under `defaults:`, as NeMo-RL reads it (nemo_rl/utils/config.py, 017238e5).
#
# Only names of YAML files count: hydra's own `defaults` (verl) name groups, which cannot be resolved from outside.

MOST = 12  # generations
_ANEW = "_override_"  # in a section: it replaces its parent's instead of being merged with it

Read = Callable[[str], Mapping[str, object]]
"""The mapping in the file at a path."""


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
_USED = later(r"\$(?:(\w+)|\{(\w+)(?::?[-=][^{}$`]*)?\})")
_OF_MACHINE = later(r"(?:CUDA|NCCL|PYTHON|HF_|WANDB|RAY_|OMP_|TORCH|MASTER_|TOKENIZERS|VLLM|HYDRA|PATH|LD_|HOME)")
"""Variables that say where a run runs, and not how it trains."""


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
        found: dict[str, object] = {} if self.own_words else {key.lstrip("-"): v for key, v in self.flags.items()}
        found.update(self.recipe or {})
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

    def has(self, key: str) -> bool:
        """Whether a key is known to be one of this launch, or needs not be: a variable, a key to add to the recipe."""
        free = self.own_words or key.startswith(("+", "$"))
        named = any(plain_key(one) == plain_key(key) for one in self.flags)
        return free or named or self._in_recipe(key) or self._standing(key)[1] != ""

    def key_of(self, key: str) -> str:
        """The key as the launch spells it: `learning_rate` and `--learning-rate` may be `learning-rate`.

        A flag that is not known keeps its dashes: it is passed on as it stands.
        """
        if self.own_words or _VARIABLE.match(key) or self._in_recipe(key):
            return key
        flag = self._flag(key)
        return self._standing(key)[1] or (key if flag == key else flag.lstrip("-") or key)

    def _in_recipe(self, key: str) -> bool:
        return self.recipe is not None and holds(self.recipe, key)

    def _standing(self, key: str) -> tuple[str, str]:
        """Where a key stands ("" for the command, else the path of a script), and its spelling; "" if it is nowhere."""
        texts = {"": self.command, **self.scripts}
        return next(((path, one) for path, text in texts.items() if (one := spelled_in(text, key))), ("", ""))

    def _flag(self, key: str) -> str:
        """The flag, or hydra's key, that the program takes under this name; "" if none is known."""
        known = next((one for one in self.flags if plain_key(one) == plain_key(key)), "")
        return known or (key if key.startswith("--") else "")

    def split(
        self, overrides: Mapping[str, object], *, new_keys: bool = False
    ) -> tuple[dict[str, object], dict[str, object]]:
        """Split overrides into (for the recipe, for the command and its scripts); keys of the recipe stay as given.

        A setting that stands in the command or in a script overrides the recipe, so it is changed there. A key that is
        nowhere is appended to the command if its trainer accepts settings there, or its program has such a flag (it is
        then spelled `--flag`); otherwise it is an error, unless `+`, `new_keys` or the trainer allows to add it to the
        recipe. `$NAME` is a variable, `--flag` and `--flag=` a flag even if nobody found it.
        """
        said = self.trainer.settings({}, self.command)
        optional = self.trainer.space(self.trainer.settings(self.recipe or {}, self.command))
        inside: dict[str, object] = {}
        behind: dict[str, object] = {}
        for key, value in overrides.items():
            name = key.removeprefix("+")
            added = new_keys or key.startswith("+") or name in optional
            known = self._in_recipe(name)
            flag = "" if known or self.own_words else self._flag(name)
            fits = known or (self.recipe is not None and added and not flag)  # one that hydra knows is not added
            if _VARIABLE.match(name) or (self.own_words and (name in said or not fits)):
                behind[name] = value
            elif not self.own_words and (standing := self._standing(name)[1]):
                behind[standing] = value
            elif not fits and flag:
                off = value is False and self.flags.get(flag) is True and flag.startswith("--")
                behind.update({f"--no-{flag[2:]}": True} if off else {flag: value})
            else:
                if not fits and not self.trainer.named:
                    self._refuse_unknown(name)
                inside[f"+{name}" if added and not known else key] = value
        if inside and self.recipe is None:
            raise BlueprintError(
                f"the recipe key {next(iter(inside)).removeprefix('+')} is to be set, and the blueprint has no recipe",
                hint=f"name it in [exp_yaml_path]; {self.trainer.name} takes no settings on its command line",
                code="no_recipe",
            )
        return inside, behind

    def placed(self, behind: Mapping[str, object]) -> tuple[dict[str, object], dict[str, str]]:
        """Split what `split` found for the command into (for the command itself, scripts that hold it: path -> text).

        Raises BlueprintError if a script holds a setting and it cannot be changed there.
        """
        own: dict[str, object] = {}
        texts = dict(self.scripts)
        for key, value in behind.items():
            path = self.script_with(key)
            if not path:
                own[key] = value
                continue
            new = _changed_in(texts[path], key, value) or with_words(
                texts[path], self._words({key: value}), self._recognises, surely=self.own_words
            )
            if not new:
                raise BlueprintError(
                    f"{key} cannot be set to {value!r} in {path}",
                    hint=f"write it as `--{plain_key(key)} VALUE` there, or as `${{NAME:-VALUE}}` and vary `$NAME`",
                    code="bad_value",
                )
            texts[path] = new
        return own, {path: text for path, text in texts.items() if text != self.scripts[path]}

    def script_with(self, key: str) -> str:
        """The script in which a setting is to be changed; "" if that is the command."""
        if _VARIABLE.match(key):
            name = key[1:]
            fixed = [path for path, text in self.scripts.items() if not variables_in(text).get(name, (None, True))[1]]
            return fixed[0] if fixed and name not in variables_in(self.command) else ""
        path, spelled = self._standing(key)
        words = self._words({key: 1})
        if spelled or with_words(self.command, words, self._recognises):
            return path
        takes = (p for p, text in self.scripts.items() if with_words(text, words, self._recognises, surely=True))
        return next(takes, "")

    def _recognises(self, command: str) -> bool:
        if self.own_words:
            return self.trainer.recognises(command)
        return any(python_file(one.argv) for one in simple_commands(command))

    def _refuse_unknown(self, key: str) -> None:
        """Raise BlueprintError for a key that neither recipe, command, scripts nor program have."""
        known = [one for one in flatten(self.settings) if not one.startswith("$") or key.startswith("$")]
        last, name = key.rpartition(".")[2], key.lstrip("-+$")
        near = [one for one in known if one.rpartition(".")[2] == last]
        import difflib

        near += [one for one in difflib.get_close_matches(key, known, 3) if one not in near]
        offered = f"did you mean {' or '.join(near[:3])}?" if near else f"there are {', '.join(known[:8])}"
        if not known:
            offered = "this launch has none"
        recipe = "key of the recipe, " if self.recipe is not None else ""
        raise BlueprintError(
            f"{key} is no {recipe}flag or `key=value` of the command, of its scripts or of its program; {offered}",
            hint=f"`--{name}` is passed on as it stands (`--{name}=` with `=`); `$NAME` varies a variable of a script"
            + (f", +{key} adds a key to the recipe" if self.recipe is not None else ""),
            code="unknown_key",
        )

    def with_settings(self, settings: Mapping[str, object]) -> str:
        """The command with these keys set. Raises BlueprintError if that is impossible or would have no effect."""
        variables = {key: value for key, value in settings.items() if _VARIABLE.match(key)}
        settings = {key: value for key, value in settings.items() if key not in variables}
        command = self._with_words(settings) if settings else self.command
        exports = ""
        for key, value in variables.items():
            if variables_in(command).get(key[1:], (None, True))[1]:
                exports += f"export {key[1:]}={shlex.quote(as_word(value))}; "
            elif not (command := with_variable(command, key[1:], value)):
                raise BlueprintError(
                    f"{key} cannot be set for the command, which sets it more than once itself",
                    hint=f"take {key[1:]}= out of [exp_launch_command]; `- env: {key[1:]}=...` in the notes may stay",
                    code="bad_value",
                )
        return exports + command

    def _words(self, settings: Mapping[str, object]) -> tuple[str, ...]:
        """The words that set these keys behind the training's own command."""
        if self.own_words:
            return self.trainer.arguments(dict(settings))
        flags = {key: value for key, value in settings.items() if key.startswith("-")}
        plain = {key: value for key, value in settings.items() if not key.startswith("-")}
        words = [word.removeprefix("++") for word in hydra_words(plain)]
        joined = joins_values(self.command)
        return (*words, *(word for key, value in flags.items() for word in _flag_of(key, value, joined)))

    def _with_words(self, settings: Mapping[str, object]) -> str:
        command, left = self.command, dict(settings)
        if not self.own_words or not with_words(command, self._words(settings), self._recognises):
            for key, value in settings.items():
                if changed := with_value(command, key, value):
                    command = changed
                    del left[key]
        words = self._words(left)
        longer = with_words(command, words, self._recognises)
        if not longer:
            raise BlueprintError(
                f"the command leaves no place for {' '.join(words)[:100]}: it starts the trainer by way of a script",
                hint="write the trainer's own command into [exp_launch_command]",
                code="no_place_for_settings",
            )
        heard = self._settings_of(longer)
        for key, value in settings.items():
            if canonical(look_up(heard, plain_key(key)) or None) != canonical(value or None):
                now = look_up(heard, plain_key(key))
                raise BlueprintError(
                    f"{key} cannot be set to {value!r} behind the command: there it reads {now!r}",
                    hint=f"take {key} out of [exp_launch_command], or write another value",
                    code="bad_value",
                )
        return longer

    def _settings_of(self, command: str) -> dict[str, object]:
        """What a command sets, by keys with underscores."""
        found = self.trainer.settings({}, command) if self.own_words else settings_in(command)
        return {plain_key(key): value for key, value in found.items()}


def _changed_in(text: str, key: str, value: object) -> str:
    """The script with this setting or variable changed where it stands; "" if it does not, or cannot be."""
    return with_variable(text, key[1:], value) if _VARIABLE.match(key) else with_value(text, key, value)


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


def with_seed_flag(command: str, way: SeedWay, seed: int, trainer: Trainer) -> str:
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


def refuse_seed(way: SeedWay, launch: LaunchSettings) -> None:
    """Raise BlueprintError if the declared way has no effect."""
    if launch.script_with(way.name):
        return
    if way.kind == "flag":
        with_seed_flag(launch.command, way, way.first, launch.trainer)
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
