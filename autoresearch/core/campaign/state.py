"""CampaignState: all that is known of a campaign, folded from its events."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from autoresearch.core.agents.suspicion import SETS_OBJECTIVE
from autoresearch.core.agents.turns import AGENT, Research
from autoresearch.core.campaign.claim import ClaimEstimate
from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis, idea_name
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.spec import CampaignPhase, CampaignSpec
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.ending import BREACHES, DEVICES, EXCUSED, PENDING, UNPROVEN, Ending, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics import noise
from autoresearch.core.statistics.noise import Noise, mean, noise_in, noise_of
from autoresearch.core.statistics.seeding import Randomness, SeedCheck

T = TypeVar("T")

SCREEN = "screen"
"""Why a run with the settings of `screen: {overrides: ...}` is made: it measures something else than the campaign."""
FLAT = "flat: "
"""Begins the flag of a run whose objective is the same at every step, and the baseline's is not."""
FAR = 10.0
"""Standard deviations of the baseline's runs; a gain of more is rarely one of training."""


@dataclass(slots=True)
class IdeaRun:
    """One run of an idea as recorded in the journal; its ledger row follows when it has ended."""

    run: str
    run_dir: str
    replicate: int
    why: str  # first, baseline, retest, repeat, retry, fix, confirm, screen
    commit: str = ""
    seed: int | None = None
    round: int = 0  # confirmation round; 0 for a run of the search
    started: bool = False  # False: it is only prepared
    turns: tuple[str, ...] = ()  # the agent turns that led to it


