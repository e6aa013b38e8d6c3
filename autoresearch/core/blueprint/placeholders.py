"""Unreplaced `${...}` placeholders: errors, unless a shell will expand them or the text defines them.

The rules:
- `${Name} = value` defines it: prose may use it, values may not.
- In the launch command a shell expands `${VAR}`. It is an error if VAR is a name of the published template,
  or is neither declared (`env:`, `requires_env:`), nor assigned in the command, nor set in every shell.
  `$VAR` without braces is never a placeholder.
- In a path or a purpose it is an error: no shell reads those.
- In `[exp_max_time]` it is an error unless the section gives the total time otherwise.
- In a description, hint or warning it is an error unless the section has its value.
- In the notes only the template's names are errors; the rest may be shell code for a reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from autoresearch.core.blueprint.document import NOTES, Document, LabelRole, Section
from autoresearch.core.blueprint.finding import Finding, error, warning
from autoresearch.core.blueprint.model import SECTIONS, Notes
from autoresearch.core.blueprint.values import SectionValue

_TEMPLATE_NAMES = frozenset({
    "maxtime", "max_time", "testfreq", "subject_dir", "subject_name", "exp_stage", "n", "runner",
    "path_to_blue_print", "path_to_blueprint", "max_parallel_blueprints", "exp_purpose",
    "exp_codebase_dir", "exp_venv_exe", "exp_yaml_path", "exp_launch_command", "exp_result_dir",
    "exp_max_time",
})  # fmt: skip
_EVERY_SHELL = frozenset({
    "HOME", "PATH", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "TMPDIR", "HOSTNAME", "LANG", "TERM",
    "UID", "EUID", "PPID", "RANDOM", "SECONDS", "LINENO", "BASH_SOURCE", "PIPESTATUS",
    "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "AUTORESEARCH_RUN_ID",
})  # fmt: skip
_PLACEHOLDER = re.compile(r"(?<!\\)\$\{\s*([A-Za-z_][\w .-]*?)\s*\}")
_DEFINED = re.compile(r"\$\{\s*([A-Za-z_][\w .-]*?)\s*\}\s*(?:=|:=|＝|是|为)\s*\S")


def unreplaced(
    document: Document, values: Mapping[str, SectionValue], notes: Notes, *, timed: bool
) -> Iterator[Finding]:
    """Findings for every unreplaced placeholder; `timed`: whether [exp_max_time] gives the total time."""
    defined = {m[1].lower() for s in document.named.values() for line in s.body for m in _DEFINED.finditer(line.text)}
    for key, section in document.named.items():
        taken, own = set(values[key].lines) if key in values else set(), key in SECTIONS
        texts = [item for item in section.items if item.role is LabelRole.TEXT]
        talk = {no for item in texts for no in (item.line, *(line.no for line in item.more))} - taken
        for no, name in _placeholders(section):
            if key == NOTES:
                if name.lower() in _TEMPLATE_NAMES - defined and not re.fullmatch(r"[a-z]|runner", name):
                    yield _unreplaced(no, name, "write the value itself")
            elif not own or (key == "exp_max_time" and timed) or (no not in taken and name.lower() in defined):
                continue
            elif key == "exp_launch_command" and no in taken:
                continue  # checked as shell code, below
            elif no in talk and key in values and key != "exp_purpose":
                yield warning(no, "placeholder", f"${{{name}}} in the explanation was never replaced")
            else:
                yield _unreplaced(no, name, "write the value itself; no shell reads this text")
    if value := values.get("exp_launch_command"):
        yield from _in_command(value, notes)


def _placeholders(section: Section) -> Iterator[tuple[int, str]]:
    """(line, name) of each placeholder."""
    for no, text in ((section.line, section.head), *((line.no, line.text) for line in section.body)):
        yield from ((no, match[1]) for match in _PLACEHOLDER.finditer(text))


def _unreplaced(line: int, name: str, hint: str) -> Finding:
    return error(line, "placeholder", f"the placeholder ${{{name}}} was never replaced", hint)


def _in_command(value: SectionValue, notes: Notes) -> Iterator[Finding]:
    own = set(_assigned(value.text))
    known = _EVERY_SHELL.union(notes.env, notes.requires_env, *map(_assigned, notes.prepare))
    for n, text in enumerate(value.text.split("\n")):
        for name in (match[1] for match in _PLACEHOLDER.finditer(text)):
            if name not in own and (name not in known or name.lower() in _TEMPLATE_NAMES):
                no = value.lines[min(n, len(value.lines) - 1)]
                yield _unreplaced(no, name, f"write the value, or declare `requires_env: {name}` in the notes")


def _assigned(command: str) -> list[str]:
    return re.findall(
        r"(?:^|[\s;&|(])(?:export\s+|local\s+|read\s+(?:-\w+\s+)*|for\s+)?([A-Za-z_]\w*)(?==|\s+in\s)",
        command,
    )
