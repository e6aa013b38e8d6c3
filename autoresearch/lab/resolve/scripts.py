"""The scripts that a blueprint's commands start: found, read and linted; unreadable ones are reported."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.lint import lint_script
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.text.scripts import Script, named_scripts, recipe_lines
from autoresearch.lab.resolve.files import OURS, Files

MOST = 50  # scripts that start each other
_BYTES = 1 << 18  # a longer file is data; only its beginning is read
_SHELL = re.compile(r"#!.*\b(?:ba|da|z|k)?sh\b")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


@dataclass(frozen=True, slots=True)
class ScriptText:
    """A script and its text; `text` is None if it could not be read, and `why` has the reason."""

    script: Script
    text: str | None
    why: str = ""
    nested: bool = False  # started by another script


def read_scripts(
    command: str,
    cwd: Path,
    variables: Mapping[str, str],
    *,
    files: Files = OURS,
    earlier: Sequence[str] = (),
    line: int = 1,
) -> Iterator[ScriptText]:
    """Every script that a command starts in a directory, and those that they start; each once."""
    waiting = [(script, False) for script in named_scripts(command, variables, earlier=earlier, line=line)]
    seen: set[str] = set()
    while waiting and len(seen) < MOST:
        script, nested = waiting.pop(0)
        if script.path in seen and script.path:
            continue
        seen.add(script.path or script.name)
        if not script.path:
            yield ScriptText(script, None, "where it lies is known only when it runs", nested)
            continue
        script, text, why = _text(script, cwd, files)
        if text is not None and not script.shell and not _SHELL.match(text):
            continue
        if text is None and not script.shell:
            continue
        yield ScriptText(script, text, why, nested)
        if text is not None:
            own = posixpath.dirname(script.path)
            inner = named_scripts(text, variables, folder=str(cwd / own), cwd=script.cwd)
            waiting += [(one, True) for one in inner]


def _text(script: Script, cwd: Path, files: Files) -> tuple[Script, str | None, str]:
    """The script with its actual path, its shell text, and the reason if there is none."""
    script = replace(script, path=script.path.removeprefix(f"{cwd}/"))
    names = [script.path]
    if script.makefile and script.name == "Makefile":
        names = [posixpath.join(posixpath.dirname(script.path), name) for name in _MAKEFILES]
    path = next((name for name in names if files.kind(cwd / name)), script.path)
    script = replace(script, path=path)
    try:
        text = files.read(cwd / path, _BYTES).decode("utf-8", "replace")
    except (OSError, ValueError) as failure:
        return script, None, getattr(failure, "strerror", "") or "it cannot be read"
    return script, recipe_lines(text) if script.makefile else text, ""


def script_findings(blueprint: Blueprint, codebase: Path, files: Files, environ: Mapping[str, str]) -> list[Finding]:
    """Problems in the scripts of all its commands, and which of them could not be read."""
    notes, found = blueprint.notes, list[Finding]()
    variables = {**environ, **notes.env}
    at = blueprint.lines.get("notes", 0)
    there = files.here and files.kind(codebase) == "directory"  # a missing codebase has no scripts to miss
    jobs = [(command, notes.prepare[:n], at, there) for n, command in enumerate(notes.prepare)]
    jobs.append((blueprint.launch_command, notes.prepare, blueprint.lines.get("exp_launch_command", 1), there))
    jobs += [(command, (), at, False) for command in (*notes.evaluate, *notes.cleanup)]  # training may create them
    for command, earlier, line, must in jobs:
        for read in read_scripts(command, codebase, variables, files=files, earlier=earlier, line=line):
            if read.text is not None:
                found += lint_script(read.text, where=read.script.path)
            else:
                found.append(_unread(read, blueprint.name, line, must=must and not read.nested))
    return list(dict.fromkeys(found))


def _unread(script_text: ScriptText, where: str, line: int, *, must: bool) -> Finding:
    script = script_text.script
    if must and script.must and script_text.why == "No such file or directory":
        message = f"the script {script.name} is not there: {script.path}"
        hint = "correct its path, or let a `prepare:` make it"
        return Finding(Severity.ERROR, "missing_script", message, hint, where, line)
    message = f"not read: {script.name}: {script_text.why[:1].lower()}{script_text.why[1:]}"
    return Finding(Severity.WARNING, "not_read", message, "nobody looked for what it kills or hides", where, line)
