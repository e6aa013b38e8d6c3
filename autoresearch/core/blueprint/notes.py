"""The notes of a blueprint: declared keys, which autoresearch acts on, and prose, which it only shows.

Keys are items (`- trainer: verl`, possibly with a list or a code block below) or are in a fenced yaml block, in any
notes section. Prose is never run: the steps below a heading such as `### Preparatory Work` are left to the reader.
"""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoresearch.core.blueprint.document import NOTE_LINE, NOTES, OTHER, Document, Section, SourceLine
from autoresearch.core.blueprint.finding import Finding, error, warning
from autoresearch.core.blueprint.model import Notes
from autoresearch.core.blueprint.note_keys import LIST_KEYS, TEXT_KEYS
from autoresearch.core.blueprint.swarm_notes import COMMANDS, BadNote, read_swarm
from autoresearch.core.metrics.expression import EXPRESSIONS, ExpressionError, near_miss, parse
from autoresearch.core.metrics.python_values import truth
from autoresearch.core.run.limits import EVALUATE_S
from autoresearch.core.run.swarm import Swarm
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.core.text.durations import parse_duration, problem

_DECLARED_FIRST = -100  # sources named in a blueprint take precedence over those known for the trainer
_FORMATS = {source_format.value: source_format for source_format in SourceFormat}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SEED = re.compile(r"\d{1,9}|--?[A-Za-z][\w.-]*|\$[A-Za-z_]\w*|[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_ALIASES = {
    "sources": "source", "metrics_file": "source", "metric_file": "source", "metric_source": "source",
    "required_env": "requires_env", "environment": "env", "prepares": "prepare", "objective": "metric",
    "framework": "trainer", "includes": "include",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _NoteValue:
    """One value of a key, not interpreted."""

    line: int  # 0: the key is not declared
    text: str


@dataclass(slots=True)
class _NoteEntry:
    """A key with the lines that belong to it, `first` on its own line."""

    key: str
    line: int
    first: str
    indent: int = 0
    more: list[SourceLine] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.first or self.more)


def read_notes(document: Document) -> tuple[Notes, list[Finding]]:
    """The notes of all notes sections together, with findings."""
    findings: list[Finding] = []
    values: dict[str, list[_NoteValue]] = {}
    for section in document.sections:
        if section.key == NOTES:
            for entry in _entries(section, findings):
                values.setdefault(entry.key, []).extend(_values(entry))
    notes = _notes(values, _prose(document.sections), findings)
    return notes, findings


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
    note_entries: list[_NoteEntry] = []
    blocks: dict[int, list[SourceLine]] = {}
    open_entry: _NoteEntry | None = None
    for line in section.body:
        if line.block and open_entry and (line.indent > open_entry.indent or open_entry.is_empty):
            open_entry.more.append(line)
        elif line.block:
            blocks.setdefault(line.block, []).append(line)
        else:
            open_entry = _prose_line(line, open_entry, note_entries, findings)
    for block in blocks.values():
        if block[0].info in ("yaml", "yml"):
            note_entries += _yaml_entries(block, findings)
    return note_entries


def _prose_line(
    source_line: SourceLine, open_entry: _NoteEntry | None, note_entries: list[_NoteEntry], findings: list[Finding]
) -> _NoteEntry | None:
    """Start a new entry with a line of prose, continue the previous one, or ignore the line; returns the open entry."""
    if open_entry and (source_line.indent > open_entry.indent or _ends_open(open_entry)):
        open_entry.more.append(source_line)
        return open_entry
    if not source_line.text.strip():
        return open_entry
    if match := NOTE_LINE.match(source_line.text):
        if key := _note_key(match["key"]):
            note_entries.append(_NoteEntry(key, source_line.no, (match["rest"] or "").strip(), source_line.indent))
            return note_entries[-1]
        findings += _misspelt(match["key"], source_line.no)
    return None


def _note_key(word: str) -> str:
    """The key of the notes that a word names, directly or as an alias; "" for any other word."""
    key = re.sub(r"[ -]+", "_", word.strip().lower())
    key = _ALIASES.get(key, key)
    return key if key in (*TEXT_KEYS, *LIST_KEYS) else ""


def _ends_open(note_entry: _NoteEntry) -> bool:
    """Whether the last line of prose of the entry ends in a backslash."""
    last = note_entry.more[-1] if note_entry.more else None
    written = note_entry.first if last is None else "" if last.block else last.text
    return written.endswith("\\")


