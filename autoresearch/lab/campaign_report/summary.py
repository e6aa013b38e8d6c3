"""What the documents of a campaign have in common: a line for each idea, the words of the whole, what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoresearch.core.agents.turns import HYBRID
from autoresearch.core.campaign.claim import OPEN
from autoresearch.core.campaign.hypothesis import idea_name
from autoresearch.core.campaign.spec import CampaignSpec, Stand
from autoresearch.core.campaign.state import CampaignState, Idea, measured
from autoresearch.core.controller.ablation import edit_words
from autoresearch.core.controller.agent_schedule import how_agents_did
from autoresearch.core.controller.next_actions import SWEEPS
from autoresearch.core.controller.proof import proof_of
from autoresearch.core.controller.sentences import seed_words
from autoresearch.core.controller.standing import (
    KEPT,
    Basis,
    Standing,
    Word,
    all_values,
    runs_of,
    shown_ideas,
    standing,
    tally,
)
from autoresearch.core.metrics.constraint import of_cell, parsed
from autoresearch.core.run.ending import WITHOUT_VALUE
from autoresearch.core.statistics.comparable import NO_SIGNAL
from autoresearch.core.statistics.noise import mean, noise_in
from autoresearch.core.text.numbers import counted, listed, span
from autoresearch.lab.campaign_report import formatting
from autoresearch.lab.campaign_report.formatting import plain
from autoresearch.lab.campaigns.campaign_status import next_commands, phase_now, reason_now
from autoresearch.records.campaign_records import CampaignDir

SHOWN = 12  # ideas named per group
MOST_OF_AGENT = 20  # of each kind that are told of the agent


@dataclass(frozen=True, slots=True)
class IdeaLine:
    """One idea with how it stands, as a row of a table."""

    idea: Idea
    stands: Standing
    parent: str  # its name
    limited: Mapping[str, float]  # the mean of each metric that a constraint limits

    @property
    def word(self) -> Word:
        """What became of it."""
        return self.stands.word

    @property
    def replicates(self) -> tuple[float, ...]:
        """The values behind the number: of its fresh runs, of all those of the baseline, else of the search's."""
        idea, unjudged = self.idea, self.word is Word.NOT_JUDGED
        if self.stands.basis is Basis.BASELINE:
            return tuple(all_values(idea))
        fresh = {run.run for run in idea.runs if run.why == "confirm" and run.round >= 0}
        rows = [row for row in idea.rows if unjudged or (row.run_id in fresh and self.stands.basis is Basis.FRESH)]
        found = tuple(value for row in rows if (value := measured(row)) is not None)
        return found if unjudged or self.stands.basis is Basis.FRESH else tuple(idea.values)

    @property
    def minutes(self) -> float | None:
        """Of all its runs."""
        return self.idea.minutes or None

    @property
    def commit(self) -> str:
        """Its own, else that of its first run."""
        return self.idea.commit or next((row.commit for row in self.idea.rows if row.commit), "")

    @property
    def changes(self) -> str:
        """What differs from the parent, in few words."""
        hypothesis = self.idea.hypothesis
        words = [f"{key}={value}" for key, value in hypothesis.overrides.items()]
        words += [f"file {path}" for path in hypothesis.files]
        words += [counted(len(hypothesis.patches), "patch").replace("patchs", "patches")] if hypothesis.patches else []
        return ", ".join([*words, *(["a blueprint of its own"] if hypothesis.blueprint else [])])

    @property
    def unsaid(self) -> str:
        """The same, or "" where the name says it all, or the sentence of a sweep, which names each change."""
        said = self.changes.replace(", ", " ") in self.idea.name or self.idea.hypothesis.proposer in SWEEPS
        return "" if said else self.changes

    @property
    def named(self) -> str:
        """Its name, with its difference from the baseline."""
        one = self.stands
        change = None if one.value is None or one.baseline is None else one.value - one.baseline
        return one.name if change is None else f"{one.name} {formatting.signed(change)}"


@dataclass(frozen=True, slots=True)
class Band:
    """The baseline's mean and what a single run scatters around it, over all its runs, fresh ones included."""

    mean: float
    sd: float | None
    n: int
    runs: str = ""  # `mean of all 11`, and those without a metric

    @property
    def words(self) -> str:
        """`0.5 ± 0.02 (sd of one run; mean of 3)`."""
        spread = "noise unknown" if self.sd is None else "sd of one run"
        about = "; ".join(text for text in (spread, self.runs) if text)
        return f"{formatting.number(self.mean)}{'' if self.sd is None else f' ± {self.sd:.3g}'} ({about})"


