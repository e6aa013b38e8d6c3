"""Blueprint: markdown in seven sections that states why and how to run one experiment.

The format is AgentJet's (skills auto-research-blueprint-execute-classic and -swarm) and that of
Alpha-RL-Research, whose blueprints fill the same sections with typed keys. It is parsed here into one
value; of its texts only commands (`launch_command`, `notes.prepare`, `notes.cleanup` ...) are ever run by a shell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoresearch.core.blueprint.command import command_in
from autoresearch.core.blueprint.document import (
    NOTES,
    OTHER,
    SECTIONS,
    BlueprintInvalid,
    Document,
    Section,
    decode,
    error,
    split,
    warning,
)
from autoresearch.core.blueprint.finding import Finding, errors
from autoresearch.core.blueprint.items import LabelRole, SectionItem, items
from autoresearch.core.blueprint.note_entries import misplaced_keys
from autoresearch.core.blueprint.notes import Notes, read_notes
from autoresearch.core.blueprint.paths import path_in
from autoresearch.core.blueprint.placeholders import unreplaced
from autoresearch.core.blueprint.time_limits import Times, times
from autoresearch.core.blueprint.values import SectionValue, Unclear, means_nothing, purpose
from autoresearch.core.run.limits import FIRST_STEP_S, MAX_TIME_S, Limits
from autoresearch.core.text.naming import SLUG_LEAST, slugify

__all__ = ["RESULT_ROOT", "SECTIONS", "Blueprint", "BlueprintInvalid", "Notes", "parse_blueprint"]

MAX_COMMAND_BYTES = 131072  # Linux: the longest single argument of a program (MAX_ARG_STRLEN)
RESULT_ROOT = "./auto_agent/exp_results/"
_GENERIC_TITLE = re.compile(
    r"^(?:experiment(?:al)?\s+)?blueprint\b[\s#\d]*(?:[-:：—–_|]+\s*)?|^实验蓝图\s*(?:[-:：—–_|]+\s*)?",
    re.IGNORECASE,
)
_PATHS = ("exp_codebase_dir", "exp_venv_exe", "exp_yaml_path", "exp_result_dir")
_DEFAULTS = {
    "exp_purpose": "no purpose is recorded",
    "exp_codebase_dir": "./",
    "exp_venv_exe": "<codebase>/venv, then .venv, then the interpreter of this program",
    "exp_yaml_path": "no recipe",
    "exp_max_time": "24 hours in all, 20 minutes to the first step",
}


@dataclass(frozen=True, slots=True)
class Blueprint:
    """One experiment as its author wrote it: paths are neither resolved nor checked. Times in seconds."""

    name: str  # the file's name, for messages
    title: str
    slug: str
    purpose: str
    codebase_dir: str
    venv_exe: str  # "" = look for one
    yaml_path: str  # "" = there is no recipe
    launch_command: str
    result_dir: str
    max_time_s: float = MAX_TIME_S
    first_step_s: float = FIRST_STEP_S
    max_time_given: bool = False
    first_step_given: bool = False
    notes: Notes = field(default_factory=Notes)
    lines: Mapping[str, int] = field(
        default_factory=dict
    )  # section -> line of its value, else of its heading
    findings: tuple[Finding, ...] = ()  # warnings

    @property
    def limits(self) -> Limits:
        """The two limits of the blueprint, and autoresearch's defaults for the others."""
        return Limits(first_step_s=self.first_step_s, max_s=self.max_time_s)


def parse_blueprint(data: bytes, name: str) -> Blueprint:
    """Parse a blueprint file.

    Raises BlueprintInvalid, whose message is the first error with its line and whose `findings` are all errors and
    warnings: for a file that is not text, a missing command, a section that occurs twice, an unreplaced placeholder,
    or a duration that no run can have, among others.
    """
    document = split(decode(data, name), name)
    reading = _BlueprintReading(name, document)
    if not any(f.code == "no_section" for f in document.findings):
        reading.read()
    reading.findings.sort(key=lambda f: f.line)
    if errors(reading.findings):
        raise BlueprintInvalid(reading.findings, reading.result_dir())
    return reading.blueprint()


