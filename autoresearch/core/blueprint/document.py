"""The first stage: the bytes of a blueprint become a Document of sections with their lines.

A section begins in any of the ways that published blueprints use (AgentJet's classic and swarm
skills, Alpha-RL-Research): `## [exp_purpose]`, `# exp_purpose`, `**[exp_purpose]**`,
`1. [exp_purpose] Experiment purpose (text):`, `[exp_purpose]: ...`, `exp_purpose: ...`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import dropwhile

from autoresearch.core.blueprint.finding import Finding, error, warning
from autoresearch.core.blueprint.model import SECTIONS
from autoresearch.core.blueprint.note_keys import LIST_KEYS, TEXT_KEYS
from autoresearch.core.text.regex import later

MAX_BYTES = 1 << 20
_NEW = "`autoresearch blueprint new FILE.md --purpose WHY --command COMMAND` makes one"
NOTES = "notes"
OTHER = "other"  # an unknown heading: kept as prose

_FENCE = later(r"^(?P<indent>\s*)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_HEADING = later(r"^ {0,3}(?P<hash>#{1,6})(?P<text>(?:\s.*|\[.*|【.*|exp[_-].*|))$", re.IGNORECASE)
_RULE = later(r"^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,}|={3,})\s*$")
_TAG = later(
    r"^(?P<bullet>[-*+]\s+)?(?P<bold>(?:\*\*|__|`){0,3})(?P<number>\d{1,2}\s*[.)、．]\s*)?(?P<bold2>(?:\*\*|__|`){0,3})"
    r"(?:(?P<open>[\[【［])\s*`?(?P<inside>exp(?:[ _-]+[a-z]+)+)`?\s*[\]】］]|(?P<bare>exp(?:[_-][a-z]+)+))"
    r"(?P<rest>.*)$",
    re.IGNORECASE,
)
_NOTES_TITLE = later(
    r"^(?:\d{1,2}\s*[.)、．]\s*)?\[?(?:exp_)?"
    r"(?:(?:(?:other|additional|further|extra)[ _])?notes?\b|(?:additional|other) (?:information|remarks)\b"
    r"|(?:其他|其它|附加|补充|额外)(?:说明|备注|信息|事项)|备注|注意事项)\]?\s*(?P<rest>.*)$",
    re.IGNORECASE,
)
# `- trainer: verl`, with its bullet and emphasis or without
NOTE_LINE = later(
    r"^(?P<indent>\s*)(?P<bullet>[-*+•]\s+)?(?:\*\*|`)?(?P<key>[A-Za-z][A-Za-z_ -]{1,20}?)(?:\*\*|`)?\s?"
    r"(?:：|:(?:\*\*)?(?=\s|$))\s*(?P<rest>.*)$"
)
_KEYS_ONLY = (*TEXT_KEYS, "prepare", "cleanup", "env", "requires_env")  # the other keys are also words of prose


class LabelRole(StrEnum):
    """The kind of text that an item's label announces."""

    VALUE = "value"  # a typed key: dir, path, command, time, purpose
    CONTENT = "content"  # content n
    PLAIN = "plain"  # a paragraph, or an item without a known label
    DEFAULT = "default"  # `default:`, left over from the published template: not a value
    TEXT = "text"  # description, hint, warning, note, example: for readers


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line. `block` is 0 for prose and the ordinal of the fenced block for code.

    Code has the indentation of its fence removed, and `indent` is that of the fence. Prose is unchanged.
    """

    no: int
    text: str
    indent: int
    block: int = 0
    info: str = ""  # the language named by the fence, in lower case


@dataclass(frozen=True, slots=True)
class SectionItem:
    """One item of a section. `first` is the text after the label on the same line, `more` the lines below."""

    role: LabelRole
    label: str
    line: int
    indent: int  # of its bullet; -1 for a paragraph
    first: str = ""
    more: tuple[SourceLine, ...] = ()

    @property
    def code(self) -> list[list[SourceLine]]:
        """The fenced blocks of the item, each as its lines."""
        blocks: dict[int, list[SourceLine]] = {}
        for line in self.more:
            if line.block:
                blocks.setdefault(line.block, []).append(line)
        return list(blocks.values())

    @property
    def prose(self) -> list[tuple[int, str]]:
        """(line number, text) of every line outside code blocks, dedented, without the label."""
        rest = [n for n in self.more if not n.block]
        dedented = without_indent([n.text for n in rest])
        head = [(self.line, self.first)] if self.first else []
        return head + [(n.no, text) for n, text in zip(rest, dedented, strict=True)]

    @property
    def text(self) -> str:
        """Prose and code as one text, for readers."""
        lines = [self.first] if self.first else []
        return "\n".join([*lines, *(n.text.strip() if not n.block else n.text for n in self.more)]).strip()


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the lines below it; `head` is the text after the tag in the heading itself."""

    key: str
    line: int
    title: str
    head: str
    level: int
    body: tuple[SourceLine, ...] = ()
    items: tuple[SectionItem, ...] = ()  # of one of the seven sections only, see `core.blueprint.items`


