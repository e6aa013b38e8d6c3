"""The settings that stand in a shell text, read and changed where they stand: flags, hydra's `a.b=c`, variables.

A text is a launch command or a script that one starts. Only words of what may be the training count: `mkdir -p out`
has none. `bash -c '...'` is looked into where its text is quoted as it stands. The key of a flag is its name without
the dashes; `learning_rate` and `learning-rate` mean the same flag. Trainers have their recipes overridden by the same
settings, as hydra or the parser of their flags spells them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoresearch.core.shell import SHELLS, ShellWord, assignments, simple_commands
from autoresearch.core.text.regex import later

_FLAG = later(r"(?:--(?P<long>[A-Za-z][\w.-]*)|-(?P<short>[A-Za-z][\w-]+))(?P<sign>=(?P<value>.*))?", re.DOTALL)
_HYDRA = later(r"(?P<prefix>\+{0,2}(?P<key>[A-Za-z_][\w@/-]*(?:\.[\w@/-]+)*)=)(?P<value>.*)", re.DOTALL)
_NUMBER = later(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|inf|nan)")
_DEFAULT = later(r"\$\{(?P<name>[A-Za-z_]\w{0,100}):?[-=](?P<value>[^{}$`]*)\}")
_COMMENT = later(r"(?m)(?:^|(?<=\s))#.*$")
_NO_VALUE = later(r"-\w?|--|\$\{\w+\[[@*]\]\}")  # a short flag, the end of the options, an array of further words
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "none": None}
_ELSEWHERE = frozenset(["eval", "ssh", "sbatch", "nrl-k8s", "kubectl", *SHELLS])
"""Programs that start the trainer from a text or a file of their own: words appended to them do not reach it."""


@dataclass(slots=True)
class Setting:
    """One setting of one command: the words that hold it."""

    key: str  # without dashes
    flag: ShellWord  # `--lr`, `--lr=0.1` or `lr=0.1`
    values: Sequence[ShellWord] = ()  # separate words; () for a flag alone, or with its value inside
    prefix: str = ""  # what stands before the value in `flag`; "" if the value is in words of its own
    command: int = 0  # which of the text's

    @property
    def option(self) -> str:
        """The key with the dashes of a flag."""
        return self.flag.text.partition("=")[0] if self.flag.text.startswith("-") else self.key

    @property
    def value(self) -> object:
        """What it is set to; text with a `$` where that is known only at run time."""
        if self.prefix:
            return value_of(self.flag.text.removeprefix(self.prefix))
        found = [value_of(word.text) for word in self.values]
        return True if not found else found[0] if len(found) == 1 else found


def plain_key(key: str) -> str:
    """What two spellings of one flag have in common."""
    return key.lstrip("-").removeprefix("+").removeprefix("+").removesuffix("=").replace("-", "_")


def listed(text: str) -> list[Setting]:
    """Every setting of a text, in the order in which they stand."""
    return [one for number, command in enumerate(_commands(text)) for one in _settings(command, number)]


def settings_in(text: str) -> dict[str, object]:
    """Every setting of a text by its key as spelled, without dashes; a later one wins, as it does for a parser."""
    return {one.key: one.value for one in listed(text)}


def joins_values(text: str) -> bool:
    """Whether each flag of this text that has a value has it behind `=`, and one does."""
    flags = [one for one in listed(text) if one.flag.text.startswith("-")]
    return any(one.prefix for one in flags) and not any(one.values for one in flags)


def with_value(text: str, key: str, value: object) -> str:
    """The text with this setting changed in the last command that has it; "" if none has it, or it cannot be."""
    every = listed(text)
    holders = [one for one in every if plain_key(one.key) == plain_key(key)]
    ours = {one.key for one in every for holder in holders if holder.flag in (one.flag, *one.values)}  # `--set`, too
    changed = text
    for one in reversed([one for one in holders if one.command == holders[-1].command]):
        start, stop, new = _replacement(one, value)
        changed = f"{changed[:start]}{new}{changed[stop:]}"
    heard = settings_in(changed).get(holders[0].key) if holders else None
    sound = (heard or None) == (value or None) or str(heard) == str(value) or heard == value_of(shown(value))
    after, before = ({k: v for k, v in settings_in(one).items() if k not in ours} for one in (changed, text))
    return changed if holders and sound and after == before else ""


def variables_in(text: str) -> dict[str, tuple[object, bool]]:
    """The variables that a text sets, or reads with a default: (value, whether the environment can set another).

    A value that is known only at run time is left out.
    """
    found: dict[str, tuple[object, bool]] = {}
    for match in _DEFAULT.finditer(_COMMENT.sub("", text)):
        found.setdefault(match["name"], (value_of(match["value"]), True))
    for _, name, value in assignments(text):
        default = _DEFAULT.fullmatch(value)
        if default is not None and default["name"] == name:
            found[name] = value_of(default["value"]), True
        elif "$" not in value and "`" not in value and not value.startswith("("):  # no array
            found[name] = value_of(value), False
        elif name in found and not found[name][1]:
            del found[name]
    return found


def with_variable(text: str, name: str, value: object) -> str:
    """The text with another value in the one place that sets this variable; "" if none does, or several do."""
    words = [word for word, own, _ in assignments(text) if own == name]
    if len(words) != 1 or variables_in(text).get(name, (None, True))[1]:
        return ""
    return f"{text[: words[0].start]}{name}={shlex.quote(as_word(value))}{text[words[0].stop :]}"


def _commands(text: str) -> list[Sequence[ShellWord]]:
    """The words behind the program's name of each command that may be the training, and of arrays of flags."""
    found: list[tuple[bool, Sequence[ShellWord]]] = []
    for simple in simple_commands(text):
        arrays = [word.items for word in simple.raw if word.items]  # `ARGS=(--lr 0.1)`, which a later command is given
        found += [(True, items) for items in arrays if items[0].text.startswith("--")]
        if simple.may_train and simple.raw:
            before = len(simple.words) - len(simple.argv) + 1
            nested = not simple.own or any(word.text.endswith(".py") or word.text == "-m" for word in simple.raw)
            found.append((nested, simple.raw[before:]))
    started = any(python for python, _ in found)
    return [words for python, words in found if python or not started]


