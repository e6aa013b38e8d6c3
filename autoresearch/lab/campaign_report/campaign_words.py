"""The sentences that the documents of a campaign have in common: what it is, what was tried, what came of it.

`campaign_words` holds those that each of them has; report.md and the page say more (`page_data`), and the pages for a
fresh agent (`memory`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from autoresearch.core.agents.agent import Usage
from autoresearch.core.agents.turns import HYBRID
from autoresearch.core.campaign.hypothesis import BASELINE
from autoresearch.core.campaign.idea_name import idea_name
from autoresearch.core.campaign.shown_value import Basis
from autoresearch.core.campaign.spec import CampaignPhase, CampaignSpec
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.campaign.stop_rules import Stand
from autoresearch.core.controller.proof import proof_of
from autoresearch.core.run.ending import BREACHES
from autoresearch.core.statistics.comparable import NO_SIGNAL
from autoresearch.core.text.numbers import counted, span
from autoresearch.lab.campaign_report import formatting, summary
from autoresearch.lab.campaign_report.formatting import plain
from autoresearch.lab.campaign_report.summary import IdeaLine, IdeaStatus
from autoresearch.lab.campaigns.campaign_status import next_commands, phase_now, reason_now
from autoresearch.records.campaign_records import CampaignDir

DIFFERENCES = "differences of search means to the parent; where fresh runs were made, of those to the baseline"
SHOWN = 12  # ideas named per group
MOST_OF_AGENT = 20  # of each kind that are told of the agent


def campaign_words(
    campaign_dir: CampaignDir,
    state: CampaignState,
    stand: Stand,
    idea_lines: Sequence[IdeaLine],
    phase: CampaignPhase | None = None,
) -> dict[str, Any]:
    """What every document says, each text on one line; `phase`: where it is known already."""
    spec, phase = state.spec, phase or phase_now(campaign_dir, state)
    best = None if spec.prove else summary.best_line(state, idea_lines)
    band = summary.band_of(state)
    return {
        "name": spec.name,
        "metric": spec.objective.metric,
        "goal": plain(goal(spec), 400),
        "rules": [plain(words) for words in rule_words(state)],
        "phase": str(phase),
        "reason": plain(reason_now(campaign_dir, state, phase), 400),
        "stand": plain(stand.beside_count),
        "stand_sentence": plain(stand.sentence),
        "baseline": band.words if band else "not measured yet",
        "best": best and {"words": best_words(best), "name": best.name, "branch": best.branch, "idea": best.sentence},
        "confirmed": sum(line.standing is IdeaStatus.CONFIRMED for line in idea_lines),
        "honest": [plain(words, 900) for words in summary.honest(state, idea_lines)],
        "differences": DIFFERENCES,
        "worth": summary.worth_of_changes(state),
        "tried": [plain(words, 1200) for words in tried(idea_lines)],
        "next": next_commands(state, phase),
    }


def goal(campaign_spec: CampaignSpec) -> str:
    """The objective and the question, in one line."""
    target = "" if campaign_spec.rules.target is None else f", target {campaign_spec.rules.target:g}"
    objective = campaign_spec.objective
    what = f"{objective.direction} {objective.metric}" if objective.metric else f"an objective {objective}"
    return f"{what}{target}, from {campaign_spec.blueprint}"


def rule_words(state: CampaignState) -> list[str]:
    """The rules that a campaign runs under, one clause each."""
    campaign_spec = state.spec
    rules = campaign_spec.rules
    words = []
    if rules.count is not None:
        words.append(f"at most {counted(rules.count, 'attempted idea')}, counting the baseline and those that failed")
    if rules.deadline is not None:
        words.append(f"until {formatting.stamp(rules.deadline)}; a run that would not fit is not started")
    if rules.budget_gpu_hours is not None:
        words.append(f"at most {rules.budget_gpu_hours:g} GPU hours")
    if rules.budget_usd is not None:
        words.append(f"at most {rules.budget_usd:g} USD for the agent")
    if rules.budget_tokens is not None:
        words.append(f"at most {rules.budget_tokens:,} tokens for the agent")
    if rules.target is not None:
        words.append(f"until {campaign_spec.objective.metric} reaches {rules.target:g}")
    if not words:
        words.append("no stop rule was given: the baseline and up to three low-risk ideas, then a question")
    limit = "" if campaign_spec.timeout_s is None else f", each for {span(campaign_spec.timeout_s)} at most"
    if campaign_spec.constraints:
        words.append(f"an idea is kept only if {' and '.join(campaign_spec.constraints)}, in each of its runs")
    words.append(f"{counted(campaign_spec.parallel, 'run')} at a time{limit}")
    again = "no re-tests"
    if campaign_spec.search == "tip":
        again = "one of each idea, edited on the merge of all that seem good, and up to "
        again += f"{counted(1 + campaign_spec.retests, 'run')} of a proof of that merge"
    elif campaign_spec.retests:
        again = f"{counted(campaign_spec.retests, 're-test')} of what looks better"
    tests = f"{counted(campaign_spec.replicates, 'run')} of the baseline, {again}"
    if state.seed_check is not None and state.unseeded:
        tests = f"one run of each idea, as {state.seed_check.runs} runs of the baseline show that seeds change nothing"
    words.append(f"{tests}, ideas from: {_source(campaign_spec)}")
    return words


def _source(campaign_spec: CampaignSpec) -> str:
    """Who has the ideas."""
    if not campaign_spec.research.agent:
        return campaign_spec.proposer.name
    share = f", {campaign_spec.research.share:.0%} of them the agent's" if campaign_spec.proposer.name == HYBRID else ""
    return f"{campaign_spec.proposer.name} ({campaign_spec.research.names}{share})"


def tried(idea_lines: Sequence[IdeaLine]) -> list[str]:
    """The ideas that are over, grouped by what became of them, then by what they changed."""
    groups: dict[str, list[IdeaLine]] = {}
    for line in idea_lines:
        if title := _group(line):
            groups.setdefault(title, []).append(line)
    words = []
    for title in sorted(groups, key=_order):
        found = sorted(groups[title], key=lambda one: -(one.gain if one.gain is not None else -1e300))
        names = ", ".join(_named(line) for line in found[:SHOWN])
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        words.append(f"{title} ({len(found)}): {names}{more}")
    return words + _by_key(idea_lines)


_GROUPS = (
    *("confirmed", "kept", "in the tip", "set aside", "out:", "pending", "demoted", "better than", "no better"),
    *("failed or", "too few", "changed nothing"),
    *("no more than noise", "worse", "better by less", "discarded", "broke a constraint"),
    *("not tried", "crashed", "unmeasured", "no signal", "smoke"),
)


def _order(title: str) -> tuple[int, str]:
    return next((n for n, word in enumerate(_GROUPS) if title.startswith(word)), len(_GROUPS)), title


def _group(idea_line: IdeaLine) -> str:
    match idea_line.standing:
        case IdeaStatus.CONFIRMED:
            return idea_line.claim
        case IdeaStatus.KEPT:
            once = idea_line.shown.basis is Basis.ONE_RUN
            return f"kept, {idea_line.note or 'by one run'}" if once else "kept, not confirmed"
        case IdeaStatus.DEMOTED:
            return "demoted: fresh runs did not confirm it"
        case IdeaStatus.SMOKE if idea_line.why.startswith(NO_SIGNAL):
            return "no signal: there was nothing to learn from, so that they judge nothing"
        case IdeaStatus.SMOKE:
            return "smoke runs, which judge nothing"
        case IdeaStatus.CRASHED if any(row.failure in BREACHES for row in idea_line.rows):
            return "broke a constraint, or does not show that it kept it"
        case IdeaStatus.CRASHED | IdeaStatus.UNMEASURED | IdeaStatus.NOT_TRIED as status:
            return idea_line.why if idea_line.why.startswith(status) else f"{status}, {idea_line.why}"
        case IdeaStatus.PENDING:
            return "pending: more runs are needed to tell"
        case IdeaStatus.DISCARDED:
            return _lost(idea_line)
        case IdeaStatus.IN_TIP | IdeaStatus.ASIDE | IdeaStatus.OUT:
            return _PLACES[idea_line.standing]
    return ""


_PLACES = {
    IdeaStatus.IN_TIP: "in the tip, on which new ideas are edited",
    IdeaStatus.ASIDE: "set aside: it may be good, but is not sure enough, or does not fit the tip",
    IdeaStatus.OUT: "out: it changes nothing, or makes it worse, as far as all runs show",
}
_RIVAL = "than the best idea of that time"
_LOST = {  # what the decision on its last run says, and what that means
    "no better": f"no better {_RIVAL}",
    "within the noise": "ahead of the best idea of that time, but within the noise",
    "not shown to be better": "ahead of the best idea of that time, but within the noise",
    "it loses": f"failed or collapsed more often {_RIVAL}",
    "too few of its": "too few runs with a metric",
    "worse by": f"no better {_RIVAL}",
    "no difference": f"no better {_RIVAL}",
}


def _lost(idea_line: IdeaLine) -> str:
    """Why it was discarded: as the decision says, else (in old ledgers) as its parent's mean and the noise say."""
    gain, noise = idea_line.gain, idea_line.noise
    reason = idea_line.why.rpartition("): ")[2]
    for begins, words in _LOST.items():
        if reason.startswith(begins):
            return words
    if gain is None or not noise:
        return "discarded"
    if abs(gain) <= noise:
        return "no more than noise"
    return "worse than its parent" if gain < 0 else "better by less than the noise allows"


