"""CampaignView: what a campaign knows of its ideas, folded from its journal, its ledger and later verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, TypeVar

from autoresearch.core.agents.turns import Research
from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.lineage import incumbent
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.spec import CampaignSpec, CampaignState
from autoresearch.core.run.ending import EXCUSED, UNPROVEN, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.noise import Spread, spread_of
from autoresearch.core.statistics.pruning import PRUNED

T = TypeVar("T")


@dataclass(slots=True)
class IdeaRun:
    """One run of an idea as the journal has it; its row follows when it is over."""

    run: str
    run_dir: str
    replicate: int
    why: str  # first, baseline, retest, retry, fix, confirm
    commit: str = ""
    seed: int | None = None
    round: int = 0  # of confirmation; 0 for a run of the search
    started: bool = False  # the word was given; before it, it is only prepared
    turns: tuple[str, ...] = ()  # of a researcher, that led to it


@dataclass(frozen=True, slots=True)
class _RowsSummary:
    """What the rows of an idea say, while `size` (rows, runs, smoke runs, copies) and the last row are the same."""

    size: tuple[int, int, int, int]
    last: LedgerRow | None
    done: frozenset[str]
    judged: list[LedgerRow]
    values: list[float]
    value: float | None
    spread: Spread
    status: str
    decided: float


@dataclass(slots=True)
class Idea:
    """One attempted idea: its hypothesis, its branch, its runs."""

    index: int
    hypothesis: Hypothesis
    parent: str  # slug of the parent idea; "" for the baseline
    parent_commit: str
    commit: str  # the idea itself, before anything that differs from run to run
    branch: str
    fingerprint: str
    parent_branch: str = ""  # as it is called, which may be with `-2`
    simpler: bool = False  # declared, and shown by the diff
    runs: list[IdeaRun] = field(default_factory=list)
    rows: list[LedgerRow] = field(default_factory=list)
    smoke: set[str] = field(default_factory=set)  # runs that validated plumbing only
    copies: set[str] = field(default_factory=set)  # runs that repeat an earlier one's seed, and so its numbers
    repaired: int = -1  # how many runs it had when its code was last repaired; -1: never
    confirmed: str = ""  # confirmed, demoted, undecided; "" as long as nobody asked
    marked: str = ""  # the demoted ancestor that a keep was built on
    edited: bool = False  # a researcher has written code that it trains: its own, or an ancestor's
    caveat: str = ""  # what a claim about it must not be said without
    _known: _RowsSummary | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def slug(self) -> str:
        return self.hypothesis.slug

    @property
    def done(self) -> frozenset[str]:
        """The run ids that have a row."""
        return self._told().done

    @property
    def live(self) -> list[IdeaRun]:
        """Runs that were started and have no row yet."""
        return [run for run in self.runs if run.started and run.run not in self.done]

    @property
    def judged(self) -> list[LedgerRow]:
        """The rows that say something about the idea: a confirmation, a smoke run, a lost run do not."""
        return self._told().judged

    @property
    def values(self) -> list[float]:
        """The objective of each run that measured it, oldest first; of runs that are copies, of the first."""
        return self._told().values

    @property
    def value(self) -> float | None:
        """Their mean."""
        return self._told().value

    @property
    def spread(self) -> Spread:
        """What its replicates say of the noise."""
        return self._told().spread

    @property
    def status(self) -> str:
        """keep, discard or crash: what its last judged row says, else its last row; "" before there is one."""
        return self._told().status

    @property
    def decided(self) -> float:
        """When its last judged run ended."""
        return self._told().decided

    def _told(self) -> _RowsSummary:
        """What its rows say; worked out again only when there are more, as campaigns have thousands of ideas."""
        rows, known = self.rows, self._known
        size = (len(rows), len(self.runs), len(self.smoke), len(self.copies))
        last = rows[-1] if rows else None
        if known is None or known.size != size or known.last is not last:
            known = self._known = _told(self, size, last)
        return known

    def excused(self, row: LedgerRow) -> bool:
        """Whether a run failed by no fault of the idea.

        Code that a researcher wrote may have ended its own Runner, unless a sandbox kept it from that.
        """
        return row.failure in EXCUSED and not (self.edited and row.failure in UNPROVEN and not row.sandbox)

    def fresh_values(self, round_number: int) -> list[float | None]:
        """The objective of each confirmation run of a round that is over; None where one has none."""
        runs = {run.run for run in self.runs if run.round == round_number}
        rows = [row for row in self.rows if row.run_id in runs and not self.excused(row)]
        return [measured(row) for row in rows]

    @property
    def kept(self) -> bool:
        """Whether the search may build on it."""
        return self.status == Verdict.KEEP and self.confirmed != "demoted"

    @property
    def attempted(self) -> bool:
        """Whether it counts: it was begun, whatever became of it."""
        return bool(self.rows) or any(run.started for run in self.runs)

    @property
    def pruned(self) -> bool:
        """Whether its curve ended its last run early, which decides it until its code is repaired."""
        rows = self.judged
        return bool(rows) and rows[-1].failure == PRUNED

    def attempt(self) -> Attempt:
        """What its proposer is told."""
        status = "" if self.live else PRUNED if self.pruned else self.status
        return Attempt(self.index, self.hypothesis, status, self.value, len(self.rows))


def _told(idea: Idea, size: tuple[int, int, int, int], last: LedgerRow | None) -> _RowsSummary:
    apart = {run.run for run in idea.runs if run.why == "confirm"} | idea.smoke
    judged = [row for row in idea.rows if row.run_id not in apart and not idea.excused(row)]
    values = [v for row in judged if row.run_id not in idea.copies and (v := measured(row)) is not None]
    telling = judged or idea.rows
    return _RowsSummary(
        size=size,
        last=last,
        done=frozenset(row.run_id for row in idea.rows),
        judged=judged,
        values=values,
        value=fmean(values) if values else None,
        spread=spread_of(values),
        status=_status(telling, values),
        decided=max((row.ended or 0.0 for row in judged), default=0.0),
    )


def _status(telling: Sequence[LedgerRow], values: Sequence[float]) -> str:
    """What the last row says; a `keep` without any value is no better than another idea, and never the best."""
    status = telling[-1].status if telling else ""
    return Verdict.DISCARD.value if status == Verdict.KEEP and not values else status


def measured(row: LedgerRow) -> float | None:
    """The finite metric of a run that was meant to end as it did: a timeout's, a crash's, a pruned one's is none."""
    value = row.metric_value
    counts = row.status != Verdict.CRASH and row.failure != PRUNED
    return value if counts and value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class SeedCheck:
    """What the baseline's first runs showed: whether another seed makes another run (`core.statistics.seeding`)."""

    seen: bool
    reason: str  # the numbers
    by: str  # how the seed is given to the training
    runs: int  # of the baseline, begun by then
    values: int  # at how many steps runs differ at all
    exact: bool  # whether runs of one seed are equal to the last digit


