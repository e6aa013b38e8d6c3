"""The notes of a blueprint: declared keys, which autoresearch acts on, and prose, which it only shows.

Keys are items (`- trainer: verl`, possibly with a list or a code block below) in any notes section. Prose is never run:
the steps below a heading such as `### Preparatory Work` are left to the reader. What a key takes is declared in
`model`; here is how its text is found, read, and written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoresearch.core.blueprint.document import (
    NOTE_LINE,
    NOTES,
    OTHER,
    Document,
    LabelRole,
    Section,
    SectionItem,
    without_indent,
)
from autoresearch.core.blueprint.finding import Finding, error, warning
from autoresearch.core.blueprint.model import BY_NAME, LIST_KEYS, NOTE_KEYS, SWARM, TEXT_KEYS, Notes, directed, note_key
from autoresearch.core.keys import Key, ValueType, same_thing
from autoresearch.core.metrics.constraint import parse_constraint
from autoresearch.core.metrics.objective import ExpressionError, near_miss, parse
from autoresearch.core.run.swarm import Swarm, is_url
from autoresearch.core.run.trainer import SUFFIXES, Source, SourceFormat
from autoresearch.core.text.durations import spoken
from autoresearch.core.text.regex import later

_DECLARED_FIRST = -100  # sources named in a blueprint take precedence over those known for the trainer
_FORMATS = {source_format.value: source_format for source_format in SourceFormat}
_NAME = later(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SEED = later(r"\d{1,9}|--?[A-Za-z][\w.-]*|\$[A-Za-z_]\w*|[A-Za-z_][\w-]*(?:\.[\w-]+)*|")
_RETRIES = later(r"([1-9]\d{0,5})\s*(?:times\s*)?(?:in|within|/)\s*(.+)\Z")
_BULLET = later(r"\s*[-*+]\s+(.*\S.*)$")
_PROSE = ("resume", "seed")  # these keys are words of prose, too
_ONE_A_LINE = ("include", "exclude", "hide", "writable")
_HINTS = {
    ValueType.DURATION: "durations look like 90s, 20m or 1h30m",
    ValueType.SWITCH: "write true or false",
    "env": "a name is letters, digits and _",
    "first_step": "limits go to [exp_max_time]",
    "seed": "write one of them, or `random`, `fixed`, `none`",
    "swarm_on_busy": "an engine is never used as it is",
    "swarm_retries": "write it like `20 in 5m`",
    "swarm_url": "write http://HOST:PORT",
}
_CODES = {"constraint": "bad_constraint", "env": "bad_env", "requires_env": "bad_env", "metric": "bad_metric"}


@dataclass(frozen=True, slots=True)
class NoteValue:
    """One value of a key, not interpreted."""

    line: int
    text: str


def read_notes(document: Document) -> tuple[Notes, list[Finding]]:
    """The notes of all notes sections together, with findings."""
    findings, values = list[Finding](), dict[str, list[NoteValue]]()
    for section in document.sections:
        if section.key == NOTES:
            for key, item in _entries(section, findings):
                values.setdefault(key, []).extend(_values(key, item))
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


def _entries(section: Section, findings: list[Finding]) -> list[tuple[str, SectionItem]]:
    """The declared keys of a section."""
    entries = list[tuple[str, SectionItem]]()
    for item in section.items:
        if item.role is LabelRole.VALUE:
            entries.append((note_key(item.label), item))
            continue
        for no, text in item.prose:
            if (match := NOTE_LINE.match(text)) and (close := _close(match["key"])):
                message = f"{match['key']!r} is taken as prose, not as a key"
                findings.append(warning(no, "unknown_note", message, f"did you mean `{close}:`?"))
    return entries


def _close(word: str) -> str:
    """The key that a word resembles; "" for any other word, which is prose."""
    key = re.sub(r"[ -]+", "_", word.strip().lower())
    import difflib

    close = [] if key in ("sources", "notes") else difflib.get_close_matches(key, BY_NAME, n=1, cutoff=0.82)
    return close[0] if close else same_thing(key, BY_NAME)


def _values(key: str, item: SectionItem) -> list[NoteValue]:
    """The values of one item: its text, its list items, or its block."""
    if code := [line for line in item.more if line.block]:
        return [NoteValue(code[0].no, "\n".join(line.text for line in code).strip("\n"))]
    more = item.more
    while more and not more[-1].text.strip():
        more = more[:-1]
    first, below = item.first, "\n".join(without_indent([line.text for line in more])).strip("\n")
    brackets = {"env": ("[]", "{}")}.get(key, ("[]",))
    if first[:1] + first[-1:] in brackets and key in LIST_KEYS:
        parts = re.findall(r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^,\"']|[\"'])+", first[1:-1])
        return [NoteValue(item.line, _scalar(part)) for part in parts if part.strip()]
    if first:
        return [NoteValue(item.line, f"{first}\n{below}".strip() if more else _scalar(first))]
    margin = min((line.indent for line in more if _BULLET.match(line.text)), default=None)
    if margin is None:
        return [NoteValue(item.line, below if key == "env" else _scalar(below))] if below else []
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
    fields: dict[str, Any] = {"text": text}
    swarm, findings = dict[str, Any](), list[Finding]()
    note_values = _with_direction(note_values)
    for key in NOTE_KEYS:
        given = [note for note in note_values.get(key.name, ()) if note.text.strip()]
        if not given:
            continue
        findings += _doubts(key, given)
        try:
            value = _read(key, given)
        except ValueError as wrong:
            report = warning if key.name in _PROSE else error
            hint = _HINTS.get(key.name) or _HINTS.get(key.type, "")
            line, code = getattr(wrong, "line", given[0].line), _CODES.get(key.name, "bad_note")
            findings.append(report(line, code, f"{key.name}: {wrong}", hint))
        else:
            owner = swarm if key.name.startswith(SWARM) else fields
            owner[key.spec_field or key.name] = value
    return Notes(**fields, swarm=Swarm(**swarm) if swarm else None), findings


def _with_direction(note_values: Mapping[str, Sequence[NoteValue]]) -> Mapping[str, Sequence[NoteValue]]:
    """The notes, where a direction may stand behind the metric: `metric: latency_ms min`."""
    given = note_values.get("metric", ())
    metric, direction = directed(_plain(given[0].text) if given else "")
    if not direction or "direction" in note_values:
        return note_values
    both = {"metric": _scalar(metric), "direction": direction}
    return {**note_values, **{key: [replace(given[0], text=text)] for key, text in both.items()}}


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
        return tuple(key.read([line.strip() for text in texts for line in text.split("\n") if line.strip()], 0.0))
    if key.name == "constraint":
        return tuple(str(parse_constraint(_plain(line))) for text in texts for line in text.split("\n") if line.strip())
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


def _doubts(key: Key, note_values: Sequence[NoteValue]) -> Iterator[Finding]:
    """An error for two values of a key that has one, and warnings about values that may be meant otherwise."""
    first, *others = [(note.line, _plain(note.text)) for note in note_values]
    other = next((no for no, text in others if text != first[1]), 0)
    if other and (key.name in TEXT_KEYS or key.name.startswith(SWARM)):
        message = f"the notes give two values for {key.name} (lines {first[0]} and {other})"
        yield error(other, "note_twice", message, "keep one of them")
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
    return Source(declared or SUFFIXES.get(path[path.rfind(".") :], SourceFormat.DICT_LINES), path, _DECLARED_FIRST + n)


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
