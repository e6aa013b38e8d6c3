"""What there is to say about a campaign: one line per idea, the noise band, what is claimed and what is not."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from autoresearch.core.agents.agent import NotMade
from autoresearch.core.campaign import tip
from autoresearch.core.campaign.claim import CLAIMS, OPEN
from autoresearch.core.campaign.idea_name import says_all
from autoresearch.core.campaign.judgement import search_mean
from autoresearch.core.campaign.shown_value import OF_ONE_RUN, Basis, ShownValue, all_values, runs_of, shown_value
from autoresearch.core.campaign.state import CampaignState, Idea, measured
from autoresearch.core.controller.proof import proof_of
from autoresearch.core.controller.scheduler import retest_owed
from autoresearch.core.controller.sentences import drift_words, seed_words
from autoresearch.core.metrics.constraint import of_cell, parsed
from autoresearch.core.run.ending import BREACHES, PENDING, Ending, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.comparable import NO_SIGNAL
from autoresearch.core.statistics.noise import mean, noise_in
from autoresearch.core.statistics.pruning import PRUNED
from autoresearch.lab.campaign_report import formatting

UNCONFIRMED = "Nothing is confirmed"


class IdeaStatus(StrEnum):
    """What became of an idea, in the word that a reader needs."""

    BASELINE = "baseline"
    CONFIRMED = "confirmed"
    KEPT = "kept"  # the search built on it; nothing was claimed
    DEMOTED = "demoted"
    PENDING = "pending"  # looks better, and more runs of it are owed before it is kept or discarded
    IN_TIP = "in the tip"  # of ideas that run once (`core.campaign.tip`): what new ideas are edited on
    ASIDE = "set aside"
    OUT = "out"
    DISCARDED = "discarded"
    SMOKE = "smoke"  # plumbing only
    CRASHED = "crashed"
    UNMEASURED = "unmeasured"  # its runs returned 0 and printed no value: nothing is known of it
    NOT_TRIED = "not tried"  # none of its runs began
    RUNNING = "running"
    PREPARED = "prepared"


KEPT = (IdeaStatus.KEPT, IdeaStatus.CONFIRMED)
PLACES = (IdeaStatus.IN_TIP, IdeaStatus.ASIDE, IdeaStatus.OUT)


@dataclass(frozen=True, slots=True)
class IdeaLine:
    """One idea as a row of a table. Differences are in the metric's unit; positive is higher, better or not.

    `mean`, `delta` and `gain` are of the runs by which the search picked the idea; `shown` is what to say of it.
    """

    index: int
    slug: str
    name: str
    sentence: str
    parent: str  # its slug
    parent_name: str
    standing: IdeaStatus
    shown: ShownValue
    marked: str  # the name of the demoted ancestor
    values: tuple[float, ...]
    confirming: tuple[float, ...]  # of the runs that were made for a claim
    mean: float | None
    delta: float | None  # to the parent's mean
    gain: float | None  # the same, positive where it is better
    noise: float | None  # sd of one run
    minutes: float | None  # of all its runs
    branch: str
    commit: str
    changes: str
    unsaid: str  # the same, or "" where the name says it all
    why: str
    rows: tuple[LedgerRow, ...]
    limited: Mapping[str, float]  # the mean of each metric that a constraint limits
    on_front: bool  # whether no other idea is better in one of objective and constraints, and as good in the others

    @property
    def n(self) -> int:
        """Runs that measured the objective and judged it."""
        return len(self.values)

    @property
    def claim(self) -> str:
        """One of CLAIMS, with its caveat; "" where nobody asked."""
        return self.shown.claim

    @property
    def note(self) -> str:
        """What has to be said beside its standing; "" if nothing."""
        notes = [{"undecided": "undecided", **OF_ONE_RUN}.get(self.claim.partition(" (")[0], "")]
        notes += [f"built on demoted {self.marked}"] if self.marked else []
        return "; ".join(note for note in notes if note)

    @property
    def fresh(self) -> str:
        """What its fresh runs show: its value, the difference from the baseline, and the runs; "" without any.

        Of the baseline, the mean of all its runs, if there are fresh ones.
        """
        if self.shown.basis is Basis.BASELINE and self.confirming:
            return self.shown.words
        if not self.shown.proof or self.shown.basis is Basis.ONE_RUN:
            return ""
        value = self.shown.value if self.shown.change is not None else None
        return self.shown.proof if value is None else f"{formatting.number(value)}, {self.shown.proof}"

    @property
    def change(self) -> float | None:
        """The difference to tell of it: its estimate against the baseline, else that of the means to its parent."""
        return self.delta if self.shown.change is None else self.shown.change


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


@dataclass(frozen=True, slots=True)
class ClaimText:
    """A line of verdicts.jsonl about an idea, in words."""

    name: str
    word: str
    detail: str
    t: float | None


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
    band = band_of(state)
    known = {idea.slug: idea for idea in state.ideas}
    lines = [_line(state, idea, known, band) for idea in shown_ideas(state)]
    front = _front(state, lines)
    return [replace(line, on_front=line.index in front) for line in lines]


def _front(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> frozenset[int]:
    """The Pareto front: the ideas that no other one beats in objective and constrained metrics together."""
    limits, sign = parsed(state.spec.constraints), state.spec.objective.change(1.0)
    points = {
        line.index: (value * sign, *(line.limited[one.metric] * (-1.0 if one.upper else 1.0) for one in limits))
        for line in idea_lines
        if (value := line.shown.value) is not None and all(one.metric in line.limited for one in limits)
        if limits and line.standing not in (IdeaStatus.CRASHED, IdeaStatus.UNMEASURED, IdeaStatus.SMOKE)
    }
    return frozenset(
        index
        for index, own in points.items()
        if not any(other != own and all(map(operator.ge, other, own)) for other in points.values())
    )


def _limited(state: CampaignState, idea: Idea) -> dict[str, float]:
    """The mean over its runs of each metric that a constraint limits; broken ones count, as they show where it lies."""
    cells = [of_cell(row.constraints) for row in idea.rows]
    metrics = (one.metric for one in parsed(state.spec.constraints))
    return {name: mean(found) for name in metrics if (found := [cell[name] for cell in cells if name in cell])}


def shown_ideas(state: CampaignState) -> list[Idea]:
    """The ideas that are told of: all but merges that never ran."""
    return [idea for idea in state.ideas if idea.attempted or not idea.hypothesis.merges]


def _line(state: CampaignState, idea: Idea, ideas_by_slug: Mapping[str, Idea], band: Band | None) -> IdeaLine:
    parent = ideas_by_slug.get(idea.parent)
    above = search_mean(state, parent) if parent else None
    standing = _standing(state, idea)
    values = tuple(idea.values)
    if standing is IdeaStatus.SMOKE:  # they judge nothing, and are shown all the same
        values = tuple(v for row in idea.rows if (v := measured(row)) is not None)
    smoke = standing is IdeaStatus.SMOKE
    value = search_mean(state, idea) if not smoke else mean(values) if values else None
    delta = value - above if value is not None and above is not None else None
    sign = 1.0 if state.spec.objective.better(1.0, 0.0) else -1.0
    noise = next((row.metric_noise for row in reversed(idea.rows) if row.metric_noise is not None), None)
    if band and (noise is None or standing is IdeaStatus.BASELINE):  # its rows hold what was known before the last run
        noise = band.sd
    apart = {run.run for run in idea.runs if run.why == "confirm"}
    spent = [row.elapsed_min for row in idea.rows if row.elapsed_min is not None]
    shown = shown_value(state, idea)
    why = _why(idea, parent, standing, delta, sign, noise, deterministic=state.unseeded)
    if standing in PLACES and (worth := tip.change_by(state, idea)):
        why = f"{tip.worth_words(worth)} by all runs together; {why}"
    return IdeaLine(
        index=idea.index,
        slug=idea.slug,
        name=shown.name,
        sentence=idea.hypothesis.sentence,
        parent=idea.parent,
        parent_name=parent.name if parent else idea.parent,
        standing=standing,
        shown=shown,
        marked=demoted.name if (demoted := ideas_by_slug.get(idea.marked)) else idea.marked,
        values=values,
        confirming=tuple(v for row in idea.rows if row.run_id in apart and (v := measured(row)) is not None),
        mean=value,
        delta=delta,
        gain=None if delta is None else delta * sign,
        noise=noise,
        minutes=sum(spent) if spent else None,
        branch=idea.branch,
        commit=idea.commit or next((row.commit for row in idea.rows if row.commit), ""),
        changes=(changed := changes(idea)),
        unsaid="" if says_all(idea.hypothesis) else changed,
        why=why,
        rows=tuple(idea.rows),
        limited=_limited(state, idea),
        on_front=False,
    )


def _standing(state: CampaignState, idea: Idea) -> IdeaStatus:
    if idea.hypothesis.is_baseline:
        return IdeaStatus.BASELINE
    if not idea.judged and idea.live:
        return IdeaStatus.RUNNING
    if not idea.rows:
        return IdeaStatus.PREPARED
    if not idea.judged and (idea.smoke or idea.hypothesis.smoke):
        return IdeaStatus.SMOKE
    if idea.confirmed in ("confirmed", "demoted"):  # the first also of one that was discarded, and named for a proof
        return IdeaStatus(idea.confirmed)
    if idea.status == Verdict.KEEP:
        return IdeaStatus.KEPT
    if retest_owed(state, idea):
        return IdeaStatus.PENDING
    if idea.status == Verdict.UNMEASURED:
        return IdeaStatus.UNMEASURED
    if idea.status == Verdict.CRASH:
        never = all(row.ending == Ending.LAUNCH_FAILED for row in idea.rows)
        return IdeaStatus.NOT_TRIED if never else IdeaStatus.CRASHED
    if not state.runs_once(idea):
        return IdeaStatus.DISCARDED
    return IdeaStatus(tip.place_of(state, idea))


def changes(idea: Idea) -> str:
    """What differs from the parent, in few words."""
    hypothesis = idea.hypothesis
    words = [f"{key}={value}" for key, value in hypothesis.overrides.items()]
    words += [f"file {path}" for path in hypothesis.files]
    if hypothesis.patches:
        words.append(f"{len(hypothesis.patches)} {'patch' if len(hypothesis.patches) == 1 else 'patches'}")
    if hypothesis.blueprint:
        words.append("a blueprint of its own")
    return ", ".join(words)


def _why(
    idea: Idea,
    parent: Idea | None,
    standing: IdeaStatus,
    delta: float | None,
    sign: float,
    noise: float | None,
    *,
    deterministic: bool,
) -> str:
    """Why it stands where it stands, from the numbers."""
    rows = idea.judged or idea.rows
    if standing in (IdeaStatus.RUNNING, IdeaStatus.PREPARED) or not rows:
        return "its first run goes on" if idea.live else "not begun"
    if standing in (IdeaStatus.CRASHED, IdeaStatus.UNMEASURED, IdeaStatus.NOT_TRIED):
        return ended_badly(idea.breach or rows[-1])
    if rows[-1].failure == PRUNED:
        return _decision(rows[-1]) or "ended early by its curve"
    if rows[-1].ending == Ending.STOPPED and not idea.values:
        return _decision(rows[-1]) or Ending.STOPPED.wording
    if standing is IdeaStatus.SMOKE and rows[-1].failure == NO_SIGNAL:
        return _decision(rows[-1]) or "there was nothing to learn from"
    if standing is IdeaStatus.SMOKE:
        return "a smoke run: it shows that the plumbing works, and judges nothing"
    if idea.hypothesis.is_baseline or delta is None:
        return "" if idea.hypothesis.is_baseline else "its parent has no metric to compare with"
    final = deterministic or (standing is IdeaStatus.DISCARDED and rows[-1].standing != PENDING)
    if final and (reason := _decision(rows[-1])):
        return reason
    size = f"{delta:+.3g} to {parent.name if parent else idea.parent}"
    if noise:
        size += f", {abs(delta) / noise:.1f} sd of one run"
    if standing is IdeaStatus.DEMOTED:
        return f"it looked better in the search ({size}), and fresh runs did not confirm it"
    if standing in (IdeaStatus.KEPT, IdeaStatus.CONFIRMED):
        return f"simpler and as good ({size})" if delta * sign <= 0 else f"better in the search ({size})"
    if standing is IdeaStatus.PENDING:
        better = "it looks better, and " if delta * sign > 0 else ""  # a run that collapsed may be repeated
        return f"{better}more runs of it are needed to tell ({size})"
    if noise and abs(delta) <= noise:
        return f"no more than noise ({size})"
    return f"worse ({size})" if delta * sign < 0 else f"better by less than the noise allows ({size})"


def _decision(row: LedgerRow) -> str:
    """The reason for its status, which ends a row's description in brackets; "" without one."""
    return row.description.rpartition("[")[2].rstrip("]") if row.description.endswith("]") else ""