@dataclass(frozen=True, slots=True)
class Round:
    """A round of confirmation: what was planned before its first run."""

    number: int  # from 1
    candidates: tuple[int, ...]  # indices of ideas
    each: int  # fresh runs of each candidate
    baseline: int  # fresh runs of the baseline


@dataclass(slots=True)
class CampaignView:
    """A campaign as it is now."""

    spec: CampaignSpec
    ideas: list[Idea] = field(default_factory=list)
    draft: Idea | None = None  # committed, its branch not yet claimed: a crash came between, if it stays
    skipped: list[tuple[Hypothesis, str]] = field(default_factory=list)
    state: CampaignState = CampaignState.RUNNING  # as the journal has it; the lock may know better
    reason: str = ""
    fault: tuple[float, str] = (0.0, "")  # when a controller ended on a fault of its own, and which
    queue_faults: list[str] = field(default_factory=list)  # what is wrong with entries that wait in a queue
    requests: int = 0  # handled so far
    unwanted: set[str] = field(default_factory=set)  # slugs that somebody asked to skip
    timeline: list[Mapping[str, Any]] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    settled_rounds: set[int] = field(default_factory=set)
    told_stop: str = ""  # drain or stop, once somebody asked
    seed_check: SeedCheck | None = None  # None: not made yet
    research: Research = field(default_factory=Research)
    again: int = 0  # how often the whole baseline was asked for again, because no run of it had the metric
    damaged: list[int] = field(default_factory=list)  # lines of the journal that say nothing that can be understood
    _memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def open_round(self) -> Round | None:
        """The round of confirmation that is under way."""
        last = self.rounds[-1] if self.rounds else None
        return last if last and last.number not in self.settled_rounds else None

    @property
    def baseline(self) -> Idea | None:
        """Idea 1."""
        return self.by_slug(BASELINE)

    @property
    def unseeded(self) -> bool:
        """Whether it was seen that the seed does nothing: then further runs of an idea are copies of its first."""
        return self.seed_check is not None and not self.seed_check.seen

    @property
    def best(self) -> Idea | None:
        """The idea that the search builds on and has to beat: the last kept one that stands, else the baseline."""
        return self.memo("best", self._best)

    def _best(self) -> Idea | None:
        kept = sorted((i for i in self.keeps if i.index > 1), key=lambda i: i.decided)
        demoted = {i.index for i in self.ideas if i.confirmed == "demoted"}
        confirmed = {i.index for i in self.ideas if i.confirmed == "confirmed"}
        # who is built on whom matters only where somebody lost his ground
        built = self.ideas if demoted else ()
        parents = {i.index: parent.index for i in built if (parent := self.by_slug(i.parent))}
        index = incumbent([i.index for i in kept], parents, demoted, confirmed)
        return next((idea for idea in self.ideas if idea.index == index), self.baseline)

    @property
    def keeps(self) -> list[Idea]:
        """The ideas whose last word is `keep`, demoted ones too; the baseline is one."""
        return self.memo("keeps", lambda: [idea for idea in self.ideas if idea.status == Verdict.KEEP])

    @property
    def attempted(self) -> int:
        """Ideas that were begun; replicates and confirmations are none."""
        return self.memo("attempted", lambda: sum(idea.attempted for idea in self.ideas))

    @property
    def rows(self) -> list[LedgerRow]:
        """Every row, by idea."""
        return self.memo("rows", lambda: [row for idea in self.ideas for row in idea.rows])

    @property
    def live(self) -> list[tuple[Idea, IdeaRun]]:
        """What runs now."""
        return self.memo("live", lambda: [(idea, run) for idea in self.ideas for run in idea.live])

    @property
    def gpu_hours(self) -> float:
        """Spent so far by runs that are over."""
        minutes = self.memo("minutes", lambda: sum(row.elapsed_min or 0.0 for row in self.rows))
        return minutes / 60 * self.spec.gpus_per_run

    def by_slug(self, slug: str) -> Idea | None:
        """The idea of that name."""
        return self.memo("slugs", lambda: {idea.slug: idea for idea in reversed(self.ideas)}).get(slug)

    def memo(self, name: str, work: Callable[[], T]) -> T:
        """What `work` says of this view, worked out once until something is added to it."""
        if name not in self._memo:
            self._memo[name] = work()
        found: T = self._memo[name]
        return found

    def changed(self, *, judged: bool = True, **known: Any) -> None:
        """Forget what was worked out, but for what is `known`; `judged` False: no row and no verdict was added."""
        if judged:
            self._memo.clear()
        for name in ("slugs", "parents", "attempted"):
            self._memo.pop(name, None)
        self._memo |= known

    def attempts(self) -> list[Attempt]:
        """What proposers look at, skipped ones last."""
        none = [Attempt(0, hypothesis, "skipped") for hypothesis, _ in self.skipped]
        return [idea.attempt() for idea in self.ideas] + none


