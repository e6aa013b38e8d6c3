"""Reads a blueprint's commands with the files of the machine, and the scripts that they start.

And what a launch can vary, as those files show it: shell scripts, and the Python program's own flags.
"""

from __future__ import annotations

import ast
import os.path
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.shell.programs import SHELLS, first_operand, python_file, text_after_c
from autoresearch.core.shell.reading import Script, ShellReading, SimpleCommand, read_shell
from autoresearch.core.text.python_text import syntax_error, syntax_tree
from autoresearch.core.text.regex import later
from autoresearch.lab.recipes.program_flags import (
    ask_help,
    flags_in,
    is_data,
    missing_in,
    named_paths,
    other_names,
    parser_of,
    short_names,
    unset_in,
)
from autoresearch.lab.resolve.files import OURS, Files

if TYPE_CHECKING:
    from autoresearch.lab.recipes.printed_names import PrintedName

_MAKES_NOTHING = frozenset(
    {"cd", "pushd", "export", "set", "source", ".", "mkdir", "echo", "ulimit", "module", "conda"}
)
_BYTES = 1 << 18  # a longer file is data; only its beginning is read
MOST_LOST = 3  # paths of data that are told
MOST_SOURCES = 40  # modules of one program that are read
_VERSION = "{}.{}".format(*sys.version_info)
_CHOICE = later(r"([a-z]\w*)=[\w.-]+")
_OPTIONAL = later(r"\b(\w+) is (?:not )?None\b")
_SUFFIXES = (".yaml", ".yml", ".toml", ".json")
_CONFIG = later(r"(?:--)?(?:config|conf|cfg|recipe)(?:[-_](?:file|path))?")
_HYDRA_NAME, _HYDRA_PATH = later(r"--config[-_]name|-cn"), later(r"--config[-_](?:path|dir)|-cp|-cd")
_GROUP = later(r"(?:\+{1,2}([\w/]+)|(experiment))=([\w./-]+)")  # Hydra's: one that is added may be a whole recipe
_HYDRA = later(r"""(config_path|config_name)\s*=\s*["']([\w./-]{1,200})["']""")
_YAML = later(r"""["']([\w./-]{1,200}\.ya?ml)["']""")


def shell_reader(codebase: Path, variables: Mapping[str, str], files: Files = OURS) -> Callable[[str], ShellReading]:
    """A function that reads a command which runs in the codebase; each file is read once."""
    texts: dict[str, str | OSError | ValueError] = {}
    known: dict[str, ShellReading] = {}

    def open_text(path: str) -> str:
        if path not in texts:
            try:
                texts[path] = files.read(codebase / path, _BYTES).decode("utf-8", "replace")
            except (OSError, ValueError) as failure:
                texts[path] = failure
        text = texts[path]
        if isinstance(text, str):
            return text
        raise text

    def read(command: str) -> ShellReading:
        if command not in known:
            known[command] = read_shell(command, variables, cwd=str(codebase), open_text=open_text)
        return known[command]

    return read


def recipe_of(shell_reading: ShellReading, codebase: Path, files: Files = OURS) -> Path | None:
    """The recipe that the trainer's command names, or that its program has.

    It is an existing file behind an option for it (`--config X`, hydra's `--config-name X`, `config=X`), else the only
    one that is an operand of a program (`axolotl train X.yml`), else the only one that its program's text names. None
    if there is no such file: the command may make it, or the option means something else.
    """
    commands = [one for one in reversed(shell_reading.commands) if one.may_train]

    def first(simple: SimpleCommand, paths: Iterable[str]) -> Path | None:
        places = (codebase / (simple.cwd or "") / path for path in paths if "$" not in path)
        candidates = (Path(os.path.normpath(place)) for place in places)
        return next((one for one in candidates if one.suffix in _SUFFIXES and files.kind(one) == "file"), None)

    if named := next(filter(None, (first(command, _named(command, shell_reading)) for command in commands)), None):
        return named
    operands = dict.fromkeys(filter(None, (first(command, _operands(command)) for command in commands)))
    texts = (_in_text(script, codebase) for script in shell_reading.programs)
    told = dict.fromkeys(path for paths in texts for path in paths if files.kind(path) == "file")
    return next((next(iter(found)) for found in (operands, told) if len(found) == 1), None)