@dataclass
class Idea:
    """One attempted idea: its hypothesis, its branch, its runs."""

    index: int
    hypothesis: Hypothesis
    parent: str = ""  # slug of the parent idea; "" for the baseline
    parent_commit: str = ""
    commit: str = ""  # commit of the idea itself, before any per-run changes
    branch: str = ""
    fingerprint: str = ""
    parent_index: int = 0  # 0: not known, or none
    parent_branch: str = ""  # the actual branch name, which may have a suffix such as `-2`
    runs: list[IdeaRun] = field(default_factory=list)
    rows: list[LedgerRow] = field(default_factory=list)
    unjudged: set[str] = field(default_factory=set)  # runs that say nothing of it, as they measured something else
    copies: set[str] = field(default_factory=set)  # runs that repeat an earlier one's numbers, as of the same seed
    repaired: int = -1  # number of runs when its code was last repaired; -1: never
    claim: ClaimEstimate = field(default_factory=ClaimEstimate)  # the last verdict on it
    marked: str = ""  # the demoted ancestor that a kept idea was built on
    equal_to: int = 0  # the index of an earlier idea that is the same program, as equal runs show
    edited: bool = False  # it trains code written by an agent: its own edit, or an ancestor's
    fix_flags: tuple[str, ...] = ()  # what looks suspicious in repairs of it

    @property
    def slug(self) -> str:
        return self.hypothesis.slug

    @property
    def name(self) -> str:
        return idea_name(self.index, self.hypothesis, self.parent_index)

    @property
    def confirmed(self) -> str:
        """One of CLAIMS; "" before any confirmation."""
        return self.claim.claim

    @cached_property
    def done(self) -> frozenset[str]:
        """The IDs of the runs that have a row."""
        return frozenset(row.run_id for row in self.rows)

    @cached_property
    def live(self) -> list[IdeaRun]:
        """Runs that were started and have no row yet."""
        return [run for run in self.runs if run.started and run.run not in self.done]

    @cached_property
    def screens(self) -> frozenset[str]:
        """The IDs of the runs with cheaper settings, those of `screen`; they are unjudged, too."""
        return frozenset(run.run for run in self.runs if run.why == SCREEN)

    @cached_property
    def whole(self) -> list[LedgerRow]:
        """The rows of all others."""
        return [row for row in self.rows if row.run_id not in self.screens]

    @cached_property
    def waits(self) -> bool:
        """Whether a run of it is prepared or live, confirmations excluded."""
        return any(run.run not in self.done and run.why != "confirm" for run in self.runs)

    @cached_property
    def minutes(self) -> float:
        """What its runs took."""
        return sum(row.elapsed_min or 0.0 for row in self.rows)

    @cached_property
    def judged(self) -> list[LedgerRow]:
        """The rows that are evidence on the idea: not those of confirmations, and excused failures."""
        apart = {run.run for run in self.runs if run.why == "confirm"} | self.unjudged
        return [row for row in self.rows if row.run_id not in apart and not self.excused(row)]

    @cached_property
    def values(self) -> list[float]:
        """The objective of each judged run that measured it, oldest first; copies are left out."""
        return noise.measured(self.past_values)

    @property
    def unnamed(self) -> list[LedgerRow]:
        """The rows of runs that ended well before anybody named the objective: they can be measured later."""
        return [row for row in self.judged if row.status == Verdict.UNMEASURED and not row.metric_name]

    @property
    def past_values(self) -> list[float | None]:
        """The same with None for each run without the metric."""
        return [measured(row) for row in self.judged if row.run_id not in self.copies]

    @cached_property
    def metric_names(self) -> frozenset[str]:
        """What its judged runs measured."""
        return frozenset(row.metric_name for row in self.judged if row.metric_value is not None)

    @cached_property
    def value(self) -> float | None:
        """The mean of `values`."""
        return mean(self.values) if self.values else None

    @cached_property
    def noise(self) -> Noise:
        """The noise that its replicates show."""
        return noise_in(self.values)

    @cached_property
    def longest(self) -> float:
        """Minutes of its longest run; those that could not be launched tell nothing."""
        return max((row.elapsed_min or 0.0 for row in self.rows if row.ending != Ending.LAUNCH_FAILED), default=0.0)

    @cached_property
    def breach(self) -> LedgerRow | None:
        """Its first run since its last repair that broke a constraint, or does not show whether it did."""
        since = {run.run for run in self.runs[max(0, self.repaired) :]}
        return next((row for row in self.rows if row.failure in BREACHES and row.run_id in since), None)

    @property
    def broken(self) -> bool:
        """Whether that keeps it from ever being kept. The baseline has to stay what ideas are measured against."""
        return self.breach is not None and not self.hypothesis.is_baseline

    @cached_property
    def status(self) -> str:
        """A verdict: the status of its last judged row, else of its last row; "" without any.

        `keep` without any value counts as `discard`; it survives later runs without a metric. What was measured once
        is not called unmeasured.
        """
        if self.broken:
            return Verdict.CRASH.value
        telling = self.judged or self.rows
        status = telling[-1].status if telling else ""
        if self.values and telling[-1].uncounted:
            others = [row.status for row in telling if not row.uncounted]
            return others[-1] if others[-1:] == [Verdict.KEEP] or status == Verdict.UNMEASURED else status
        return Verdict.DISCARD.value if status == Verdict.KEEP and not self.values else status

    @cached_property
    def decided(self) -> float:
        """When its last judged run ended, or the cheap one that it was screened by; 0 before that."""
        rows = self.judged or (self.rows if self.screened else [])
        return max((row.ended or 0.0 for row in rows), default=0.0)

    def changed(self) -> None:
        """Forget what was worked out from its runs and rows: only `Fold` changes them."""
        for name in _OF_ROWS:
            self.__dict__.pop(name, None)

    def excused(self, row: LedgerRow) -> bool:
        """Whether a run failed through no fault of the idea.

        Agent-written code may have killed its own Runner; without a sandbox, such failures are not excused. Nor is what
        such a run has only printed, of a disk, a GPU or a scheduler.
        """
        if row.failure not in EXCUSED or not self.edited:
            return row.failure in EXCUSED
        printed = row.failure in DEVICES or row.ending == Ending.CRASHED
        return not printed and (row.failure not in UNPROVEN or bool(row.sandbox))

    def fresh_values(self, round_number: int) -> list[float | None]:
        """The objective of each finished confirmation run of a round; None for a run without one.

        In the order in which they were begun: with parallel runs, that in which they end depends on their outcome.
        """
        rows = {row.run_id: row for row in self.rows if not self.excused(row)}
        return [measured(rows[run.run]) for run in self.runs if run.round == round_number and run.run in rows]

    @property
    def kept(self) -> bool:
        return self.status == Verdict.KEEP and self.confirmed != "demoted"

    @cached_property
    def attempted(self) -> bool:
        """Whether a run was started, whatever its outcome."""
        return bool(self.rows) or any(run.started for run in self.runs)

    @property
    def screened(self) -> bool:
        """Whether it was clearly behind early on, and no run of it was whole."""
        return self.status == Verdict.SCREENED and not self.passed

    @property
    def passed(self) -> bool:
        """Whether its first stage, a run with cheaper settings, is over, and its first whole run is owed."""
        last = self.rows[-1] if self.rows and not self.judged else None
        return last is not None and last.run_id in self.screens and last.standing == PENDING

    def attempt(self) -> Attempt:
        """The idea as its proposer sees it."""
        return Attempt(self.index, self.hypothesis, "" if self.live else self.status, self.value, len(self.rows))


