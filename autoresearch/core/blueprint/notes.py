"""The notes of a blueprint: declared keys, which autoresearch acts on, and prose, which it only shows.

Keys are items (`- trainer: verl`, possibly with a list or a code block below) or are in a fenced yaml block, in any
notes section. Prose is never run: the steps below a heading such as `### Preparatory Work` are left to the reader.
What a key takes is declared in `note_keys`; here is how its text is found, read, and written.
"""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoresearch.core.blueprint.document import NOTE_LINE, NOTES, OTHER, Document, Section, SourceLine
from autoresearch.core.blueprint.finding import Finding, error, warning
from autoresearch.core.blueprint.model import Notes
from autoresearch.core.blueprint.note_keys import BY_NAME, LIST_KEYS, NOTE_KEYS, SWARM, TEXT_KEYS
from autoresearch.core.keys import Key, ValueType
from autoresearch.core.metrics.expression import EXPRESSIONS, ExpressionError, near_miss, parse
from autoresearch.core.run.swarm import Swarm, is_url
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.core.text.durations import spoken

_DECLARED_FIRST = -100  # sources named in a blueprint take precedence over those known for the trainer
_FORMATS = {source_format.value: source_format for source_format in SourceFormat}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SEED = re.compile(r"\d{1,9}|--?[A-Za-z][\w.-]*|\$[A-Za-z_]\w*|[A-Za-z_][\w-]*(?:\.[\w-]+)*|")
_RETRIES = re.compile(r"([1-9]\d{0,5})\s*(?:times\s*)?(?:in|within|/)\s*(.+)\Z")
_YAML_KEY = re.compile(r"(?P<key>[A-Za-z_][\w-]*)\s*:(?:\s+(?P<rest>.*)|)$")
_BULLET = re.compile(r"\s*[-*+]\s+(.*\S.*)$")
_PROSE = ("resume", "record_metrics", "seed")  # these keys are words of prose, too
_ONE_A_LINE = ("include", "hide", "writable")
_ALIASES = {
    "sources": "source", "metrics_file": "source", "metric_file": "source", "metric_source": "source",
    "required_env": "requires_env", "environment": "env", "prepares": "prepare", "objective": "metric",
    "framework": "trainer", "includes": "include",
}  # fmt: skip
_HINTS = {
    ValueType.DURATION: "durations look like 90s, 20m or 1h30m",
    ValueType.SWITCH: "write true or false",
    "env": "a name is letters, digits and _",
    "first_step": "limits go to [exp_max_time]",
    "metric": f"write {EXPRESSIONS}",
    "seed": "write one of them, or `random`, `fixed`",
    "swarm_on_busy": "an engine is never used as it is",
    "swarm_retries": "write it like `20 in 5m`",
    "swarm_url": "write http://HOST:PORT",
}
_CODES = {"env": "bad_env", "requires_env": "bad_env", "metric": "bad_metric"}


@dataclass(frozen=True, slots=True)
class NoteValue:
    """One value of a key, not interpreted."""

    line: int
    text: str


@dataclass(slots=True)
class _NoteEntry:
    """A key with the lines that belong to it, `first` on its own line; `key` is "" for a word that is none."""

    key: str
    word: str
    line: int
    first: str
    indent: int = 0
    more: list[SourceLine] = field(default_factory=list)

    def goes_on(self, source_line: SourceLine) -> bool:
        """Whether a line belongs to it: one that is further in, its code block, or one behind a backslash."""
        last = self.more[-1] if self.more else None
        written = self.first if last is None else "" if last.block else last.text
        open_end = not (self.first or self.more) if source_line.block else written.endswith("\\")
        return source_line.indent > self.indent or open_end


def read_notes(document: Document) -> tuple[Notes, list[Finding]]:
    """The notes of all notes sections together, with findings."""
    findings, values = list[Finding](), dict[str, list[NoteValue]]()
    for section in document.sections:
        if section.key == NOTES:
            for entry in _entries(section, findings):
                values.setdefault(entry.key, []).extend(_values(entry))
    notes, others = notes_of(values, _prose(document.sections))
    return notes, [*findings, *others]


