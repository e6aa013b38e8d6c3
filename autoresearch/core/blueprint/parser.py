"""From the bytes of a blueprint to a Blueprint: each stage takes what the one before it returned.

bytes -> Document of sections -> their items -> Notes, values of the sections, time limits -> checks -> Blueprint
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autoresearch.core.blueprint.document import NOTES, Document, LabelRole, Section, SectionItem, read_document
from autoresearch.core.blueprint.finding import Finding, error, errors, warning
from autoresearch.core.blueprint.model import RESULT_ROOT, SECTION_KINDS, SECTIONS, Blueprint, Notes
from autoresearch.core.blueprint.notes import read_notes
from autoresearch.core.blueprint.values import SectionValue, read_values
from autoresearch.core.run.limits import FIRST_STEP_S, MAX_TIME_S
from autoresearch.core.text.durations import find_durations, normalise, problem
from autoresearch.core.text.regex import later
from autoresearch.core.text.session_and_branch_names import SLUG_LEAST, slugify
from autoresearch.errors import BlueprintError

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
_FILLERS = later(
    r"\b(?:or|and|for|is|in|of|whichever (?:comes|is) first|each|per|(?:run|experiment|idea|trial|job)s?)\b"
    r"|(?<!\w)[^\w\s]+|[^\w\s]+(?!\w)"
)
_ASIDE = later(r"[(（]([^()（）]*\d[^()（）]*)[)）]")  # a clause of its own where it may hold a duration
_JOINED = later(r"\n(?![^\n]{0,40}[:：|]|\s*[-*+] )")  # the lines of a paragraph
_BULLETS = later(r"(?:\n|: )[-*+] ")
_CLAUSES = later(r"[,;，；。\n]|\.(?=\s|$)|\band\b")
_LIMIT_ITEM = "write it as `- time: 12 hours in all, 40 minutes to the first step`"


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The limits of the section in seconds; None where not given."""

    max_s: float | None = None
    first_step_s: float | None = None
    max_line: int = 0
    campaign_s: float | None = None  # of all runs together
    each_s: float | None = None  # of each of several
    count: int | None = None  # of ideas


@dataclass(frozen=True, slots=True)
class _LimitText:
    kind: str  # first, total, each or ""
    seconds: float
    line: int
    words: str


def read_time_limits(document: Document) -> tuple[TimeLimits, list[Finding]]:
    """Both limits of the section, with findings; its description and hints count where nothing else says a duration."""
    if (section := document.named.get("exp_max_time")) is None:
        return TimeLimits(), []
    values = [item for item in section.items if item.role is not LabelRole.TEXT]
    limits = [limit for item in values for limit in _limits_in(item)]
    limits = limits or [limit for item in section.items for limit in _limits_in(item)]
    findings = [
        error(limit.line, "impossible_duration", f"{limit.words!r} {trouble}")
        for limit in limits
        if (trouble := problem(limit.seconds))
    ]
    if findings:
        return TimeLimits(), findings
    each, first, whole = _chosen(limits, findings)
    total = each or whole
    if not limits:
        findings += _no_duration(values)
    count = next(filter(None, (_count(normalise(item.text)) for item in values)), None)
    return TimeLimits(
        max_s=total.seconds if total else None,
        first_step_s=first.seconds if first else None,
        max_line=total.line if total else 0,
        campaign_s=whole.seconds if each and whole and whole.seconds > each.seconds else None,
        each_s=each.seconds if each else None,
        count=count,
    ), findings


def limits_in_line(text: str) -> TimeLimits:
    """What one line says of a campaign and its runs: `50 experiments or 10h total, 1h each`.

    Raises ValueError for what is not understood of it, by name.
    """
    normal, findings = normalise(text), list[Finding]()
    each, _, whole = _chosen(list(_limits_in(SectionItem(LabelRole.PLAIN, "", 1, -1, text))), findings)
    left, taken = _COUNT.sub(" ", normal), (each, whole)
    for part in reversed(find_durations(left)):
        known = any(one and one.seconds == part.seconds for one in taken)
        left = f"{left[: part.start]} {left[part.end :]}" if known and not problem(part.seconds) else left
    for words in (_TOTAL, _FILLERS):
        left = words.sub(" ", left)
    if findings or left.strip():
        unclear = f"{text!r} does not say which limit is which"
        raise ValueError(unclear if findings else f"{' '.join(left.split())!r} of {text!r} is no limit")
    campaign_s, each_s = whole.seconds if whole else None, each.seconds if each else None
    return TimeLimits(campaign_s=campaign_s, each_s=each_s, count=_count(normal))


def _count(text: str) -> int | None:
    match = _COUNT.search(text)
    return int(match[1] or match[2]) if match else None


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
        words = item.text if item.label or re.search(r"\d", item.text) else ""
        if words and not re.match(r"(?i)default|n/?a\b|none|默认|无|.*\$\{", words):
            message = f"[exp_max_time] holds no duration: {words.splitlines()[0][:60]!r}"
            return [error(item.line, "no_duration", message, _LIMIT_ITEM)]
    return []


def _limits_in(item: SectionItem) -> Iterator[_LimitText]:
    """Every duration of an item; the words of its clause say which limit it is."""
    text = normalise(f"{item.label.replace('_', ' ')}: {item.text}")
    text = _ASIDE.sub(r"; \1;", text if item.code else _BULLETS.sub("\n", _JOINED.sub(" ", text)))
    durations = find_durations(text)
    starts = [part.start for part in durations]
    cuts = [0]
    for cut in _CLAUSES.finditer(text):
        before = bisect.bisect(starts, cut.start()) - 1
        if before < 0 or durations[before].end <= cut.start():  # `1 hour and 30 minutes` is one
            cuts.append(cut.end())
    for part in durations:
        n = bisect.bisect(cuts, part.start)
        clause = text[cuts[n - 1] : cuts[n] - 1 if n < len(cuts) else None]
        kind = next((kind for kind, words in _KINDS if words.search(clause)), "")
        yield _LimitText(kind, part.seconds, item.line, " ".join(text[part.start : part.end].split())[:60])