_OF_ROWS = [name for name, kind in vars(Idea).items() if isinstance(kind, cached_property)]


def measured(row: LedgerRow) -> float | None:
    """The finite metric of a run that ended as intended; None for a crash, a timeout, or a run that was stopped."""
    return None if row.uncounted else _finite(row.metric_value)


def as_measured(row: LedgerRow) -> float | None:
    """The same, but also that of a run whose metric counts nowhere because it failed a constraint."""
    return _finite(row.metric_value) if row.failure in BREACHES else measured(row)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Round:
    """A round of confirmation, as planned before its first run."""

    number: int  # from 1; of an ablation, from -1 down
    candidates: tuple[int, ...]  # indices of ideas
    sizes: tuple[int, ...]  # fresh runs of each candidate, and of the baseline, at the looks
    planned: int = 0  # the last of them as it was planned, if the deadline came before it
    of: int = 0  # of an ablation: the confirmed tip, of which each candidate lacks an edit; such a round claims nothing

    def cut_at(self, size: int) -> Round:
        """The same round with its last look here."""
        earlier = (one for one in self.sizes if one < size)
        return replace(self, sizes=(*earlier, size), planned=self.sizes[-1])


@dataclass(frozen=True, slots=True)
class MadeTip:
    """What came of the last merge of the edits that seemed good."""

    good_edits: tuple[int, ...] = ()  # the indices of their ideas, the best first
    index: int = 0  # of the idea that is the merge; 0: nothing is better than the baseline
    left: tuple[int, ...] = ()  # those that do not fit in


@dataclass(frozen=True, slots=True)
class Doubt:
    """What is doubtful about an idea, as clauses; "" for nothing."""

    waits: str = ""  # why a person must approve it before it is built on or claimed
    far: str = ""  # that it is better than training usually gets
    gains: bool = False  # whether it is better than what it was edited on