@dataclass(frozen=True, slots=True)
class Document:
    """A blueprint file as title and sections, not interpreted."""

    title: str = ""
    sections: tuple[Section, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def named(self) -> dict[str, Section]:
        """The first section of each key."""
        return {section.key: section for section in reversed(self.sections)}


def read_document(data: bytes) -> Document:
    """Split a blueprint file into sections, with findings about its structure.

    A file that is larger than 1 MiB, empty, not UTF-8 or not plain text has one error and no sections.
    """
    if (refusal := _unreadable(data)) is not None:
        return Document(findings=(refusal,))
    texts = data.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    lines, findings = _source_lines(_unwrapped(texts))
    title, tagged = _split(lines)
    known = (*SECTIONS, NOTES, OTHER)
    findings += [_unknown(section) for section in tagged if section.key not in known]
    sections = [section if section.key in known else replace(section, key=OTHER) for section in tagged]
    findings += _occurrences(sections)
    if any(section.key in SECTIONS for section in sections):
        findings += _misplaced_keys(sections)
    return Document(title, tuple(sections), tuple(findings))


def _unreadable(data: bytes) -> Finding | None:
    if len(data) > MAX_BYTES:
        size = f"{len(data) / (1 << 20):.1f} MiB"
        return error(0, "too_large", f"the blueprint has {size}; the limit is 1 MiB", "keep data out of it")
    if not data.strip(b" \t\r\n\xef\xbb\xbf"):
        return error(0, "empty", "the blueprint is empty", _NEW)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as bad:
        line = data.count(b"\n", 0, bad.start) + 1
        what = f"byte {bad.start} (0x{data[bad.start]:02x}) is not UTF-8"
        kind = "the blueprint is a binary file" if b"\0" in data else "the blueprint is not UTF-8 text"
        return error(line, "not_utf8", f"{kind}: {what}", "save it as UTF-8")
    control = re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)", text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        what = f"the blueprint is not plain text: it holds the control character 0x{ord(control.group()):02x}"
        return error(line, "binary", what)
    return None


def _split(source_lines: Sequence[SourceLine]) -> tuple[str, list[Section]]:
    """The title and the sections; the key of an unknown section is still as written."""
    hashed = any(not n.block and _HEADING.match(n.text) and _tag(n.text, hashed=True) for n in source_lines)
    title, headings, bodies = "", list[Section](), list[list[SourceLine]]()
    for n, source_line in enumerate(source_lines):
        current = headings[-1] if headings else None
        opened = (
            None if source_line.block else _opens(source_line, current, hashed) or _bare_notes(source_lines, n, current)
        )
        if opened is not None:
            headings.append(opened)
            bodies.append([])
        elif current is not None:
            bodies[-1].append(source_line)
        elif not title and not source_line.block and (heading := _HEADING.match(source_line.text)):
            title = heading["text"].strip()
    return title, [
        replace(section, body=tuple(dropwhile(_underlines, body)))
        for section, body in zip(headings, bodies, strict=True)
    ]


def _underlines(source_line: SourceLine) -> bool:
    """Whether a line at the beginning of a section is the underline of its heading."""
    return not source_line.block and bool(_RULE.match(source_line.text))


