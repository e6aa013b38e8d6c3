"""Reads a blueprint's commands with the files of the machine, and the scripts that they start.

And what a launch can vary: what stands in these scripts, and the flags of its Python program.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from autoresearch.core.shell import (
    SHELLS,
    Script,
    ShellReading,
    SimpleCommand,
    first_operand,
    python_file,
    read_shell,
    text_after_c,
)
from autoresearch.core.text.regex import later
from autoresearch.lab.recipes.program_flags import ask_help, parser_of
from autoresearch.lab.resolve.files import OURS, Files

_MAKES_NOTHING = frozenset(
    {"cd", "pushd", "export", "set", "source", ".", "mkdir", "echo", "ulimit", "module", "conda"}
)
_BYTES = 1 << 18  # a longer file is data; only its beginning is read
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
        if file in one.argv and one.cwd is not None and not one.elsewhere and not set(file) & set("$`*?[<"):
            return "" if files.kind(codebase / one.cwd / file) else file
        if one.name not in _MAKES_NOTHING:
            break
    return ""


def scripts_below(root: Path, shell_reading: ShellReading, codebase: Path) -> dict[str, str]:
    """The shell scripts below `root` that a command starts: path from `root` -> text."""
    read = [one for one in shell_reading.scripts if not one.python]
    paths = {os.path.relpath(os.path.normpath(codebase / one.path), root): one.text for one in read}
    return {path: text for path, text in paths.items() if not path.startswith("..")}


def flags_of_program(
    shell_reading: ShellReading, codebase: Path, interpreter: Path, environ: Mapping[str, str]
) -> dict[str, object]:
    """The flags that the `--help` of a command's program names, as `LaunchSettings` takes them: `--lr` -> default.

    {} if it may not be asked. environ: the program's.
    """
    for program in shell_reading.programs:
        if parser := parser_of(program.text):
            named = any(program.name in one.words for one in shell_reading.commands)
            words = [program.name] if named else ["-m", program.name.removesuffix(".py").replace("/", ".")]
            starts = [one for one in shell_reading.commands if python_file(one.argv) == program.name]
            own = _own_words(starts[0]) if len(starts) == 1 else []  # of hydra: `experiment=example`, no options
            own = [word for word in own if "=" in word and word[0] != "-" and not set(word) & set("$`")]
            cwd, dashes = codebase / (program.cwd or ""), "" if parser == "hydra" else "--"
            found = ask_help(words, interpreter, cwd, environ, None if dashes else own)
            return {f"{dashes}{key}": value for key, value in found.items()}
    return {}
