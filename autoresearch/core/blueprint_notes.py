"""The notes of a blueprint: declared keys that the harness acts on, and prose that it only shows.

Keys stand as items (`- trainer: verl`) or in a fenced yaml block, in any notes section. Prose is
never run: what a `### Preparatory Work` heading describes stays with the reader.
"""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoresearch.core.blueprint_text import Line, Section, error, warning
from autoresearch.core.finding import Finding
from autoresearch.core.trainer import Source, SourceFormat

TEXTS = ("trainer", "metric", "direction", "slug", "first_step", "keep_children")
LISTS = ("prepare", "cleanup", "env", "requires_env", "include", "source")
_ALIASES = {
    "sources": "source", "metrics_file": "source", "metric_file": "source", "metric_source": "source",
    "required_env": "requires_env", "environment": "env", "prepares": "prepare", "objective": "metric",
    "framework": "trainer", "includes": "include",
}  # fmt: skip
_DECLARED_FIRST = -100  # what a blueprint names is believed before what a trainer is known to write
_ITEM = re.compile(
    r"^(?P<indent>\s*)(?:[-*+•]\s+)?(?:\*\*|`)?(?P<key>[A-Za-z][A-Za-z_ -]{1,20}?)(?:\*\*|`)?\s?"
    r"(?:：|:(?:\*\*)?(?=\s|$))\s*(?P<rest>.*)$"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Notes:
    """What the notes declare; empty where they say nothing. `text` is all of them, for people."""

    trainer: str = ""
    metric: str = ""
    direction: str = ""  # maximize, minimize or ""
    slug: str = ""
    prepare: tuple[str, ...] = ()  # shell commands that run before the trainer
    cleanup: tuple[str, ...] = ()  # shell commands that run after any ending
    env: Mapping[str, str] = field(default_factory=dict)
    requires_env: tuple[str, ...] = ()
    include: tuple[str, ...] = ()  # ignored or untracked inputs that a worktree needs
    first_step: str = ""  # "kl": only a printed KL counts as the first step, as published
    keep_children: bool = False
    source: tuple[Source, ...] = ()  # files of metrics, believed before all others
    text: str = ""


@dataclass(slots=True)
class _Entry:
    key: str
    line: int
    first: str
    more: list[Line] = field(default_factory=list)


def read_notes(sections: Sequence[Section], prose: str, name: str) -> tuple[Notes, list[Finding]]:
    """The notes of all notes sections; `prose` is their text as it stands."""
    findings: list[Finding] = []
    entries = [e for s in sections for e in _entries(s, name, findings)]
    values: dict[str, list[tuple[int, str]]] = {}
    for entry in entries:
        values.setdefault(entry.key, []).extend(_values(entry))
    texts = {key: _single(key, values.get(key, []), name, findings) for key in TEXTS}
    lists = {key: _strings(key, values.get(key, [])) for key in LISTS}
    return Notes(
        trainer=texts["trainer"].lower(),
        metric=texts["metric"],
        direction=_direction(texts["direction"], values, name, findings),
        slug=texts["slug"],
        prepare=tuple(text for _, text in lists["prepare"]),
        cleanup=tuple(text for _, text in lists["cleanup"]),
        env=_env(lists["env"], name, findings),
        requires_env=_names(lists["requires_env"], name, findings),
        include=tuple(text for _, text in lists["include"]),
        first_step=_first_step(texts["first_step"], values, name, findings),
        keep_children=_flag(texts["keep_children"], values, name, findings),
        source=tuple(_source(text, n) for n, (_, text) in enumerate(lists["source"])),
        text=prose,
    ), findings


def _entries(section: Section, name: str, findings: list[Finding]) -> list[_Entry]:
    """Declared keys of a section: items outside code, and fenced yaml that holds our keys."""
    found: list[_Entry] = []
    blocks: dict[int, list[Line]] = {}
    current: tuple[_Entry, int] | None = None
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
    line: Line, current: tuple[_Entry, int] | None, found: list[_Entry], name: str, findings: list[Finding]
) -> tuple[_Entry, int] | None:
    """Put one line of prose where it belongs: a new entry, the one before, or nowhere."""
    if current and (line.indent > current[1] or _ends_open(current[0])):
        current[0].more.append(line)
        return current
    if not line.text.strip():
        return current
    if match := _ITEM.match(line.text):
        key = _key(match["key"])
        if key:
            found.append(_Entry(key, line.no, (match["rest"] or "").strip()))
            return found[-1], line.indent
        _suspect(match["key"], line.no, name, findings)
    return None


