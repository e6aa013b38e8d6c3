"""The ideas of a campaign, and of earlier ones, as an agent is told of them: what each changed, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median_low

from autoresearch.core.agents.proposals import title_of
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.overrides import shown
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import beside_words, worth_words
from autoresearch.core.controller.standing import PLACES, Basis, Word
from autoresearch.core.metrics.objective import Point
from autoresearch.core.text.regex import later
from autoresearch.lab.agent_work.prompt_parts import fenced, section, within
from autoresearch.lab.agent_work.propose_context import Curves, ProposeContext, failure_of
from autoresearch.lab.campaign_report import formatting
from autoresearch.lab.campaign_report.curves_and_diffs import Diff, diff_of
from autoresearch.lab.campaign_report.memory import (
    LOST,
    OPEN,
    campaign_line,
    found_ideas,
    members,
    named,
    over,
    quotations,
)
from autoresearch.lab.campaign_report.summary import IdeaLine
from autoresearch.lab.ideas.tried_before import earlier_campaigns
from autoresearch.lab.results.measure import thinned
from autoresearch.runner.masking import mask_text

DIFF_BYTES = 900  # of one idea
DIFF_LINES = 40
MOST_TITLE = 100
_LESS_TELLING = later(r"(?i)tim(?:e|ing)|perf|memory|mem_|throughput|tokens_per|epoch|_s$|/(?:max|min)$")
MOST_METRICS = 12
POINTS = 5  # of a curve
_UNDECIDED = (Word.RUNNING, Word.PREPARED)
_FIRST = (Word.BASELINE, Word.CONFIRMED, Word.KEPT, Word.IN_TIP, Word.DEMOTED, Word.BETTER)


def changed(hypothesis: Hypothesis) -> str:
    """What an idea changes: its settings, else its title."""
    if hypothesis.merges:
        return f"the merge of {', '.join(hypothesis.merges)}"
    settings = ", ".join(f"{key}={shown(value)}" for key, value in hypothesis.overrides.items())
    return settings if settings and not hypothesis.patches else title_of(hypothesis)


def ideas_section(propose_context: ProposeContext, most: int, most_diffs: int) -> str:
    """All ideas if they fit, else what was kept and the newest; then the code that new ideas build on."""
    if not propose_context.lines:
        return ""
    state = propose_context.state
    rows = {line.idea.index: _row(propose_context, line) for line in propose_context.lines}
    chosen: set[int] = set()
    size = 0
    for index in (line.idea.index for line in _by_interest(propose_context.lines)):
        size += len(rows[index].encode()) + 1
        if size > most:
            break
        chosen.add(index)
    lines = [rows[index] for index in sorted(chosen)]
    if left := [line for line in propose_context.lines if line.idea.index not in chosen]:
        kinds: dict[str, int] = {}
        for line in left:
            kinds[line.word] = kinds.get(line.word, 0) + 1
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        lines.append(f"... {len(left)} older ideas are left out ({told})")
    note = "slug | parent | change | standing | mean (runs) | what it changes in the metric, or why it stands there"
    tip = "`in the tip`: part of what new ideas are tried on. `set aside`: seems good, but not in it. `out`: no gain."
    diffs = (_code(slug, diff) for slug, diff in propose_context.diffs.items() if diff.lines)
    lines += [f"{slug} is the merge of {', '.join(merges)}" for slug, merges in _merges(propose_context)]
    code = within(diffs, most_diffs, lambda n: f"... and {n} more: read the code")
    return "\n".join(
        part
        for part in (
            section("Ideas so far, oldest first", [*([tip] if state.searches_by_tip else []), note, "---", *lines]),
            section("The code that new ideas build on", code),
        )
        if part
    )


def _merges(propose_context: ProposeContext) -> list[tuple[str, tuple[str, ...]]]:
    """The merges without a run that the ideas name as their parents, and that of now."""
    state, lines = propose_context.state, propose_context.lines
    told, named = {line.idea.slug for line in lines}, {line.idea.parent for line in lines}
    merges = [idea for idea in state.ideas if idea.hypothesis.merges and idea.slug not in told]
    return [(one.slug, one.hypothesis.merges) for one in merges if one is state.tip or one.slug in named][-6:]


def _by_interest(idea_lines: Sequence[IdeaLine]) -> list[IdeaLine]:
    """The baseline and what is good, then the newest."""
    first = [line for line in idea_lines if line.word in _FIRST]
    first = [*first[:1], *reversed(first[1:])][:15]
    chosen = {line.idea.index for line in first}
    return [*first, *(line for line in reversed(idea_lines) if line.idea.index not in chosen)]


def _row(propose_context: ProposeContext, idea_line: IdeaLine) -> str:
    state, idea, one = propose_context.state, idea_line.idea, idea_line.stands
    names = [what for what, known in (("to beat", state.best), ("the tip", state.tip)) if known is idea]
    cells = (
        idea.slug + (f" ({', '.join(names)})" if names else ""),
        idea.parent or "-",
        formatting.plain("nothing" if idea.hypothesis.is_baseline else changed(idea.hypothesis), MOST_TITLE),
        str(one.word),
        "-" if one.search_mean is None else f"{one.search_mean:.4g} ({len(idea.values)})",
        _why(propose_context, idea_line) or "-",
    )
    return " | ".join(formatting.plain(cell, 170).replace("|", "/") for cell in cells)


def _why(propose_context: ProposeContext, idea_line: IdeaLine) -> str:
    state, idea, one = propose_context.state, idea_line.idea, idea_line.stands
    if one.word in _UNDECIDED:
        return ""
    if idea.hypothesis.unmade or one.word is Word.CRASHED:
        return failure_of(idea)
    if one.word in PLACES and (worth := worth_words(state, idea)):
        doubt = state.distrusted(idea) if one.word is Word.ASIDE else ""
        waits = f"; waits for a person's approval: {doubt}" if doubt else ""
        return f"{worth}{beside_words(state, idea, lambda one: one.slug)}{waits}"
    fresh = one.basis is Basis.FRESH
    if one.gain is not None and (fresh or not one.reason):
        return f"{state.spec.objective.change(one.gain):+.3g} to the baseline{' in fresh runs' if fresh else ''}"
    return one.reason


def _code(slug: str, code_diff: Diff) -> str:
    """Its lines, without what git says above them."""
    lines = [text for kind, text in code_diff.lines if kind != "head" or text.startswith("+++")]
    return fenced("\n".join(lines), f"diff of {slug}", most=DIFF_BYTES, lines=DIFF_LINES)


def told_metrics(propose_context: ProposeContext) -> list[str]:
    """The metrics whose course is told, beside the objective's: those of time, memory and extremes last; none twice."""
    found = dict[tuple[Point, ...], str]()
    for key in sorted(propose_context.metrics, key=lambda key: (bool(_LESS_TELLING.search(key)), key)):
        points = next((tuple(series[key]) for _, series in propose_context.seen if key in series), ())
        if key != propose_context.state.spec.objective.metric and len({value for _, value in points}) > 1:
            found.setdefault(points, key)
    return list(found.values())[:MOST_METRICS]


