"""What a launch can vary, read from the files that it starts: shell scripts, and the Python program's own flags."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.shell.commands import Script
from autoresearch.lab.recipes.program_flags import Program, ask_help, flags_in, parser_of, programs
from autoresearch.lab.resolve.files import OURS, Files
from autoresearch.lab.resolve.scripts import shell_reader

_BYTES = 1 << 20
MOST_SOURCES = 40  # modules of one program that are read


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
        return self.files.read(path, _BYTES).decode("utf-8", "replace")
