"""The declared keys in the notes of a blueprint, each with its texts and lines, not interpreted yet.

A key is an item (`- trainer: verl`), possibly with a list or a code block below, or is in a fenced yaml block.
"""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from autoresearch.core.blueprint.document import NOTES, Section, SourceLine, warning
from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.blueprint.note_keys import ITEM, LISTS, TEXTS, declared_key, key_of

_TOLD = (*TEXTS, "prepare", "cleanup", "env", "requires_env")  # the other keys are also words of prose


def note_values(sections: Sequence[Section], name: str, findings: list[Finding]) -> dict[str, list[tuple[int, str]]]:
    """key -> [(line, text)] over all notes sections; misspelt keys are added to `findings`."""
    values: dict[str, list[tuple[int, str]]] = {}
    for entry in [e for s in sections for e in _entries(s, name, findings)]:
        values.setdefault(entry.key, []).extend(_values(entry))
    return values


def misplaced_keys(sections: Sequence[Section], name: str) -> list[Finding]:
    """A warning for each key of the notes that is written in another section."""
    found: list[Finding] = []
    for section in sections:
        for line in section.body:
            key = "" if line.block or section.key == NOTES else declared_key(line.text)
            if key in _TOLD and (section.key, key) != ("exp_max_time", "first_step"):  # a label in that section
                message = f"`{key}:` is a key of the notes; in {section.title[:60]!r} it is not read"
                found.append(warning(name, line.no, "misplaced_note", message, "move it to `## Notes`"))
    return found


@dataclass(slots=True)
class _NoteEntry:
    key: str
    line: int
    first: str
    more: list[SourceLine] = field(default_factory=list)


def _entries(section: Section, name: str, findings: list[Finding]) -> list[_NoteEntry]:
    """Declared keys of a section: items outside code, and fenced yaml that contains known keys."""
    found: list[_NoteEntry] = []
    blocks: dict[int, list[SourceLine]] = {}
    current: tuple[_NoteEntry, int] | None = None
    for line in section.body:
        if line.block and current and (line.indent > current[1] or not (current[0].first or current[0].more)):
            current[0].more.append(line)
        elif line.block:
            blocks.setdefault(line.block, []).append(line)
        else:
            current = _prose_line(line, current, found, name, findings)
    for block in blocks.values():
        if block[0].info in ("yaml", "yml"):
            found += _yaml_entries(block, name, findings)
    return found


def _prose_line(
    line: SourceLine,
    current: tuple[_NoteEntry, int] | None,
    found: list[_NoteEntry],
    name: str,
    findings: list[Finding],
) -> tuple[_NoteEntry, int] | None:
    """Start a new entry with a line of prose, continue the previous one, or ignore the line; returns the open entry."""
    if current and (line.indent > current[1] or _ends_open(current[0])):
        current[0].more.append(line)
        return current
    if not line.text.strip():
        return current
    if match := ITEM.match(line.text):
        key = key_of(match["key"])
        if key:
            found.append(_NoteEntry(key, line.no, (match["rest"] or "").strip()))
            return found[-1], line.indent
        _suspect(match["key"], line.no, name, findings)
    return None


def _ends_open(entry: _NoteEntry) -> bool:
    """Whether the last line of prose of the entry ends in a backslash."""
    last = entry.more[-1] if entry.more else None
    written = entry.first if last is None else "" if last.block else last.text
    return written.endswith("\\")


def _yaml_entries(block: Sequence[SourceLine], name: str, findings: list[Finding]) -> list[_NoteEntry]:
    """The entries of a fenced yaml block; [] if it is an excerpt of something else."""
    found: list[_NoteEntry] = []
    strange: list[tuple[str, int]] = []
    current: _NoteEntry | None = None
    for line in block:
        if re.match(r"\s*(?:#|$)", line.text) and not (current and current.first.startswith("|")):
            continue
        match = re.match(r"(?P<key>[A-Za-z_][\w-]*)\s*:(?:\s+(?P<rest>.*)|)$", line.text)
        if match is None:
            if current is not None:
                current.more.append(SourceLine(line.no, line.text, len(line.text) - len(line.text.lstrip())))
            continue
        current = _NoteEntry(key_of(match["key"]), line.no, (match["rest"] or "").strip())
        if current.key:
            found.append(current)
        else:
            strange.append((match["key"], line.no))
    nested = any(e.key in TEXTS and not e.first and e.more for e in found)
    if nested or not found:
        return []
    for key, no in strange:
        message = f"{key!r} is not a key that the notes know; it is ignored"
        findings.append(warning(name, no, "unknown_note", message, f"known: {', '.join((*TEXTS, *LISTS))}"))
    return found


def _suspect(word: str, line: int, name: str, findings: list[Finding]) -> None:
    """Warn about a word that resembles a known key; any other word is prose."""
    key = re.sub(r"[ -]+", "_", word.strip().lower())
    close = difflib.get_close_matches(key, (*TEXTS, *LISTS), n=1, cutoff=0.82)
    if close and key not in ("sources", "notes"):
        message = f"{word!r} is taken as prose, not as a key"
        findings.append(warning(name, line, "unknown_note", message, f"did you mean `{close[0]}:`?"))


def _values(entry: _NoteEntry) -> list[tuple[int, str]]:
    """The values of one entry (its text, its list items, or its block), each with its line number."""
    code = [n for n in entry.more if n.block]
    if code:
        return [(code[0].no, "\n".join(n.text for n in code).strip("\n"))]
    more = entry.more
    while more and not more[-1].text.strip():
        more = more[:-1]
    first = entry.first
    if first in ("|", "|-", ">", ">-"):
        return [(entry.line, textwrap.dedent("\n".join(n.text for n in more)).strip("\n"))]
    if first.startswith("[") and first.endswith("]") and entry.key in LISTS:
        return [(entry.line, scalar(part)) for part in _comma(first[1:-1]) if part.strip()]
    if first.startswith("{") and first.endswith("}") and entry.key == "env":
        return [(entry.line, part.strip()) for part in _comma(first[1:-1]) if part.strip()]
    if not first:
        return _list_items(entry, more)
    text = first if not more else textwrap.dedent("\n".join(n.text for n in more))
    return [(entry.line, scalar(first) if not more else f"{first}\n{text}".strip())]


def _list_items(entry: _NoteEntry, more: Sequence[SourceLine]) -> list[tuple[int, str]]:
    """Items of a bulleted list, with more deeply indented lines joined to them; without bullets, one text."""
    bullets = [n for n in more if re.match(r"\s*[-*+]\s+\S", n.text)]
    if not bullets:
        if entry.key == "env":
            return [(n.no, n.text.strip()) for n in more if n.text.strip()]
        text = textwrap.dedent("\n".join(n.text for n in more)).strip("\n")
        return [(entry.line, scalar(text))] if text else []
    margin = min(n.indent for n in bullets)
    found: list[tuple[int, str]] = []
    for line in more:
        bullet = re.match(r"\s*[-*+]\s+(.*)$", line.text)
        if bullet and line.indent <= margin:
            found.append((line.no, bullet[1].strip()))
        elif found and line.text.strip():
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line.text.strip()}")
    return [(no, scalar(text)) for no, text in found]


def _comma(text: str) -> list[str]:
    return re.findall(r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^,\"']|[\"'])+", text)


def scalar(text: str) -> str:
    """A value without the quotes around it."""
    text = text.strip()
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if text[:1] in "'`" and text[-1:] == text[:1] and len(text) > 1 and text[0] not in text[1:-1]:
        return text[1:-1]
    return text