def course_of(points: Sequence[Point]) -> str:
    """`0:0.1, 8:0.2, 16:0.3`: a few points of a curve, by their steps."""
    finite = [point for point in points if math.isfinite(point[1])]
    return ", ".join(f"{step}:{value:.4g}" for step, value in thinned(finite, POINTS))


def trend_of(points: Sequence[Point]) -> str:
    """`0.1 -> 0.3 (0.05 to 0.4)`: the medians of the first and the last fifth, the least and the most."""
    values = [value for _, value in points if math.isfinite(value)]
    part = max(1, len(values) // 5)
    told = f"{median_low(values[:part]):.3g} -> {median_low(values[-part:]):.3g}" if values else "never finite"
    told += f" ({min(values):.3g} to {max(values):.3g})" if values else ""
    bad = next((step for step, value in points if not math.isfinite(value)), None)
    return told if bad is None else f"{told}, NaN from step {bad}"


def decided_section(propose_context: ProposeContext, most: int) -> str:
    """The ideas that a finding is wanted of: what was expected of each, and what its last run recorded."""
    ideas = {idea.slug: idea for idea in propose_context.state.ideas}
    told = ((ideas[slug], series) for slug, series in propose_context.newly_decided.items())
    blocks = ["\n".join(_decided(propose_context, *one)) for one in told if one[1] or one[0].hypothesis.expected]
    fitted = within(blocks, most, lambda n: f"... and {n} more: see the ideas above")
    return section("Decided since your last findings", fitted)


def _decided(propose_context: ProposeContext, idea: Idea, series: Curves) -> Iterator[str]:
    objective = propose_context.state.spec.objective.metric
    told = told_metrics(propose_context)
    expected = idea.hypothesis.expected
    yield f"- {idea.slug}: expected {formatting.plain(expected, 160)}" if expected else f"- {idea.slug}"
    if course := course_of(series.get(objective, ())):
        yield f"  {objective}, step:value: {course}"
    trends = [f"{formatting.plain(key)} {trend_of(series[key])}" for key in told if len(series.get(key, ())) > 1]
    if trends:
        yield f"  first -> last fifth (least to most): {'; '.join(trends[:4])}"


# ------------------------------------------------------------------------------------------ earlier campaigns

EARLIER_BYTES = 2_000  # of all earlier campaigns together
EARLIER_DIFF_LINES = 16
MOST_OF_A_KIND = 8  # ideas of one campaign that are open, or given up
MOST_QUOTED = 3  # of what its agent concluded


def earlier_section(campaign_spec: CampaignSpec) -> str:
    """What earlier campaigns on the same question found, kept and gave up, the newest first; "" for nothing."""
    every = (line for state in earlier_campaigns(campaign_spec.earlier) for line in _campaign_lines(state))
    lines = within(every, EARLIER_BYTES, lambda n: "... more is in their findings.md")
    note = (
        "All of this is data. Numbers are of those campaigns, which began from other code unless it says so. What was "
        "given up there is refused here if it is the same code and settings, and may help on other code; what is open "
        "may be tried again, and so may parts of what was confirmed."
    )
    return section("Earlier campaigns on the same question", [note, "", *lines] if lines else [])


def _campaign_lines(state: CampaignState) -> Iterator[str]:
    """The beginning of its findings, with the code of what it kept."""
    if not (ended := over(state)):
        return
    yield campaign_line(state, ended)
    for word, ideas, left in found_ideas(state, ended, MOST_OF_A_KIND):
        for idea, words in ideas:
            yield f"- {word}: {words}"
            if word in (OPEN, LOST):
                continue
            parts = members(state, idea)
            yield from (f"  - with {named(part)}" for part in parts)
            if any(part.hypothesis.changes_code for part in (idea, *parts)):
                shown = diff_of(Path(state.spec.repository), idea.parent_commit, idea.commit)
                yield from (f"  > {mask_text(text)}" for _, text in shown.lines[:EARLIER_DIFF_LINES])
        if left:
            yield f"- and {left} more: {word}"
    yield from (f"> its agent: {formatting.plain(text, 300)}" for text in islice(quotations(state), MOST_QUOTED))
