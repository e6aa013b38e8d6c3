"""From the bytes of a blueprint to a Blueprint: each stage takes what the one before it returned.

bytes -> Document of sections -> their items -> Notes, values of the sections, time limits -> checks -> Blueprint
"""

from __future__ import annotations

import bisect
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autoresearch.core.blueprint.document import NOTES, Document, LabelRole, Section, SectionItem, read_document
from autoresearch.core.blueprint.finding import Finding, error, errors, warning
from autoresearch.core.blueprint.items import with_items
from autoresearch.core.blueprint.model import RESULT_ROOT, SECTION_KINDS, SECTIONS, Blueprint, Notes
from autoresearch.core.blueprint.notes import read_notes
from autoresearch.core.blueprint.values import SectionValue, read_values
from autoresearch.core.run.limits import FIRST_STEP_S, MAX_TIME_S
from autoresearch.core.text.durations import DurationMatch, find_durations, normalise, problem, spoken
from autoresearch.core.text.regex import later
from autoresearch.core.text.session_and_branch_names import SLUG_LEAST, slugify
from autoresearch.errors import BlueprintError

# `[exp_max_time]`: limits of a run, and of its whole campaign, distinguished by their labels, never by their order.

_FIRST = later(
    r"first[\s_-]*(?:\w+[\s_-]+){0,3}?(?:steps?|updates?|kl|loss|metrics?|iterations?|optimi[sz]er)\b"
    r"|first[_-]?step|\bstep (?:1|one)\b|\bkl\b|kl[_ ]loss|首步|首个|首次|第一步|第一个|第1步|第 1 步"
)
_TOTAL = later(
    r"\bmax(?:imum)?\b|max[_ ]?time|\btotal\b|\bin all\b|\boverall\b|\baltogether\b|\bwhole\b|\bentire\b"
    r"|\bforce\w*|\bforcib\w+|\bbudget\b|\brun[- ]?time\b|\bwall\b|\bdeadline\b|\ball\b"
    r"|整体|总|最大|最长|强制|一共|共计|运行时间|全部"
)
_EACH = later(  # of one run, where the total is that of the campaign: `10h total, 1h each`
    r"\beach\W*$|\beach\W{0,6}\d|(?:\b(?:each|per) (?:single )?|/ ?)(?:run|experiment|idea|trial|hypothesis|job)\b"
    r"|\bapiece\b"
    r"|每个(?:实验|运行)|每次(?:实验|运行)|单次"
)
_BOUND = later(  # words for any limit: the one last mentioned, else the total time
    r"\bterminat\w+|\bkill\w*|\bcut\b|\bstop\w*|\blimit\w*|\btimeout\b|\bat most\b|\bwithin\b"
    r"|\b(?:no|not) (?:more|longer) than\b|\bexceed\w*|\bends?\b|最多|不超过|上限|终止|超时|以内|之内"
)
_NOISE = later(r"\b(?:every|each|per|takes?|took|usually|typical\w*|about|around|roughly)\b|通常|大约|左右|一般")
_ASIDE = later(  # before a duration they show that it is not one of the limits
    r"\b(?:every|checkpoint\w*|validation|warm\w*|sav(?:e|ed|ing)|interval|poll\w*|sleep)\b|每隔|每步|验证|保存"
)
_COUNT = later(r"\b(\d{1,6}) (?:experiments?|ideas?|trials?|attempts?|hypothes[ei]s)\b|(\d{1,6})\s?个(?:实验|想法)")
_BULLET = later(r"\s*(?:[-*+]|\d{1,2}[.)])\s+(?=\S)")
_FILLERS = later(
    r"\b(?:or|and|for|is|in|of|whichever (?:comes|is) first|each|per|(?:run|experiment|idea|trial|job)s?)\b"
    r"|(?<!\w)[^\w\s]+|[^\w\s]+(?!\w)"
)
_CLAUSES = later(r"[,;，；。、()\[\]]|\.(?=\s|$)|\n|\s[-–—]\s|\b(?:and|with|but|while|whereas)\b")
_DEFAULTED = later(r"\b(?:default\w*|n/?a|none|standard)\b|默认|缺省|无", re.IGNORECASE)


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
    kind: str  # first, total, each, noise or ""
    seconds: float
    line: int
    words: str


