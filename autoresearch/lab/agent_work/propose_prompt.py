"""The prompt of a propose turn, made of what was gathered and of nothing else.

The same matter gives the same bytes, and what changes least stands first, so that a provider's prompt cache serves
the beginning of every further turn. Each section has a share of the whole budget; what did not fit is said.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from statistics import median

from autoresearch.core.agents.agent import Bounds
from autoresearch.core.agents.proposals import FORM, KINDS
from autoresearch.core.agents.turns import ALL, MOST_SUMMARY, standing_findings
from autoresearch.core.campaign.judgement import resolution_of, rule_of, shown_noise
from autoresearch.core.campaign.overrides import shown
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.agent_schedule import stagnation_words
from autoresearch.core.controller.standing import Word
from autoresearch.core.statistics.student_t import t_quantile
from autoresearch.core.text.numbers import counted, listed, span
from autoresearch.lab.agent_work.prompt_parts import UNTRUSTED, limits, section, within
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.propose_ideas import (
    changed,
    course_of,
    decided_section,
    earlier_section,
    ideas_section,
    told_metrics,
    trend_of,
)
from autoresearch.lab.campaign_report import formatting
from autoresearch.lab.campaign_report.how_it_ran import how_it_ran
from autoresearch.lab.campaign_report.summary import band_of
from autoresearch.lab.render import render
from autoresearch.runner.masking import mask_text

_OTHER_PARENTS = (Word.CONFIRMED, Word.KEPT, Word.ASIDE, Word.BETTER)
MACHINE = ("machines", "GPUs", "python", "packages")  # of how it is run, what an idea may depend on
BYTES = 20_000  # at most; a campaign of 24 ideas needs half of it
SHARES = {  # bytes of each section; what a section does not use is not given to another
    "blueprint": 1_200,
    "recipe": 2_000,
    "ideas": 3_600,
    "diffs": 1_300,
    "findings": 1_700,
    "decided": 1_500,
    "metrics": 2_100,
    "artifacts": 3_600,
    "people": 1_200,
    "waiting": 1_400,  # nine that are edited, nine that will be: what is left out is proposed again
    "refused": 700,
}


def brief(
    propose_context: ProposeContext,
    want: int,
    kinds: Sequence[str] = KINDS,
    bounds: Bounds | None = None,
) -> str:
    """The whole prompt, under BYTES of UTF-8. kinds: of hypotheses that are wanted."""
    web = propose_context.state.spec.research.web
    rules = render("agent/propose.md.j2", untrusted=UNTRUSTED, by_reward=propose_context.by_reward, web=web)
    parts = (
        rules,
        section("The form of the answer", [json.dumps(FORM, ensure_ascii=False)]),
        _campaign(propose_context),  # what changes least first
        earlier_section(propose_context.state.spec),
        _judged(propose_context.state),
        _recipe(propose_context),
        _findings(propose_context),
        ideas_section(propose_context, SHARES["ideas"], SHARES["diffs"]),
        _artifacts(propose_context),
        _metrics(propose_context),
        _refused(propose_context),
        _waiting(propose_context),
        _people(propose_context),
        decided_section(propose_context, SHARES["decided"]),
        _now(propose_context, want, kinds, bounds),
    )
    return "\n".join(part for part in parts if part)


def _campaign(propose_context: ProposeContext) -> str:
    state = propose_context.state
    spec, half = state.spec, SHARES["blueprint"] // 2
    target = "" if spec.rules.target is None else f"; the target is {spec.rules.target:g}"
    took = [60 * row.elapsed_min for idea in state.ideas for row in idea.whole if row.elapsed_min]
    memory = max((row.memory_gb for row in state.rows if row.memory_gb), default=None)
    where = [f"Trainer: {propose_context.trainer or 'not known'}"]
    where += [f"recipe: {spec.recipe}"] if spec.recipe else []
    where += [f"code: {spec.codebase}"] if spec.codebase else []
    lines = [f"Objective: {spec.objective.direction} {formatting.plain(spec.objective.metric)}{target}."]
    lines.append(f"{'; '.join(where)}.")
    if took:
        peak = "" if memory is None else f", and up to {memory:.3g} GB of memory"
        limit = "" if spec.timeout_s is None else f"; it is ended after {span(spec.timeout_s)}"
        lines.append(f"A run takes {span(median(took))} (median of {len(took)}){peak}{limit}.")
    lines += [f"Its {what}: {formatting.plain(words, 700)}." for what, words in how_it_ran(state) if what in MACHINE]
    lines += [f"The GPUs of this machine: {propose_context.gpus}."] if propose_context.gpus else []
    lines += [f"Its data, beside the code: {propose_context.data}."] if propose_context.data else []
    lines += ["Why, as the person who started it says:", *_quoted(propose_context.purpose, half)]
    lines += ["How each run is started:", *_quoted(propose_context.command, half)]
    return section("The campaign", lines)


def _quoted(text: str, most: int) -> list[str]:
    """What the person who started the campaign wrote: trusted, and yet no part of our own words."""
    lines = [f"> {formatting.plain(mask_text(line), 700)}" for line in text.splitlines()]
    return within(lines, most, lambda n: f"> ... and {n} more lines")


def _judged(state: CampaignState) -> str:
    """How a run is judged, by the rule and the noise that the campaign has."""
    metric, band, rule = state.spec.objective.metric, band_of(state), rule_of(state)
    source = "a run records; how it is computed and logged is not to be changed"
    if not state.spec.self_reported:
        source = "the evaluation measures after a run, with code that no idea can change"
    lines = [f"By the last finite {metric} that {source}."]
    limits = " and ".join(map(formatting.plain, state.spec.constraints))
    lines += [f"Its idea counts as crashed, however good, unless {limits}."] if limits else []
    lines += [f"The baseline's is {band.mean:.4g}, the mean of {counted(band.n, 'run')}."] if band else []
    if state.unseeded:
        bar = resolution_of(state)
        lines.append(
            "Runs are copies whatever their seed, so each idea has one, and none is confirmed: it is kept if it is "
            f"better than the idea to beat by more than {bar.size:.3g} ({bar.source})."
        )
        return section("How a run is judged", lines)
    lines.append(noise_words(state))
    runs = f"up to {counted(rule.most, 'run')} with other seeds"
    kept = "is kept if a t-test shows that it is better than the idea to beat"
    if state.searches_by_tip:
        lines += ["An idea runs once, on the tip (the merge of all ideas that seem good) or the parent that it names."]
        lines += [f"The tip is tested now and then, and at the end, by {runs}. It {kept}."]
    else:
        lines += [f"An idea that looks better has {runs}. It {kept}."]
    return section("How a run is judged", lines)


def noise_words(state: CampaignState) -> str:
    """By how much runs of the same code differ."""
    noise = shown_noise(state)
    if noise.shown_sd is None:
        return "The noise is not known yet."
    differ = math.sqrt(2) * t_quantile(0.95, noise.df) * noise.shown_sd
    return (
        f"The noise: a run has a standard deviation of {noise.shown_sd:.3g} (all replicates, {noise.df} degrees of "
        f"freedom), and two runs of the same code differ by less than {differ:.2g} in nine of ten cases."
    )


def _recipe(propose_context: ProposeContext) -> str:
    """What was changed first, then what may be changed; what may not be is named without its value."""
    base = propose_context.state.base
    closed, lines = list[str](), list[tuple[bool, str]]()
    for key, value in propose_context.recipe.items():
        before = propose_context.baseline.get(key)
        new = key in propose_context.baseline and before != value
        if propose_context.protection.why_key(key) and not new:
            closed.append(formatting.plain(key))
            continue
        was = f"  (baseline {shown(before)})" if new else ""
        lines.append((not new, f"{formatting.plain(key)}: {formatting.plain(shown(value))}{was}"))
    ordered = [line for _, line in sorted(lines, key=lambda one: one[0])]
    fitted = within(ordered, SHARES["recipe"] - 500, lambda n: f"... and {n} more keys: see the recipe itself")
    if closed:
        names = within(closed, 400, lambda n: f"and {n} more")
        fitted.append(f"Protected, not yours to change: {', '.join(names)}")
    return section(f"Settings as {base.slug if base else 'the base'} has them", fitted)


def _findings(propose_context: ProposeContext) -> str:
    told = standing_findings(propose_context.state.research.findings)
    lines = [f"- {one.idea}: {formatting.plain(one.text, 1100)}" for one in reversed(told.since) if one.text]
    summary = [f"In short: {formatting.plain(told.summary.text, 1300)}"] if told.summary else []
    most = SHARES["findings"] - sum(len(line.encode()) for line in summary)
    fitted = within(lines, most, lambda n: f"... and {n} older ones")
    note = ["Your own words, whose numbers nobody checked. Those of the other sections are measured."]
    return section("What you found so far, newest first", [*note, *summary, *fitted] if summary or fitted else [])


def _artifacts(propose_context: ProposeContext) -> str:
    fitted = within(propose_context.artifacts, SHARES["artifacts"], lambda n: f"... and {n} more files")
    return section("What runs wrote about themselves", fitted)


def _metrics(propose_context: ProposeContext) -> str:
    """A few points of the objective's curves, the trend of other metrics, and which more are recorded."""
    objective, compared = propose_context.state.spec.objective.metric, propose_context.compared
    lines = [f"{objective}, step:value: {slug} {course_of(series.get(objective, ()))}" for slug, series in compared]
    told = told_metrics(propose_context)
    lines += ["Of the others: medians of the first and the last fifth (least to most)."] if told else []
    for key in told:
        trends = (f"{slug} {trend_of(series[key])}" for slug, series in compared if len(series.get(key, ())) > 1)
        if words := "; ".join(trends):
            lines.append(f"{formatting.plain(key)}: {words}")
    if more := sorted(propose_context.metrics - {objective, *told}):
        names = within(map(formatting.plain, more), 200, lambda n: f"and {n} more")
        lines.append(f"Also recorded: {', '.join(names)}")
    fitted = within(lines, SHARES["metrics"], lambda n: f"... and {n} more")
    return section("Recorded metrics", fitted or ["No metrics of a run could be read."])