def ended_badly(row: LedgerRow) -> str:
    """How a crashed run ended, in words; an idea that an agent's edit never brought to a run has not ended."""
    if row.ending == Ending.LAUNCH_FAILED and row.failure in set(NotMade):
        return f"not tried: {row.failure}"
    try:
        words = Ending(row.ending).wording
    except ValueError:
        words = row.ending or "no ending is recorded"
    if row.failure in BREACHES:
        return _decision(row) or row.failure
    if row.failure and row.failure != row.ending:
        words = "finished without a metric" if row.ending == Ending.FINISHED else words
        return f"{words}: {row.failure}"
    return words if row.ending != Ending.FINISHED else "it finished without a metric that can be used"


def claims(state: CampaignState, verdicts: Iterable[Mapping[str, Any]]) -> list[ClaimText]:
    """Everything that was claimed later, oldest first."""
    ideas = {idea.index: idea for idea in state.ideas}
    found = []
    for verdict in verdicts:
        word = str(verdict.get("do", ""))
        index = _index(verdict)
        if word not in (*CLAIMS, "marked", "smoke") or index not in ideas:
            continue
        t = verdict.get("t")
        idea, when = ideas[index], t if isinstance(t, int | float) else None
        found.append(ClaimText(idea.name, word, _detail(verdict), when))
    return found