_KINDS = (("first", _FIRST), ("each", _EACH), ("total", _TOTAL))


# Unreplaced `${...}` placeholders.
#
# In the launch command a shell expands `${VAR}`; it is an error where VAR is neither declared (`env:`, `requires_env:`)
# nor assigned in the command nor set in every shell; `$VAR` is never one. In any other value it is an error, as no
# shell reads it; in the words around a value it is a warning.

_EVERY_SHELL = frozenset({
    "HOME", "PATH", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "TMPDIR", "HOSTNAME", "LANG", "TERM",
    "UID", "EUID", "PPID", "RANDOM", "SECONDS", "LINENO", "BASH_SOURCE", "PIPESTATUS",
    "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "AUTORESEARCH_RUN_ID",
})  # fmt: skip
_PLACEHOLDER = later(r"(?<!\\)\$\{\s*([A-Za-z_][\w .-]*?)\s*\}")


def unreplaced(
    document: Document, values: Mapping[str, SectionValue], notes: Notes, *, timed: bool
) -> Iterator[Finding]:
    """Findings for every unreplaced placeholder; `timed`: whether [exp_max_time] gives the total time."""
    command = values.get("exp_launch_command")
    quoted = _PLACEHOLDER.findall(command.text) if command else []
    for key, section in ((key, section) for key, section in document.named.items() if key in SECTIONS):
        taken = values[key].lines if key in values else ()
        for no, text in ((section.line, section.head), *((line.no, line.text) for line in section.body)):
            for name in _PLACEHOLDER.findall(text):
                if (key == "exp_launch_command" and no in taken) or (key == "exp_purpose" and name in quoted):
                    continue  # the first is checked as shell code
                if no not in taken and (key in values or (key == "exp_max_time" and timed)):
                    yield warning(no, "placeholder", f"${{{name}}} in the explanation was never replaced")
                else:
                    yield _unreplaced(no, name, "write the value itself; no shell reads this text")
    if command:
        yield from _in_command(command, notes)


def needed_variables(command: str) -> tuple[str, ...]:
    """The `${NAME}` of a command that neither it nor every shell sets."""
    known = _EVERY_SHELL.union(_assigned(command))
    return tuple(name for name in dict.fromkeys(_PLACEHOLDER.findall(command)) if name not in known)


def _unreplaced(line: int, name: str, hint: str) -> Finding:
    return error(line, "placeholder", f"the placeholder ${{{name}}} was never replaced", hint)


def _in_command(value: SectionValue, notes: Notes) -> Iterator[Finding]:
    known = _EVERY_SHELL.union(notes.env, notes.requires_env, *map(_assigned, (value.text, *notes.prepare)))
    for n, text in enumerate(value.text.split("\n")):
        for name in (match[1] for match in _PLACEHOLDER.finditer(text)):
            if name not in known:
                no = value.lines[min(n, len(value.lines) - 1)]
                yield _unreplaced(no, name, f"write the value, or declare `requires_env: {name}` in the notes")


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
    times, time_findings = read_time_limits(document)
    texts = {key: value.text for key, value in values.items()}
    title = _GENERIC_TITLE.sub("", document.title) or document.title
    slug = _slug(name, title, texts.get("exp_purpose", ""), notes)
    findings = [*document.findings, *note_findings, *value_findings, *time_findings]
    findings += unreplaced(document, values, notes, timed=times.max_s is not None)
    findings = _located([*findings, *_unexplained(document, values, slug)], name)
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
        max_time_s=MAX_TIME_S if times.max_s is None else times.max_s,
        first_step_s=FIRST_STEP_S if times.first_step_s is None else times.first_step_s,
        max_time_given=times.max_s is not None,
        first_step_given=times.first_step_s is not None,
        campaign_time_s=times.campaign_s,
        run_time_s=times.each_s,
        campaign_count=times.count,
        notes=notes,
        lines=at | ({"exp_max_time": times.max_line} if times.max_line else {}),
        findings=tuple(findings),
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


def _unexplained(document: Document, values: Mapping[str, SectionValue], slug: str) -> Iterator[Finding]:
    """Warnings about sections that are missing or have no explanation: each should state why (R7 of the format)."""
    for kind in SECTION_KINDS:
        key, section = kind.name, document.named.get(kind.name)
        if section is None:
            if key != "exp_launch_command":
                default = f"; taken: {kind.default.replace('<slug>', slug)}" if kind.default else ""
                yield warning(0, "section_missing", f"there is no [{key}]{default}")
        elif key != "exp_purpose" and not _is_explained(section, values.get(key)):
            message = f"[{key}] holds no explanation, only a value" if section.items else f"[{key}] is empty"
            hint = "add `- description:` so that a reader knows why"
            yield warning(section.line, "no_explanation", message, hint)


def _is_explained(section: Section, value: SectionValue | None) -> bool:
    """Whether a section has words besides its value."""
    if section.key == "exp_max_time":
        return any(item.text for item in section.items)
    lines = dict(line for item in section.items for line in item.prose)
    own = value.lines if value else ()
    if value and len(own) == 1 and own[0] in lines:
        lines[own[0]] = lines[own[0]].replace(value.text, "", 1)
        own = ()
    return any(no not in own and re.search(r"[^\W\d_]{2,}", text) for no, text in lines.items())