def band_of(state: CampaignState) -> Band | None:
    """The noise band; None before the baseline was measured."""
    baseline = state.baseline
    values = all_values(baseline) if baseline else []
    if baseline is None or not values:
        return None
    known = state.seed_check is not None and not state.unseeded
    sd = noise_in(values).shown_sd if known else None
    return Band(mean(values), sd, len(values), runs_of(state, baseline, fresh=True))


def idea_lines(state: CampaignState) -> list[IdeaLine]:
    """Every idea, in the order in which they were begun."""
    names = {idea.slug: idea.name for idea in state.ideas}
    limits = parsed(state.spec.constraints)
    lines = []
    for idea in shown_ideas(state):
        cells = [of_cell(row.constraints) for row in idea.whole]  # broken ones count: they show where it lies
        limited = {one.metric: [cell[one.metric] for cell in cells if one.metric in cell] for one in limits}
        means = {metric: mean(found) for metric, found in limited.items() if found}
        lines.append(IdeaLine(idea, standing(state, idea), names.get(idea.parent, idea.parent), means))
    return lines


def campaign_words(
    campaign_dir: CampaignDir, state: CampaignState, stand: Stand, idea_lines: Sequence[IdeaLine]
) -> dict[str, Any]:
    """What every document says, each text on one line."""
    spec, phase = state.spec, phase_now(campaign_dir, state)
    best = None if spec.prove else next((line for line in idea_lines if line.idea is state.winner), None)
    band, sure = band_of(state), any(line.word is Word.CONFIRMED for line in idea_lines)
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
        "best": best and {"words": best_words(best), "name": best.stands.name, "branch": best.idea.branch},
        "outcome": [plain(words, 900) for words in outcome(state, idea_lines)],
        "cautions": (may_not := [plain(words, 900) for words in cautions(state, idea_lines)]),
        "open": [*(plain(words, 900) for words in _claimed(idea_lines) if not spec.prove and not sure), *may_not],
        "edits": [plain(words, 600) for words in edit_words(state)],
        "groups": [plain(words, 1200) for words in groups(idea_lines)],
        "next": next_commands(state, phase),
    }


def best_words(idea_line: IdeaLine) -> str:
    """The best idea: its sentence, and where it is."""
    unbeaten = ", nothing beats it so far" if idea_line.word is Word.BASELINE else ""
    return f"{idea_line.stands.sentence}{unbeaten}, on {idea_line.idea.branch}"