def _yaml_entries(block: Sequence[SourceLine], findings: list[Finding]) -> list[_NoteEntry]:
    """The entries of a fenced yaml block; [] if it is an excerpt of something else."""
    note_entries: list[_NoteEntry] = []
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
        current = _NoteEntry(_note_key(match["key"]), line.no, (match["rest"] or "").strip())
        if current.key:
            note_entries.append(current)
        else:
            strange.append((match["key"], line.no))
    nested = any(e.key in TEXT_KEYS and not e.first and e.more for e in note_entries)
    if nested or not note_entries:
        return []
    for key, no in strange:
        message = f"{key!r} is not a key that the notes know; it is ignored"
        findings.append(warning(no, "unknown_note", message, f"known: {', '.join((*TEXT_KEYS, *LIST_KEYS))}"))
    return note_entries


def _misspelt(word: str, line: int) -> list[Finding]:
    """A warning about a word that resembles a known key; any other word is prose."""
    key = re.sub(r"[ -]+", "_", word.strip().lower())
    close = difflib.get_close_matches(key, (*TEXT_KEYS, *LIST_KEYS), n=1, cutoff=0.82)
    if not close or key in ("sources", "notes"):
        return []
    message = f"{word!r} is taken as prose, not as a key"
    return [warning(line, "unknown_note", message, f"did you mean `{close[0]}:`?")]


def _values(note_entry: _NoteEntry) -> list[_NoteValue]:
    """The values of one entry: its text, its list items, or its block."""
    code = [line for line in note_entry.more if line.block]
    if code:
        return [_NoteValue(code[0].no, "\n".join(line.text for line in code).strip("\n"))]
    more = note_entry.more
    while more and not more[-1].text.strip():
        more = more[:-1]
    first, below = note_entry.first, textwrap.dedent("\n".join(line.text for line in more))
    if first in ("|", "|-", ">", ">-"):
        return [_NoteValue(note_entry.line, below.strip("\n"))]
    if first.startswith("[") and first.endswith("]") and note_entry.key in LIST_KEYS:
        return [_NoteValue(note_entry.line, _scalar(part)) for part in _comma(first[1:-1]) if part.strip()]
    if first.startswith("{") and first.endswith("}") and note_entry.key == "env":
        return [_NoteValue(note_entry.line, part.strip()) for part in _comma(first[1:-1]) if part.strip()]
    if not first:
        return _list_items(note_entry, more)
    return [_NoteValue(note_entry.line, f"{first}\n{below}".strip() if more else _scalar(first))]


def _list_items(note_entry: _NoteEntry, more: Sequence[SourceLine]) -> list[_NoteValue]:
    """Items of a bulleted list, with more deeply indented lines joined to them; without bullets, one text."""
    bullets = [line for line in more if re.match(r"\s*[-*+]\s+\S", line.text)]
    if not bullets:
        if note_entry.key == "env":
            return [_NoteValue(line.no, line.text.strip()) for line in more if line.text.strip()]
        text = textwrap.dedent("\n".join(line.text for line in more)).strip("\n")
        return [_NoteValue(note_entry.line, _scalar(text))] if text else []
    margin = min(line.indent for line in bullets)
    items: list[tuple[int, list[str]]] = []
    for line in more:
        bullet = re.match(r"\s*[-*+]\s+(.*)$", line.text)
        if bullet and line.indent <= margin:
            items.append((line.no, [bullet[1].strip()]))
        elif items and line.text.strip():
            items[-1][1].append(line.text.strip())
    return [_NoteValue(no, _scalar("\n".join(texts))) for no, texts in items]


def _comma(text: str) -> list[str]:
    return re.findall(r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^,\"']|[\"'])+", text)