def _ends_open(entry: _Entry) -> bool:
    """Whether its last line of prose ends in a backslash."""
    last = entry.more[-1] if entry.more else None
    written = entry.first if last is None else "" if last.block else last.text
    return written.endswith("\\")


def _yaml_entries(block: Sequence[Line], name: str, findings: list[Finding]) -> list[_Entry]:
    """The entries of a fenced yaml block; [] where it is an excerpt of something else."""
    found: list[_Entry] = []
    strange: list[tuple[str, int]] = []
    current: _Entry | None = None
    for line in block:
        if re.match(r"\s*(?:#|$)", line.text) and not (current and current.first.startswith("|")):
            continue
        match = re.match(r"(?P<key>[A-Za-z_][\w-]*)\s*:(?:\s+(?P<rest>.*)|)$", line.text)
        if match is None:
            if current is not None:
                current.more.append(Line(line.no, line.text, len(line.text) - len(line.text.lstrip())))
            continue
        current = _Entry(_key(match["key"]), line.no, (match["rest"] or "").strip())
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


def _key(word: str) -> str:
    key = re.sub(r"[ -]+", "_", word.strip().lower())
    key = _ALIASES.get(key, key)
    return key if key in TEXTS or key in LISTS else ""


def _suspect(word: str, line: int, name: str, findings: list[Finding]) -> None:
    """A key that is nearly one of ours is told; any other word is prose."""
    key = re.sub(r"[ -]+", "_", word.strip().lower())
    close = difflib.get_close_matches(key, (*TEXTS, *LISTS), n=1, cutoff=0.82)
    if close and key not in ("sources", "notes"):
        message = f"{word!r} is taken as prose, not as a key"
        findings.append(warning(name, line, "unknown_note", message, f"did you mean `{close[0]}:`?"))


def _values(entry: _Entry) -> list[tuple[int, str]]:
    """The values of one entry: its line, its list items, or its block, each with its line."""
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
        return [(entry.line, _scalar(part)) for part in _comma(first[1:-1]) if part.strip()]
    if first.startswith("{") and first.endswith("}") and entry.key == "env":
        return [(entry.line, part.strip()) for part in _comma(first[1:-1]) if part.strip()]
    if not first:
        return _list_items(entry, more)
    text = first if not more else textwrap.dedent("\n".join(n.text for n in more))
    return [(entry.line, _scalar(first) if not more else f"{first}\n{text}".strip())]


def _list_items(entry: _Entry, more: Sequence[Line]) -> list[tuple[int, str]]:
    """`- a` lines one below the other; a deeper line continues the item; without bullets, one text."""
    bullets = [n for n in more if re.match(r"\s*[-*+]\s+\S", n.text)]
    if not bullets:
        if entry.key == "env":
            return [(n.no, n.text.strip()) for n in more if n.text.strip()]
        text = textwrap.dedent("\n".join(n.text for n in more)).strip("\n")
        return [(entry.line, _scalar(text))] if text else []
    margin = min(n.indent for n in bullets)
    found: list[tuple[int, str]] = []
    for line in more:
        bullet = re.match(r"\s*[-*+]\s+(.*)$", line.text)
        if bullet and line.indent <= margin:
            found.append((line.no, bullet[1].strip()))
        elif found and line.text.strip():
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line.text.strip()}")
    return [(no, _scalar(text)) for no, text in found]


def _comma(text: str) -> list[str]:
    return re.findall(r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^,\"']|[\"'])+", text)


def _scalar(text: str) -> str:
    """A YAML scalar: quotes off, a trailing ` # comment` off where it is not quoted."""
    text = text.strip()
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if text[:1] in "'`" and text[-1:] == text[:1] and len(text) > 1 and text[0] not in text[1:-1]:
        return text[1:-1]
    return text


def _single(key: str, values: Sequence[tuple[int, str]], name: str, findings: list[Finding]) -> str:
    """The one value of a key, without a comment behind it; two different ones are an error."""
    texts = [(no, re.sub(r"(?<=\S)\s+#\s.*$", "", text).strip()) for no, text in values]
    texts = [(no, text) for no, text in texts if text]
    different = next((no for no, text in texts if text != texts[0][1]), 0)
    if different:
        message = f"the notes give two values for {key} (lines {texts[0][0]} and {different})"
        findings.append(error(name, different, "note_twice", message, "keep one of them"))
    if texts and "\n" in texts[0][1]:
        findings.append(error(name, texts[0][0], "bad_note", f"{key} must be one line"))
        return ""
    return texts[0][1] if texts else ""