def read_time_limits(document: Document) -> tuple[TimeLimits, list[Finding]]:
    """Both limits of the section, with findings. Its values take precedence over its description and hints."""
    if (section := document.named.get("exp_max_time")) is None:
        return TimeLimits(), []
    values = [s for i in section.items if i.role not in (LabelRole.TEXT, LabelRole.DEFAULT) for s in _durations(i)]
    texts = [s for i in section.items if i.role in (LabelRole.TEXT, LabelRole.DEFAULT) for s in _durations(i)]
    tiers = (values, texts)
    findings = [
        error(limit.line, "impossible_duration", f"{limit.words!r} {trouble}")
        for limit in values + texts
        if (trouble := problem(limit.seconds))
    ]
    if findings:
        return TimeLimits(), findings
    each, first = _one("each", (values or texts,), findings), _one("first", tiers, findings)
    known = [one.seconds for one in (each, first) if each and one]  # said again in another unit
    rest = [[one for one in tier if one.seconds not in known] for tier in tiers]
    whole = _one("total", tiers, findings) or _unlabelled(rest, findings)
    total = each or whole
    campaign_s = whole.seconds if each and whole and whole.seconds > each.seconds else None
    if each and whole and whole.seconds < each.seconds:
        message = f"{whole.words!r} is shorter than {each.words!r}, and is not taken for the time of all runs"
        findings.append(warning(whole.line, "limits_crossed", message))
    most, which = (total.seconds, "in all") if total else (MAX_TIME_S, "in all, the default")
    if first and first.seconds > most:
        message = f"the first step may take {spoken(first.seconds)}, longer than {spoken(most)} {which}"
        findings.append(warning(first.line, "limits_crossed", message))
    if not total and not first:
        findings += _no_duration(section.items, section.line)
    limits = TimeLimits(total.seconds if total else None, first.seconds if first else None, total.line if total else 0)
    counts = (_count(normalise(item.text)) for item in section.items if item.role is not LabelRole.TEXT)
    count, each_s = next(filter(None, counts), None), each.seconds if each else None
    return replace(limits, campaign_s=campaign_s, each_s=each_s, count=count), findings


def limits_in_line(text: str) -> TimeLimits:
    """What one line says of a campaign and its runs: `50 experiments or 10h total, 1h each`.

    Raises ValueError for what is not understood of it, by name.
    """
    normal = normalise(text)
    found = _durations(SectionItem(LabelRole.PLAIN, "", 1, -1, text))
    findings: list[Finding] = []
    each = _one("each", (found,), findings)
    whole = _one("total", (found,), findings) or _unlabelled((found,), findings)
    left, taken = _COUNT.sub(" ", normal), (each, whole)
    for part in reversed(find_durations(left)):
        known = any(one and one.seconds == part.seconds for one in taken)
        left = f"{left[: part.start]} {left[part.end :]}" if known and not problem(part.seconds) else left
    for words in (_FILLERS, _TOTAL, _BOUND):
        left = words.sub(" ", left)
    if findings or left.strip():
        unclear = f"{text!r} does not say which limit is which"
        raise ValueError(unclear if findings else f"{' '.join(left.split())!r} of {text!r} is no limit")
    return TimeLimits(
        campaign_s=whole.seconds if whole else None, each_s=each.seconds if each else None, count=_count(normal)
    )


def _count(text: str) -> int | None:
    match = _COUNT.search(text)
    return int(match[1] or match[2]) if match else None


def _one(kind: str, tiers: Sequence[Sequence[_LimitText]], findings: list[Finding]) -> _LimitText | None:
    """The limit of this kind in the first tier that has it; two different ones are an error."""
    for tier in tiers:
        same = [s for s in tier if s.kind == kind]
        other = next((s for s in same if s.seconds != same[0].seconds), None)
        if other:
            what = {"total": "in all", "each": "for each run"}.get(kind, "to the first step")
            message = (
                f"[exp_max_time] says both {spoken(same[0].seconds)} (line {same[0].line}) "
                f"and {spoken(other.seconds)} (line {other.line}) {what}"
            )
            findings.append(error(other.line, "two_limits", message, "keep one of them"))
        if same:
            return same[0]
    return None


def _unlabelled(tiers: Sequence[Sequence[_LimitText]], findings: list[Finding]) -> _LimitText | None:
    """A single duration without a label is the total time; two different ones are an error."""
    for tier in tiers:
        bare = [s for s in tier if not s.kind]
        if len({s.seconds for s in bare}) > 1:
            both = " and ".join(f"{s.words!r} (line {s.line})" for s in bare[:2])
            hint = "write `24 hours in all, 20 minutes to the first step`"
            message = f"[exp_max_time] does not say which limit is which: {both}"
            findings.append(error(bare[1].line, "unlabelled_durations", message, hint))
        if bare:
            return bare[0]
    return None