def _named(simple: SimpleCommand, shell_reading: ShellReading) -> Iterator[str]:
    """The files that options of the program name."""
    own, program = _own_words(simple), python_file(simple.argv)
    yield from _options(own, _CONFIG)
    folder, text = Path(program).parent, next((one.text for one in shell_reading.programs if one.name == program), "")
    in_text = [match[2] for match in _HYDRA.finditer(text) if match[1] == "config_path"]
    groups = [f"{match[1] or match[2]}/{match[3]}" for match in map(_GROUP.fullmatch, own) if match]
    for name in [*groups, *_options(own, _HYDRA_NAME)]:
        name = name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"
        for path in _options(own, _HYDRA_PATH) or [*in_text, "config", "configs", "conf", "../configs"]:
            yield from (str(folder / path / name), str(Path(path) / name))


def _in_text(program: Script, codebase: Path) -> Iterator[Path]:
    """The YAML files that the text of a program names, hydra's among them."""
    text, folder = program.text, (codebase / program.path).parent
    hydra = {match[1]: match[2] for match in _HYDRA.finditer(text)}
    if "config_name" in hydra:
        name = f"{hydra['config_name'].removesuffix('.yaml')}.yaml"
        yield Path(os.path.normpath(folder / hydra.get("config_path", ".") / name))
        return
    for match in _YAML.finditer(text):
        yield from (codebase / (program.cwd or "") / match[1], folder / match[1], folder / "configs" / match[1])


def _operands(simple: SimpleCommand) -> list[str]:
    """The words of the program that are neither an option nor the value of one; JSON only if it is the only word."""
    own = _own_words(simple)
    found = [word for before, word in pairwise(["", *own]) if before[:1] != "-" or "=" in before or before == "--"]
    words = [word.removeprefix("@") for word in found if word[:1] != "-" and "=" not in word]
    return words if len(own) == 1 else [word for word in words if not word.endswith(".json")]


def _own_words(simple: SimpleCommand) -> list[str]:
    """What stands behind the program: behind the script, where a launcher such as `accelerate launch` starts one."""
    argv, program = simple.argv, python_file(simple.argv)
    if program in argv:
        return argv[argv.index(program) + 1 :]
    starts = (n for n in range(len(argv)) if argv[n - 1 : n] in (["-m"], ["--module"]))
    return argv[next(starts, 0) + 1 :] if program else argv[1:]


def _options(words: Sequence[str], names: re.Pattern[str]) -> list[str]:
    joined = [
        value for option, _, value in (word.partition("=") for word in words) if value and names.fullmatch(option)
    ]
    return joined or [value for option, value in pairwise(words) if names.fullmatch(option)]


def missing_script(shell_reading: ShellReading, codebase: Path, files: Files = OURS) -> str:
    """The script or program that a command starts first and that is not there; "" for none, or if it may be made."""
    for one in shell_reading.own:
        file = python_file(one.argv) if one.name.startswith("python") else ""
        if one.name in SHELLS and not text_after_c(one.argv):
            file = "".join(one.argv[first_operand(one.argv) :][:1])
        if file in one.argv and one.cwd is not None and not set(file) & set("$`*?[<"):
            return "" if files.kind(codebase / one.cwd / file) else file
        if one.name not in _MAKES_NOTHING:
            break
    return ""


