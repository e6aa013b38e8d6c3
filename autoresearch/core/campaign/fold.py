"""Fold: a campaign's state from the lines of its journal, its ledger and its later verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autoresearch.core.campaign.claim import CLAIMS, TESTED, ClaimEstimate
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignPhase, CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea, IdeaRun, Round
from autoresearch.core.run.ending import COPY, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.seeding import SeedCheck


def fold(
    campaign_spec: CampaignSpec,
    journal: Iterable[Mapping[str, Any]],
    rows: Iterable[LedgerRow],
    verdicts: Iterable[Mapping[str, Any]] = (),
) -> CampaignState:
    """The state of a campaign; its files are the only state."""
    return Fold(campaign_spec).add(journal, rows, verdicts)


class Fold:
    """Keeps a state up to date; it always equals the `fold` of all lines added so far."""

    def __init__(self, campaign_spec: CampaignSpec) -> None:
        self.state = CampaignState(campaign_spec)
        self._ideas: dict[int, Idea] = {}
        self._owners: dict[str, tuple[Idea, IdeaRun]] = {}  # by run ID
        self._taken: set[str] = set()  # IDs of the runs that have a row
        self._loose: list[LedgerRow] = []  # rows of ideas that the journal does not contain (yet)
        self._early: list[Mapping[str, Any]] = []  # verdicts on such ideas
        self._open: dict[str, tuple[Idea, IdeaRun]] = {}  # runs that were started and have no row yet
        self._kept: dict[int, Idea] = {}

    def add(
        self,
        journal: Iterable[Mapping[str, Any]] = (),
        rows: Iterable[LedgerRow] = (),
        verdicts: Iterable[Mapping[str, Any]] = (),
    ) -> CampaignState:
        """Add lines of each file; returns the one state, modified in place."""
        for line in journal:
            try:
                self._take(line)
            except (KeyError, TypeError, ValueError, AttributeError):  # edited by hand, or written by a newer version
                self.state.damaged.append(int(line.get("seq") or 0))
        new_rows, new_verdicts = [*self._loose, *rows], [*self._early, *verdicts]
        self._loose = [row for row in new_rows if not self._attach(row)]
        self._early = [verdict for verdict in new_verdicts if not self._judge(verdict)]
        self.state.changed(
            judged=len(new_rows) + len(new_verdicts) > len(self._loose) + len(self._early),
            keeps=[self._kept[index] for index in sorted(self._kept)],
            live=sorted(self._open.values(), key=lambda pair: pair[0].index),
        )
        return self.state

    def _attach(self, row: LedgerRow) -> bool:
        """Assign a row to its idea by the journal; False if the journal does not know its run (yet).

        The ledger is not trusted for this: a person or an unsandboxed agent may have edited it.
        """
        owner = self._owners.get(row.run_id)
        idea = owner[0] if owner else None if row.run_id else self._ideas.get(row.index)
        if idea is None:
            return False
        if not (row.run_id and row.run_id in self._taken):
            idea.rows.append(row)
            if any(flag.startswith(COPY) for flag in row.flags.split("; ")):
                idea.copies.add(row.run_id)
            self._taken.add(row.run_id)
            self._open.pop(row.run_id, None)
            self._weigh(idea)
        return True

    def _weigh(self, idea: Idea) -> None:
        """Update whether it counts as kept."""
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
        state = self.state
        match line.get("do"):
            case "drafted":
                state.draft = _idea(line)
            case "idea":
                state.draft, idea = None, _idea(line)
                parent = next((other for other in state.ideas if other.slug == idea.parent), None)
                idea.parent_index = parent.index if parent else 0
                idea.edited = idea.hypothesis.kind not in ("", "config") or (parent is not None and parent.edited)
                if idea.index not in self._ideas:
                    self._ideas[idea.index] = idea
                    state.ideas.append(idea)
            case "skipped":
                state.draft = None
                state.skipped.append((Hypothesis.from_json(line["hypothesis"]), str(line.get("reason", ""))))
            case "prepared" if known := self._ideas.get(line["index"]):
                names = ("run", "run_dir", "replicate", "why", "commit", "seed", "round")
                turns = tuple(line.get("turns", ()))
                known.runs.append(IdeaRun(**{name: line[name] for name in names if name in line}, turns=turns))
                self._owners[known.runs[-1].run] = known, known.runs[-1]
                self._weigh(known)
            case "seed_check" if state.baseline:
                state.seed_check = SeedCheck(**{n: line[n] for n in SeedCheck.__dataclass_fields__ if n in line})
                state.baseline.copies = set(line["copies"]) if line["seen"] else set()
                state.changed()
            case "fixed" if known := self._ideas.get(line["index"]):
                known.commit, known.repaired, known.edited = str(line["commit"]), len(known.runs), True
                known.fix_flags += tuple(str(flag) for flag in line.get("flags", ()))
            case "trusted":
                state.changed()
            case "started" | "withdrawn" as what:
                self._settle(str(line.get("run")), gone=what == "withdrawn")
            case _:
                _steer(state, line)
        state.research.take(line)
        state.timeline.append(line)

    def _settle(self, name: str, *, gone: bool) -> None:
        """Record that a run was started, or withdrawn."""
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


def _steer(state: CampaignState, line: Mapping[str, Any]) -> None:
    """Apply a line that concerns the whole campaign."""
    match line.get("do"):
        case "rules":
            state.spec = state.spec.with_rules(line)
        case "state":
            state.phase, state.reason = CampaignPhase(line["state"]), str(line.get("reason", ""))
            if state.phase is CampaignPhase.ENDED:
                state.earlier_rounds = len(state.rounds)
        case "fault":
            state.fault = float(line.get("t") or 0.0), str(line["reason"])
        case "queue":
            state.queue_faults = [str(fault) for fault in line["faults"]]
        case "request":
            state.requests = int(line["upto"])
        case "confirming":
            sizes = line.get("sizes") or [line["each"]]  # before there were looks
            state.rounds.append(Round(line["round"], tuple(line["candidates"]), tuple(sizes)))
        case "confirmed_round":
            state.settled_rounds.add(int(line["round"]))
        case "told":
            state.stop_mode = str(line["how"])
        case "again":
            state.again += 1
        case "unwanted":
            state.unwanted.add(str(line["slug"]))


def _idea(line: Mapping[str, Any]) -> Idea:
    names = ("parent", "parent_commit", "parent_branch", "commit", "branch", "fingerprint")
    texts = {name: line.get(name, "") for name in names}
    hypothesis = Hypothesis.from_json(line["hypothesis"])
    return Idea(line["index"], hypothesis, simpler=bool(line.get("simpler")), **texts)


def _judge(idea: Idea, verdict: Mapping[str, Any]) -> None:
    if verdict.get("do") == "undecided" and idea.confirmed in TESTED:
        return  # a later round that could not decide takes nothing back
    if verdict.get("do") in CLAIMS:
        idea.confirmed, idea.caveat = str(verdict["do"]), str(verdict.get("caveat", ""))
        idea.claim = ClaimEstimate.of_verdict(verdict)
    elif verdict.get("do") == "smoke":
        idea.smoke.add(str(verdict.get("run", "")))
    elif verdict.get("do") == "marked":
        idea.marked = str(verdict.get("of", ""))