@dataclass(slots=True)
class CampaignState:
    """The current state of a campaign."""

    spec: CampaignSpec
    ideas: list[Idea] = field(default_factory=list)
    draft: Idea | None = None  # committed, but its branch is not yet claimed; if it persists, a crash interrupted it
    skipped: list[tuple[Hypothesis, str]] = field(default_factory=list)
    phase: CampaignPhase = CampaignPhase.RUNNING  # according to the journal; the lock may contradict it
    reason: str = ""
    fault: tuple[float, str] = (0.0, "")  # when a controller ended on an internal error, and on which
    queue_faults: list[str] = field(default_factory=list)  # errors in entries that wait in a queue
    requests: int = 0  # number of requests handled
    requested: list[Mapping[str, Any]] = field(default_factory=list)  # all requests of users, with their number `seq`
    said_later: list[Mapping[str, Any]] = field(default_factory=list)  # of ideas, after their runs: claims and others
    unwanted: set[str] = field(default_factory=set)  # slugs that a person asked to skip
    timeline: list[Mapping[str, Any]] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    settled_rounds: set[int] = field(default_factory=set)
    earlier_rounds: int = 0  # the proofs of before the campaign last ended: it was continued
    stop_mode: str = ""  # drain or stop, once requested
    seed_check: SeedCheck | None = None  # None: not checked yet
    research: Research = field(default_factory=Research)
    again: int = 0  # runs of the baseline without the metric, after which it was begun anew
    made_tip: MadeTip = field(default_factory=MadeTip)
    guarded: set[int] = field(default_factory=set)  # the indices of tips that passed the guard
    broken_merges: set[frozenset[int]] = field(default_factory=set)  # of edits that together do not pass it
    damaged: list[int] = field(default_factory=list)  # numbers of events that mean nothing to this version
    known: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # see `memo`

    @property
    def open_round(self) -> Round | None:
        """The round of confirmation that is under way."""
        last = self.rounds[-1] if self.rounds else None
        return last if last and last.number not in self.settled_rounds else None

    @property
    def baseline(self) -> Idea | None:
        """The idea named `baseline`."""
        return self.by_slug(BASELINE)

    @property
    def unseeded(self) -> bool:
        """Whether further runs of an idea are copies of its first, as far as is known."""
        return self.seed_check is not None and not (self.seed_check.seen or self.replicated)

    @property
    def replicated(self) -> bool:
        """Whether every run is a replicate, as nothing seeds the training."""
        return self.seed_check is not None and self.seed_check.randomness == Randomness.RANDOM

    @property
    def deterministic(self) -> bool:
        """Whether the program has no randomness, so that one run tells all there is to know."""
        return self.seed_check is not None and self.seed_check.randomness == Randomness.NONE

    def distrusted(self, idea: Idea) -> str:
        """Why a person must approve an idea before it is built on or claimed; "" if nobody has to, or somebody has."""
        return self._doubt(idea).waits

    def too_good(self, idea: Idea) -> str:
        """That it is far better than training usually gets, which a claim has to say; else ""."""
        return self._doubt(idea).far

    def _doubt(self, idea: Idea) -> Doubt:
        return self.memo("doubts", lambda: doubts(self)).get(idea.index, Doubt())

    @property
    def doubtful(self) -> list[Idea]:
        """The ideas that wait for a person's approval: kept ones, and those that run once and seem to gain."""

        def waits(idea: Idea) -> bool:
            return (idea.kept or (self.runs_once(idea) and self._doubt(idea).gains)) and bool(self.distrusted(idea))

        return self.memo("doubtful", lambda: [idea for idea in self.ideas if waits(idea)])

    @property
    def best(self) -> Idea | None:
        """The idea to build on and to beat: the last kept one that is not demoted or marked, else the baseline.

        Each beat the incumbent of its time.
        """

        def best() -> Idea | None:
            claims = {idea.index: idea.confirmed for idea in self.ideas}
            shaky = marked(self.ideas, claims) if "demoted" in claims.values() else ()
            kept = [i for i in self.keeps if i.kept and i.index > 1 and i.index not in shaky and not self.distrusted(i)]
            return sorted(kept, key=lambda idea: idea.decided)[-1] if kept else self.baseline

        return self.memo("best", best)

    @property
    def winner(self) -> Idea | None:
        """The best idea; of a confirmed tip the version without an edit that gains nothing, if it is confirmed, too."""
        best = self.best
        smaller = {index for one in self.rounds if best and one.of == best.index for index in one.candidates}
        return next((idea for idea in self.ideas if idea.index in smaller and idea.confirmed == "confirmed"), best)

    @property
    def searches_by_tip(self) -> bool:
        """Whether ideas are edited on a tip: not where further runs would be copies, nor before any shows the noise."""
        noisy = self.memo("noisy", lambda: any(idea.noise.squares for idea in self.ideas))
        return self.spec.search == "tip" and noisy and not self.unseeded

    def runs_once(self, idea: Idea) -> bool:
        """Whether an idea has a single run, and what it is worth shows in the tip: not a number of an optimiser.

        Nor one that is put to the proof by itself.
        """
        hypothesis = idea.hypothesis
        once = self.searches_by_tip and hypothesis.proposer in (AGENT, "queue") and not hypothesis.merges
        return once and all(run.why != "proof" for run in idea.runs)

    @property
    def tip(self) -> Idea | None:
        """The merge of all edits that seem good; None where there is none yet, or none is good."""
        made = self.merged
        return None if made is None or (made.index not in self.guarded and self.spec.research.guard) else made

    @property
    def merged(self) -> Idea | None:
        """The last merge, whether or not it has passed the guard."""
        index = self.made_tip.index
        return next((idea for idea in self.ideas if idea.index == index), None) if self.searches_by_tip else None

    @property
    def base(self) -> Idea | None:
        """The idea that new ones are built on: the tip, the merge before it while its guard runs, else the best."""
        if self.tip is None and self.merged is not None:
            passed = [idea for idea in self.ideas if idea.index in self.guarded]
            return passed[-1] if passed else self.best
        return self.tip or self.best

    @property
    def keeps(self) -> list[Idea]:
        """The ideas whose status is `keep`, demoted ones and the baseline included."""
        return self.memo("keeps", lambda: [idea for idea in self.ideas if idea.status == Verdict.KEEP])

    @property
    def attempted(self) -> int:
        """Number of attempted ideas; replicates and confirmations do not count, nor do merges of ideas."""
        return self.memo("attempted", lambda: sum([i.attempted and not i.hypothesis.merges for i in self.ideas]))

    @property
    def rows(self) -> list[LedgerRow]:
        """Every row, grouped by idea."""
        return self.memo("rows", lambda: [row for idea in self.ideas for row in idea.rows])

    @property
    def values(self) -> list[list[float]]:
        """What each idea measured that measured anything."""
        return self.memo("values", lambda: [idea.values for idea in self.ideas if idea.values])

    @property
    def live(self) -> list[tuple[Idea, IdeaRun]]:
        """The runs that are under way."""
        return self.memo("live", lambda: [(idea, run) for idea in self.ideas for run in idea.live])

    @property
    def gpu_hours(self) -> float:
        """GPU hours of all finished runs."""
        minutes = self.memo("min", lambda: sum([idea.minutes for idea in self.ideas]))
        return self.spec.gpus_per_run / 60 * minutes

    def by_slug(self, slug: str) -> Idea | None:
        return self.memo("slugs", lambda: {idea.slug: idea for idea in reversed(self.ideas)}).get(slug)

    def memo(self, name: str, work: Callable[[], T]) -> T:
        """The result of `work`, kept under `name` until an event is added."""
        if name not in self.known:
            self.known[name] = work()
        found: T = self.known[name]
        return found

    def attempts(self) -> list[Attempt]:
        """All attempts for the proposers, skipped ones last."""
        none = [Attempt(0, hypothesis, "skipped") for hypothesis, _ in self.skipped]
        return [idea.attempt() for idea in self.ideas] + none