def _notes(note_values: Mapping[str, Sequence[_NoteValue]], prose: str, findings: list[Finding]) -> Notes:
    texts = {key: _single(key, note_values.get(key, ()), findings) for key in TEXT_KEYS}
    lists = {key: _listed(key, note_values.get(key, ())) for key in LIST_KEYS}
    plain = {key: tuple(value.text for value in lists[key]) for key in LIST_KEYS}
    return Notes(
        trainer=texts["trainer"].text.lower(),
        launcher=texts["launcher"].text.strip("`\"' "),
        metric=_metric(texts["metric"], findings),
        direction=_direction(texts["direction"], findings),
        slug=texts["slug"].text,
        prepare=plain["prepare"],
        evaluate=plain["evaluate"],
        evaluate_s=_evaluate_s(texts["evaluate_time"], findings),
        cleanup=plain["cleanup"],
        env=_env(lists["env"], findings),
        requires_env=_variables(lists["requires_env"], findings),
        include=plain["include"],
        hide=plain["hide"],
        writable=plain["writable"],
        seed=_seed(texts["seed"], findings),
        first_step=_first_step(texts["first_step"], findings),
        keep_children=_flag("keep_children", texts, findings),
        resume=_flag("resume", texts, findings),
        record_metrics=_flag("record_metrics", texts, findings, default=True),
        source=_sources(lists["source"], findings),
        swarm=_swarm(texts, note_values, plain, findings),
        step_line=tuple(text.strip() for text in plain["step_line"]),
        validation_line=tuple(text.strip() for text in plain["validation_line"]),
        text=prose,
    )


def _single(key: str, note_values: Sequence[_NoteValue], findings: list[Finding]) -> _NoteValue:
    """The single value of a key, without a trailing comment; two different values are an error."""
    line = note_values[0].line if note_values else 0
    texts = [(note.line, re.sub(r"(?<=\S)\s+#\s.*$", "", note.text).strip()) for note in note_values]
    texts = [(no, text) for no, text in texts if text]
    different = next((no for no, text in texts if text != texts[0][1]), 0)
    if different:
        message = f"the notes give two values for {key} (lines {texts[0][0]} and {different})"
        findings.append(error(different, "note_twice", message, "keep one of them"))
    if texts and "\n" in texts[0][1]:
        findings.append(error(texts[0][0], "bad_note", f"{key} must be one line"))
        return _NoteValue(line, "")
    return _NoteValue(line, texts[0][1] if texts else "")


def _listed(key: str, note_values: Sequence[_NoteValue]) -> list[_NoteValue]:
    """The values of a key, split where one line may hold several."""
    if key == "requires_env":
        return [_NoteValue(v.line, word) for v in note_values for word in re.split(r"[\s,，、]+", v.text) if word]
    if key in ("include", "hide", "writable"):
        return [_NoteValue(v.line, text.strip()) for v in note_values for text in v.text.split("\n") if text.strip()]
    return [note for note in note_values if note.text.strip()]


def _env(note_values: Sequence[_NoteValue], findings: list[Finding]) -> dict[str, str]:
    """Parse `NAME=value` or `NAME: value` lines; quoted values may contain anything."""
    env: dict[str, str] = {}
    for note in note_values:
        for line in note.text.split("\n"):
            name, mark, text = _assignment(re.sub(r"^(?:export\s+|[-*+]\s+)", "", line.strip()))
            if not line.strip():
                continue
            if not mark or not _NAME.match(name):
                message = f"env: {line.strip()[:60]!r} is not NAME=value"
                findings.append(error(note.line, "bad_env", message, "a name is letters, digits and _"))
            else:
                env[name] = _scalar(text)
    return env


def _assignment(text: str) -> tuple[str, str, str]:
    match = re.match(r"([^=:\s]*)\s*(=|:(?:\s|$))(.*)$", text)
    return (match[1], match[2], match[3]) if match else (text, "", "")


def _variables(note_values: Sequence[_NoteValue], findings: list[Finding]) -> tuple[str, ...]:
    for note in note_values:
        if not _NAME.match(note.text.strip("`\"'$")):
            message = f"requires_env: {note.text[:60]!r} is not the name of a variable"
            findings.append(error(note.line, "bad_env", message))
    return tuple(dict.fromkeys(note.text.strip("`\"'$") for note in note_values))


def _metric(note: _NoteValue, findings: list[Finding]) -> str:
    """The metric; an error if it is a malformed expression, a warning if it resembles one."""
    try:
        parse(note.text)
    except ExpressionError as broken:
        findings.append(error(note.line, "bad_metric", f"metric: {broken}", f"write {EXPRESSIONS}"))
    if meant := near_miss(note.text):
        message = f"metric: {note.text[:60]!r} is taken as the name of a metric"
        findings.append(warning(note.line, "odd_metric", message, f"did you mean {meant}?"))
    return note.text


