"""Study: where the jobs of a campaign's researcher are done: propose, edit, fix, summarise.

It runs in a thread beside the controller: it reads the campaign's files with eyes of its own, asks the agent, and works
in worktrees that no run uses. It writes nothing into the journal; what is to be written is handed back as `Done`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoresearch.core.campaign_view import CampaignView, Idea
from autoresearch.core.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.overrides import flatten
from autoresearch.core.proposal_schema import KINDS
from autoresearch.core.proposals import Known
from autoresearch.core.researcher import Answer, Edit, Fault, Researcher, Role, Turn, Unmade
from autoresearch.core.turns import TurnNote
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign.book import Book
from autoresearch.lab.campaign.shelf import HYBRID, waiting
from autoresearch.lab.campaign.workshop import Workshop
from autoresearch.lab.parts import Parts
from autoresearch.lab.research import crew
from autoresearch.lab.research.bench import Bench, bench_for
from autoresearch.lab.research.edit import make_edit, make_fix
from autoresearch.lab.research.propose import Desk, Past, propose
from autoresearch.lab.research.turn import Premises, lost_turns, run_turn
from autoresearch.lab.research.turn_dir import TurnDir, next_directory, read_result
from autoresearch.records.campaign_dir import CampaignDir
from autoresearch.records.failpoint import failpoint

Line = tuple[str, dict[str, Any]]


@dataclass(slots=True)
class Done:
    """What a job came to; the controller's thread acts on it."""

    lines: list[Line] = field(default_factory=list)  # of the journal, in order
    told: list[str] = field(default_factory=list)
    fault: Fault | None = None
    why: str = ""
    fix: Edit | None = None
    of: Idea | None = None  # whose fix it is
    turns: tuple[str, ...] = ()
    error: Exception | None = None