def _named(idea_line: IdeaLine) -> str:
    return idea_line.name if idea_line.change is None else f"{idea_line.name} {formatting.signed(idea_line.change)}"


def _by_key(idea_lines: Sequence[IdeaLine]) -> list[str]:
    """How often each key was tried on one parent by ideas that change one or two, and the best that came of it.

    An optimiser changes all keys in every idea: then no key can be told from another.
    """
    found: dict[str, list[IdeaLine]] = {}
    for line in idea_lines:
        keys = [part.partition("=")[0] for part in line.changes.split(", ") if "=" in part]
        on = "" if line.parent in ("", BASELINE) else f" on {line.parent_name}"  # another question
        if line.gain is not None and len(keys) <= 2:
            for key in keys:
                found.setdefault(key + on, []).append(line)
    often = sorted(((k, v) for k, v in found.items() if len(v) > 1), key=lambda pair: -len(pair[1]))
    words = []
    for key, ideas in often[:6]:
        good = [one for one in ideas if one.standing is IdeaStatus.CONFIRMED]
        good = good or [one for one in ideas if one.standing is IdeaStatus.KEPT]
        best = max(good or ideas, key=lambda one: one.gain if one.gain is not None else -1e300)
        kept = sum(one.standing in (IdeaStatus.KEPT, IdeaStatus.CONFIRMED) for one in ideas)
        changes = f" ({best.unsaid})" if best.unsaid else ""
        words.append(f"key {key}: {len(ideas)} tried, {kept} kept, best {_named(best)}{changes}")
    return words