def _refused(propose_context: ProposeContext) -> str:
    lines = [f"- {one.slug}: {formatting.plain(why, 240)}" for one, why in reversed(list(propose_context.refused))]
    fitted = within(lines, SHARES["refused"], lambda n: f"... and {n} more")
    return section("Refused before any run, newest first", fitted)


def _waiting(propose_context: ProposeContext) -> str:
    lines = [f"- {one.slug} waits: {formatting.plain(changed(one), 100)}" for one in propose_context.waiting]
    live = {idea.slug: idea for idea, _ in propose_context.state.live}
    lines += [f"- {slug} runs now" for slug in live]
    return section("What waits or runs now", within(lines, SHARES["waiting"], lambda n: f"... and {n} more"))


def _people(propose_context: ProposeContext) -> str:
    lines = [f"- {formatting.plain(note, 600)}" for note in reversed(list(propose_context.notes))]
    lines += [f"- not wanted: {formatting.plain(slug, 300)}" for slug in propose_context.unwanted]
    if not lines:
        return ""
    note = "They steer where you look; they change neither the objective nor the rules. Newest first."
    return section("What people say", [note, *within(lines, SHARES["people"], lambda n: f"... and {n} older ones")])


def _now(propose_context: ProposeContext, want: int, kinds: Sequence[str], bounds: Bounds | None) -> str:
    words = [f"The campaign: {propose_context.stand.sentence}."]
    if bounds is not None:
        words.append(f"This turn ends after {limits(bounds)}.")
    if propose_context.newly_decided:
        names = ", ".join(propose_context.newly_decided)
        which = "one for each of" if len(propose_context.newly_decided) > 1 else "one, on"
        words.append(
            f"Findings: {which} {names}. Two or three sentences: what its runs showed, why that is likely so, "
            "what follows for later ideas. Numbers only as they stand above."
        )
    else:
        words.append("Findings: none are wanted, as no idea was decided since your last turn.")
    if standing_findings(propose_context.state.research.findings).summary_due:
        words.append(
            f"And one finding of `{ALL}`: all that you found so far, in at most {MOST_SUMMARY} sentences. It takes the "
            "place of what it sums up, so keep what later ideas need."
        )
    words += _another_kind(propose_context)
    only = "" if set(kinds) == set(KINDS) else f" Only these kinds: {', '.join(kinds)}."
    words.append(f"Give {want} {'hypothesis' if want == 1 else 'hypotheses'}, the most promising first.{only}")
    return section("Now", words)


def _another_kind(propose_context: ProposeContext) -> list[str]:
    """After several ideas without a gain: what was tried, and what else may be built on."""
    state = propose_context.state
    if not (told := stagnation_words(state)):
        return []
    words = [
        f"{told[0].upper()}{told[1:]}. Give ideas of another kind: data, loss, architecture, schedule, sampling, or a "
        "part of the code that nobody touched, whichever was tried least."
    ]
    good = [one for one in propose_context.lines if one.word in _OTHER_PARENTS and one.idea is not state.base]
    better = sorted(good, key=lambda one: one.stands.gain or 0.0, reverse=True)
    if better:
        named = listed([f"{one.idea.slug} ({one.stands.search_mean:.4g})" for one in better[:3]], 3)
        words.append(f"One of them may have another good parent than the search builds on: {named}.")
    return words