def outcome(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> Iterator[str]:
    """What came of it: how much was tried, the numbers that may be told, and the baseline."""
    took = f", in {formatting.minutes(minutes_taken(state))}"
    took += f" and {state.gpu_hours:.2f} GPU hours" if state.spec.gpus_per_run and state.rows else ""
    if state.spec.prove:
        yield f"{proof_of(state, state.phase).sentence.rstrip('.')}."
        yield f"{counted(len(state.rows), 'run')}{took}."
    else:
        yield f"{tally(state, (line.stands for line in idea_lines))}{took}."
        yield from _claimed(idea_lines)
    band = band_of(state)
    objective = state.spec.objective.metric or "objective"
    yield f"The baseline's {objective} is {band.words}." if band else "The baseline has not been measured yet."


def _claimed(idea_lines: Sequence[IdeaLine]) -> Iterator[str]:
    """What may be claimed, the best first; why nothing may be."""
    if sure := [line.stands for line in idea_lines if line.word is Word.CONFIRMED]:
        sure.sort(key=lambda one: -(one.gain or 0.0))
        yield from (f"{one.sentence}." for one in sure[:10])
        return
    exact = [line.stands for line in idea_lines if line.word in KEPT and line.stands.basis is Basis.ONE_RUN]
    open_ones = [line.stands for line in idea_lines if line.word is Word.KEPT and line.stands.claim.startswith(OPEN)]
    reasons = [f"{one.name} was put to the proof: {one.reason}" for one in open_ones if one.reason]
    told = [f"{one.sentence}" for one in exact[-1:]] or reasons[-2:]
    yield f"Nothing is confirmed: {'; '.join(told) or 'no idea of this campaign may be claimed to beat the baseline'}."


def cautions(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> Iterator[str]:
    """What may not be claimed, or not without a word about it."""
    kept = [line.stands for line in idea_lines if line.word is Word.KEPT]
    yield from (f"{one.sentence}." for one in kept[-10:])
    if any(one.basis is Basis.SEARCH for one in kept):
        good = state.spec.objective.good
        yield f"What is kept was picked because it was {good}, so a part of what its search mean shows may be luck."
    yield from (f"{line.stands.sentence}; {line.stands.reason}." for line in idea_lines if line.word is Word.DEMOTED)
    if built := [f"{line.stands.name} is {line.stands.note}" for line in idea_lines if line.idea.marked]:
        yield f"The parent is in doubt: {'; '.join(built[:10])}."
    if state.unseeded:
        yield seed_words(state)
    if idle := [line.stands.name for line in idea_lines if any(row.failure == NO_SIGNAL for row in line.idea.rows)]:
        yield f"No signal (the reward never changed, or the gradient was zero): {', '.join(idle[:10])}."


def groups(idea_lines: Sequence[IdeaLine]) -> Iterator[str]:
    """The ideas that are over, by what became of them: `discarded (2): #3 lr=0.05 −0.08, #5 ...`."""
    found: dict[str, list[IdeaLine]] = {}
    for line in sorted(idea_lines, key=lambda one: list(Word).index(one.word)):
        last = line.idea.rows[-1] if line.idea.rows else None
        failure = f": {last.failure}" if last and last.failure and last.status in WITHOUT_VALUE else ""
        if line.word not in (Word.BASELINE, Word.RUNNING, Word.PREPARED):
            found.setdefault(f"{line.word}{failure}", []).append(line)
    for title, ideas in found.items():
        ideas.sort(key=lambda one: -(one.stands.gain if one.stands.gain is not None else float("inf")))
        yield f"{title} ({len(ideas)}): {listed([line.named for line in ideas], SHOWN)}"


def tree(idea_lines: Sequence[IdeaLine], parent: str = "", depth: int = 0) -> Iterator[str]:
    """The ideas that were kept or built on, indented below what they were made from."""
    parents = {line.idea.parent for line in idea_lines}
    for line in idea_lines:
        if line.idea.parent == parent and (line.word in KEPT or line.idea.slug in parents):
            yield f"{'  ' * depth}{line.stands.name}: {line.word}"
            yield from tree(idea_lines, line.idea.slug, depth + 1)


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


def minutes_taken(state: CampaignState) -> float | None:
    """Wall time from the start to the last end of a run."""
    ends = [row.ended for row in state.rows if row.ended is not None]
    return (max(ends) - state.spec.created) / 60 if ends else None


def cost(state: CampaignState) -> list[list[str]]:
    """[what, how much of it was spent, the limit] of runs, time, GPU hours and the agent; "" without a limit."""
    rules, usage, spec = state.spec.rules, state.research.usage, state.spec
    spent = sum(idea.minutes for idea in state.ideas)
    found = [
        ["ideas, the baseline among them", str(state.attempted), f"of {rules.count}" if rules.count else ""],
        ["wall time", formatting.minutes(minutes_taken(state)), ""],
        ["runs", str(len(state.rows)), ""],
        ["time of all runs", formatting.minutes(spent), ""],
    ]
    if rules.deadline is not None:
        found[1][2] = f"until {formatting.stamp(rules.deadline)}"
    if spec.gpus_per_run or rules.budget_gpu_hours:
        found.append(["GPU hours", f"{state.gpu_hours:.2f}", f"{rules.budget_gpu_hours or ''}"])
    if spec.research.agent and state.research.turns:
        found.append(["agent", spec.research.names, f"{len(state.research.turns)} turns"])
        found.append(["agent's time", formatting.minutes(usage.seconds / 60), ""])
        usd = "unknown" if usage.usd is None else f"{usage.usd:.2f}"
        found.append(["agent, USD by its own count", usd, f"{rules.budget_usd or ''}"])
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
    found = [f"{state.spec.research.names}: {asked}; {research.spent}, {took} of its time"]
    found += how_agents_did(state)
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