def _settings(words: Sequence[ShellWord], command: int) -> Iterator[Setting]:
    for at, word in enumerate(words, 1):  # a flag's value, too: `--set lr=0.1` sets lr
        flag, hydra = _FLAG.fullmatch(word.text), _HYDRA.fullmatch(word.text)
        if flag is not None:
            key = flag["long"] or flag["short"]
            if flag["sign"]:
                yield Setting(key, word, (), word.text[: -len(flag["value"]) or None], command)
                continue
            values: list[ShellWord] = []
            while (stop := at + len(values)) < len(words) and _goes_on(words[stop].text, values):
                values.append(words[stop])
            yield Setting(key, word, values, "", command)
        elif hydra is not None:
            yield Setting(hydra["key"], word, (), hydra["prefix"], command)


def _goes_on(text: str, value_words: list[ShellWord]) -> bool:
    """Whether a word is a value of the flag before it: the first that is no flag, and numbers after a number."""
    number = _NUMBER.fullmatch(text) is not None
    if not value_words:
        return number or not (_FLAG.fullmatch(text) or _NO_VALUE.fullmatch(text))
    return number and all(_NUMBER.fullmatch(word.text) for word in value_words)


def _replacement(one: Setting, value: object) -> tuple[int, int, str]:
    """(start, stop, new text) that sets this value."""
    if one.prefix:
        return one.flag.start, one.flag.stop, shlex.quote(one.prefix + shown(_as_before(one, value)))
    start, stop = one.flag.stop, (one.values[-1] if one.values else one.flag).stop
    if not one.values and (value is None or isinstance(value, bool)):
        return (stop if value else one.flag.start), stop, ""
    items = value if isinstance(value, list | tuple) else [value]
    return start, stop, " " + shlex.join(as_word(_as_before(one, item)) for item in items)


def _as_before(one: Setting, value: object) -> object:
    """True and False as Python spells them where the text did."""
    before = one.flag.text if one.prefix else "".join(word.text for word in one.values)
    return str(value) if isinstance(value, bool) and before.endswith(("True", "False")) else value


def as_word(value: object) -> str:
    """A value as a flag takes it."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def shown(value: object) -> str:
    """A value as hydra reads it."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(shown, value))}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def value_of(text: str) -> object:
    """Parse a scalar, a flat list or an empty mapping like YAML; anything else stays text."""
    text = text.strip()
    if text == "{}":
        return {}
    if text.startswith("[") and text.endswith("]"):
        return [value_of(item.strip().strip("'\"")) for item in text[1:-1].split(",") if item.strip()]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def with_hydra(recipe: Mapping[str, object], command: str) -> dict[str, object]:
    """The recipe with the command's `a.b=c` over it, as dotted keys; leading `+` and `++` are removed."""
    return {**recipe, **{key: value for key, value in _known(command).items() if key[0] != "-" and "." in key}}


def with_flags(recipe: Mapping[str, object], command: str) -> dict[str, object]:
    """The recipe with the command's `--flags` over it, dashes in names as underscores; a flag alone is True."""
    flags = {key[2:]: value for key, value in _known(command).items() if key.startswith("--")}
    return {**recipe, **{key.replace("-", "_"): value for key, value in flags.items()}}


def _known(command: str) -> dict[str, object]:
    """The settings of all commands of a text, with its variables filled in; none that only the shell knows."""
    whole = "\n".join(one.text for one in simple_commands(command))
    return {one.option: one.value for one in listed(whole) if not (isinstance(one.value, str) and "$" in one.value)}


def hydra_words(overrides: Mapping[str, object], *, prefix: str = "++") -> tuple[str, ...]:
    """`++a.b=c` for each key, which hydra sets or adds."""
    return tuple(f"{prefix}{key}={shown(value)}" for key, value in overrides.items())


def flag_words(overrides: Mapping[str, object], *, dash: str = "-") -> tuple[str, ...]:
    """`--a-b c` for each key; True becomes the flag alone, and a flag that is False or None is omitted.

    dash: replaces the underscores of a key, "-" or "_", depending on the framework's parser.
    """
    words: list[str] = []
    for key, value in overrides.items():
        if value is not False and value is not None:
            words += [f"--{key.replace('_', dash)}", *([] if value is True else [shown(value)])]
    return tuple(words)


def with_words(command: str, words: Sequence[str], recognises: Callable[[str], bool], *, surely: bool = False) -> str:
    """The command with these words, quoted, appended to the last simple command that is the trainer's.

    If `recognises` accepts none, they are appended to the last one that could be the trainer, unless `surely`. "" if
    they cannot be appended: `bash run.sh`, `bash -c '...'` or `COMMAND='...' sbatch ray.sub` do not pass them on.
    """
    if not words:
        return command
    own = [simple for simple in simple_commands(command) if simple.own and simple.may_train]
    known = [one for one in own if recognises(command[one.raw[0].start : one.raw[-1].stop]) or recognises(one.text)]
    trainers = known[-1:] or ([] if surely else own[-1:])
    if not trainers or not _ELSEWHERE.isdisjoint([trainers[0].name, *trainers[0].through]):
        return ""
    at = trainers[0].raw[-1].stop
    return f"{command[:at]} {shlex.join(words)}{command[at:]}"