def _unwrapped(lines: list[str]) -> list[str]:
    """Remove an enclosing ```markdown fence and common indentation."""
    full = [n for n, text in enumerate(lines) if text.strip()]
    quoted = len(full) > 2 and re.fullmatch(r"\s*(?:`{3,}|~{3,})\s*(?:[Mm]arkdown|md)\s*", lines[full[0]])
    if quoted and re.fullmatch(r"\s*(?:`{3,}|~{3,})\s*", lines[full[-1]]):
        lines = ["" if n in (full[0], full[-1]) else text for n, text in enumerate(lines)]
        full = full[1:-1]
    margin = min((_indent(lines[n]) for n in full), default=0)
    return [text[margin:] if text[:margin].isspace() else text for text in lines] if margin else lines


def _source_lines(texts: Sequence[str]) -> tuple[list[SourceLine], list[Finding]]:
    """The lines, those of code marked as such; an error if the last code block is not closed.

    `<!-- ... -->` in prose is blanked out; headings and code stay as they are, and so does what is never closed.
    """
    lines: list[SourceLine] = []
    fence, info, indent, block, opened, inside = "", "", 0, 0, 0, False
    closed = max((no for no, text in enumerate(texts, 1) if "-->" in text), default=0)
    for no, text in enumerate(texts, 1):
        mark = None if inside else _FENCE.match(text)
        if mark and not fence:
            fence, block, opened = mark["fence"], block + 1, no
            info, indent = mark["info"].strip().lower().partition(" ")[0], len(mark["indent"])
        elif mark and mark["fence"].startswith(fence) and not mark["info"].strip():
            fence = ""
        elif fence:
            cut = min(indent, len(text) - len(text.lstrip()))
            lines.append(SourceLine(no, text[cut:], indent, block, info))
        else:
            if not _HEADING.match(text):
                text, inside = _uncommented(text, inside=inside, goes_on=no < closed)
            lines.append(SourceLine(no, text, _indent(text)))
    message = f"the code block that begins here is never closed with {fence}"
    return lines, [error(opened, "unclosed_fence", message)] if fence else []


def _uncommented(text: str, *, inside: bool, goes_on: bool) -> tuple[str, bool]:
    """The line without comments, and whether one is open behind it; `goes_on`: one that is open is closed below."""
    kept = ""
    while inside or "<!--" in text:
        before, _, text = ("", "", text) if inside else text.partition("<!--")
        _, closing, behind = text.partition("-->")
        if not closing and not goes_on:
            return f"{kept}{before}{'' if inside else '<!--'}{text}", False
        kept, inside, text = kept + before, not closing, behind
        if inside:
            return kept, True
    return kept + text, False


def _indent(text: str) -> int:
    plain = text.expandtabs(4)
    return len(plain) - len(plain.lstrip())


def _opens(source_line: SourceLine, open_section: Section | None, hashed: bool) -> Section | None:
    """The section that this line begins; None if it begins none."""
    heading = _HEADING.match(source_line.text)
    level = len(heading["hash"]) if heading else 7
    if tag := _tag(source_line.text, hashed=hashed):
        key, rest = tag
        return Section(key, source_line.no, source_line.text.strip(), rest, level)
    title = _plain(heading["text"] if heading else source_line.text)
    titled = _NOTES_TITLE.match(title)
    numbered = re.match(r"\s{0,3}(?:\*\*)?\d{1,2}\s*[.)、．]", source_line.text) or source_line.text.startswith("**")
    below = level <= max(open_section.level, 2) if open_section else level == 2  # `# Notes on X` at the top is a title
    if titled and below and (heading or (numbered and not hashed)):
        rest = titled["rest"].lstrip(" :：*_")
        return Section(NOTES, source_line.no, title, rest, level)
    if heading and open_section and _ends(level, open_section):
        return Section(OTHER, source_line.no, title, "", level)
    return None


def _bare_notes(source_lines: Sequence[SourceLine], at: int, open_section: Section | None) -> Section | None:
    """The notes section begun by a line `Other notes:` followed by a key of the notes; None for other lines."""
    title = _plain(source_lines[at].text).rstrip("*_ ")
    titled = _NOTES_TITLE.match(title) if title.endswith((":", "：")) and source_lines[at].indent < 4 else None
    if titled is None or titled["rest"].rstrip(":：").strip("*_ ()（）").lower() not in ("", "optional", "可选"):
        return None
    below = next((n for n in source_lines[at + 1 :] if n.text.strip()), None)
    if below is None or below.block or not _declared_key(below.text):
        return None
    return Section(NOTES, source_lines[at].no, title, "", open_section.level if open_section else 2)


