"""The first stage: the bytes of a blueprint become a Document of sections with their items.

A section begins in any of the ways that published blueprints use (AgentJet's classic and swarm
skills, Alpha-RL-Research): `## [exp_purpose]`, `# exp_purpose`, `**[exp_purpose]**`,
`1. [exp_purpose] Experiment purpose (text):`, `[exp_purpose]: ...`, `exp_purpose: ...`.
Its items are `- description: ...`, `- dir: ...`, `- content 1: ...`, paragraphs and code blocks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import dropwhile

from autoresearch.core.blueprint.finding import Finding, error, warning
from autoresearch.core.blueprint.model import LIST_KEYS, SECTION_KINDS, SECTIONS, TEXT_KEYS, note_key
from autoresearch.core.text.regex import later

MAX_BYTES = 1 << 20
NEW_BLUEPRINT = "`autoresearch blueprint new FILE.md --purpose WHY --command COMMAND` makes one"
NOTES = "notes"
OTHER = "other"  # an unknown heading: kept as prose

_FENCE = later(r"^(?P<indent>\s*)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_HEADING = later(r"^ {0,3}(?P<hash>#{1,6})(?P<text>(?:\s.*|\[.*|【.*|exp[_-].*|))$", re.IGNORECASE)
_RULE = later(r"^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,}|={3,})\s*$")
_TAG = later(
    r"^ {0,3}(?P<hash>#{1,6}\s*)?(?P<mark>(?:[-*+]\s+|\*\*|__|`|\d{1,2}\s*[.)、．]\s*){0,4})"
    r"(?:[\[【［]\s*`?(?P<inside>exp(?:[ _-]+[a-z]+)+)`?\s*[\]】］]|(?P<bare>exp(?:[_-][a-z]+)+))(?P<rest>.*)$",
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
_COMMENT = later(  # or a heading or code block, whose text stays
    r"(?ms)^(?:(?P<kept> {0,3}#[^\n]*$)|[ \t]*(?P<fence>`{3,}|~{3,})[^`\n]*$.*?(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z))"
    r"|<!--.*?-->"
)
_BULLET = later(r"^(?P<indent>\s*)(?:[-*+•]|\d{1,2}[.)、])(?:\s+|$)(?P<rest>.*)$")
_LABEL = later(
    r"^(?P<mark>\*\*|__|`)?(?P<label>[^\W\d][\w -]{0,39}?)(?: ?\d{1,2})?(?:\*\*|__|`)? ?[:：](?!//)"
    r"(?(mark)(?:\*\*|__)?)\s*(?P<rest>.*)$"
)
_CONTENT = {"content", "contents", "内容"}
_FOR_READERS = {
    "description", "desc", "hint", "hints", "warning", "note", "notes", "example", "examples", "remark", "default",
    "描述", "说明", "提示", "警告", "注意", "备注", "例如", "默认",
}  # fmt: skip
_VALUE_WORDS = {kind.name: frozenset([kind.name, *kind.words.split()]) for kind in SECTION_KINDS}


class LabelRole(StrEnum):
    """The kind of text that an item's label announces."""

    VALUE = "value"  # a typed key: dir, path, command, time, purpose
    PLAIN = "plain"  # a paragraph, or an item without a known label
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
    items: tuple[SectionItem, ...] = ()  # of the notes and the seven sections only


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
    text = "\n".join(_unwrapped(data.decode("utf-8-sig").replace("\r\n", "\n").split("\n")))
    end = text.rfind("-->") + 3  # one that is never closed stays as it is
    text = _COMMENT.sub(_uncommented, text[:end]) + text[end:] if end > 2 else text
    lines, findings = _source_lines(text.split("\n"))
    title, tagged = _split(lines)
    known = (*SECTIONS, NOTES, OTHER)
    findings += [_unknown(section) for section in tagged if section.key not in known]
    sections = [section if section.key in known else replace(section, key=OTHER) for section in tagged]
    sections = [replace(s, items=_items(s)) if s.key in (*SECTIONS, NOTES) else s for s in sections]
    findings += _occurrences(sections)
    if any(section.key in SECTIONS for section in sections):
        findings += _misplaced_keys(sections)
    return Document(title, tuple(sections), tuple(findings))


def _unreadable(data: bytes) -> Finding | None:
    if len(data) > MAX_BYTES:
        return error(0, "too_large", "the blueprint has over 1 MiB", "keep data out of it")
    if not data.strip(b" \t\r\n\xef\xbb\xbf"):
        return error(0, "empty", "the blueprint is empty", NEW_BLUEPRINT)
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
    hashed = any(not n.block and n.text.lstrip()[:1] == "#" and _tag(n.text, hashed=True) for n in source_lines)
    title, headings, bodies = "", list[Section](), list[list[SourceLine]]()
    for source_line in source_lines:
        current = headings[-1] if headings else None
        opened = None if source_line.block else _opens(source_line, current, hashed)
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
    """The lines, those of code marked as such; an error if the last code block is not closed."""
    lines: list[SourceLine] = []
    fence, info, indent, block, opened = "", "", 0, 0, 0
    for no, text in enumerate(texts, 1):
        mark = _FENCE.match(text)
        if mark and not fence:
            fence, block, opened = mark["fence"], block + 1, no
            info, indent = mark["info"].strip().lower().partition(" ")[0], len(mark["indent"])
        elif mark and mark["fence"].startswith(fence) and not mark["info"].strip():
            fence = ""
        elif fence:
            cut = min(indent, len(text) - len(text.lstrip()))
            lines.append(SourceLine(no, text[cut:], indent, block, info))
        else:
            lines.append(SourceLine(no, text, _indent(text)))
    message = f"the code block that begins here is never closed with {fence}"
    return lines, [error(opened, "unclosed_fence", message)] if fence else []


