"""The values of the sections as they are written: purpose, paths and launch command.

A value is that of a typed item (`- dir: /data/x`), a code block, or what stands alone in the prose of its section.
Where two compete, none is chosen: the error has the line to write. Nothing is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoresearch.core.blueprint.document import Document, LabelRole, Section, SectionItem, SourceLine
from autoresearch.core.blueprint.finding import Finding, error, warning
from autoresearch.core.blueprint.model import SECTION_KINDS, SectionKind
from autoresearch.core.text.regex import later

_MAX_COMMAND_BYTES = 131072  # Linux: the longest single argument of a program (MAX_ARG_STRLEN)
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
            findings.append(warning(section.line, "no_explanation", "[exp_purpose] says nothing", hint))
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
    """The path that a section names: with its key, in a code block, or alone in prose; None if it names none."""
    for tier in _tiers(items):
        block = next((block for item in tier for block in item.code[:1] if not item.first), None)
        if full := [line for line in block or () if line.text.strip()]:
            message = f"the path in [{section_kind.name}] goes over {len(full)} lines"
            wrong = (error(full[0].no, "path_of_lines", message, "keep one line"),) if len(full) > 1 else ()
            text = "\n".join(line.text for line in full)
            return SectionValue("" if means_nothing(text) else text, tuple(line.no for line in full), wrong)
        found: dict[str, SectionValue] = {}
        for item in tier:
            lines = [(no, text.strip()) for no, text in item.prose if text.strip()]
            for no, text in lines[:1] if item.role is LabelRole.VALUE else lines:
                for path in _paths_in(text, no, typed=item.role is LabelRole.VALUE):
                    found.setdefault(path.text, path)
        if len(found) > 1:
            one, other = list(found.values())[:2]
            message = f"[{section_kind.name}] names both {one.text or 'NA'} and {other.text or 'NA'}"
            hint = f"write the one that is meant as `- {section_kind.key}: {one.text or other.text}`"
            return SectionValue("", other.lines, (error(other.line, "two_paths", message, hint),))
        if found:
            return next(iter(found.values()))
    return None


def _paths_in(text: str, no: int, *, typed: bool) -> Iterator[SectionValue]:
    """The paths that one line names; of a typed item it is the whole line, unless that is a sentence about one."""
    if means_nothing(text):
        yield SectionValue("", (no,))
    elif quoted := _QUOTED.fullmatch(text):
        yield SectionValue(quoted[2].strip() if text[0] == "`" else quoted[2], (no,))
    elif _START.match(text) or (typed and not _TOKEN.search(text)) or _WHOLE.fullmatch(text):
        plain = _bare(_REMARK.sub("", text))
        findings: tuple[Finding, ...] = ()
        if plain != _bare(text):
            message = f"the remark behind the path is not taken as a part of it: {plain}"
            findings = (warning(no, "trailing_remark", message, "put the path in backquotes if that belongs to it"),)
        if not re.search(r"\s", plain) or not _SENTENCE.search(plain):
            yield SectionValue(plain, (no,), findings)
        else:
            first, _, rest = plain.partition(" ")
            more = [token[1].rstrip(".,:") for token in _TOKEN.finditer(rest)]
            yield from (SectionValue(_bare(path), (no,)) for path in (*_cut(first, plain), *more))
    else:
        sentence = _EXAMPLE.sub("", text)
        spans = [span[2].strip() for span in _CODE_SPAN.finditer(sentence)]
        paths = [span for span in spans if _START.match(span) or _WHOLE.fullmatch(span)]
        for token in _TOKEN.finditer(_CODE_SPAN.sub(" ", sentence)):
            paths += _cut(token[1].rstrip(".,:"), token.string[token.start() :])
        if typed and not any(map(_START.match, paths)):
            paths = [text]
        yield from (SectionValue(path, (no,)) for path in paths)


def _bare(text: str) -> str:
    return re.sub(r"(?<=\w)\.$", "", text.rstrip("。；，;,"))


def _cut(path: str, text: str) -> tuple[str, ...]:
    """The path that the text begins with; with what follows, too, where that may belong to it: `/data/my code/x`."""
    longer = re.match(rf"{re.escape(path)} [^\s/:]+/\S*", text)
    return (path, longer[0]) if longer else (path,)


def _launch_command(section: Section | None) -> tuple[SectionValue | None, list[Finding]]:
    """The launch command, with an error if there is none, if there are several, or if it is too long."""
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
    size = len(commands[0].text.encode())
    if size < _MAX_COMMAND_BYTES:
        return commands[0], []
    message = f"the launch command has {size} bytes, more than a shell takes"
    return commands[0], [error(commands[0].line, "long_command", message, "use a script")]


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
    """The commands of these items: code blocks, else lines, else what sentences quote."""
    if blocks := _blocks(items):
        return blocks
    if lines := [value for item in items if (value := _whole(item) or _run_of_lines(item))]:
        return lines
    spans = [(no, span) for i in items for no, text in i.prose for span in _CODE_SPAN.finditer(_EXAMPLE.sub("", text))]
    return [SectionValue(span[2].strip(), (no,)) for no, span in spans if looks_like_command(span[2])]


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