def _direction(note: _NoteValue, findings: list[Finding]) -> str:
    word = note.text.lower().strip("`\"'. ")
    if not word:
        return ""
    for direction, names in (
        ("maximize", ("max", "maximize", "maximise", "higher", "up", "最大", "最大化")),
        ("minimize", ("min", "minimize", "minimise", "lower", "down", "最小", "最小化")),
    ):
        if word in names or word in (f"{names[3]} is better",):
            return direction
    message = f"direction: {note.text[:60]!r} is neither maximize nor minimize"
    findings.append(error(note.line, "bad_note", message))
    return ""


def _first_step(note: _NoteValue, findings: list[Finding]) -> str:
    word = note.text.lower().strip("`\"'. ")
    if word in ("", "any", "step", "metric", "auto"):
        return ""
    if word in ("kl", "kl_loss", "kl loss"):
        return "kl"
    message = f"first_step: {note.text[:60]!r} is neither kl nor any"
    findings.append(error(note.line, "bad_note", message, "limits go to [exp_max_time]"))
    return ""


def _seed(note: _NoteValue, findings: list[Finding]) -> str:
    word = note.text.strip("`\"' ")
    if not word or _SEED.fullmatch(word):
        return word
    message = f"seed: {note.text[:60]!r} is no recipe key, no flag, no $NAME and no number: it is not used"
    findings.append(warning(note.line, "bad_note", message, "write one of them, or `random`, `fixed`"))
    return ""


def _evaluate_s(note: _NoteValue, findings: list[Finding]) -> float:
    if not note.text:
        return EVALUATE_S
    try:
        seconds = parse_duration(note.text.strip("`\"'. "))
        trouble = problem(seconds)
    except ValueError as wrong:
        seconds, trouble = EVALUATE_S, f"is no time: {wrong}"
    if trouble:
        message, hint = f"evaluate_time: {note.text[:60]!r} {trouble}", "durations look like 90s, 20m or 1h30m"
        findings.append(error(note.line, "bad_note", message, hint))
    return seconds


def _flag(key: str, texts: Mapping[str, _NoteValue], findings: list[Finding], *, default: bool = False) -> bool:
    word = texts[key].text.lower().strip("`\"'. ")
    flag = {"是": True, "否": False}.get(word, truth(word))
    if flag is not None:
        return flag
    if word:
        message = f"{key}: {texts[key].text[:60]!r} is neither true nor false"
        report = error if key == "keep_children" else warning  # the other two are also words of prose
        findings.append(report(texts[key].line, "bad_note", message, f"it counts as {str(default).lower()}"))
    return default


def _swarm(
    texts: Mapping[str, _NoteValue],
    note_values: Mapping[str, Sequence[_NoteValue]],
    lists: Mapping[str, Sequence[str]],
    findings: list[Finding],
) -> Swarm | None:
    try:
        return read_swarm({key: note.text for key, note in texts.items()}, {key: lists[key] for key in COMMANDS})
    except BadNote as bad:
        key, message, hint = bad.args
        line = note_values[key][0].line if note_values.get(key) else 0
        findings.append(error(line, "bad_note", f"{key}: {message}", hint))
        return None


def _sources(note_values: Sequence[_NoteValue], findings: list[Finding]) -> tuple[Source, ...]:
    for note in note_values:
        word, blank, _ = note.text.strip().partition(" ")
        if blank and word.isidentifier() and word.lower() not in _FORMATS:
            message = f"`{word}` is no kind of source: it is taken for a part of the path"
            findings.append(warning(note.line, "odd_source", message, f"known: {', '.join(_FORMATS)}"))
    return tuple(_source(note.text, n) for n, note in enumerate(note_values))


def _source(text: str, n: int) -> Source:
    """Parse `jsonl path`, `dict_lines path`, `console`, `NAME: path` for a reader that is a plug-in, or a path alone,
    whose suffix then determines the format.
    """
    word, _, rest = text.strip().partition(" ")
    name = word.lower().rstrip(":")
    of_plugin = name if rest and word.endswith(":") and name.isidentifier() else None
    declared = _FORMATS.get(name, of_plugin)
    path = (rest if declared else text).strip().strip("`\"'")
    by_suffix = SourceFormat.JSONL if path.endswith((".jsonl", ".json", ".ndjson")) else SourceFormat.DICT_LINES
    return Source(declared or by_suffix, path, _DECLARED_FIRST + n)


def _scalar(text: str) -> str:
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
