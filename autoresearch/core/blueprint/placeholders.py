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
from collections.abc import Iterator, Mapping, Sequence

from autoresearch.core.blueprint.document import Section, error, warning
from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.blueprint.items import LabelRole, SectionItem
from autoresearch.core.blueprint.notes import Notes
from autoresearch.core.blueprint.values import SectionValue

TEMPLATE_NAMES = frozenset({
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
_HOLE = re.compile(r"(?<!\\)\$\{\s*([A-Za-z_][\w .-]*?)\s*\}")
_DEFINED = re.compile(r"\$\{\s*([A-Za-z_][\w .-]*?)\s*\}\s*(?:=|:=|＝|是|为)\s*\S")


def unreplaced(
    name: str,
    sections: Mapping[str, Section],
    items: Mapping[str, Sequence[SectionItem]],
    found: Mapping[str, SectionValue],
    notes: Notes,
    *,
    timed: bool,
) -> list[Finding]:
    """Findings for every unreplaced placeholder; `timed`: whether [exp_max_time] gives the total time."""
    defined = {m[1].lower() for s in sections.values() for n in s.body for m in _DEFINED.finditer(n.text)}
    findings: list[Finding] = []
    for key, section in sections.items():
        if key not in items:
            continue
        value = found.get(key)
        taken = set(value.lines) if value else set()
        talk = {no for i in items[key] if i.role is LabelRole.TEXT for no in (i.line, *(n.no for n in i.more))}
        for no, hole in _holes(section):
            if key == "exp_launch_command" and no in taken:
                continue  # checked below, as shell code
            if no not in taken and hole.lower() in defined:
                continue
            if key == "exp_max_time" and timed:
                continue
            if no in talk and no not in taken and value is not None and key != "exp_purpose":
                message = f"${{{hole}}} in the explanation was never replaced"
                findings.append(warning(name, no, "placeholder", message))
                continue
            findings.append(_found(name, no, hole, "write the value itself; no shell reads this text"))
    return findings + _in_shell(name, found.get("exp_launch_command"), notes) + _in_notes(name, sections, defined)


def _holes(section: Section) -> Iterator[tuple[int, str]]:
    yield from ((section.line, m[1]) for m in _HOLE.finditer(section.head))
    yield from ((n.no, m[1]) for n in section.body for m in _HOLE.finditer(n.text))


def _found(name: str, line: int, hole: str, hint: str) -> Finding:
    return error(name, line, "placeholder", f"the placeholder ${{{hole}}} was never replaced", hint)


def _in_shell(name: str, command: SectionValue | None, notes: Notes) -> list[Finding]:
    if command is None:
        return []
    known = _EVERY_SHELL | set(notes.env) | set(notes.requires_env)
    known |= set(_assigned(command.text)) | {n for text in notes.prepare for n in _assigned(text)}
    findings = []
    for n, text in enumerate(command.text.split("\n")):
        for match in _HOLE.finditer(text):
            if (match[1] in known and match[1].lower() not in TEMPLATE_NAMES) or match[1] in _assigned(
                command.text
            ):
                continue
            no = command.lines[min(n, len(command.lines) - 1)]
            hint = f"write the value, or declare `requires_env: {match[1]}` in the notes"
            findings.append(_found(name, no, match[1], hint))
    return findings


def _assigned(command: str) -> list[str]:
    return re.findall(
        r"(?:^|[\s;&|(])(?:export\s+|local\s+|read\s+(?:-\w+\s+)*|for\s+)?([A-Za-z_]\w*)(?==|\s+in\s)",
        command,
    )


def _in_notes(name: str, sections: Mapping[str, Section], defined: set[str]) -> list[Finding]:
    section = sections.get("notes")
    if section is None:
        return []
    return [
        _found(name, no, hole, "write the value itself")
        for no, hole in _holes(section)
        if hole.lower() in TEMPLATE_NAMES - defined and not re.fullmatch(r"[a-z]|runner", hole)
    ]
