"""Fold: the events of a campaign, one by one, into its CampaignState."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autoresearch.core.campaign.claim import CLAIMS, OPEN, TESTED, ClaimEstimate
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignPhase, CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea, IdeaRun, MadeTip, Round
from autoresearch.core.run.ending import BREACHES
from autoresearch.core.run.json_record import from_record
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.seeding import SeedCheck

_LATER = (*CLAIMS, "smoke", "marked", "outputs_removed")


def fold(campaign_spec: CampaignSpec, events: Iterable[Mapping[str, Any]]) -> CampaignState:
    """The state of a campaign that its events amount to."""
    return Fold(campaign_spec).add(events)


class Fold:
    """Keeps a state up to date; it always equals the `fold` of all events added so far."""

    def __init__(self, campaign_spec: CampaignSpec) -> None:
        self.state = CampaignState(campaign_spec)
        self._ideas: dict[int, Idea] = {}
        self._by_slug: dict[str, Idea] = {}  # the first of each
        self._owners: dict[str, tuple[Idea, IdeaRun]] = {}  # by run ID

    def add(self, events: Iterable[Mapping[str, Any]]) -> CampaignState:
        """Add events; returns the one state, modified in place."""
        for event in events:
            self.state.known.clear()
            try:
                match str(event.get("do")):
                    case "campaign":  # the spec is known by now
                        pass
                    case "ran":
                        self._ran(event)
                    case "requested":
                        asked = self.state.requested
                        asked.append({**event["request"], "t": event.get("t"), "seq": len(asked) + 1})
                    case do if do in _LATER:
                        self._later(event)
                    case do:
                        self._take(do, event)
            except (KeyError, TypeError, ValueError, AttributeError):  # written by a newer version
                self.state.damaged.append(int(event.get("seq") or 0))
        self.state.known.clear()
        return self.state

    def _ran(self, line: Mapping[str, Any]) -> None:
        """Assign a row to its idea, by its run: a row without one names an idea itself (before there were IDs)."""
        row = LedgerRow.from_cells(line["row"])
        owner = self._owners.get(row.run_id)
        idea = owner[0] if owner else None if row.run_id else self._ideas.get(row.index)
        if idea is None:
            return
        if not row.run_id or row.run_id not in idea.done:
            idea.rows.append(row)
        elif line.get("again"):
            idea.rows[[one.run_id for one in idea.rows].index(row.run_id)] = row
        if line.get("smoke"):
            self._later({"do": "smoke", "index": row.index, "run": row.run_id, "t": line.get("t")})
        ablated = owner is not None and owner[1].round < 0  # as a part of what does not break it
        if row.failure in BREACHES and idea.hypothesis.merges and not ablated:
            self._break_up(idea)
        idea.changed()

    def _break_up(self, merge: Idea) -> None:
        """Have another merge made, without the weakest of these edits."""
        state, slugs = self.state, merge.hypothesis.merges
        state.broken_merges.add(frozenset(one.index for one in state.ideas if one.slug in slugs))
        if state.made_tip.index == merge.index:
            state.made_tip = MadeTip()

    def _later(self, line: Mapping[str, Any]) -> None:
        """Apply what was said of an idea after its runs."""
        self.state.said_later.append(line)
        idea, do = self._ideas.get(int(line.get("index") or 0)), line["do"]
        if idea is None:
            return
        if do in CLAIMS and not (do in OPEN and idea.confirmed in TESTED):
            # a later round that could not decide takes nothing back
            idea.claim = ClaimEstimate.of_verdict(line)
        elif do == "smoke":
            idea.unjudged.add(str(line.get("run", "")))
        elif do == "marked":
            idea.marked = str(line.get("of", ""))
        idea.changed()

    def _take(self, do: str, line: Mapping[str, Any]) -> None:
        state = self.state
        match do:
            case "drafted":
                state.draft = from_record(Idea, line)
            case "idea":
                state.draft, idea = None, from_record(Idea, line)
                parent = self._by_slug.get(idea.parent)
                idea.parent_index = parent.index if parent else 0
                below = [parent, *map(self._by_slug.get, idea.hypothesis.merges)]
                edited = any(other.edited for other in below if other)
                idea.edited = idea.hypothesis.kind not in ("", "config") or edited
                if idea.index not in self._ideas:
                    self._ideas[idea.index] = idea
                    self._by_slug.setdefault(idea.slug, idea)
                    state.ideas.append(idea)
            case "skipped":
                state.draft = None
                state.skipped.append((Hypothesis.from_json(line["hypothesis"]), str(line.get("reason", ""))))
            case "prepared" | "reused" if known := self._ideas.get(line["index"]):
                for run in (from_record(IdeaRun, one) for one in line.get("runs") or [line]):
                    known.runs.append(run)
                    self._owners[run.run] = known, run
                known.changed()
                known.unjudged |= known.screens
            case "seed_check" if state.baseline:
                state.seed_check = from_record(SeedCheck, line)
                state.baseline.copies = set(line["copies"]) if line["seen"] else set()
                state.baseline.changed()
            case "fixed" if known := self._ideas.get(line["index"]):
                known.commit, known.repaired, known.edited = str(line["commit"]), len(known.runs), True
                known.fix_flags += tuple(str(flag) for flag in line.get("flags", ()))
                known.changed()
            case "equal" if known := self._ideas.get(line["index"]):
                known.equal_to = int(line["of"])
            case "started" if owner := self._owners.get(str(line.get("run"))):
                owner[1].started = True
                owner[0].changed()
            case "guarded" if not line["passed"] and (merge := self._ideas.get(line["index"])):
                self._break_up(merge)
            case "withdrawn" if owner := self._owners.pop(str(line.get("run")), None):
                owner[0].runs.remove(owner[1])
                owner[0].unjudged.discard(owner[1].run)
                owner[0].changed()
            case _:
                _steer(state, line)
        state.research.take(line)
        state.timeline.append(line)


def _steer(state: CampaignState, line: Mapping[str, Any]) -> None:
    """Apply a line that concerns the whole campaign."""
    match line.get("do"):
        case "rules":
            state.spec = state.spec.with_rules(line)
            if state.baseline is not None:  # committed anew, if it was not measured yet
                vars(state.baseline).update(line.get("baseline", {}))
        case "state":
            state.phase, state.reason = CampaignPhase(line["state"]), str(line.get("reason", ""))
            if state.phase is CampaignPhase.ENDED:
                state.earlier_rounds = sum(not one.of for one in state.rounds)
        case "fault":
            state.fault = float(line.get("t") or 0.0), str(line["reason"])
        case "queue":
            state.queue_faults = [str(fault) for fault in line["faults"]]
        case "request":
            state.requests = int(line["upto"])
        case "confirming":
            sizes = line.get("sizes") or [line["each"]]  # before there were looks
            state.rounds.append(Round(line["round"], tuple(line["candidates"]), tuple(sizes), of=line.get("of", 0)))
        case "cut_round":
            state.rounds[-1] = state.rounds[-1].cut_at(line["size"])
        case "confirmed_round":
            state.settled_rounds.add(int(line["round"]))
        case "told":
            state.stop_mode = str(line["how"])
        case "again":
            state.again = int(line.get("after", state.again + state.spec.replicates))
            if state.baseline is not None:  # they say nothing of what was mended since
                told = [row for row in state.baseline.judged if row not in state.baseline.unnamed]
                state.baseline.unjudged.update(row.run_id for row in told)
                state.baseline.changed()
        case "tip":
            state.made_tip = from_record(MadeTip, line)
        case "guarded" if line["passed"]:
            state.guarded.add(int(line["index"]))
        case "unwanted":
            state.unwanted.add(str(line["slug"]))
