"""Reads a blueprint's commands with the files of the machine: the scripts that they start, and what could not be read.

And what a launch can vary, as those files show it: shell scripts, and the Python program's own flags.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.shell.commands import Script, ShellReading, SimpleCommand
from autoresearch.core.shell.programs import python_file
from autoresearch.core.shell.reading import read_shell
from autoresearch.lab.recipes.program_flags import Program, ask_help, flags_in, parser_of, programs
from autoresearch.lab.resolve.files import OURS, Files

_BYTES = 1 << 18  # a longer file is data; only its beginning is read
_SOURCE_BYTES = 1 << 20
MOST_SOURCES = 40  # modules of one program that are read
_SUFFIXES = (".yaml", ".yml", ".toml", ".json")
_CONFIG = re.compile(r"--(?:config|conf|cfg|recipe)(?:[-_](?:file|path))?")
_HYDRA_NAME, _HYDRA_PATH = re.compile(r"--config[-_]name|-cn"), re.compile(r"--config[-_](?:path|dir)|-cp|-cd")
_DEFAULT = re.compile(r"\bdirname\(__file__\),\s*\"configs\",\s*\"([\w.-]+\.ya?ml)\"")  # of NeMo-RL's examples


def shell_reader(
    codebase: Path, variables: Mapping[str, str], files: Files = OURS
) -> Callable[[str, Sequence[str]], ShellReading]:
    """A function that reads a command which runs in the codebase, after earlier ones; each file is read once."""
    texts: dict[str, str | OSError | ValueError] = {}
    known: dict[tuple[str, tuple[str, ...]], ShellReading] = {}

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

    def read(command: str, earlier: Sequence[str] = ()) -> ShellReading:
        key = (command, tuple(earlier))
        if key not in known:
            known[key] = read_shell(command, variables, cwd=str(codebase), open_text=open_text, earlier=earlier)
        return known[key]

    return read


def recipe_of(shell_reading: ShellReading, codebase: Path, files: Files = OURS) -> Path | None:
    """The recipe that the trainer's command names, or that its program has.

    It is an existing file behind an option for it (`--config X`, hydra's `--config-name X`), else the only one that is
    an operand of a program (`axolotl train X.yml`). None if there is no such file: the command may make it, or the
    option means something else.
    """
    sources = {script.path: script.text or "" for script in shell_reading.scripts if script.kind == "python"}
    commands = [one for one in reversed(shell_reading.commands) if one.live and one.may_train]

    def first(simple: SimpleCommand, paths: Iterable[str]) -> Path | None:
        candidates = (codebase / (simple.cwd or "") / path for path in paths if "$" not in path)
        return next((one for one in candidates if one.suffix in _SUFFIXES and files.kind(one) == "file"), None)

    named = (first(command, _named(command, sources)) for command in commands)
    operands = dict.fromkeys(filter(None, (first(command, _operands(command)) for command in commands)))
    return next(filter(None, named), None) or (next(iter(operands)) if len(operands) == 1 else None)


def _named(simple: SimpleCommand, sources: Mapping[str, str]) -> Iterator[str]:
    """The files that options of the program name, then the one that its text has."""
    own, program = _own_words(simple), python_file(simple.argv)
    yield from _options(own, _CONFIG)
    folder = Path(program).parent
    for name in _options(own, _HYDRA_NAME):
        name = name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"
        for path in _options(own, _HYDRA_PATH) or ["config"]:
            yield from (str(folder / path / name), str(Path(path) / name))
    text = next((text for path, text in sources.items() if program and path.endswith(program.removeprefix("./"))), "")
    if match := _DEFAULT.search(text):
        yield str(folder / "configs" / match[1])


def _operands(simple: SimpleCommand) -> list[str]:
    """The words of the program that are neither an option nor the value of one; JSON only if it is the only word."""
    own = _own_words(simple)
    found = [word for before, word in pairwise(["", *own]) if before[:1] != "-" or "=" in before or before == "--"]
    words = [word.removeprefix("@") for word in found if word[:1] != "-" and "=" not in word]
    return words if len(own) == 1 else [word for word in words if not word.endswith(".json")]


def _own_words(simple: SimpleCommand) -> list[str]:
    """What stands behind the program: behind the script, where a launcher such as `accelerate launch` starts one."""
    argv, program = simple.argv, python_file(simple.argv)
    starts = (n for n, word in enumerate(argv) if word == program or argv[n - 1 : n] in (["-m"], ["--module"]))
    return argv[next(starts, 0) + 1 :] if program else argv[1:]


def _options(words: Sequence[str], names: re.Pattern[str]) -> list[str]:
    joined = [
        value for option, _, value in (word.partition("=") for word in words) if value and names.fullmatch(option)
    ]
    return joined or [value for option, value in pairwise(words) if names.fullmatch(option)]


def unread_scripts(
    blueprint: Blueprint, read: Callable[[str, Sequence[str]], ShellReading], *, there: bool
) -> Iterator[Finding]:
    """Scripts of its commands that could not be read. `there`: the codebase exists, so one may be missing in it."""
    notes, at = blueprint.notes, blueprint.lines.get("notes", 0)
    for n, command in enumerate(notes.prepare):
        yield from _unread(read(command, notes.prepare[:n]), blueprint.name, at, must=there)
    launch = read(blueprint.launch_command, notes.prepare)
    first = blueprint.lines.get("exp_launch_command", 1)
    for finding in _unread(launch, blueprint.name, 0, must=there):
        yield replace(finding, line=finding.line + first - 1)
    for command in (*notes.evaluate, *notes.cleanup):  # training may create what they start
        yield from _unread(read(command, ()), blueprint.name, at, must=False)


def _unread(shell_reading: ShellReading, where: str, line: int, *, must: bool) -> Iterator[Finding]:
    """`line`: of the whole command; 0: each script's own."""
    for script in shell_reading.scripts:
        if script.text is None and script.kind:
            own = 1 if script.nested else script.line
            yield _finding(script, where, line or own, must=must and not script.nested)


def _finding(script: Script, where: str, line: int, *, must: bool) -> Finding:
    if must and script.must and script.why == "No such file or directory":
        message = f"the script {script.name} is not there: {script.where}"
        hint = "correct its path, or let a `prepare:` make it"
        return Finding(Severity.ERROR, "missing_script", message, hint, where, line)
    name = script.where or script.name
    message = f"not read: {name}: {script.why[:1].lower()}{script.why[1:]}"
    return Finding(Severity.WARNING, "not_read", message, "it was not searched for what it kills or hides", where, line)


@dataclass(frozen=True, slots=True)
class LaunchTexts:
    """A command in its codebase, with its variables: the texts of what it starts there."""

    command: str
    codebase: Path
    variables: Mapping[str, str]
    files: Files = OURS

    def scripts(self, root: Path) -> dict[str, str]:
        """The shell scripts below `root` that it starts: path from `root` -> text."""
        read = [one for one in self._scripts() if one.kind != "make"]
        paths = {os.path.relpath(os.path.normpath(self.codebase / one.path), root): one.text or "" for one in read}
        return {path: text for path, text in paths.items() if not path.startswith("..")}

    def flags(self) -> dict[str, object]:
        """The flags of its program that stand in its text: `--lr` -> default, as `LaunchSettings` takes them."""
        found: dict[str, object] = {}
        for _, _, source in self._programs():
            found = {**{f"--{key}": value for key, value in flags_in(source).items()}, **found}
        return found

    def flags_of_help(self, interpreter: Path, environ: Mapping[str, str]) -> dict[str, object]:
        """The same, as the program's own `--help` names them; {} if it may not be asked."""
        for program, cwd, source in self._programs():
            if parser := parser_of(source):
                found = ask_help(program, interpreter, cwd, {**environ, **self.variables})
                dashes = "" if parser == "hydra" else "--"
                return {f"{dashes}{key}": value for key, value in found.items()}
        return {}

    def sources(self) -> dict[str, str]:
        """The texts of the Python programs that it starts, and of the modules beside them that they import."""
        found: dict[str, str] = {}
        left = [(cwd / program.path, source) for program, cwd, source in self._programs()]
        while left and len(found) < MOST_SOURCES:
            path, source = left.pop()
            if (name := os.path.relpath(path, self.codebase)) in found:
                continue
            found[name] = source
            for module in re.findall(r"(?m)^\s*(?:from|import)\s+\.?(\w[\w.]*)", source):
                beside = path.parent / f"{module.replace('.', '/')}.py"
                if self.files.kind(beside) == "file":
                    left.append((beside, self._text(beside)))
        return found

    def _scripts(self) -> list[Script]:
        found = shell_reader(self.codebase, self.variables, self.files)(self.command, ()).scripts
        return [one for one in found if one.text is not None and one.kind != "python"]

    def _programs(self) -> Iterator[tuple[Program, Path, str]]:
        """The Python programs that command and scripts start: (program, working directory, its text)."""
        scripts = ((one.text or "", self.codebase / (one.cwd or "")) for one in self._scripts())
        for text, cwd in ((self.command, self.codebase), *scripts):
            for program in programs(text):
                paths = (cwd / program.path, cwd / "src" / program.path)
                if there := next((path for path in paths if self.files.kind(path) == "file"), None):
                    yield program, cwd, self._text(there)

    def _text(self, path: Path) -> str:
        return self.files.read(path, _SOURCE_BYTES).decode("utf-8", "replace")