def _ends(level: int, open_section: Section) -> bool:
    """Whether an unknown heading ends the section; in a launch command `# ...` is a shell comment."""
    if open_section.key == "exp_launch_command" and level < open_section.level <= 6:
        return False
    return level <= open_section.level


def _tag(text: str, *, hashed: bool) -> tuple[str, str] | None:
    """(section key, text after it) of a line that begins a section; None for any other line."""
    heading = _HEADING.match(text)
    plain = (heading["text"] if heading else text).replace("\\[", "[").replace("\\]", "]").replace("\\_", "_")
    if _indent(text) > 3:
        return None
    match = _TAG.match(plain.strip())
    if match is None:
        return None
    rest = match["rest"].strip()
    colon = not rest.strip("*_` ") or rest.lstrip("*_` ")[0] in ":："
    bold = (match["bold"] + match["bold2"]).strip("`")
    number, bracket = match["number"], match["inside"]
    marked = bool(bracket and (bold or number))
    begins = bool(bracket and not match["bullet"] and "`" not in match["bold"])  # `[exp_max_time] 1 hour in all`
    loose = not hashed and (marked or begins or (colon or rest[:1] in "(（") if bracket else colon)
    if not (heading or marked or loose):
        return None
    key = re.sub(r"[ _-]+", "_", (bracket or match["bare"]).lower())
    rest = re.sub(r"^[\s*_`]*[:：]?[\s*_]*", "", rest).rstrip("#").rstrip() if heading else rest
    return key, re.sub(r"^[*_`]*\s*[:：]?\s*(?:\*\*|__)?\s*", "", rest).strip()


def without_indent(lines: Sequence[str]) -> list[str]:
    """Lines without the indentation that all of them have."""
    if not any(line[:1] in (" ", "\t") for line in lines):
        return list(lines)
    import textwrap

    return textwrap.dedent("\n".join(lines)).split("\n")


def _plain(text: str) -> str:
    return text.strip().strip("*_ ").strip()


def _unknown(section: Section) -> Finding:
    import difflib

    close = difflib.get_close_matches(section.key, SECTIONS, n=1)
    hint = f"did you mean [{close[0]}]?" if close else f"the sections are {', '.join(SECTIONS)}"
    return warning(section.line, "unknown_section", f"[{section.key}] is not a section of a blueprint", hint)


def _occurrences(sections: Sequence[Section]) -> list[Finding]:
    """An error, with both lines, for each section that occurs twice, and one if there is no section at all."""
    findings: list[Finding] = []
    first: dict[str, int] = {}
    for section in sections:
        if section.key in first:
            message = f"[{section.key}] stands in lines {first[section.key]} and {section.line}"
            findings.append(error(section.line, "section_twice", message, "keep one of them"))
        elif section.key in SECTIONS:
            first[section.key] = section.line
    if not first:
        hint = f"{_NEW}; `autoresearch config schema blueprint` says what it holds"
        findings.append(error(0, "no_section", "this file holds none of the seven sections", hint))
    return findings


def _misplaced_keys(sections: Sequence[Section]) -> list[Finding]:
    """A warning for each key of the notes that is written in another section."""
    findings: list[Finding] = []
    for section in sections:
        for line in section.body:
            key = "" if line.block or section.key == NOTES else _declared_key(line.text)
            if key in _KEYS_ONLY and (section.key, key) != ("exp_max_time", "first_step"):  # a label in that section
                message = f"`{key}:` is a key of the notes; in {section.title[:60]!r} it is not read"
                findings.append(warning(line.no, "misplaced_note", message, "move it to `## Notes`"))
    return findings


def _declared_key(line: str) -> str:
    """The key of the notes that a bulleted line declares by its exact name; "" for any other line."""
    item = NOTE_LINE.match(line)
    if item is None or not item["bullet"] or len(item["indent"]) > 3:
        return ""
    return item["key"] if item["key"] in (*TEXT_KEYS, *LIST_KEYS) else ""