def _detail(verdict: Mapping[str, Any]) -> str:
    """The sentence of a verdict, else whatever plain values it holds."""
    for key in ("reason", "sentence"):
        if verdict.get(key):
            return str(verdict[key]).removeprefix(f"{verdict.get('do')}: ")
    if verdict.get("do") == "marked":
        return f"built on {verdict.get('of', 'an idea')}, which was demoted"
    known = {"t", "do", "index", "seq", "slug"}
    pairs = ((k, v) for k, v in verdict.items() if k not in known and isinstance(v, str | int | float) and v != "")
    return ", ".join(f"{k} {formatting.number(v)}" if isinstance(v, float) else f"{k} {v}" for k, v in pairs)


def _index(verdict: Mapping[str, Any]) -> int:
    try:
        return int(verdict.get("index") or 0)
    except (TypeError, ValueError):
        return 0


def honest(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> list[str]:
    """What may be said about the outcome, and then what may not, or not without a word about it."""
    kept, sure, gone = (
        [line for line in idea_lines if line.standing is one]
        for one in (IdeaStatus.KEPT, IdeaStatus.CONFIRMED, IdeaStatus.DEMOTED)
    )
    words = [unconfirmed(kept)]
    if sure:
        found = "; ".join(_proved(line) for line in sure[:10])
        words = [f"Confirmed by fresh runs with other seeds: {found}{_more(sure, 10)}."]
    if state.spec.prove:
        words = [f"{proof_of(state, state.phase).sentence}."]
    words += [f"{line.shown.sentence}." for line in kept[:10] if line.shown.basis is Basis.ONE_RUN]
    if luck := [line for line in kept if line.shown.basis is not Basis.ONE_RUN]:
        names = ", ".join(_picked(line) for line in luck[:10])
        words.append(
            f"Kept, not confirmed: {names}{_more(luck, 10)}. The search built on them; these are search means, picked "
            f"because they were {state.spec.objective.good}, so a part of what they show may be luck."
        )
    if gone:
        names = "; ".join(f"{line.name}, {proof}" if (proof := line.shown.proof) else line.name for line in gone[:10])
        words.append(f"Demoted, because fresh runs did not confirm it: {names}{_more(gone, 10)}.")
    if built := [line for line in idea_lines if line.marked]:
        names = ", ".join(f"{line.name}, from {line.marked}" for line in built[:10])
        words.append(f"Built on a demoted idea, so their parent is in doubt: {names}{_more(built, 10)}.")
    if state.unseeded:
        words.append(seed_words(state))
    if drifts := drift_words(state):
        words.append(drifts)
    if idle := [line for line in idea_lines if any(row.failure == NO_SIGNAL for row in line.rows)]:
        names = ", ".join(line.name for line in idle[:10])
        words.append(f"No signal (the reward never changed, or the gradient was zero): {names}{_more(idle, 10)}.")
    return words


def unconfirmed(kept: Sequence[IdeaLine]) -> str:
    """That nothing is confirmed, and why not what was put to the proof."""
    luck = [line for line in kept if line.shown.basis is not Basis.ONE_RUN]
    undecided = [(one.name, one.shown.estimate) for one in luck if one.claim.startswith(OPEN)]
    reasons = [f"{name} was put to the proof: {found.reason}" for name, found in undecided if found and found.reason]
    if reasons:
        return f"{UNCONFIRMED}. {'; '.join(reasons[-2:])}."
    return f"{UNCONFIRMED}: no idea of this campaign may be claimed to beat the baseline."


def _proved(idea_line: IdeaLine) -> str:
    """A confirmed idea with its caveat and its numbers."""
    words = idea_line.shown.words if idea_line.shown.basis is Basis.FRESH else idea_line.claim
    return f"{idea_line.name}{words.removeprefix('confirmed')}"


def _picked(idea_line: IdeaLine) -> str:
    """A kept idea with its search mean, the runs of it that are missing included."""
    about = f"{idea_line.claim}, " if idea_line.claim.startswith(OPEN) else ""
    return f"{idea_line.name} {formatting.number(idea_line.mean)} ({about}{idea_line.shown.runs})"


def _more(items: Sequence[object], shown: int) -> str:
    return f" and {len(items) - shown} more" if len(items) > shown else ""


def tally(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> str:
    """`24 ideas, 3 kept, 1 confirmed`: every attempt counts; what is confirmed is among the kept."""
    count = state.spec.rules.count
    tried = f"{state.attempted}{f' of {count}' if count and count != state.attempted else ''}"
    kept = sum(line.standing in KEPT for line in idea_lines)
    sure = sum(line.standing is IdeaStatus.CONFIRMED for line in idea_lines)
    return f"{tried} {'idea' if tried == '1' else 'ideas'}, {kept} kept, {sure} confirmed"


def worth_of_changes(state: CampaignState) -> list[tuple[str, str, str, str]]:
    """Of a campaign whose ideas run once: each change, what it is worth, the interval, and where it stands."""
    once = [idea for idea in state.ideas if state.runs_once(idea)]
    effects = tip.effects(state) if once else {}  # their time grows with the cube of the ideas
    rows = []
    for idea in sorted((one for one in once if one.index in effects), key=lambda one: -effects[one.index].mean):
        if worth := tip.change_by(state, idea):
            middle, low, high = worth
            interval = f"{low:+.3g} to {high:+.3g}"
            rows.append((idea.name, f"{middle:+.3g}", interval, str(tip.place_of(state, idea))))
    return rows


def best_line(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> IdeaLine | None:
    """The line of the best idea that the search may build on."""
    best = state.best
    return next((line for line in idea_lines if best is not None and line.index == best.index), None)


def row_name(state: CampaignState, row: LedgerRow) -> str:
    """`<campaign>:<index>.<replicate>`, by which `compare` and `repro` know a row."""
    return f"{state.spec.name}:{row.index}" + (f".{row.replicate}" if row.replicate else "")
