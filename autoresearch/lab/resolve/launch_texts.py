"""What a launch can vary, read from the files that it starts: shell scripts, and the Python program's own flags."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from autoresearch.core.shell.commands import Script
from autoresearch.lab.recipes.program_flags import Program, ask_help, flags_in, parser_of, programs
from autoresearch.lab.resolve.files import OURS, Files
from autoresearch.lab.resolve.scripts import shell_reader

_BYTES = 1 << 20
MOST_SOURCES = 40  # modules of one program that are read


def launch_files(
    command: str, codebase: Path, variables: Mapping[str, str], root: Path, files: Files = OURS
) -> tuple[dict[str, str], dict[str, object]]:
    """The scripts below `root` that a command starts in `codebase` (path from `root` -> text), and its program's flags.

    The flags are `--lr` -> default, as `LaunchSettings` takes them.
    """
    read = _scripts(command, codebase, variables, files)
    scripts: dict[str, str] = {}
    for one in read:
        path = os.path.relpath(os.path.normpath(codebase / one.path), root)
        if one.text is not None and one.kind != "make" and not path.startswith(".."):
            scripts[path] = one.text
    flags: dict[str, object] = {}
    for _, _, source in _sources(command, read, codebase, files):
        flags = {**{f"--{key}": value for key, value in flags_in(source).items()}, **flags}
    return scripts, flags


def program_sources(command: str, codebase: Path, variables: Mapping[str, str], files: Files) -> dict[str, str]:
    """The texts of the Python programs that a command starts, and of the modules beside them that they import."""
    found: dict[str, str] = {}
    left = [
        (cwd / program.path, source)
        for program, cwd, source in _sources(command, _scripts(command, codebase, variables, files), codebase, files)
    ]
    while left and len(found) < MOST_SOURCES:
        path, source = left.pop()
        if (name := os.path.relpath(path, codebase)) in found:
            continue
        found[name] = source
        for module in re.findall(r"(?m)^\s*(?:from|import)\s+\.?(\w[\w.]*)", source):
            beside = path.parent / f"{module.replace('.', '/')}.py"
            if files.kind(beside) == "file":
                left.append((beside, files.read(beside, _BYTES).decode("utf-8", "replace")))
    return found


def flags_of_help(
    command: str, codebase: Path, variables: Mapping[str, str], interpreter: Path, environ: Mapping[str, str]
) -> dict[str, object]:
    """What the `--help` of the command's program names, as `LaunchSettings.flags`; {} if it may not be asked."""
    read = _scripts(command, codebase, variables, OURS)
    for program, cwd, source in _sources(command, read, codebase, OURS):
        if parser := parser_of(source):
            found = ask_help(program, interpreter, cwd, {**environ, **variables})
            dashes = "" if parser == "hydra" else "--"
            return {f"{dashes}{key}": value for key, value in found.items()}
    return {}


def _scripts(command: str, codebase: Path, variables: Mapping[str, str], files: Files) -> list[Script]:
    found = shell_reader(codebase, variables, files)(command, ()).scripts
    return [one for one in found if one.text is not None and one.kind != "python"]


def _sources(command: str, scripts: list[Script], codebase: Path, files: Files) -> Iterator[tuple[Program, Path, str]]:
    """The Python programs that command and scripts start: (program, working directory, its text)."""
    texts = [(command, codebase), *((one.text or "", codebase / (one.cwd or "")) for one in scripts)]
    for text, cwd in texts:
        for program in programs(text):
            for place in (cwd / program.path, cwd / "src" / program.path):
                if files.kind(place) == "file":
                    yield program, cwd, files.read(place, _BYTES).decode("utf-8", "replace")
                    break
