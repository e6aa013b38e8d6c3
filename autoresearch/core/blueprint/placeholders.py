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


def unreplaced(document: Document, values: Mapping[str, SectionValue], notes: Notes, *, timed: bool) -> list[Finding]:
    """Findings for every unreplaced placeholder; `timed`: whether [exp_max_time] gives the total time."""
    sections = document.named
    defined = {m[1].lower() for s in sections.values() for line in s.body for m in _DEFINED.finditer(line.text)}
    findings: list[Finding] = []
    for key, section in sections.items():
        if key in SECTIONS and not (key == "exp_max_time" and timed):
            findings += _in_section(section, values.get(key), defined)
    findings += _in_command(values.get("exp_launch_command"), notes)
    return findings + (_in_notes(sections[NOTES], defined) if NOTES in sections else [])


def _in_section(section: Section, value: SectionValue | None, defined: set[str]) -> Iterator[Finding]:
    taken = set(value.lines) if value else set()
    texts = [item for item in section.items if item.role is LabelRole.TEXT]
    talk = {no for item in texts for no in (item.line, *(line.no for line in item.more))}
    for no, name in _placeholders(section):
        if section.key == "exp_launch_command" and no in taken:
            continue  # checked as shell code
        if no not in taken and name.lower() in defined:
            continue
        if no in talk and no not in taken and value is not None and section.key != "exp_purpose":
            yield warning(no, "placeholder", f"${{{name}}} in the explanation was never replaced")
        else:
            yield _unreplaced(no, name, "write the value itself; no shell reads this text")


def _placeholders(section: Section) -> Iterator[tuple[int, str]]:
    """(line, name) of each placeholder."""
    yield from ((section.line, m[1]) for m in _PLACEHOLDER.finditer(section.head))
    yield from ((line.no, m[1]) for line in section.body for m in _PLACEHOLDER.finditer(line.text))


def _unreplaced(line: int, name: str, hint: str) -> Finding:
    return error(line, "placeholder", f"the placeholder ${{{name}}} was never replaced", hint)


def _in_command(value: SectionValue | None, notes: Notes) -> Iterator[Finding]:
    if value is None:
        return
    own = set(_assigned(value.text))
    known = _EVERY_SHELL | set(notes.env) | set(notes.requires_env) | own
    known |= {name for text in notes.prepare for name in _assigned(text)}
    for n, text in enumerate(value.text.split("\n")):
        for match in _PLACEHOLDER.finditer(text):
            name = match[1]
            if name in own or (name in known and name.lower() not in _TEMPLATE_NAMES):
                continue
            no = value.lines[min(n, len(value.lines) - 1)]
            yield _unreplaced(no, name, f"write the value, or declare `requires_env: {name}` in the notes")


def _assigned(command: str) -> list[str]:
    return re.findall(
        r"(?:^|[\s;&|(])(?:export\s+|local\s+|read\s+(?:-\w+\s+)*|for\s+)?([A-Za-z_]\w*)(?==|\s+in\s)",
        command,
    )


def _in_notes(section: Section, defined: set[str]) -> list[Finding]:
    return [
        _unreplaced(no, name, "write the value itself")
        for no, name in _placeholders(section)
        if name.lower() in _TEMPLATE_NAMES - defined and not re.fullmatch(r"[a-z]|runner", name)
    ]
