"""From the bytes of a blueprint to a Blueprint: each stage takes what the one before it returned.

bytes -> Document of sections -> their items -> Notes, values of the sections, time limits -> checks -> Blueprint
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from autoresearch.core.blueprint.document import NOTES, Document, LabelRole, Section, SectionItem, read_document
from autoresearch.core.blueprint.finding import Finding, errors, warning
from autoresearch.core.blueprint.items import with_items
from autoresearch.core.blueprint.model import RESULT_ROOT, SECTION_KINDS, SECTIONS, Blueprint, Notes
from autoresearch.core.blueprint.notes import read_notes
from autoresearch.core.blueprint.placeholders import unreplaced
from autoresearch.core.blueprint.time_limits import read_time_limits
from autoresearch.core.blueprint.values import SectionValue, read_values
from autoresearch.core.run.limits import FIRST_STEP_S, MAX_TIME_S
from autoresearch.core.text.session_and_branch_names import SLUG_LEAST, slugify
from autoresearch.errors import BlueprintError

_GENERIC_TITLE = re.compile(
    r"^(?:experiment(?:al)?\s+)?blueprint\b[\s#\d]*(?:[-:：—–_|]+\s*)?|^实验蓝图\s*(?:[-:：—–_|]+\s*)?",
    re.IGNORECASE,
)


class BlueprintInvalid(BlueprintError):  # noqa: N818 - what it is about, as EnvironmentUnusable
    """A blueprint with errors: the message is the first one, `findings` has all of them and the warnings."""

    def __init__(self, findings: Sequence[Finding], result_dir: str = "") -> None:
        first, *others = errors(findings)
        more = f" (and {len(others)} more)" if others else ""
        super().__init__(f"{first.location}{first.message}{more}", hint=first.hint)
        self.findings: tuple[Finding, ...] = tuple(findings)
        self.result_dir = result_dir  # as written; "" if it is not given or not valid


def parse_blueprint(data: bytes, name: str) -> Blueprint:
    """Parse a blueprint file.

    Raises BlueprintInvalid, whose message is the first error with its line and whose `findings` are all errors and
    warnings: for a file that is not text, a missing command, a section that occurs twice, an unreplaced placeholder,
    or a duration that no run can have, among others.
    """
    document = with_items(read_document(data))
    if not any(section.key in SECTIONS for section in document.sections):
        raise BlueprintInvalid(_located(document.findings, name))
    notes, note_findings = read_notes(document)
    values, value_findings = read_values(document)
    times, time_findings = read_time_limits(document)
    texts = {key: value.text for key, value in values.items()}
    title = _GENERIC_TITLE.sub("", document.title) or document.title
    slug = _slug(name, title, texts.get("exp_purpose", ""), notes)
    findings = [*document.findings, *note_findings, *value_findings, *time_findings]
    findings += unreplaced(document, values, notes, timed=times.max_s is not None)
    findings = _located([*findings, *_unexplained(document, values, slug)], name)
    if wrong := {finding.line for finding in errors(findings)}:
        section = document.named.get("exp_result_dir")
        lines = {section.line, *(line.no for line in section.body)} if section else set[int]()
        raise BlueprintInvalid(findings, "" if lines & wrong else texts.get("exp_result_dir", ""))
    at = {key: section.line for key, section in document.named.items() if key in (*SECTIONS, NOTES)}
    at |= {key: value.line for key, value in values.items()}
    venv = texts.get("exp_venv_exe", "")
    return Blueprint(
        name=name,
        title=title,
        slug=slug,
        purpose=texts.get("exp_purpose", ""),
        codebase_dir=texts.get("exp_codebase_dir") or "./",
        venv_exe="" if re.match(r"(?:auto|default)\b", venv, re.IGNORECASE) else venv,
        yaml_path=texts.get("exp_yaml_path", ""),
        launch_command=texts["exp_launch_command"],
        result_dir=texts.get("exp_result_dir") or f"{RESULT_ROOT}{slug}/",
        max_time_s=MAX_TIME_S if times.max_s is None else times.max_s,
        first_step_s=FIRST_STEP_S if times.first_step_s is None else times.first_step_s,
        max_time_given=times.max_s is not None,
        first_step_given=times.first_step_s is not None,
        campaign_time_s=times.campaign_s,
        notes=notes,
        lines=at | ({"exp_max_time": times.max_line} if times.max_line else {}),
        findings=tuple(findings),
    )


def _located(findings: Sequence[Finding], name: str) -> list[Finding]:
    return [replace(f, where=name) for f in sorted(findings, key=lambda f: f.line)]


def _slug(name: str, title: str, purpose: str, notes: Notes) -> str:
    """The slug of the notes, else one made of the title, of the purpose, or of the file's name."""
    if slug := slugify(notes.slug, fallback=""):
        return slug
    for text in (_GENERIC_TITLE.sub("", title), purpose):  # a bare "Blueprint" is no title
        if len(slug := slugify(text, fallback="")) >= SLUG_LEAST:
            return slug
    return slugify(re.sub(r"\.(?:md|markdown|txt)$", "", name.rsplit("/", 1)[-1], flags=re.IGNORECASE))


def _unexplained(document: Document, values: Mapping[str, SectionValue], slug: str) -> Iterator[Finding]:
    """Warnings about sections that are missing or have no explanation: each should state why (R7 of the format)."""
    for kind in SECTION_KINDS:
        key, section = kind.name, document.named.get(kind.name)
        if section is None:
            if key != "exp_launch_command":
                default = f"; taken: {kind.default.replace('<slug>', slug)}" if kind.default else ""
                yield warning(0, "section_missing", f"there is no [{key}]{default}")
        elif key != "exp_purpose" and not _is_explained(section, values.get(key)):
            message = f"[{key}] holds no explanation, only a value" if section.items else f"[{key}] is empty"
            hint = "add `- description:` so that a reader knows why"
            yield warning(section.line, "no_explanation", message, hint)


def _is_explained(section: Section, value: SectionValue | None) -> bool:
    if value and value.explained:
        return True
    if section.key == "exp_max_time":
        words = re.compile(r"[^\W\d_]{3,}.*[^\W\d_]{3,}|[\u4e00-\u9fff]{4,}")
        return any(words.search(item.text) for item in section.items)
    taken = set(value.lines) if value else set()
    return any(_explains(item, taken) for item in section.items)


def _explains(item: SectionItem, taken: set[int]) -> bool:
    """Whether an item has words besides the lines of the value."""
    if item.role is LabelRole.TEXT or len(re.findall(r"\w+", item.label)) > 1:
        return bool(item.text)
    return any(no not in taken and re.search(r"[^\W\d_]{2,}", text) for no, text in item.prose)