class _BlueprintReading:
    """One pass over a document; collects values and findings, then becomes a Blueprint."""

    def __init__(self, name: str, document: Document) -> None:
        self.name = name
        self.title = _GENERIC_TITLE.sub("", document.title) or document.title
        self.findings: list[Finding] = list(document.findings)
        self.sections: dict[str, Section] = {}
        for section in document.sections:
            self.sections.setdefault(section.key, section)
        self.all = document.sections
        self.prose = [s for s in document.sections if s.key in (NOTES, OTHER)]
        self.items = {key: items(s) for key, s in self.sections.items() if key in SECTIONS}
        self.found: dict[str, SectionValue] = {}
        self.times = Times()
        self.notes = Notes()

    def read(self) -> None:
        notes = [s for s in self.prose if s.key == NOTES]
        self.notes, remarks = read_notes(notes, _prose(self.prose), self.name)
        self.findings += remarks + misplaced_keys(self.all, self.name)
        self._purpose()
        for key in _PATHS:
            self._path(key)
        self._command()
        if section := self.sections.get("exp_max_time"):
            self.times, remarks = times(self.items["exp_max_time"], self.name, section.line)
            self.findings += remarks
        self.findings += unreplaced(
            self.name, self.sections, self.items, self.found, self.notes, timed=self.times.max_s is not None
        )
        for key in SECTIONS:
            self._explained(key)

    def _purpose(self) -> None:
        if (section := self.sections.get("exp_purpose")) is None:
            return
        if value := purpose(self.items["exp_purpose"]):
            self.found["exp_purpose"] = value
        else:
            message = "[exp_purpose] says nothing"
            hint = "say what the experiment is for and how it differs from the others"
            self.findings.append(warning(self.name, section.line, "no_explanation", message, hint))

    def _path(self, key: str) -> None:
        if key not in self.sections or (value := path_in(self.items[key])) is None:
            return
        for line, code, message in value.remarks:
            hint = "put the path in backquotes if that belongs to it"
            self.findings.append(warning(self.name, line, code, message, hint))
        if "\n" in value.text:
            message = f"the path in [{key}] goes over {value.text.count(chr(10)) + 1} lines"
            self.findings.append(error(self.name, value.line, "path_of_lines", message, "keep one line"))
        self.found[key] = value

    def _command(self) -> None:
        section = self.sections.get("exp_launch_command")
        value = command_in(self.items["exp_launch_command"]) if section else None
        if isinstance(value, SectionValue):
            self.found["exp_launch_command"] = value
            if len(value.text.encode()) >= MAX_COMMAND_BYTES:
                message = f"the launch command has {len(value.text.encode())} bytes, more than a shell takes"
                self.findings.append(error(self.name, value.line, "long_command", message, "use a script"))
            return
        line = section.line if section else 0
        if isinstance(value, Unclear):
            self.findings.append(error(self.name, value.line, "many_commands", value.message, value.hint))
            return
        what = "[exp_launch_command] holds no command" if section else "there is no [exp_launch_command]"
        hint = "write it as `- command: python -m ...` or in a fenced code block"
        self.findings.append(error(self.name, line, "missing_command", what, hint))

    def _explained(self, key: str) -> None:
        """Warn if a section is missing or has no explanation: each should state why (R7 of the format)."""
        section = self.sections.get(key)
        if section is None:
            if key in _DEFAULTS:
                message = f"there is no [{key}]; taken: {_DEFAULTS[key]}"
                self.findings.append(warning(self.name, 0, "section_missing", message))
            elif key == "exp_result_dir":
                message = f"there is no [{key}]; taken: {RESULT_ROOT}{self._slug()}/"
                self.findings.append(warning(self.name, 0, "section_missing", message))
        elif key != "exp_purpose" and not self._has_words(key):
            message = (
                f"[{key}] holds no explanation, only a value" if self.items[key] else f"[{key}] is empty"
            )
            hint = "add `- description:` so that a reader knows why"
            self.findings.append(warning(self.name, section.line, "no_explanation", message, hint))

    def _has_words(self, key: str) -> bool:
        value = self.found.get(key)
        if value and value.explained:
            return True
        if key == "exp_max_time":
            return any(
                re.search(r"[^\W\d_]{3,}.*[^\W\d_]{3,}|[\u4e00-\u9fff]{4,}", i.text) for i in self.items[key]
            )
        taken = set(value.lines) if value else set()
        return any(self._says(i, taken) for i in self.items[key])

    def _says(self, item: SectionItem, taken: set[int]) -> bool:
        if item.role is LabelRole.TEXT or len(re.findall(r"\w+", item.label)) > 1:
            return bool(item.text)
        return any(no not in taken and re.search(r"[^\W\d_]{2,}", text) for no, text in item.prose)

    def _slug(self) -> str:
        stem = re.sub(r"\.(?:md|markdown|txt)$", "", self.name.rsplit("/", 1)[-1], flags=re.IGNORECASE)
        if slug := slugify(self.notes.slug, fallback=""):
            return slug
        title = _GENERIC_TITLE.sub("", self.title)  # a bare "Blueprint" is no title
        for text in (title, self._text("exp_purpose")):
            if len(slug := slugify(text, fallback="")) >= SLUG_LEAST:
                return slug
        return slugify(stem)

    def result_dir(self) -> str:
        """The directory as written; "" if none is given or the section has an error."""
        section, lines = self.sections.get("exp_result_dir"), [found.line for found in errors(self.findings)]
        own = {section.line, *(line.no for line in section.body)} if section else set()
        return "" if own.intersection(lines) else self._text("exp_result_dir")

    def _text(self, key: str) -> str:
        value = self.found.get(key)
        return value.text if value and not (key in _PATHS and means_nothing(value.text)) else ""

    def blueprint(self) -> Blueprint:
        venv = self._text("exp_venv_exe")
        lines = {key: s.line for key, s in self.sections.items() if key in SECTIONS or key == NOTES}
        lines |= {key: value.line for key, value in self.found.items()}
        return Blueprint(
            name=self.name,
            title=self.title,
            slug=self._slug(),
            purpose=self._text("exp_purpose"),
            codebase_dir=self._text("exp_codebase_dir") or "./",
            venv_exe="" if re.match(r"(?:auto|default)\b", venv, re.IGNORECASE) else venv,
            yaml_path=self._text("exp_yaml_path"),
            launch_command=self._text("exp_launch_command"),
            result_dir=self._text("exp_result_dir") or f"{RESULT_ROOT}{self._slug()}/",
            max_time_s=MAX_TIME_S if self.times.max_s is None else self.times.max_s,
            first_step_s=FIRST_STEP_S if self.times.first_step_s is None else self.times.first_step_s,
            max_time_given=self.times.max_s is not None,
            first_step_given=self.times.first_step_s is not None,
            notes=self.notes,
            lines=lines | ({"exp_max_time": self.times.max_line} if self.times.max_line else {}),
            findings=tuple(self.findings),
        )


def _prose(sections: Sequence[Section]) -> str:
    """Notes and unknown sections as one text, headings included."""
    parts = []
    for section in sections:
        body = [n.text for n in section.body]
        head = [f"{section.title}:"] if section.key == OTHER else [section.head] if section.head else []
        parts.append("\n".join([*head, *body]).strip("\n"))
    return "\n\n".join(part for part in parts if part.strip())