def fold(
    spec: CampaignSpec,
    journal: Iterable[Mapping[str, Any]],
    rows: Iterable[LedgerRow],
    verdicts: Iterable[Mapping[str, Any]] = (),
) -> CampaignView:
    """Everything that is known, from what was written; nothing is remembered elsewhere."""
    return Fold(spec).add(journal, rows, verdicts)


class Fold:
    """A view that grows by what is added to the three files; always the view that `fold` of all would be."""

    def __init__(self, spec: CampaignSpec) -> None:
        self.view = CampaignView(spec)
        self._ideas: dict[int, Idea] = {}
        self._owners: dict[str, tuple[Idea, IdeaRun]] = {}  # by run
        self._taken: set[str] = set()  # runs that have a row
        self._loose: list[LedgerRow] = []  # of ideas that the journal does not know (yet)
        self._early: list[Mapping[str, Any]] = []  # verdicts, the same
        self._open: dict[str, tuple[Idea, IdeaRun]] = {}  # runs that were started and have no row yet
        self._kept: dict[int, Idea] = {}

    def add(
        self,
        journal: Iterable[Mapping[str, Any]] = (),
        rows: Iterable[LedgerRow] = (),
        verdicts: Iterable[Mapping[str, Any]] = (),
    ) -> CampaignView:
        """Take in more of each; the one view, which is changed."""
        for line in journal:
            try:
                self._take(line)
            except (KeyError, TypeError, ValueError, AttributeError):  # edited by hand, or of a newer version
                self.view.damaged.append(int(line.get("seq") or 0))
        new_rows, new_verdicts = [*self._loose, *rows], [*self._early, *verdicts]
        self._loose = [row for row in new_rows if not self._attach(row)]
        self._early = [verdict for verdict in new_verdicts if not self._judge(verdict)]
        self.view.changed(
            judged=len(new_rows) + len(new_verdicts) > len(self._loose) + len(self._early),
            keeps=[self._kept[index] for index in sorted(self._kept)],
            live=sorted(self._open.values(), key=lambda pair: pair[0].index),
        )
        return self.view

    def _attach(self, row: LedgerRow) -> bool:
        """Give a row to its idea. The journal knows whose a run is; a run that it does not know is nobody's.

        The ledger may have been edited by hand, or by a researcher that nothing confined.
        """
        owner = self._owners.get(row.run_id)
        idea = owner[0] if owner else None if row.run_id else self._ideas.get(row.index)
        if idea is None:
            return False
        if not (row.run_id and row.run_id in self._taken):
            idea.rows.append(row)
            self._taken.add(row.run_id)
            self._open.pop(row.run_id, None)
            self._weigh(idea)
        return True

    def _weigh(self, idea: Idea) -> None:
        """Whether it is kept now."""
        if idea.status == Verdict.KEEP:
            self._kept[idea.index] = idea
        else:
            self._kept.pop(idea.index, None)

    def _judge(self, verdict: Mapping[str, Any]) -> bool:
        idea = self._ideas.get(int(verdict.get("index") or 0))
        if idea is not None:
            _judge(idea, verdict)
            self._weigh(idea)
        return idea is not None

    def _take(self, line: Mapping[str, Any]) -> None:
        view = self.view
        match line.get("do"):
            case "drafted":
                view.draft = _idea(line)
            case "idea":
                view.draft, idea = None, _idea(line)
                parent = next((other for other in view.ideas if other.slug == idea.parent), None)
                idea.edited = idea.hypothesis.kind not in ("", "config") or (parent is not None and parent.edited)
                if idea.index not in self._ideas:
                    self._ideas[idea.index] = idea
                    view.ideas.append(idea)
            case "skipped":
                view.draft = None
                view.skipped.append((Hypothesis.from_json(line["hypothesis"]), str(line.get("reason", ""))))
            case "prepared" if known := self._ideas.get(line["index"]):
                names = ("run", "run_dir", "replicate", "why", "commit", "seed", "round")
                turns = tuple(line.get("turns", ()))
                known.runs.append(IdeaRun(**{name: line[name] for name in names if name in line}, turns=turns))
                self._owners[known.runs[-1].run] = known, known.runs[-1]
                self._weigh(known)
            case "seed_check" if view.baseline:
                view.seed_check = SeedCheck(**{name: line[name] for name in SeedCheck.__dataclass_fields__})
                view.baseline.copies = set(line["copies"]) if line["seen"] else set()
                view.changed()
            case "fixed" if known := self._ideas.get(line["index"]):
                known.commit, known.repaired, known.edited = str(line["commit"]), len(known.runs), True
            case "started" | "withdrawn" as what:
                self._settle(str(line.get("run")), gone=what == "withdrawn")
            case _:
                _steer(view, line)
        view.research.take(line)
        view.timeline.append(line)

    def _settle(self, name: str, *, gone: bool) -> None:
        """A run was given the word, or taken back."""
        idea, run = self._owners.get(name, (None, None))
        if idea is None or run is None:
            return
        run.started = not gone
        if gone:
            idea.runs.remove(run)
            del self._owners[name]
            self._open.pop(name, None)
            self._weigh(idea)
        elif name not in self._taken:
            self._open[name] = idea, run