def _no_duration(items: Sequence[SectionItem], line: int) -> list[Finding]:
    """An error for a value without a duration: `time: 24` lacks a unit, `as long as it takes` is none."""
    for item in items:
        text = item.text
        if item.role not in (LabelRole.VALUE, LabelRole.CONTENT) and not (
            item.role is LabelRole.PLAIN and re.search(r"\d", text)
        ):
            continue
        if text and not _DEFAULTED.search(text) and "${" not in text:
            message = f"[exp_max_time] holds no duration: {text.splitlines()[0][:60]!r}"
            return [error(item.line or line, "no_duration", message, "write it like 24 hours or 90 min")]
    return []


def _durations(item: SectionItem) -> list[_LimitText]:
    """Every duration of an item, classified by the words of its clause.

    A clause without one says of what kind the next is, and so does `First step success timeout:` for all below it.
    """
    label = f"{item.label}: " if item.label and item.role is LabelRole.VALUE and item.label != "time" else ""
    below = ((line.no, line.text if line.block else _BULLET.sub("", line.text, count=1)) for line in item.more)
    raw = [(item.line, label + item.first), *below]
    lines = [(no, text) for no, text in ((no, normalise(text).strip()) for no, text in raw) if text]
    text, starts = "\n".join(text for _, text in lines), [0]
    for _, line in lines:
        starts.append(starts[-1] + len(line) + 1)
    limits: list[_LimitText] = []
    heading, context, timed = "", "", False
    for start, stop, durations in _clauses(text):
        clause = text[start:stop]
        if text[start - 1 : start] in ("", "\n"):
            context, timed = context or heading, False
        if durations:
            for part, kind in _kinds(text, start, stop, durations, context):
                no = lines[bisect.bisect(starts, part.start) - 1][0]
                limits.append(_LimitText(kind, part.seconds, no, " ".join(text[part.start : part.end].split())[:60]))
            context, timed = "", True
        else:
            context = _kind(clause, context) or context
        if text[stop : stop + 1] in ("", "\n"):
            written = text[:stop].rstrip(" *_")
            heading = context if written.endswith(":") and not timed else heading
            context = "" if timed or written.endswith((".", "。", "!", ";")) else context
    return limits


def _kinds(
    text: str, start: int, stop: int, durations: Sequence[DurationMatch], context: str
) -> Iterator[tuple[DurationMatch, str]]:
    """The durations of one clause, each with its kind: of words before it, or behind it where those stand there."""
    before = bool(_kind(text[start : durations[0].start], ""))
    edges = [start, *(edge for part in durations for edge in (part.start, part.end)), stop]
    for n, part in enumerate(durations):
        left, right = text[edges[2 * n] : part.start], text[part.end : edges[2 * n + 3]]
        around = text[start:stop] if len(durations) == 1 else left if before else right
        kind = _kind(around, context) or ("noise" if _NOISE.search(around) else context)
        of = kind == "each" and text[start : part.start].rstrip().endswith(" of")  # `20 rollouts of seven minutes each`
        yield part, "noise" if of or (kind != "first" and _ASIDE.search(left)) else kind


def _clauses(text: str) -> Iterator[tuple[int, int, list[DurationMatch]]]:
    """Start and end of each clause with its durations; a comma or an `and` inside a duration separates none."""
    durations, at = deque(find_durations(text)), 0
    for start, stop in [*(cut.span() for cut in _CLAUSES.finditer(text)), (len(text), len(text))]:
        own = list[DurationMatch]()
        while durations and durations[0].end <= start:
            own.append(durations.popleft())
        if durations and durations[0].start < start:
            durations.extendleft(reversed(own))
            continue
        yield at, start, own
        at = stop


def _kind(words: str, context: str) -> str:
    """first, total, each or "": from the words themselves, or from the kind last mentioned."""
    if _FIRST.search(words):
        return "first"
    if _EACH.search(words):
        return "each"
    if _TOTAL.search(words):
        return "total"
    return (context or "total") if _BOUND.search(words) else ""


# Unreplaced `${...}` placeholders: errors, unless a shell will expand them or the text defines them.
#
# The rules:
# - `${Name} = value` defines it: prose may use it, values may not.
# - In the launch command a shell expands `${VAR}`. It is an error if VAR is a name of the published template,
#   or is neither declared (`env:`, `requires_env:`), nor assigned in the command, nor set in every shell.
#   `$VAR` without braces is never a placeholder.
# - In a path or a purpose it is an error: no shell reads those.
# - In `[exp_max_time]` it is an error unless the section gives the total time otherwise.
# - In a description, hint or warning it is an error unless the section has its value.
# - In the notes only the template's names are errors; the rest may be shell code for a reader.