def _strings(key: str, values: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    if key == "requires_env":
        return [(no, word) for no, text in values for word in re.split(r"[\s,，、]+", text) if word]
    if key == "include":
        return [(no, line.strip()) for no, text in values for line in text.split("\n") if line.strip()]
    return [(no, text) for no, text in values if text.strip()]


def _env(values: Sequence[tuple[int, str]], name: str, findings: list[Finding]) -> dict[str, str]:
    """`NAME=value` or `NAME: value`, one or several lines; quoted values may hold anything."""
    env: dict[str, str] = {}
    for no, text in values:
        for line in text.split("\n"):
            key, mark, value = _assignment(re.sub(r"^(?:export\s+|[-*+]\s+)", "", line.strip()))
            if not line.strip():
                continue
            if not mark or not _NAME.match(key):
                message = f"env: {line.strip()[:60]!r} is not NAME=value"
                findings.append(error(name, no, "bad_env", message, "a name is letters, digits and _"))
            else:
                env[key] = _scalar(value)
    return env


def _assignment(text: str) -> tuple[str, str, str]:
    match = re.match(r"([^=:\s]*)\s*(=|:(?:\s|$))(.*)$", text)
    return (match[1], match[2], match[3]) if match else (text, "", "")


def _names(values: Sequence[tuple[int, str]], name: str, findings: list[Finding]) -> tuple[str, ...]:
    for no, word in values:
        if not _NAME.match(word.strip("`\"'$")):
            message = f"requires_env: {word[:60]!r} is not the name of a variable"
            findings.append(error(name, no, "bad_env", message))
    return tuple(dict.fromkeys(word.strip("`\"'$") for _, word in values))


def _at(key: str, values: Mapping[str, list[tuple[int, str]]]) -> int:
    return values[key][0][0] if values.get(key) else 0


def _direction(
    text: str, values: Mapping[str, list[tuple[int, str]]], name: str, findings: list[Finding]
) -> str:
    word = text.lower().strip("`\"'. ")
    if not word:
        return ""
    for wanted, names in (
        ("maximize", ("max", "maximize", "maximise", "higher", "up", "最大", "最大化")),
        ("minimize", ("min", "minimize", "minimise", "lower", "down", "最小", "最小化")),
    ):
        if word in names or word in (f"{names[3]} is better",):
            return wanted
    message = f"direction: {text[:60]!r} is neither maximize nor minimize"
    findings.append(error(name, _at("direction", values), "bad_note", message))
    return ""


def _first_step(
    text: str, values: Mapping[str, list[tuple[int, str]]], name: str, findings: list[Finding]
) -> str:
    word = text.lower().strip("`\"'. ")
    if word in ("", "any", "step", "metric", "auto"):
        return ""
    if word in ("kl", "kl_loss", "kl loss"):
        return "kl"
    message = f"first_step: {text[:60]!r} is neither kl nor any"
    findings.append(
        error(name, _at("first_step", values), "bad_note", message, "limits go to [exp_max_time]")
    )
    return ""


def _flag(text: str, values: Mapping[str, list[tuple[int, str]]], name: str, findings: list[Finding]) -> bool:
    word = text.lower().strip("`\"'. ")
    if word in ("true", "yes", "on", "1", "是"):
        return True
    if word not in ("", "false", "no", "off", "0", "否"):
        message = f"keep_children: {text[:60]!r} is neither true nor false"
        findings.append(error(name, _at("keep_children", values), "bad_note", message))
    return False


def _source(text: str, n: int) -> Source:
    """`jsonl path`, `dict_lines path`, `console`, or a path whose suffix says it."""
    word, _, rest = text.partition(" ")
    kinds = {kind.value: kind for kind in SourceFormat}
    given = kinds.get(word.lower().rstrip(":"))
    path = (rest if given else text).strip().strip("`\"'")
    kind = given or (
        SourceFormat.JSONL if path.endswith((".jsonl", ".json", ".ndjson")) else SourceFormat.DICT_LINES
    )
    return Source(kind, path, _DECLARED_FIRST + n)
