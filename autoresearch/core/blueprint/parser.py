"""From the bytes of a blueprint to a Blueprint: each stage takes what the one before it returned.

bytes -> Document of sections -> their items -> Notes, values of the sections, time limits -> checks -> Blueprint

A value is that of a typed item (`- dir: /data/x`), a code block, or what stands alone in the prose of its section.
Where two compete, none is chosen: the error has the line to write. Nothing is expanded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoresearch.core.blueprint.document import (
    NOTES,
    Document,
    LabelRole,
    Section,
    SectionItem,
    SourceLine,
    read_document,
)
from autoresearch.core.blueprint.finding import Finding, error, errors, warning
from autoresearch.core.blueprint.model import RESULT_ROOT, SECTION_KINDS, SECTIONS, Blueprint, Notes, SectionKind
from autoresearch.core.blueprint.notes import read_notes
from autoresearch.core.text.durations import find_durations, normalise, problem
from autoresearch.core.text.regex import later
from autoresearch.core.text.session_and_branch_names import SLUG_LEAST, slugify
from autoresearch.errors import BlueprintError

_NOTHING = later(
    r"^(?:n/?a|none|null|nil|nothing|not (?:needed|applicable)|tbd|todo|无|没有|不需要|未定|-+)"
    r"(?=$|[\s,，。;；:(（]|\.(?:\s|$))",
    re.IGNORECASE,
)
_EXAMPLE = later(r"(?:\be\.?g\b|\bfor example\b|\bsuch as\b|例如|比如|示例).*", re.IGNORECASE)
_CODE_SPAN = later(r"(?<!`)(`{1,3})(?!`)([^`\n]+)(?<!`)\1(?!`)")
_QUOTED = later(r"(\*\*|\"|'|`{1,3})(.+?)\1")
_START = later(r"(?:~[\w.-]*|\.{1,2})?/(?!/)|\.{1,2}$")
_WHOLE = later(r"[\w.+@%=,-]+(?:/[\w.+@%=,-]*)+|[\w.-]+\.(?:ya?ml|json|toml)|python[\d.]*|auto")
_TOKEN = later(
    r"(?<![A-Za-z0-9_/.:~-])"
    r"((?:~|\.{1,2})?/(?!/)[A-Za-z0-9_.+@%=,:/~${}-]*[A-Za-z0-9_/}]|[\w.-]+(?:/[\w.-]+)*\.ya?ml)"
)
_REMARK = later(r"(?<=\S)(?:\s+#(?:\s.*)?|\s*[(（](?!\d+[)）])[^()（）]*[)）]\s*)$")
_SENTENCE = later(r"[,;!?，。；！？](?:\s|$)|\w\.$|\s[-–—]\s|\s(?:is|are|and|or|holds?|contains?|which)\s|\s[是为在]")
_FIRST_WORD = later(r"(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\S*)\s*)*[a-z.~/$({\[]\S*|[A-Z]\w*=\S*|Rscript")
_SHELL = later(r"\s--?\w|\s[|&<>]|;\s|\\$|\$\w|\w/\w|\w\.\w|\s[\"']\S|^[A-Za-z_]\w*=|^[.~]{0,2}/")
_PROGRAM = later(r"(?:python[\d.]*|(?:ba|z)?sh|torchrun|accelerate|uv|ray|ajet|trl|make|srun|cd|export|source|set)$")
_OPENERS = frozenset({
    "use", "using", "run", "start", "see", "please", "note", "default", "train", "launch", "first", "then", "just",
    "as", "in", "on", "when", "each", "all", "any", "with", "by",
})  # fmt: skip
_PROSE = frozenset({"the", "an", "this", "that", "is", "are", "it", "we", "you", "to", "of", "our", "and", "or"})
_CONSOLE = frozenset({"console", "shell-session", "shellsession", "terminal"})
_RUNNABLE = (frozenset({"bash", "sh", "shell", "zsh"}) | _CONSOLE, frozenset({""}), frozenset({"text"}))


@dataclass(frozen=True, slots=True)
class SectionValue:
    """A value, its lines, and warnings about it."""

    text: str
    lines: tuple[int, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def line(self) -> int:
        """The first of its lines."""
        return self.lines[0]


def read_values(document: Document) -> tuple[dict[str, SectionValue], list[Finding]]:
    """section -> its value, for all sections that have one except [exp_max_time]; a path that says NA is "" here."""
    sections, values = document.named, dict[str, SectionValue]()
    findings: list[Finding] = []
    if section := sections.get("exp_purpose"):
        if value := _purpose(section.items):
            values["exp_purpose"] = value
        else:
            hint = "say what the experiment is for and how it differs from the others"
            findings.append(warning(section.line, "no_purpose", "[exp_purpose] says nothing", hint))
    for kind in SECTION_KINDS:
        if kind.is_path and kind.name in sections and (path := _path(sections[kind.name].items, kind)):
            values[kind.name] = path
            findings += path.findings
    command, problems = _launch_command(sections.get("exp_launch_command"))
    if command:
        values["exp_launch_command"] = command
    return values, findings + problems


def means_nothing(text: str) -> bool:
    """Whether a text means that there is no value: NA, none, null, 无 ..."""
    return bool(_NOTHING.match(text.strip()))


def _tiers(items: Sequence[SectionItem]) -> Iterator[list[SectionItem]]:
    """Typed items, then prose, then the descriptions, in which people put the value if they use no other key."""
    yield [item for item in items if item.role is LabelRole.VALUE]
    yield [item for item in items if item.role is LabelRole.PLAIN]
    yield [item for item in items if item.role is LabelRole.TEXT and item.label.startswith(("desc", "描述"))]


def _purpose(items: Sequence[SectionItem]) -> SectionValue | None:
    """The text of `purpose:` if given, else all of the section except hints; None if empty."""
    typed, plain, described = _tiers(items)
    chosen = [i for i in typed if i.text] or [i for i in items if i.text and (i in plain or i in described)]
    if not chosen:
        return None
    parts = [i.text if i.prose else "\n".join(n.text for n in i.more).strip("\n") for i in chosen]
    lines = {n for i in chosen for n in [i.line, *(m.no for m in i.more)]}
    return SectionValue("\n".join(parts).strip(), tuple(sorted(lines)))


def _path(items: Sequence[SectionItem], section_kind: SectionKind) -> SectionValue | None:
    """The path that a section names: with its key, in a code block, or alone on a line; None if it names none."""
    for tier in _tiers(items):
        block = next((block for item in tier for block in item.code[:1] if not item.first), None)
        if full := [line for line in block or () if line.text.strip()]:
            message = f"the path in [{section_kind.name}] goes over {len(full)} lines"
            wrong = (error(full[0].no, "path_of_lines", message, "keep one line"),) if len(full) > 1 else ()
            text = "\n".join(line.text for line in full)
            return SectionValue("" if means_nothing(text) else text, tuple(line.no for line in full), wrong)
        lines = [
            (no, text.strip(), item.role is LabelRole.VALUE)
            for item in tier
            for no, text in [one for one in item.prose if one[1].strip()][: 1 if item.role is LabelRole.VALUE else None]
        ]
        alone = {path.text: path for line in reversed(lines) if (path := _path_alone(*line))}
        if len(alone) > 1:
            *_, other, one = alone.values()
            message = f"[{section_kind.name}] names both {one.text or 'NA'} and {other.text or 'NA'}"
            hint = f"write the one that is meant as `- {section_kind.key}: {one.text or other.text}`"
            return SectionValue("", other.lines, (error(other.line, "two_paths", message, hint),))
        if alone:
            return next(iter(alone.values()))
        for no, text, _ in lines:
            if token := _TOKEN.search(_EXAMPLE.sub("", text)):
                message, written = f"the path in [{section_kind.name}] stands in a sentence", token[1].rstrip(".,:")
                hint = f"write it by itself: `- {section_kind.key}: {written}`"
                return SectionValue("", (no,), (error(no, "path_in_sentence", message, hint),))
    return None


def _path_alone(no: int, text: str, typed: bool) -> SectionValue | None:
    """The path that a line is, maybe with words and a colon in front of it, or a remark behind it.

    None for a sentence. What a key is given is a path whatever it looks like.
    """
    if not typed and _START.match(behind := re.split(r"[:：]\s+", _EXAMPLE.sub("", text))[-1]):
        text = behind
    if means_nothing(text):
        return SectionValue("", (no,))
    if quoted := _QUOTED.fullmatch(text):
        return SectionValue(quoted[2].strip() if text[0] == "`" else quoted[2], (no,))
    plain = _bare(_REMARK.sub("", text))
    if not (typed or _WHOLE.fullmatch(text) or (_START.match(plain) and not _SENTENCE.search(plain))):
        return None
    if plain == _bare(text):
        return SectionValue(plain, (no,))
    message = f"the remark behind the path is not taken as a part of it: {plain}"
    hint = "put the path in backquotes if that belongs to it"
    return SectionValue(plain, (no,), (warning(no, "trailing_remark", message, hint),))


def _bare(text: str) -> str:
    return re.sub(r"(?<=\w)\.$", "", text.rstrip("。；，;,"))


def _launch_command(section: Section | None) -> tuple[SectionValue | None, list[Finding]]:
    """The launch command, with an error if there is none, or if there are several."""
    hint = "write it as `- command: python -m ...` or in a fenced code block"
    if section is None:
        return None, [error(0, "missing_command", "there is no [exp_launch_command]", hint)]
    typed, plain, described = _tiers(section.items)
    commands = _commands(typed) or _commands(plain) or _commands(described)
    if typed and len(commands) == 1 and not looks_like_command(commands[0].text):
        commands = _blocks(plain) or commands  # `- command: see below`
    if len(commands) > 1:
        where = ", ".join(str(command.line) for command in commands[:5])
        message = f"[exp_launch_command] holds {len(commands)} commands (lines {where})"
        first = commands[0].text.split("\n")[0]
        hint = f"keep one, as `- command: {first}`; others can be joined with && or go to `prepare:` in the notes"
        return None, [error(commands[1].line, "many_commands", message, hint)]
    if not commands:
        return None, [error(section.line, "missing_command", "[exp_launch_command] holds no command", hint)]
    return commands[0], []


def looks_like_command(text: str, *, surely: bool = False) -> bool:
    """Whether a line is a shell command rather than a sentence; `surely`: few words alone are none."""
    line, words = text.strip(), text.split()
    if not words or words[0].lower() in _OPENERS | _PROSE or not _FIRST_WORD.match(line):
        return False
    if re.search(r"[。，：]|\w[.:]\s*$", line.split(" #")[0]) and not re.search(r"\s--?\w|/\w", line):
        return False  # it ends like a sentence
    known = _PROGRAM.match(words[0]) if surely else len(words) < 4
    return bool(_SHELL.search(line) or (known and not _PROSE.intersection(words)))


def _commands(items: Sequence[SectionItem]) -> list[SectionValue]:
    """The commands of these items: code blocks, else lines."""
    return _blocks(items) or [value for item in items if (value := _whole(item) or _run_of_lines(item))]


def _blocks(items: Sequence[SectionItem]) -> list[SectionValue]:
    """Their code blocks; those marked as shell win over unmarked ones, those over `text`."""
    blocks = [block for item in items for block in item.code if any(line.text.strip() for line in block)]
    coded = ([_code(block) for block in blocks if block[0].info in infos] for infos in _RUNNABLE)
    return next(filter(None, ([one for one in some if not means_nothing(one.text)] for some in coded)), [])


def _code(block: list[SourceLine]) -> SectionValue:
    full = [n for n, line in enumerate(block) if line.text.strip()]
    texts = [line.text for line in block[full[0] : full[-1] + 1]]
    if block[0].info in _CONSOLE and texts[0].lstrip().startswith("$ "):
        texts = [re.sub(r"^\s*\$ ", "", text) for text in texts]
    return SectionValue("\n".join(texts), tuple(line.no for line in block[full[0] : full[-1] + 1]))


def _whole(item: SectionItem) -> SectionValue | None:
    """The text of a typed item, or of one that is a code span, as it stands."""
    text = "\n".join(text for _, text in item.prose).strip()
    lines = tuple(no for no, line in item.prose if line.strip())
    if (span := _CODE_SPAN.fullmatch(text)) and "`" not in span[2]:
        return SectionValue(span[2].strip(), lines)
    if len(lines) == 1:
        text = re.sub(r"^[-*]\s+(?=[^-\s])", "", text)  # `- python x` below `- command:`
    said = text and not (means_nothing(text) or text[-1] in ":：") if len(lines) < 2 else True
    return SectionValue(text, lines) if said and item.role is LabelRole.VALUE else None


def _run_of_lines(item: SectionItem) -> SectionValue | None:
    """The first line of a paragraph that is a command, with its continuation lines."""
    taken: list[tuple[int, str]] = []
    margin = 0
    for no, text in item.prose if item.role is LabelRole.PLAIN else ():
        if not taken:
            behind = re.split(r"[:：]\s+", text, maxsplit=1)[-1]  # `Training command: python x`
            if command := next((one for one in (text, behind) if looks_like_command(one, surely=True)), ""):
                taken, margin = [(no, command.strip())], len(text) - len(text.lstrip())
        elif re.search(r"(?:\\|&&|\|\|?|;|\bdo|\bthen)\s*$", taken[-1][1]) or (
            text.strip() and (len(text) - len(text.lstrip()) > margin or looks_like_command(text))
        ):
            taken.append((no, text[margin:] if text[:margin].isspace() else text))
        else:
            break
    return SectionValue("\n".join(text for _, text in taken).strip(), tuple(no for no, _ in taken)) if taken else None


# `[exp_max_time]`: limits of a run, and of its whole campaign, distinguished by their labels, never by their order.

_FIRST = later(
    r"first[\s_-]*(?:\w+[\s_-]+){0,3}?(?:steps?|updates?|kl|loss|metrics?|iterations?|optimi[sz]er)\b"
    r"|first[_-]?step|\bstep (?:1|one)\b|\bkl\b|kl[_ ]loss|首步|首个|首次|第一步|第一个"
)
_EACH = later(  # of one run, where the total is that of the campaign: `10h total, 1h each`
    r"\beach\W*$|\beach\W{0,6}\d|(?:\b(?:each|per) (?:single )?|/ ?)(?:run|experiment|idea|trial|hypothesis|job)\b"
    r"|每个(?:实验|运行)|每次(?:实验|运行)"
)
_TOTAL = later(
    r"\bmax(?:imum)?\b|max[_ ]?time|\btotal\b|\b(?:in|over)[ -]?all\b|\bwhole\b|\bbudget\b|整体|总|最长"
    r"|一共|运行时间"
)
_COUNT = later(r"\b(\d{1,6}) (?:experiments?|ideas?|trials?|attempts?|hypothes[ei]s)\b|(\d{1,6})\s?个(?:实验|想法)")
_ASIDE = later(r"[(（]([^()（）]*\d[^()（）]*)[)）]")  # a clause of its own where it may hold a duration
_JOINED = later(r"\n(?![^\n]{0,40}[:：|]|\s*[-*+] )")  # the lines of a paragraph
_BULLETS = later(r"(?:\n|: )[-*+] ")
_CLAUSES = later(r"[,;，；。\n]|\.(?=\s|$)|\band\b")
_IN_WORDS = later(
    r"(?<!\w)(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half(?: an?)?|[a-z]+(?:teen|ty))"
    r"[ -](?:hours?|days?|minutes?)\b|(?<!第)[一二两三四五六七八九十百半]+[个個]?(?:天|小时|分钟)"
)
_LIMIT_ITEM = "write it as `- time: 12 hours in all, 40 minutes to the first step`"


@dataclass(frozen=True, slots=True)
class _LimitText:
    kind: str  # first, total, each or ""
    seconds: float
    line: int
    words: str


def read_time_limits(document: Document) -> tuple[dict[str, Any], int, list[Finding]]:
    """The fields of a Blueprint that the section gives; the line of the limit in all, 0 without one; and findings.

    Its description and hints count where nothing else says a duration.
    """
    if (section := document.named.get("exp_max_time")) is None:
        return {}, 0, []
    values = [item for item in section.items if item.role is not LabelRole.TEXT]
    limits = [limit for item in values for limit in _limits_in(item)]
    limits = limits or [limit for item in section.items for limit in _limits_in(item)]
    findings = [
        error(limit.line, "impossible_duration", f"{limit.words!r} {trouble}")
        for limit in limits
        if (trouble := "is in words, and is read in digits" if _IN_WORDS.match(limit.words) else problem(limit.seconds))
    ]
    if findings:
        return {}, 0, findings
    each, first, whole = _chosen(limits, findings)
    found: dict[str, Any] = {}
    if total := each or whole:
        found |= {"max_time_s": total.seconds, "max_time_given": True}
    if first:
        found |= {"first_step_s": first.seconds, "first_step_given": True}
    if each:
        found["run_time_s"] = each.seconds
        found["campaign_time_s"] = whole.seconds if whole and whole.seconds > each.seconds else None
    counts = (match[1] or match[2] for item in values if (match := _COUNT.search(normalise(item.text))))
    if count := next(counts, ""):
        found["campaign_count"] = int(count)
    return found, total.line if total else 0, findings if limits else [*findings, *_no_duration(values)]


def _chosen(
    limits: Sequence[_LimitText], findings: list[Finding]
) -> tuple[_LimitText | None, _LimitText | None, _LimitText | None]:
    """Those of each run, to the first step and in all; without a label it is in all. Two that compete are an error."""
    chosen: dict[str, _LimitText | None] = {}
    for kind, what in (("each", "for each run"), ("first", "to the first step"), ("total", "in all"), ("", "")):
        known = [one.seconds for one in chosen.values() if one]  # said again in another unit
        same = [limit for limit in limits if limit.kind == kind and (kind or limit.seconds not in known)]
        if not kind and chosen["total"]:
            same = []
        if other := next((limit for limit in same if limit.seconds != same[0].seconds), None):
            says = f"says both {{}} and {{}} {what}" if what else "does not say which limit is which: {} and {}"
            both = says.format(*(f"{limit.words!r} (line {limit.line})" for limit in (same[0], other)))
            findings.append(error(other.line, "two_limits", f"[exp_max_time] {both}", _LIMIT_ITEM))
        chosen[kind] = next(iter(same), None)
    return chosen["each"], chosen["first"], chosen["total"] or chosen[""]


def _no_duration(items: Sequence[SectionItem]) -> list[Finding]:
    """An error for a value without a duration: `time: 24` lacks a unit, `as long as it takes` is none."""
    for item in items:
        words = item.text if item.label or re.search(r"\d", item.text) or _IN_WORDS.search(item.text) else ""
        if words and not re.match(r"(?i)default|n/?a\b|none|默认|无|.*\$\{", words):
            message = f"[exp_max_time] holds no duration: {words.splitlines()[0][:60]!r}"
            return [error(item.line, "no_duration", message, _LIMIT_ITEM)]
    return []


def _limits_in(item: SectionItem) -> Iterator[_LimitText]:
    """Every duration of an item; the words of its clause say which limit it is."""
    text = normalise(f"{item.label.replace('_', ' ')}: {item.text}")
    text = _ASIDE.sub(r"; \1;", text if item.code else _BULLETS.sub("\n", _JOINED.sub(" ", text)))
    durations = find_durations(text)
    ends = [0, *(part.end for part in durations)]  # `1 hour and 30 minutes` is in one clause
    marks = (f"{text[at : part.start]}\0{n}\0" for n, (at, part) in enumerate(zip(ends, durations, strict=False)))
    marked = "".join([*marks, text[ends[-1] :]])
    for clause in _CLAUSES.split(marked):
        kind = next((kind for kind, words in _KINDS if words.search(clause)), "")
        if kind and (in_words := _IN_WORDS.search(clause)):  # else the other limit alone would count
            yield _LimitText(kind, math.nan, item.line, in_words[0])
        for part in (durations[int(n)] for n in re.findall(r"\0(\d+)\0", clause)):
            yield _LimitText(kind, part.seconds, item.line, " ".join(text[part.start : part.end].split())[:60])


_KINDS = (("first", _FIRST), ("each", _EACH), ("total", _TOTAL))


# Unreplaced `${...}` placeholders.
#
# In the launch command a shell expands `${VAR}`; it is an error where VAR is neither declared (`env:`, `requires_env:`)
# nor assigned in the command nor set in every shell; `$VAR` is never one. In any other value it is an error, as no
# shell reads it.

_EVERY_SHELL = frozenset({
    "HOME", "PATH", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "TMPDIR", "HOSTNAME", "LANG", "TERM",
    "UID", "EUID", "PPID", "RANDOM", "SECONDS", "LINENO", "BASH_SOURCE", "PIPESTATUS",
    "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "AUTORESEARCH_RUN_ID",
})  # fmt: skip
_PLACEHOLDER = later(r"(?<!\\)\$\{\s*([A-Za-z_][\w .-]*?)\s*\}")


def unreplaced(document: Document, values: Mapping[str, SectionValue], notes: Notes) -> Iterator[Finding]:
    """An error for every placeholder in a value that was never replaced."""
    command = values["exp_launch_command"].text if "exp_launch_command" in values else ""
    known = _EVERY_SHELL.union(notes.env, notes.requires_env, *map(_assigned, (*notes.prepare, command)))
    filled = {"exp_launch_command": known, "exp_purpose": set(_PLACEHOLDER.findall(command))}
    for key, section in ((key, section) for key, section in document.named.items() if key in SECTIONS):
        lines = {section.line: section.head, **{line.no: line.text for line in section.body}}
        unread = [item.line for item in section.items if item.role is not LabelRole.TEXT]
        for no in values[key].lines if key in values else unread:
            for name in _PLACEHOLDER.findall(lines[no]):
                hint = "write the value itself; no shell reads this text"
                if key == "exp_launch_command":
                    hint = f"write the value, or declare `requires_env: {name}` in the notes"
                if name not in filled.get(key, ()):
                    yield error(no, "placeholder", f"the placeholder ${{{name}}} was never replaced", hint)


def needed_variables(command: str) -> tuple[str, ...]:
    """The `${NAME}` of a command that neither it nor every shell sets."""
    known = _EVERY_SHELL.union(_assigned(command))
    return tuple(name for name in dict.fromkeys(_PLACEHOLDER.findall(command)) if name not in known)


def _assigned(command: str) -> list[str]:
    return re.findall(
        r"(?:^|[\s;&|(])(?:export\s+|local\s+|read\s+(?:-\w+\s+)*|for\s+)?([A-Za-z_]\w*)(?==|\s+in\s)",
        command,
    )


_GENERIC_TITLE = later(
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
    document = read_document(data)
    if not any(section.key in SECTIONS for section in document.sections):
        raise BlueprintInvalid(_located(document.findings, name))
    notes, note_findings = read_notes(document)
    values, value_findings = read_values(document)
    times, time_line, time_findings = read_time_limits(document)
    texts = {key: value.text for key, value in values.items()}
    title = _GENERIC_TITLE.sub("", document.title) or document.title
    slug = _slug(name, title, texts.get("exp_purpose", ""), notes)
    findings = [*document.findings, *note_findings, *value_findings, *time_findings]
    findings += unreplaced(document, values, notes)
    findings = _located([*findings, *_missing(document, slug)], name)
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
        notes=notes,
        lines=at | ({"exp_max_time": time_line} if time_line else {}),
        findings=tuple(findings),
        **times,
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


def _missing(document: Document, slug: str) -> Iterator[Finding]:
    """A warning for each section that is missing, with what is taken in its place."""
    for kind in SECTION_KINDS:
        if kind.name not in document.named and kind.name != "exp_launch_command":
            default = f"; taken: {kind.default.replace('<slug>', slug)}" if kind.default else ""
            yield warning(0, "section_missing", f"there is no [{kind.name}]{default}")