def _prose(sections: Sequence[Section]) -> str:
    """Notes and unknown sections as one text, headings included."""
    parts = []
    for section in sections:
        if section.key in (NOTES, OTHER):
            head = [f"{section.title}:"] if section.key == OTHER else [section.head] if section.head else []
            parts.append("\n".join([*head, *(line.text for line in section.body)]).strip("\n"))
    return "\n\n".join(part for part in parts if part.strip())


def _entries(section: Section, findings: list[Finding]) -> list[_NoteEntry]:
    """Declared keys of a section: items outside code, and fenced yaml that contains known keys."""
    entries, blocks, current = list[_NoteEntry](), dict[int, list[SourceLine]](), None
    for line in section.body:
        if current is not None and current.goes_on(line):
            current.more.append(line)
        elif line.block:
            blocks.setdefault(line.block, []).append(line)
        elif line.text.strip():
            match, current = NOTE_LINE.match(line.text), None
            if match and (key := _note_key(match["key"])):
                current = _NoteEntry(key, match["key"], line.no, match["rest"].strip(), line.indent)
                entries.append(current)
            elif match and (close := _close(match["key"])):
                message = f"{match['key']!r} is taken as prose, not as a key"
                findings.append(warning(line.no, "unknown_note", message, f"did you mean `{close}:`?"))
    for block in blocks.values():
        if block[0].info in ("yaml", "yml"):
            entries += _yaml_entries(block, findings)
    return entries


def _yaml_entries(block: Sequence[SourceLine], findings: list[Finding]) -> list[_NoteEntry]:
    """The entries of a fenced yaml block; [] if it is an excerpt of something else."""
    entries = list[_NoteEntry]()
    for line in block:
        if match := _YAML_KEY.match(line.text):
            entries.append(_NoteEntry(_note_key(match["key"]), match["key"], line.no, (match["rest"] or "").strip()))
        elif entries and (entries[-1].first.startswith("|") or not re.match(r"\s*(?:#|$)", line.text)):
            indent = len(line.text) - len(line.text.lstrip())
            entries[-1].more.append(SourceLine(line.no, line.text, indent))
    known = [one for one in entries if one.key]
    if not known or any(one.key in TEXT_KEYS and not one.first and one.more for one in known):
        return []
    hint = f"known: {', '.join(BY_NAME)}"
    for one in entries:
        if not one.key:
            message = f"{one.word!r} is not a key that the notes know; it is ignored"
            findings.append(warning(one.line, "unknown_note", message, hint))
    return known


def _note_key(word: str) -> str:
    """The key of the notes that a word names, directly or as an alias; "" for any other word."""
    key = re.sub(r"[ -]+", "_", word.strip().lower())
    key = _ALIASES.get(key, key)
    return key if key in BY_NAME else ""


def _close(word: str) -> str:
    """The key that a word resembles; "" for any other word, which is prose."""
    key = re.sub(r"[ -]+", "_", word.strip().lower())
    close = [] if key in ("sources", "notes") else difflib.get_close_matches(key, BY_NAME, n=1, cutoff=0.82)
    return close[0] if close else ""


def _values(note_entry: _NoteEntry) -> list[NoteValue]:
    """The values of one entry: its text, its list items, or its block."""
    if code := [line for line in note_entry.more if line.block]:
        return [NoteValue(code[0].no, "\n".join(line.text for line in code).strip("\n"))]
    more = note_entry.more
    while more and not more[-1].text.strip():
        more = more[:-1]
    first, below = note_entry.first, textwrap.dedent("\n".join(line.text for line in more)).strip("\n")
    if first in ("|", "|-", ">", ">-"):
        return [NoteValue(note_entry.line, below)]
    brackets = {"env": ("[]", "{}")}.get(note_entry.key, ("[]",))
    if first[:1] + first[-1:] in brackets and note_entry.key in LIST_KEYS:
        parts = re.findall(r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^,\"']|[\"'])+", first[1:-1])
        return [NoteValue(note_entry.line, _scalar(part)) for part in parts if part.strip()]
    if first:
        return [NoteValue(note_entry.line, f"{first}\n{below}".strip() if more else _scalar(first))]
    margin = min((line.indent for line in more if _BULLET.match(line.text)), default=None)
    if margin is None:
        return [NoteValue(note_entry.line, below if note_entry.key == "env" else _scalar(below))] if below else []
    items: list[tuple[int, list[str]]] = []
    for line in more:
        bullet = _BULLET.match(line.text)
        if bullet and line.indent <= margin:
            items.append((line.no, [bullet[1].strip()]))
        elif items and line.text.strip():
            items[-1][1].append(line.text.strip())
    return [NoteValue(no, _scalar("\n".join(texts))) for no, texts in items]


