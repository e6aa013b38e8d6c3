"""`[exp_max_time]`: limits of a run, and of its whole campaign, distinguished by their labels, never by their order."""

from __future__ import annotations

import bisect
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autoresearch.core.blueprint.document import Document, LabelRole, SectionItem
from autoresearch.core.blueprint.finding import Finding, error, warning
from autoresearch.core.run.limits import MAX_TIME_S
from autoresearch.core.text.durations import DurationMatch, find_durations, normalise, problem, spoken

_FIRST = re.compile(
    r"first[\s_-]*(?:\w+[\s_-]+){0,3}?(?:steps?|updates?|kl|loss|metrics?|iterations?|optimi[sz]er)\b"
    r"|first[_-]?step|\bstep (?:1|one)\b|\bkl\b|kl[_ ]loss|首步|首个|首次|第一步|第一个|第1步|第 1 步"
)
_TOTAL = re.compile(
    r"\bmax(?:imum)?\b|max[_ ]?time|\btotal\b|\bin all\b|\boverall\b|\baltogether\b|\bwhole\b|\bentire\b"
    r"|\bforce\w*|\bforcib\w+|\bbudget\b|\brun[- ]?time\b|\bwall\b|\bdeadline\b|\ball\b"
    r"|整体|总|最大|最长|强制|一共|共计|运行时间|全部"
)
_EACH = re.compile(  # of one run, where the total is that of the campaign: `10h total, 1h each`
    r"\beach\W*$|\beach\W{0,3}\d|(?:\b(?:each|per) (?:single )?|/ ?)(?:run|experiment|idea|trial|hypothesis|job)\b"
    r"|\bapiece\b"
    r"|每个(?:实验|运行)|每次(?:实验|运行)|单次"
)
_BOUND = re.compile(  # words for any limit: the one last mentioned, else the total time
    r"\bterminat\w+|\bkill\w*|\bcut\b|\bstop\w*|\blimit\w*|\btimeout\b|\bat most\b|\bwithin\b"
    r"|\b(?:no|not) (?:more|longer) than\b|\bexceed\w*|\bends?\b|最多|不超过|上限|终止|超时|以内|之内"
)
_NOISE = re.compile(r"\b(?:every|each|per|takes?|took|usually|typical\w*|about|around|roughly)\b|通常|大约|左右|一般")
_ASIDE = re.compile(  # before a duration they show that it is not one of the limits
    r"\b(?:every|checkpoint\w*|validation|warm\w*|sav(?:e|ed|ing)|interval|poll\w*|sleep)\b|每隔|每步|验证|保存"
)
_CLAUSES = re.compile(r"[,;，；。、()\[\]]|\.(?=\s|$)|\n|\s[-–—]\s|\b(?:and|with|but|while|whereas)\b")
_DEFAULTED = re.compile(r"\b(?:default\w*|n/?a|none|standard)\b|默认|缺省|无", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The limits of the section in seconds; None where not given."""

    max_s: float | None = None
    first_step_s: float | None = None
    max_line: int = 0
    campaign_s: float | None = None  # of all runs together


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
    whole = _one("total", tiers, findings) or _unlabelled(tiers, [] if each else findings)
    total = each or whole
    campaign_s = whole.seconds if each and whole and whole.seconds > each.seconds else None
    most, which = (total.seconds, "in all") if total else (MAX_TIME_S, "in all, the default")
    if first and first.seconds > most:
        message = f"the first step may take {spoken(first.seconds)}, longer than {spoken(most)} {which}"
        findings.append(warning(first.line, "limits_crossed", message))
    if not total and not first:
        findings += _no_duration(section.items, section.line)
    limits = TimeLimits(total.seconds if total else None, first.seconds if first else None, total.line if total else 0)
    return replace(limits, campaign_s=campaign_s), findings


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
    raw = [(item.line, label + item.first), *((line.no, line.text) for line in item.more)]
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