@dataclass(slots=True)
class Study:
    """Everything that a job needs; `stop` ends the turn that is under way."""

    place: CampaignDir
    shop: Workshop
    parts: Parts
    say: Callable[[str], None]
    stop: threading.Event
    researcher: Researcher
    premises: Premises
    bench: Bench
    _lines: list[Line] = field(default_factory=list)  # of turns that are over, and not handed back yet
    _sessions: dict[str, str] = field(default_factory=dict)  # by slug: of its edit turn

    @classmethod
    def of(
        cls, place: CampaignDir, shop: Workshop, parts: Parts, say: Callable[[str], None], stop: threading.Event
    ) -> Study:
        """The study of a campaign. EnvironmentUnusable where a sandbox is needed and cannot be had."""
        who, premises = crew.call(shop.spec.research, parts.environ, readable=(Path(shop.spec.interpreter),))

        def next_turn(role: Role) -> Path:
            return next_directory(place.turns, role)

        bench = bench_for(shop, shop.spec.research, next_turn, who.traits.leavings)
        bench = replace(bench, environment=dict(parts.environ), stopped=stop.is_set)
        return cls(place, shop, parts, say, stop, who, premises, bench)

    def taken(self) -> list[Line]:
        """The journal lines of turns that are over, each handed out once."""
        found, self._lines = self._lines, []
        return found

    def close(self) -> None:
        """Take the worktrees away."""
        for one in (self.bench.enclosure.slot, self.bench.clean):
            one.remove()

    def ask(self, turn: Turn) -> Answer:
        """Ask the agent, and remember what it cost."""
        answer = run_turn(self.researcher, turn, self.premises, self.stop)
        self._lines.append(("turn", {"name": Path(turn.directory).name, **told(turn.role, self.researcher, answer)}))
        failpoint("research.asked")
        return answer

    def unwritten(self, known: Mapping[str, TurnNote]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The turns that the journal does not know: their controller was killed. Ends what lives of them."""
        lost_turns(self.place.turns, self.researcher)
        for path in sorted(self.place.turns.iterdir()) if self.place.turns.is_dir() else ():
            answer = read_result(TurnDir(path)) if path.name not in known else None
            if answer is not None:
                role = Role(path.name.partition("-")[2].split("-")[0])
                yield path.name, told(role, self.researcher, answer)

    # -- jobs -----------------------------------------------------------------------------------------------------

    def propose(self) -> Done:
        """Ask for new hypotheses; those that need no edit can be run at once."""
        view = Book(self.place).view()
        best = view.best or view.baseline
        assert best is not None, "the baseline is measured before anybody is asked"
        self.say(f"{self.researcher.name} is asked for ideas")
        with self.bench.enclosure.opened(best.commit) as opened:
            known = self._known(view)
            past = Past(view, [one.hypothesis for one in waiting(view)], view.research.vetoes, self._values(best))
            desk = Desk(
                self.ask,
                opened.path,
                self.bench.next_turn(Role.PROPOSE),
                self.bench.spec.bounds,
                resumes=self.researcher.traits.resumes,
            )
            found = propose(self._prompt(view, best), self.bench.spec.ideas, desk, known, past)
        lines = self.taken()
        for do, fields in lines:
            fields |= {"ideas": len(found.hypotheses)} if do == "turn" else {}
        for one in found.hypotheses:
            one = replace(one, turns=found.turns)
            lines.append(("proposed", {"hypothesis": one.to_json(), "made": one.kind == "config"}))
        lines += [("refused", {"hypothesis": one.to_json(), "reason": why}) for one, why in found.refused]
        said = [f"{one.slug}: proposed ({one.kind}): {one.sentence}" for one in found.hypotheses]
        said += [f"{one.slug}: refused: {why}" for one, why in found.refused]
        if found.fault:
            said.append(f"{self.researcher.name} had no idea that can be used ({found.fault}): {found.said}")
        return Done(lines, said, found.fault, found.said, turns=found.turns)

    def _known(self, view: CampaignView) -> Known:
        """What a proposal may build on and set."""
        hybrid = self.shop.spec.proposer.name == HYBRID

        def fits(overrides: Mapping[str, object], parent: str) -> str:
            idea = _parent(view, Hypothesis("", "", parent=parent))
            try:
                if idea is not None:
                    self.shop.changed(idea.commit, overrides, self.shop.arguments(idea.commit))
            except AutoresearchError as error:
                return error.message
            return ""

        return Known(
            view.spec.objective,
            parents=[idea.slug for idea in view.ideas],
            kinds=tuple(kind for kind in KINDS if kind != "config") if hybrid else KINDS,
            protected=lambda key: bool(self.bench.protection.why_key(key)),
            fits=fits,
        )

    def _prompt(self, view: CampaignView, best: Idea) -> str:
        return f"Propose {self.bench.spec.ideas} ideas for {view.spec.objective.metric}, to be built on {best.slug}."

    def _values(self, best: Idea) -> dict[str, object]:
        return dict(flatten(self.shop.whole(best.commit)))

    def edit(self, hypothesis: Hypothesis) -> Done:
        """Put a code idea into code; the outcome is an idea that can be run, or one that cannot, with the reason."""
        view = Book(self.place).view()
        parent = _parent(view, hypothesis)
        if parent is None:
            line = {"hypothesis": hypothesis.to_json(), "reason": f"its parent {hypothesis.parent!r} is gone"}
            return Done(lines=[("refused", line)], told=[f"{hypothesis.slug}: refused: its parent is gone"])
        self.say(f"{hypothesis.slug}: {self.researcher.name} edits the code of {parent.slug}")
        edit = make_edit(self.bench, hypothesis, parent.commit, self.ask)
        if edit.unmade is None and self.shop.spec.research.review:
            edit = self._reviewed(hypothesis, edit)
        lines = self.taken()
        done = Done(lines, fault=edit.fault, why=edit.why, turns=_names(lines))
        if edit.fault is Fault.STOPPED or (edit.fault is not None and edit.fault.needs_person):
            return done  # it stays as it was, and is edited another time
        made = replace(
            hypothesis,
            parent=parent.slug,
            patches=(edit.patch,) if edit.patch and _keeps_patch(edit.unmade) else (),
            paths=edit.paths,
            flags=edit.flags,
            unmade=edit.unmade.value if edit.unmade else "",
            why_unmade=edit.why if edit.unmade else "",
            turns=(*hypothesis.turns, *done.turns),
        )
        self._sessions[hypothesis.slug] = edit.session
        done.lines.append(("made", {"hypothesis": made.to_json()}))
        outcome = edit.why if edit.unmade else f"changes {', '.join(edit.paths[:5])}"
        done.told.append(f"{hypothesis.slug}: {outcome}")
        done.told += [f"{hypothesis.slug}: suspicious: {flag}" for flag in edit.flags]
        return done

    def fix(self, idea: Idea) -> Done:
        """Let the agent mend what made the last run of an idea fail."""
        shop = self.shop.for_idea(idea.hypothesis)
        failure = crew.explained(idea, shop)
        session = self._sessions.get(idea.slug, "") if self.researcher.traits.resumes else ""
        edit = make_fix(self.bench, idea.hypothesis, idea.commit, failure, self.ask, session)
        lines = self.taken()
        fault = edit.fault if edit.fault in (None, Fault.STOPPED) or edit.fault.needs_person else None
        return Done(lines, fix=edit, of=idea, turns=_names(lines), fault=fault, why=edit.why)

    def _reviewed(self, hypothesis: Hypothesis, edit: Edit) -> Edit:
        """The edit, unless another one refuses it, who knows nothing of the author."""
        from autoresearch.lab.research.review import review  # type: ignore[import-not-found]

        refused, why, usage = review(self.bench, hypothesis, edit, self.ask)
        edit = replace(edit, usage=edit.usage + usage)
        if refused:
            return replace(edit, unmade=Unmade.REFUSED, why=why)
        return replace(edit, flags=(*edit.flags, why)) if why else edit


def told(role: Role, who: Researcher, answer: Answer) -> dict[str, Any]:
    """What a line of the journal says of a turn."""
    usage = answer.usage
    found: dict[str, Any] = {
        "role": role.value,
        "agent": who.name,
        "usd": usage.usd,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "seconds": round(usage.seconds, 3),
    }
    if answer.fault is not None:
        found |= {"fault": answer.fault.value, "said": answer.said[:500]}
    return found


def _names(lines: list[Line]) -> tuple[str, ...]:
    return tuple(fields["name"] for do, fields in lines if do == "turn")


def _parent(view: CampaignView, hypothesis: Hypothesis) -> Idea | None:
    if hypothesis.parent in (BEST, ""):
        return view.best
    return view.by_slug(BASELINE if hypothesis.parent == BASELINE else hypothesis.parent)


def _keeps_patch(unmade: Unmade | None) -> bool:
    """Whether the branch shows the diff; one that touches what is protected, or is too large, stays in its turn."""
    return unmade in (None, Unmade.GUARD, Unmade.REFUSED)