def marked(ideas: Sequence[Idea], claims: Mapping[int, str]) -> frozenset[int]:
    """The indices of the ideas built, directly or indirectly, on one that is demoted by the `claims` on each index.

    A confirmed idea beat the baseline in its own right: neither it nor the ideas built on it are marked.
    """
    parents = {idea.slug: idea for idea in reversed(ideas)}

    def lost(idea: Idea) -> bool:
        seen = set[int]()
        while idea.index not in seen and claims.get(idea.index) != "confirmed":  # seen: in a journal edited by hand
            seen.add(idea.index)
            parent = parents.get(idea.parent)
            if parent is None or claims.get(parent.index) == "demoted":
                return parent is not None
            idea = parent
        return False

    return frozenset(idea.index for idea in ideas if lost(idea))


# -- trust ------------------------------------------------------------------------------------------------------------
#
# Where edited code measures itself, an edit that touches its own measurement waits for a person: nothing is built on
# it, and it is not claimed, before somebody has looked. One that is only far better than the baseline is built on and
# proved as any other, and its claim says so.


def doubts(state: CampaignState) -> dict[int, Doubt]:
    """The doubt about each edited idea that nobody approved, by its index; none where `evaluate:` measures the runs."""
    if not state.spec.self_reported:
        return {}
    objective, baseline = state.spec.objective, state.baseline.values if state.baseline else []
    start = mean(baseline) if baseline else 0.0
    found = dict[int, Doubt]()
    below, shown = dict[int, float](), dict[int, float]()
    for idea in sorted(state.ideas, key=lambda one: one.index):  # what an idea was made of is older
        above = (state.by_slug(slug) for slug in (idea.parent, *idea.hypothesis.merges))
        made_of = [one.index for one in above if one is not None and one.index < idea.index]
        parent, *parts = made_of or (0,)
        level = shown.get(parent, start)  # what it would measure if its own edit did nothing
        if idea.hypothesis.merges:  # ... or if the gains of its parts add
            level += sum(shown[part] - below[part] for part in parts if part != parent)
        below[idea.index], shown[idea.index] = level, mean(idea.values) if idea.values else level
        if idea.edited and idea.slug not in state.research.trusted:
            flags = (*idea.hypothesis.flags, *idea.fix_flags, *(f for row in idea.rows for f in row.flags.split("; ")))
            waits = why_doubtful(idea.values, flags, baseline)
            waits = waits or next((found[n].waits for n in made_of if n in found and found[n].waits), "")
            gains = bool(idea.values) and objective.better(shown[idea.index], level)
            found[idea.index] = Doubt(waits, _far(objective, idea.values, baseline), gains)
    return found


def why_doubtful(values: Sequence[float], flags: Sequence[str], baseline: Sequence[float]) -> str:
    """Why a person has to look at it, whatever it is made of, as a clause; "" for no reason."""
    for flag in flags:
        if SETS_OBJECTIVE in flag or flag.startswith(FLAT):
            return flag
    if len(values) > 1 and min(values) == max(values) and noise_of([baseline]).sd:
        return f"all its {len(values)} runs are equal ({values[0]:.4g}), and those of the baseline are not"
    return ""


def _far(objective: Objective, values: Sequence[float], baseline: Sequence[float]) -> str:
    """That runs are far better than the baseline's; else ""."""
    sd = noise_of([baseline]).shown_sd
    if not sd or not values or not objective.better(ours := mean(values), start := mean(baseline)):
        return ""
    far = abs(ours - start) / sd
    return f"{far:.0f} standard deviations better than the baseline" if far > FAR else ""
