"""The second stage: each of the seven sections of a Document gets its items.

Items are `- description: ...`, `- dir: ...`, `- content 1: ...`, paragraphs and code blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from autoresearch.core.blueprint.document import NOTES, Document, LabelRole, Section, SectionItem, SourceLine
from autoresearch.core.blueprint.model import SECTION_KINDS, SECTIONS
from autoresearch.core.blueprint.note_keys import note_key
from autoresearch.core.text.regex import later

_TEXT_WORDS = {
    "description", "desc", "hint", "hints", "warning", "warn", "caution", "note", "notes", "example",
    "examples", "e.g", "eg", "todo", "reason", "remark", "explanation", "tip", "important", "attention",
    "caveat", "描述", "说明", "提示", "警告", "注意", "备注", "例如", "示例", "例子", "解释", "原因",
}  # fmt: skip
_CONTENT_WORDS = {"content", "contents", "内容"}
_DEFAULT_WORDS = {"default", "默认", "默认值", "缺省"}
_VALUE_WORDS = {kind.name: frozenset(kind.words.split()) for kind in SECTION_KINDS}
_BULLET = later(r"^(?P<indent>\s*)(?:[-*+•]|\d{1,2}[.)、])(?:\s+|$)(?P<rest>.*)$")
_LABEL = later(
    r"^(?P<mark>\*\*|__|`)?(?P<label>[^\W\d][\w ./-]{0,59}?)(?: ?\d{1,2})? {0,3}"
    r"(?:[(（][^()（）]{0,80}[)）] {0,3})?(?:\*\*|__|`)? {0,3}[:：](?!//)"
    r"(?(mark)(?:\*\*|__)?)\s*(?P<rest>.*)$"
)


def with_items(document: Document) -> Document:
    """The same document with the items of its sections."""
    sections = [
        replace(section, items=_items(section)) if section.key in (*SECTIONS, NOTES) else section
        for section in document.sections
    ]
    return replace(document, sections=tuple(sections))


def _items(section: Section) -> tuple[SectionItem, ...]:
    """The items of a section in order; the text after the tag in its heading is the first one."""
    key, head = section.key, section.head
    begun: list[tuple[SectionItem, list[SourceLine]]] = []  # an item, and the lines that continue it
    if re.search(r"[:：]$", head) or re.fullmatch(r"[(（][^()（）]*[)）]", head):
        begun.append((SectionItem(LabelRole.TEXT, "title", section.line, 10**6, head), []))  # ends here
    elif head:
        begun.append((_labelled(key, head, section.line, indent=-1), []))
    blank = False
    for line in section.body:
        if not line.block and not line.text.strip():
            blank = True
            if begun and begun[-1][1]:
                begun[-1][1].append(line)
            continue
        if begun and _continues(key, line, *begun[-1], blank):
            begun[-1][1].append(line)
        else:
            item = _begun(key, line)
            begun.append((item, list(item.more)))
        blank = False
    return tuple(replace(item, more=_without_blank_end(more)) for item, more in begun)


def _without_blank_end(source_lines: list[SourceLine]) -> tuple[SourceLine, ...]:
    end = len(source_lines)
    while end and not source_lines[end - 1].block and not source_lines[end - 1].text.strip():
        end -= 1
    return tuple(source_lines[:end])


def _continues(key: str, source_line: SourceLine, item: SectionItem, more: Sequence[SourceLine], blank: bool) -> bool:
    """Whether a line continues the item before it, which has the lines `more` so far; `blank`: after a blank line."""
    before = more[-1] if more else None
    after_code = before is not None and before.block > 0
    if source_line.block:
        same = before is not None and before.block == source_line.block
        waiting = not item.first and not more and item.role is not LabelRole.PLAIN
        return same or source_line.indent > item.indent or waiting
    if key == NOTES and item.role is LabelRole.PLAIN:  # below words there may be a key
        return False
    written = before.text if before is not None else item.first
    if not blank and not after_code and written.endswith("\\"):
        return True
    if item.indent >= 0 or item.role is not LabelRole.PLAIN:
        return source_line.indent > max(item.indent, 0)
    label = _LABEL.match(source_line.text.strip())
    quiet = (LabelRole.PLAIN, LabelRole.VALUE) if key in ("exp_purpose", "exp_max_time") else (LabelRole.PLAIN,)
    begins = _BULLET.match(source_line.text) or (label is not None and _role(key, label["label"]) not in quiet)
    return not (begins or after_code or blank)


def _begun(key: str, source_line: SourceLine) -> SectionItem:
    if source_line.block:
        return SectionItem(LabelRole.PLAIN, "", source_line.no, -1, "", (source_line,))
    bullet = _BULLET.match(source_line.text)
    if bullet:
        return _labelled(key, bullet["rest"], source_line.no, indent=source_line.indent)
    label = _LABEL.match(source_line.text.strip())
    if label and _role(key, label["label"]) is not LabelRole.PLAIN:
        return _labelled(key, source_line.text.strip(), source_line.no, indent=source_line.indent or -1)
    return SectionItem(LabelRole.PLAIN, "", source_line.no, -1, "", (source_line,))


def _labelled(key: str, text: str, line: int, *, indent: int) -> SectionItem:
    label = _LABEL.match(text)
    role = _role(key, label["label"]) if label else LabelRole.PLAIN
    if label is None or role is LabelRole.PLAIN:
        return SectionItem(LabelRole.PLAIN, "", line, indent, text.strip())
    first = label["rest"].rstrip()
    if label["mark"] and first.endswith(label["mark"]) and not first.startswith(label["mark"]):
        first = first[: -len(label["mark"])]
    if re.fullmatch(r"[|>][+-]?", first.strip()):  # the indicator of a YAML block scalar
        first = ""
    return SectionItem(role, label["label"].strip().lower(), line, indent, first)


def _role(key: str, label: str) -> LabelRole:
    if key == NOTES:
        return LabelRole.VALUE if note_key(label) else LabelRole.PLAIN
    name = re.sub(r"[_\s]+", " ", label.strip().lower()).strip("-. ")
    words = name.replace("-", " ").split(" ")
    if name in _CONTENT_WORDS:
        return LabelRole.CONTENT
    if name in _DEFAULT_WORDS:
        return LabelRole.DEFAULT
    if name.replace(" ", "_") == key:
        return LabelRole.VALUE
    if name in _TEXT_WORDS or words[-1] in _TEXT_WORDS or name.endswith(("说明", "提示", "注意", "警告", "备注")):
        return LabelRole.TEXT
    keys = _VALUE_WORDS[key]
    chinese = any(name.endswith(word) for word in keys if not word.isascii())
    return LabelRole.VALUE if words[-1] in keys or chinese else LabelRole.PLAIN


def label_of(text: str) -> tuple[str, str]:
    """(label, rest) of `Some words (a remark): rest`; ("", text) where there is no label."""
    match = _LABEL.match(text.strip())
    return (match["label"].strip(), match["rest"]) if match else ("", text)


def with_role(items: Sequence[SectionItem], *roles: LabelRole) -> Iterator[SectionItem]:
    """The items that have one of these roles, in order."""
    return (item for item in items if item.role in roles)