def _scalar(text: str) -> str:
    """A value without the quotes around it."""
    text = text.strip()
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    quoted = text[:1] in ("'", "`") and text[-1:] == text[:1] and len(text) > 1 and text[0] not in text[1:-1]
    return text[1:-1] if quoted else text


# ------------------------------------------------------------------ from the texts of the keys to Notes


class _BadNote(ValueError):  # noqa: N818 - it names what was found
    """A value that a key cannot have: the message, and its line."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def notes_of(note_values: Mapping[str, Sequence[NoteValue]], text: str = "") -> tuple[Notes, list[Finding]]:
    """The notes whose keys have these values, with findings."""
    known: dict[str, dict[str, Any]] = {"": {"text": text}, SWARM: {}}
    findings = list[Finding]()
    for key in NOTE_KEYS:
        given = [note for note in note_values.get(key.name, ()) if note.text.strip()]
        if not given:
            continue
        findings += _odd(key, given)
        try:
            read = _read(key, given)
        except ValueError as wrong:
            report = warning if key.name in _PROSE else error
            hint = _HINTS.get(key.name) or _HINTS.get(key.type, "")
            line, code = getattr(wrong, "line", given[0].line), _CODES.get(key.name, "bad_note")
            findings.append(report(line, code, f"{key.name}: {wrong}", hint))
        else:
            known[SWARM if key.name.startswith(SWARM) else ""][key.spec_field or key.name] = read
    if twice := next(((key, lines) for key, given in note_values.items() if (lines := _two(key, given))), None):
        message = f"the notes give two values for {twice[0]} (lines {twice[1][0]} and {twice[1][1]})"
        findings.append(error(twice[1][1], "note_twice", message, "keep one of them"))
    return Notes(**known[""], swarm=Swarm(**known[SWARM]) if known[SWARM] else None), findings


def _two(name: str, note_values: Sequence[NoteValue]) -> tuple[int, int] | None:
    """The lines of two different values of a key that has one."""
    one = name in TEXT_KEYS or name.startswith(SWARM)
    texts = [(note.line, _plain(note.text)) for note in note_values if _plain(note.text)]
    other = next((no for no, text in texts if text != texts[0][1]), 0) if one else 0
    return (texts[0][0], other) if other else None


def _plain(text: str) -> str:
    """A value of one line without a comment behind it."""
    return re.sub(r"(?<=\S)\s+#\s.*$", "", text).strip()


def _read(key: Key, note_values: Sequence[NoteValue]) -> Any:
    """The value of a key. ValueError, with one clause, where these are none."""
    texts = [note.text for note in note_values]
    match key.name:
        case "env":
            lines = [(note.line, line) for note in note_values for line in note.text.split("\n") if line.strip()]
            return dict(_variable(line, no) for no, line in lines)
        case "requires_env":
            return tuple(dict.fromkeys(_names(note_values)))
        case "source":
            return tuple(source_of(text, n) for n, text in enumerate(texts))
        case "swarm_server" | "swarm_debug":
            return texts[0].strip()
        case "step_line" | "validation_line":
            return tuple(text.strip() for text in texts)
    if key.name in _ONE_A_LINE:
        return tuple(line.strip() for text in texts for line in text.split("\n") if line.strip())
    if key.type is ValueType.TEXTS:
        return tuple(texts)
    text = _plain(texts[0])
    if "\n" in text:
        raise ValueError("it must be one line")
    bare = text.strip("`\"'<> ")
    match key.name:
        case "trainer":
            return text.lower()
        case "metric":
            return _metric(text)
        case "seed":
            if not _SEED.fullmatch(bare):
                raise ValueError(f"{text[:60]!r} is no recipe key, no flag, no $NAME and no number: it is not used")
            return bare
        case "swarm_url":
            if not is_url(bare):
                raise ValueError(f"{bare[:80]!r} is no address of a server")
            return bare.rstrip("/")
        case "swarm_retries":
            if (match := _RETRIES.match(bare)) is None:
                raise ValueError(f"{bare[:60]!r} is no count and time")
            return int(match[1]), BY_NAME["swarm_poll"].read(match[2], 0.0)
        case "launcher":
            return bare
    if key.type is ValueType.TEXT:
        return text
    word = bare.strip(". ")
    return key.read({"是": "true", "否": "false"}.get(word, word), 0.0)


def _metric(text: str) -> str:
    try:
        parse(text)
    except ExpressionError as broken:
        raise ValueError(str(broken)) from None
    return text


def _odd(key: Key, note_values: Sequence[NoteValue]) -> Iterator[Finding]:
    """Warnings about values that are taken as they are, and may be meant otherwise."""
    for note in note_values:
        if key.name == "metric" and (meant := near_miss(_plain(note.text))):
            message = f"metric: {note.text[:60]!r} is taken as the name of a metric"
            yield warning(note.line, "odd_metric", message, f"did you mean {meant}?")
        word, blank, _ = note.text.strip().partition(" ")
        if key.name == "source" and blank and word.isidentifier() and word.lower() not in _FORMATS:
            message = f"`{word}` is no kind of source: it is taken for a part of the path"
            yield warning(note.line, "odd_source", message, f"known: {', '.join(_FORMATS)}")


def _variable(line: str, no: int) -> tuple[str, str]:
    """Name and value of `NAME=value` or `NAME: value`; a quoted value may contain anything."""
    match = re.match(r"(?:export\s+|[-*+]\s+)?([^=:\s]*)\s*(?:=|:(?:\s|$))(.*)$", line.strip())
    if match is None or not _NAME.match(match[1]):
        raise _BadNote(f"{line.strip()[:60]!r} is not NAME=value", no)
    return match[1], _scalar(match[2])


def _names(note_values: Sequence[NoteValue]) -> Iterator[str]:
    for note in note_values:
        for word in filter(None, re.split(r"[\s,，、]+", note.text)):
            if not _NAME.match(name := word.strip("`\"'$")):
                raise _BadNote(f"{word[:60]!r} is not the name of a variable", note.line)
            yield name


def source_of(text: str, n: int = 0) -> Source:
    """Parse `jsonl path`, `dict_lines path`, `console`, `NAME: path` for a reader that is a plug-in, or a path alone,
    whose suffix then determines the format; it is the n-th of its blueprint.
    """
    word, _, rest = text.strip().partition(" ")
    name = word.lower().rstrip(":")
    of_plugin = name if rest and word.endswith(":") and name.isidentifier() else None
    declared = _FORMATS.get(name, of_plugin)
    path = (rest if declared else text).strip().strip("`\"'")
    by_suffix = SourceFormat.JSONL if path.endswith((".jsonl", ".json", ".ndjson")) else SourceFormat.DICT_LINES
    return Source(declared or by_suffix, path, _DECLARED_FIRST + n)


# ------------------------------------------------------------------ and back


def note_lines(notes: Notes) -> list[tuple[str, str]]:
    """(key, text) of every note that is not its default, as `notes_of` reads it."""
    lines = list[tuple[str, str]]()
    for key in NOTE_KEYS:
        owner, usual = (notes.swarm, Swarm()) if key.name.startswith(SWARM) else (notes, Notes())
        name = key.spec_field or key.name
        value = getattr(owner or usual, name)
        if value != getattr(usual, name):
            lines += [(key.name, text) for text in _written(value)]
    return lines


def _written(value: Any) -> list[str]:
    match value:
        case bool():
            return [str(value).lower()]
        case float():
            return [spoken(value)]
        case Mapping():
            return [f"{name}={_quoted(text)}" for name, text in value.items()]
        case (int(count), float(seconds)):
            return [f"{count} in {spoken(seconds)}"]
        case Source(format=SourceFormat()):
            return [f"{value.format} {value.path}".strip()]
        case Source():
            return [f"{value.format}: {value.path}"]
        case tuple():
            return [text for one in value for text in _written(one)]
    return [str(value)]


def _quoted(value: str) -> str:
    plain = re.fullmatch(r"[\w./:@%+=,-]+", value)
    return value if plain else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