def _uncommented(match: re.Match[str]) -> str:
    return match[0] if match["kept"] or match["fence"] else "\n" * match[0].count("\n")


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


def _ends(level: int, open_section: Section) -> bool:
    """Whether an unknown heading ends the section; in a launch command `# ...` is a shell comment."""
    if open_section.key == "exp_launch_command" and level < open_section.level <= 6:
        return False
    return level <= open_section.level


def _tag(text: str, *, hashed: bool) -> tuple[str, str] | None:
    """(section key, text after it) of a line that begins a section; None for any other line."""
    match = _TAG.match(text.replace("\\[", "[").replace("\\]", "]").replace("\\_", "_"))
    if match is None:
        return None
    mark, rest = match["mark"], match["rest"].lstrip("*_` ")
    if not match["hash"] and (match["bare"] or not re.search(r"\*\*|__|\d", mark)):
        begins = not rest or rest[0] in ":：" or (match["inside"] and not mark)  # `[exp_max_time] 1 hour in all`
        if hashed or not begins:
            return None
    rest = rest.rstrip("#") if match["hash"] else rest
    return re.sub(r"[ _-]+", "_", (match["inside"] or match["bare"]).lower()), rest.lstrip(":：").lstrip("*_ ").strip()


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
        hint = f"{NEW_BLUEPRINT}; `autoresearch config schema blueprint` says what it holds"
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
                findings.append(warning(line.no, "misplaced_note", message, "move it to `## Other Notes`"))
    return findings


def _declared_key(line: str) -> str:
    """The key of the notes that a bulleted line declares by its exact name; "" for any other line."""
    item = NOTE_LINE.match(line)
    if item is None or not item["bullet"] or len(item["indent"]) > 3:
        return ""
    return item["key"] if item["key"] in (*TEXT_KEYS, *LIST_KEYS) else ""


def _items(section: Section) -> tuple[SectionItem, ...]:
    """The items of a section in order; the text after the tag in its heading is the first one."""
    key, head, begun = section.key, section.head, list[SectionItem]()
    if re.search(r"[:：]$", head) or re.fullmatch(r"[(（][^()（）]*[)）]", head):
        begun.append(SectionItem(LabelRole.TEXT, "title", section.line, 10**6, head))  # ends here
    elif head:
        begun.append(_labelled(key, head, section.line, indent=-1))
    more: dict[int, list[SourceLine]] = {}  # the lines that continue an item, and blank ones between them
    blanks: list[SourceLine] = []
    for line in section.body:
        if not line.block and not line.text.strip():
            blanks.append(line)
            continue
        own = more.setdefault(len(begun), [])
        if begun and _continues(key, line, begun[-1], own, bool(blanks)):
            own += [*(blanks if own else ()), line]
        else:
            begun.append(_begun(key, line))
            more[len(begun)] = [*begun[-1].more]
        blanks = []
    return tuple(replace(item, more=tuple(more.get(n, ()))) for n, item in enumerate(begun, 1))


def _continues(key: str, source_line: SourceLine, item: SectionItem, more: Sequence[SourceLine], blank: bool) -> bool:
    """Whether a line continues the item before it, which has the lines `more` so far; `blank`: after a blank line."""
    before = more[-1] if more else None
    if source_line.block:
        same = before is not None and before.block == source_line.block
        waiting = not item.first and not more and item.role is not LabelRole.PLAIN
        return same or source_line.indent > item.indent or waiting
    if key == NOTES and item.role is LabelRole.PLAIN:  # below words there may be a key
        return False
    blank = blank or (before is not None and before.block > 0)
    if not blank and (before.text if before is not None else item.first).endswith("\\"):
        return True
    if item.indent >= 0 or item.role is not LabelRole.PLAIN:
        return source_line.indent > max(item.indent, 0)
    return not blank and not _BULLET.match(source_line.text) and _begun(key, source_line).role is LabelRole.PLAIN


def _begun(key: str, source_line: SourceLine) -> SectionItem:
    if not source_line.block:
        if bullet := _BULLET.match(source_line.text):
            return _labelled(key, bullet["rest"], source_line.no, indent=source_line.indent)
        item = _labelled(key, source_line.text.strip(), source_line.no, indent=source_line.indent or -1)
        if item.role is not LabelRole.PLAIN:
            return item
    return SectionItem(LabelRole.PLAIN, "", source_line.no, -1, "", (source_line,))


def _labelled(key: str, text: str, line: int, *, indent: int) -> SectionItem:
    label = _LABEL.match(text)
    name = label["label"].strip().lower() if label else ""
    if key == NOTES:
        role = LabelRole.VALUE if note_key(name) else LabelRole.PLAIN
    elif name in _FOR_READERS:
        role = LabelRole.TEXT
    else:
        role = LabelRole.VALUE if name in _VALUE_WORDS[key] else LabelRole.PLAIN
    if label is None or (role is LabelRole.PLAIN and name not in _CONTENT):
        return SectionItem(LabelRole.PLAIN, "", line, indent, text.strip())
    first = label["rest"].rstrip()
    if label["mark"] and first.endswith(label["mark"]) and not first.startswith(label["mark"]):
        first = first[: -len(label["mark"])]
    block = re.fullmatch(r"[|>][+-]?", first.strip())  # the indicator of a YAML block scalar
    return SectionItem(role, name, line, indent, "" if block else first)