def _steer(view: CampaignView, line: Mapping[str, Any]) -> None:
    """What a line says of the campaign as a whole."""
    match line.get("do"):
        case "rules":
            view.spec = view.spec.with_rules(line)
        case "state":
            view.state, view.reason = CampaignState(line["state"]), str(line.get("reason", ""))
        case "fault":
            view.fault = float(line.get("t") or 0.0), str(line["reason"])
        case "queue":
            view.queue_faults = [str(fault) for fault in line["faults"]]
        case "request":
            view.requests = int(line["upto"])
        case "confirming":
            view.rounds.append(Round(line["round"], tuple(line["candidates"]), line["each"], line["baseline"]))
        case "confirmed_round":
            view.settled_rounds.add(int(line["round"]))
        case "told":
            view.told_stop = str(line["how"])
        case "again":
            view.again += 1
        case "unwanted":
            view.unwanted.add(str(line["slug"]))


def _idea(line: Mapping[str, Any]) -> Idea:
    return Idea(
        index=line["index"],
        hypothesis=Hypothesis.from_json(line["hypothesis"]),
        parent=line.get("parent", ""),
        parent_commit=line.get("parent_commit", ""),
        parent_branch=line.get("parent_branch", ""),
        commit=line.get("commit", ""),
        branch=line.get("branch", ""),
        fingerprint=line.get("fingerprint", ""),
        simpler=bool(line.get("simpler")),
    )


def _judge(idea: Idea, verdict: Mapping[str, Any]) -> None:
    if verdict.get("do") in ("confirmed", "demoted", "undecided"):
        idea.confirmed, idea.caveat = str(verdict["do"]), str(verdict.get("caveat", ""))
    elif verdict.get("do") == "smoke":
        idea.smoke.add(str(verdict.get("run", "")))
    elif verdict.get("do") == "marked":
        idea.marked = str(verdict.get("of", ""))