@dataclass(frozen=True)
class LaunchTexts:
    """The texts of what a command starts in its codebase."""

    reading: ShellReading
    codebase: Path
    files: Files = OURS

    def scripts(self, root: Path) -> dict[str, str]:
        """The shell scripts below `root` that it starts: path from `root` -> text."""
        read = [one for one in self.reading.scripts if not one.python]
        paths = {os.path.relpath(os.path.normpath(self.codebase / one.path), root): one.text for one in read}
        return {path: text for path, text in paths.items() if not path.startswith("..")}

    def flags(self) -> dict[str, object]:
        """The flags of its program that stand in its text, or in functions of modules beside it that it reaches.

        As `LaunchSettings` takes them: `--lr` -> default.
        """
        found: dict[str, object] = {}
        for flags in self._flags_of:
            found = {**{key if key[:1] == "-" else f"--{key}": value for key, value in flags.items()}, **found}
        return found

    @cached_property
    def _flags_of(self) -> list[dict[str, object]]:
        """The flags in each of its texts."""
        from autoresearch.lab.recipes.dead_branches import reached_names

        own, whole = {program.text for program in self.reading.programs}, self.of_hydra  # it takes all words
        reached = reached_names(self.sources, {}) if any(map(parser_of, self.sources.values())) else set[str]()
        others = frozenset() if whole else frozenset(reached | {""})
        return [flags_in(text, None if text in own else others) for text in self.sources.values()]

    @property
    def of_hydra(self) -> bool:
        """Whether hydra reads its program's words: the keys are those of a configuration that it composes."""
        return any(parser_of(program.text) == "hydra" for program in self.reading.programs)

    def other_names(self) -> set[str]:
        """Second names of its program's flags, by which nothing is set that has not been set already."""
        words = [word for one in self.reading.commands for word in one.argv]
        return {name for program in self.reading.programs for name in other_names(program.text, words)}

    def flags_of_help(self, interpreter: Path, environ: Mapping[str, str]) -> dict[str, object]:
        """The same, as the program's own `--help` names them; {} if it may not be asked. environ: the program's."""
        for program in self.reading.programs:
            if parser := parser_of(program.text):
                named = any(program.name in one.words for one in self.reading.commands)
                module = program.name.removesuffix(".py").replace("/", ".")
                words = [program.name] if named else ["-m", module]
                own = None if parser != "hydra" else self._overrides(program.name)
                found = ask_help(words, interpreter, self.codebase / (program.cwd or ""), environ, own)
                dashes = "" if parser == "hydra" else "--"
                return {f"{dashes}{key}": value for key, value in found.items()}
        return {}

    def _overrides(self, program: str) -> list[str]:
        """What a program of hydra is started with, where only one command does: `experiment=example`, no options."""
        starts = [one for one in self.reading.commands if python_file(one.argv) == program]
        words = _own_words(starts[0]) if len(starts) == 1 else []
        return [word for word in words if "=" in word and word[0] != "-" and not set(word) & set("$`")]

    def missing(self) -> tuple[str, list[str]]:
        """A program that ends at once for want of flags and operands, and these; "" and [] without one."""
        from autoresearch.lab.recipes.dead_branches import reached_names

        for program in self.reading.programs:
            starts = [one for one in self.reading.commands if python_file(one.argv) == program.name]
            if len(starts) == 1:
                words, (own, *others) = _own_words(starts[0]), self.sources.values()
                needed = missing_in(program.text, words)
                if not needed and own == program.text:  # a function of another module may read the words
                    used = reached_names(self.sources, {})
                    needed = [flag for text in others for flag in missing_in(text, words, used)]
                if needed:
                    return program.where, needed
        return "", []

    def unread(self) -> list[str]:
        """Which of its texts are no Python of today, where, and what is unknown therefore; in words."""
        whole = {path: text for path, text in self.sources.items() if len(text.encode()) < _BYTES}
        errors = {path: syntax_error(text) for path, text in whole.items()}
        wrong = [f"{path}:{n} cannot be read as Python {_VERSION} ({why})" for path, (n, why) in errors.items() if n]
        more = f", nor can {len(wrong) - 1} more of its files" if len(wrong) > 1 else ""
        return [f"{one}{more}: its flags and what it prints were not read" for one in wrong[:1]]

    def absent(self, recipe: Mapping[str, object] = MappingProxyType({})) -> list[str]:
        """What its programs take as data and do not get, in words: paths that lead nowhere, flags without a value.

        And the values that the recipe leaves open, as Hydra marks them.
        """
        found, words = self._flags
        typed = {name: next(iter(values)) for name, values in words.items() if len(values) == 1}
        values = {name: str(value or "") for name, value in {**found, **typed}.items()}
        data = {name: value for name, value in values.items() if is_data(name, "/x") or is_data(name, value)}
        cwd = self.codebase / next((one.cwd for one in self.reading.programs if one.cwd), "")
        named = {path: f"--{name} is" for name, path in data.items() if is_data(name, path)}
        texts = {key: value for key, value in flatten(recipe).items() if isinstance(value, str)}
        named |= {path: f"{key} is" for key, path in texts.items() if is_data(key.replace(".", "_"), path)}
        for program in self.reading.programs:
            lines = named_paths(program.text).items()
            named = {**{path: f"{program.where}:{line} names" for path, line in lines}, **named}
        places = {path: cwd / Path(path).expanduser() for path in named}
        lost = [f"{what} {path}, where nothing is" for path, what in named.items() if self._is_void(places[path])]
        more = len(lost) - MOST_LOST
        lost[MOST_LOST:] = [f"{more} more paths of data lead nowhere"] if more > 0 else []
        every = {one: chooses for text in self.sources.values() for one, chooses in unset_in(text).items()}
        optional = set(_OPTIONAL.findall("\n".join(self.sources.values())))
        unset = {one: every[one] for one, default in found.items() if one in every and default is None}
        unset = {one: chooses for one, chooses in unset.items() if one not in optional}
        bare = [one for one in unset if one not in words and (unset[one] or (one in data and not any(data.values())))]
        given = [f"the recipe leaves {key} open (???): `{key}=VALUE` behind the command gives it"
                 for key, value in texts.items() if value == "???" and not self._chosen(recipe)]  # fmt: skip
        return [*given, *lost, *(f"--{name} has no default and is not given" for name in bare)]

    def _chosen(self, recipe: Mapping[str, object]) -> bool:
        """Whether the command chooses parts of Hydra's recipe, which are not read: `pipeline=mnist`."""
        words = [word for one in self.reading.commands for word in one.argv]
        return any(match[1] not in recipe for match in map(_CHOICE.fullmatch, words) if match)

    def _is_void(self, path: Path) -> bool:
        kind = self.files.kind(path)
        return not kind or (kind == "directory" and self.files.here and not any(path.glob("[!.]*")))

    @cached_property
    def objectives(self) -> list[PrintedName]:
        """The numbers that its programs print or write and of which any may be the objective, as their texts show them.

        Where these print none, the modules beside them that they import, if all of these were read.
        """
        if not self.sources:  # it starts no Python of this codebase
            return []
        from autoresearch.lab.recipes.printed_names import PLAIN_PRINTS, objectives_of  # what reads lines comes with it

        flags = self._known_flags()
        paths = [os.path.relpath(self.codebase / program.path, self.codebase) for program in self.reading.programs]
        own = objectives_of({path: self.sources[path] for path in paths if path in self.sources}, flags=flags)
        if any(one.file is None for one in own) or len(self.sources) == MOST_SOURCES:  # others may print what counts
            return own
        return objectives_of(self.sources, PLAIN_PRINTS, flags) or own  # a library's `print_table` is of anything

    def likely(self, recipe: Mapping[str, object]) -> list[PrintedName]:
        """Those of which any may be the objective; of several, the one by which the recipe keeps the best model."""
        watched = {value for key, value in flatten(recipe).items() if key.rpartition(".")[2] == "monitor"}
        return [one for one in self.objectives if one.name in watched] or self.objectives

    @cached_property
    def unnamed(self) -> str:
        """Where numbers are shown whose names only a run knows; "" where none are."""
        from autoresearch.lab.recipes.dead_branches import reached_names
        from autoresearch.lab.recipes.printed_names import shown_by_name

        flags = self._known_flags()
        used = reached_names(self.sources, flags)
        lines = ((path, text, shown_by_name(text, flags, used)) for path, text in self.sources.items())
        told = (f"{path}:{line}: {text.splitlines()[line - 1].strip()}" for path, text, line in lines if line)
        return next(told, "")

    def _known_flags(self) -> dict[str, object]:
        """The flags in these texts, by their names in Python: the word that the command gives one, or its default.

        Without those that the command sets to a number, or to what only the run knows.
        """
        found, words = self._flags
        if any("TrainingArguments" in text for text in self.sources.values()):  # of transformers
            found = {"do_train": False, "do_eval": False, "do_predict": False, **found}
        typed = {name: next(iter(values)) for name, values in words.items() if len(values) == 1}
        known: dict[str, object] = {
            name: word
            for name, word in typed.items()
            if isinstance(found.get(name, 0), str | None) and "$" not in word and not word.isdecimal()
        }
        known |= {name: int(word) for name, word in typed.items() if type(found.get(name)) is int and word.isdecimal()}
        unset = {key: value for key, value in found.items() if key not in words}
        return {**{key: tuple(value) if isinstance(value, list) else value for key, value in unset.items()}, **known}

    @cached_property
    def _flags(self) -> tuple[dict[str, object], dict[str, set[str]]]:
        """The flags in these texts, by their names in Python, with their defaults, and the words that set them."""
        found, short = dict[str, object](), dict[str, list[str]]()
        for flags, text in zip(self._flags_of, self.sources.values(), strict=True):
            short |= short_names(text)
            found = {**{key.lstrip("-").replace("-", "_"): value for key, value in flags.items()}, **found}
        words: dict[str, set[str]] = {}
        for one in self.reading.commands:
            for word, following in pairwise([*one.argv, ""]):
                name, *value = re.split(r"[=:]", word, maxsplit=1)
                if not value and word[:1] not in ("-", "+"):
                    continue
                for key in (name.lstrip("-+").replace("-", "_"), *short.get(name[1:], ())):
                    words.setdefault(key, set()).add(value[0] if value else following)
        return found, words

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """The texts of the Python programs that it starts, and of the modules beside them that they import."""
        found: dict[str, str] = {}
        left = [(self.codebase / program.path, program.text) for program in self.reading.programs]
        roots = [path.parent for path, _ in left]
        while left and len(found) < MOST_SOURCES:
            path, source = left.pop(0)  # those that are nearer to the program first
            if (name := os.path.relpath(path, self.codebase)) in found:
                continue
            found[name] = source
            folders = dict.fromkeys([path.parent, *roots, self.codebase, self.codebase / "src"])
            for module in _imported(source):
                beside = (folder / f"{module}{suffix}" for folder in folders for suffix in (".py", "/__init__.py"))
                if there := next((one for one in beside if self.files.kind(one) == "file"), None):
                    left.append((there, self.files.read(there, _BYTES).decode("utf-8", "replace")))
        return found


@lru_cache(maxsize=256)
def _imported(source: str) -> list[str]:
    """What a program imports, as paths without their suffix: modules, and names of a package that may be modules."""
    found, tree = list[str](), syntax_tree(source)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            found += [alias.name.replace(".", "/") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "../" * (node.level - 1) + (node.module or "").replace(".", "/")
            found += [module] if node.module else []
            found += [str(Path(module, alias.name)) for alias in node.names]
    return list(dict.fromkeys(found))