_TEMPLATE_NAMES = frozenset({
    "maxtime", "max_time", "testfreq", "subject_dir", "subject_name", "exp_stage", "n", "runner",
    "path_to_blue_print", "path_to_blueprint", "max_parallel_blueprints", "exp_purpose",
    "exp_codebase_dir", "exp_venv_exe", "exp_yaml_path", "exp_launch_command", "exp_result_dir",
    "exp_max_time",
})  # fmt: skip
_EVERY_SHELL = frozenset({
    "HOME", "PATH", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "TMPDIR", "HOSTNAME", "LANG", "TERM",
    "UID", "EUID", "PPID", "RANDOM", "SECONDS", "LINENO", "BASH_SOURCE", "PIPESTATUS",
    "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "AUTORESEARCH_RUN_ID",
})  # fmt: skip
_PLACEHOLDER = later(r"(?<!\\)\$\{\s*([A-Za-z_][\w .-]*?)\s*\}")
_TWO_WORDS = later(r"[^\W\d_]{3,}.*[^\W\d_]{3,}")
_FOUR_HAN = later(r"[\u4e00-\u9fff]{4,}")
_DEFINED = later(r"\$\{\s*([A-Za-z_][\w .-]*?)\s*\}\s*(?:=|:=|＝|是|为)\s*\S")


def unreplaced(
    document: Document, values: Mapping[str, SectionValue], notes: Notes, *, timed: bool
) -> Iterator[Finding]:
    """Findings for every unreplaced placeholder; `timed`: whether [exp_max_time] gives the total time."""
    defined = {m[1].lower() for s in document.named.values() for line in s.body for m in _DEFINED.finditer(line.text)}
    command = values.get("exp_launch_command")
    commands = _PLACEHOLDER.findall(command.text) if command else []
    for key, section in document.named.items():
        taken, own = set(values[key].lines) if key in values else set(), key in SECTIONS
        texts = [item for item in section.items if item.role is LabelRole.TEXT]
        talk = {no for item in texts for no in (item.line, *(line.no for line in item.more))} - taken
        for no, name in _placeholders(section):
            if key == NOTES:
                if name.lower() in _TEMPLATE_NAMES - defined and not re.fullmatch(r"[a-z]|runner", name):
                    yield _unreplaced(no, name, "write the value itself")
            elif not own or (key == "exp_max_time" and timed) or (no not in taken and name.lower() in defined):
                continue
            elif key == "exp_launch_command" and no in taken:
                continue  # checked as shell code, below
            elif key == "exp_purpose" and name in commands:
                continue  # it quotes the command
            elif no in talk and key in values and key != "exp_purpose":
                yield warning(no, "placeholder", f"${{{name}}} in the explanation was never replaced")
            else:
                yield _unreplaced(no, name, "write the value itself; no shell reads this text")
    if command:
        yield from _in_command(command, notes)


def needed_variables(command: str) -> tuple[str, ...]:
    """The `${NAME}` of a command that neither it nor every shell sets."""
    known = _EVERY_SHELL.union(_assigned(command))
    return tuple(name for name in dict.fromkeys(_PLACEHOLDER.findall(command)) if name not in known)


def _placeholders(section: Section) -> Iterator[tuple[int, str]]:
    """(line, name) of each placeholder."""
    for no, text in ((section.line, section.head), *((line.no, line.text) for line in section.body)):
        yield from ((no, match[1]) for match in _PLACEHOLDER.finditer(text))


def _unreplaced(line: int, name: str, hint: str) -> Finding:
    return error(line, "placeholder", f"the placeholder ${{{name}}} was never replaced", hint)


def _in_command(value: SectionValue, notes: Notes) -> Iterator[Finding]:
    own = set(_assigned(value.text))
    known = _EVERY_SHELL.union(notes.env, notes.requires_env, *map(_assigned, notes.prepare))
    for n, text in enumerate(value.text.split("\n")):
        for name in (match[1] for match in _PLACEHOLDER.finditer(text)):
            if name not in own and (name not in known or name.lower() in _TEMPLATE_NAMES):
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
    document = with_items(read_document(data))
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
    if value and value.explained:
        return True
    if section.key == "exp_max_time":
        texts = [item.text for item in section.items]
        return any(map(_TWO_WORDS.search, texts)) or any(_FOUR_HAN.search(one) for one in texts if not one.isascii())
    taken = set(value.lines) if value else set()
    return any(_explains(item, taken) for item in section.items)


def _explains(item: SectionItem, taken: set[int]) -> bool:
    """Whether an item has words besides the lines of the value."""
    if item.role is LabelRole.TEXT or len(re.findall(r"\w+", item.label)) > 1:
        return bool(item.text)
    return any(no not in taken and re.search(r"[^\W\d_]{2,}", text) for no, text in item.prose)