def best_words(idea_line: IdeaLine) -> str:
    """The best idea: its sentence, and where it is."""
    unbeaten = ", nothing beats it so far" if idea_line.standing is IdeaStatus.BASELINE else ""
    return f"{idea_line.shown.sentence}{unbeaten}, on {idea_line.branch}"


def outcome(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> list[str]:
    """What came of it in three sentences: how much was tried, the number that may be told, and what may not be."""
    counts = {status: [line for line in idea_lines if line.standing is status] for status in IdeaStatus}
    sure, luck, gone = counts[IdeaStatus.CONFIRMED], counts[IdeaStatus.KEPT], counts[IdeaStatus.DEMOTED]
    band, objective = summary.band_of(state), state.spec.objective
    took = formatting.minutes(minutes_taken(state))
    made = counted(len(state.rows), "run") if state.spec.prove else summary.tally(state, idea_lines)
    made = made.removesuffix(", 0 confirmed")  # the next sentence says so
    tried = f"{made}, in {took}" + (
        f" and {state.gpu_hours:.2f} GPU hours" if state.spec.gpus_per_run and state.rows else ""
    )
    base = f"The baseline's {objective.metric} is {band.words}" if band else "The baseline has not been measured yet"
    if state.spec.prove:
        return [f"{plain(words, 600).rstrip('.')}." for words in (proof_of(state, state.phase).sentence, tried, base)]
    if sure:
        best = max(sure, key=lambda line: line.shown.estimate.gain or 0.0 if line.shown.estimate else 0.0)
        number = f"The best confirmed idea is {best.name}: {best.shown.words.removeprefix('confirmed, ')}"
    elif exact := [line for line in luck if line.shown.basis is Basis.ONE_RUN]:
        number = f"{summary.UNCONFIRMED}; {exact[-1].shown.sentence}"
    else:
        number = summary.unconfirmed(luck)
    caution = []
    if luck:
        caution.append(f"{_ideas(len(luck))} kept on search means, which look too good because they were picked")
    if gone:
        caution.append(f"{_ideas(len(gone))} demoted, because fresh runs did not confirm what the search saw")
    third = f"{base}; {'; '.join(caution)}" if caution else base
    return [f"{plain(words, 600).rstrip('.')}." for words in (tried, number, third)]


def _ideas(count: int) -> str:
    return "1 idea is" if count == 1 else f"{count} ideas are"


def minutes_taken(state: CampaignState) -> float | None:
    """Wall time from the start to the last end of a run."""
    ends = [row.ended for row in state.own_rows if row.ended is not None]
    return (max(ends) - state.spec.created) / 60 if ends else None


def cost(state: CampaignState) -> list[list[str]]:
    """[what, how much of it was spent, the limit] of runs, time, GPU hours and the agent; "" without a limit."""
    rules, usage, spec = state.spec.rules, state.research.usage, state.spec
    spent = sum(row.elapsed_min or 0.0 for row in state.own_rows)
    reused = len(state.rows) - len(state.own_rows)
    found = [
        ["ideas, the baseline among them", str(state.attempted), f"of {rules.count}" if rules.count else ""],
        ["wall time", formatting.minutes(minutes_taken(state)), ""],
        ["runs", str(len(state.own_rows)), f"and {reused} of an earlier campaign's baseline" if reused else ""],
        ["time of all runs", formatting.minutes(spent), ""],
    ]
    if rules.deadline is not None:
        found[1][2] = f"until {formatting.stamp(rules.deadline)}"
    if spec.gpus_per_run or rules.budget_gpu_hours:
        found.append(["GPU hours", f"{state.gpu_hours:.2f}", f"{rules.budget_gpu_hours or ''}"])
    if spec.research.agent and state.research.turns:
        found.append(["agent", spec.research.names, f"{len(state.research.turns)} turns"])
        found.append(["agent's time", formatting.minutes(usage.seconds / 60), ""])
        if usage.usd is not None:
            found.append(["agent, USD", f"{usage.usd:.2f}", f"{rules.budget_usd or ''}"])
        if usage.tokens is not None:
            limit = "" if rules.budget_tokens is None else f"{rules.budget_tokens:,}"
            found.append(["agent, tokens", f"{usage.tokens:,}", limit])
    return found


def agent_words(state: CampaignState) -> list[str]:
    """One line for each thing; none where nobody was asked."""
    research = state.research
    if not state.spec.research.agent or not research.turns:
        return []
    roles = Counter(note.role for note in research.turns.values())
    asked = ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    took = formatting.minutes(research.usage.seconds / 60)
    found = [f"{state.spec.research.names}: {asked}; {_spent(research.usage)}, {took} of its time"]
    faults = Counter(note.fault.value for note in research.turns.values() if note.fault)
    if faults:
        found.append(f"turns that failed: {', '.join(f'{count} {fault}' for fault, count in sorted(faults.items()))}")
    found += [words] if (words := research.denied_words) else []
    for idea in state.ideas:
        found += [f"{idea.name}: suspicious: {flag}" for flag in idea.hypothesis.flags][:MOST_OF_AGENT]
        found += [f"{idea.name}: {told}" for told in research.edit_story.get(idea.slug, [])][:MOST_OF_AGENT]
        found += [f"{idea.name}: {told}" for told in research.fix_story.get(idea.index, [])][:MOST_OF_AGENT]
    refused = research.refused[-MOST_OF_AGENT:]
    found += [f"proposal {idea_name(0, hypothesis)}: refused: {why}" for hypothesis, why in refused]
    return found


def _spent(usage: Usage) -> str:
    """`1.20 USD, 51,000 tokens`; what is not known is not said."""
    usd = "" if usage.usd is None else f"{usage.usd:.2f} USD"
    tokens = "" if usage.tokens is None else f"{usage.tokens:,} tokens"
    return ", ".join(part for part in (usd, tokens) if part) or "its cost is not known"
