"""A campaign's coding agent at work: one job at a time, in a thread beside the controller's loop.

A job is a fix that is owed, the edit of the next code idea, or a turn for new ideas, in this order. The thread asks
the agent and works in worktrees of its own; the journal is written, and branches are moved, by the controller's thread
only, when it looks. A controller that is killed loses at most the job: what it cost is found in the turns' directories.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.agents.agent import Edit, TurnFault
from autoresearch.core.agents.turns import AGENT
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.lab.agent_work.agent_proposer import HYBRID, held, waiting
from autoresearch.lab.agent_work.edit_workspace import clean_slot, edited_slot
from autoresearch.lab.campaigns import scheduler
from autoresearch.lab.campaigns.commit_builder import IdeaRefused
from autoresearch.lab.campaigns.control import CampaignControl
from autoresearch.records import campaign_records, journal
from autoresearch.records.failpoint import failpoint

if TYPE_CHECKING:
    from autoresearch.lab.agent_work.agent_jobs import AgentJobs, JobResult

MOST_FAILED = 3  # turns for new ideas in a row that came to nothing
ENDS_IN_S = 30.0  # a turn that was told to stop
WAIT_S = 0.1


class AgentWorker:
    """What the controller asks of its researcher."""

    def __init__(self, control: CampaignControl) -> None:
        self.control = control
        self.spec = control.spec.research
        self.barred = ""  # why it is not asked before somebody says `resume`
        self._study: AgentJobs | None = None
        self._thread: threading.Thread | None = None
        self._done: JobResult | None = None
        self._stop = threading.Event()

    @property
    def busy(self) -> bool:
        """Whether a job is under way, or its outcome waits to be looked at."""
        return self._thread is not None

    @property
    def ready(self) -> bool:
        """Whether there is an outcome to look at."""
        return self._done is not None

    @property
    def _broke_off(self) -> bool:
        """Whether the thread died without a word: nobody would wait for it in vain."""
        return self._thread is not None and not self._thread.is_alive() and self._done is None

    @property
    def study(self) -> AgentJobs:
        """Where the jobs are done."""
        if self._study is None:
            from autoresearch.lab.agent_work.agent_jobs import AgentJobs

            control = self.control
            self._study = AgentJobs.of(control.campaign_dir, control.builder, control.parts, control.say, self._stop)
        return self._study

    # -- the controller's thread --------------------------------------------------------------------------------

    def look(self, state: CampaignState) -> CampaignState:
        """Take in what is done, and begin what is due."""
        if not self.spec.agent:
            return state
        if self._broke_off:
            self._thread = None
            self._bar(state, "a fault of ours ended the researcher's job; the controller's pane shows where")
            state = self.control.history.state()
        if self._done is not None:
            self._take_in(state)
            state = self.control.history.state()
        if not self.busy and self._fruitless(state):
            state = self.control.history.state()
        if not self.busy and (job := self._due(state)):
            self._begin(job)
        return state

    def readmit(self) -> None:
        """Ask the agent again: somebody resumed the campaign."""
        self.barred = ""

    def recover(self) -> None:
        """Write down what turns cost that a killed controller had begun or not written down; end what lives of them."""
        if self.spec.agent:
            self.study.end_leftover()
            known = self.control.history.state().research.turns
            for name, fields in self.study.unwritten(known):
                self.control.note("turn", name=name, **fields)

    def mending(self, state: CampaignState) -> bool:
        """Whether an idea still waits to be fixed, and may be."""
        if self._too_late(state):  # what is being mended now could not run any more
            return False
        return self._next_fix(state) is not None or (self.busy and bool(state.research.fixing))

    def hopeful(self, state: CampaignState) -> bool:
        """Whether an idea may still come of it without anybody's help."""
        if not self.spec.agent:
            return False
        return self.busy or any(one.made for one in waiting(state)) or self._due(state) is not None

    def why_dry(self, state: CampaignState) -> str:
        """Why no idea comes, in words."""
        if names := [one.slug for one in held(state)]:
            line = f"autoresearch campaign approve {names[0]} --campaign {state.spec.name}"
            return f"{', '.join(names)} wait{'s' if len(names) == 1 else ''} for a person: {line}"
        return self.barred or "proposer exhausted"

    def summarise(self, state: CampaignState) -> None:
        """At the end: let it say what was found; a request to stop ends that, and a deadline is a deadline."""
        deadline = state.spec.rules.deadline
        late = deadline is not None and self.control.parts.clock() >= deadline
        if not (self.spec.agent and self.spec.summarise) or self.barred or self._spent(state) or late:
            return
        if state.stop_mode == "stop" or not state.research.turns or state.research.summarised:
            return
        self._halt()  # a rule was met in the middle of another job
        self._start(self.study.summarise)
        while self._done is None and not self._broke_off:
            time.sleep(WAIT_S)
            requests = campaign_records.entries(self.control.campaign_dir.requests, state.requests)
            if any(one["do"] == "stop" for one in requests):
                self._stop.set()
        done, self._done, self._thread = self._done, None, None
        if done is not None:
            self._write(done)
        if done is None or done.error is not None:
            self.control.say(f"no summary: {done.error if done else 'a fault of ours; the pane shows where'}")

    def close(self) -> None:
        """End what is under way; what it cost is written down."""
        self._halt()
        self._study = None

    def remove(self) -> None:
        """The campaign is over: its worktrees go."""
        checkout, trees = self.control.builder.checkout, Path(self.control.spec.trees)
        for one in (edited_slot(checkout, trees), clean_slot(checkout, trees)):
            with contextlib.suppress(AutoresearchError, OSError):  # `git worktree list` still knows it
                one.remove()
                wipe(one.path.with_name(f"{one.path.name}.tmp"))  # of the last guard

    def _halt(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(ENDS_IN_S)
            if self._done is not None:
                with contextlib.suppress(AutoresearchError, OSError):
                    self._write(self._done)
        self._thread, self._done = None, None
        self._stop.clear()

    def _take_in(self, state: CampaignState) -> None:
        done, self._done, self._thread = self._done, None, None
        assert done is not None
        self._write(done)
        failpoint("research.written")
        if done.error is not None:
            raise done.error
        if done.fix is not None and done.of is not None and done.fault is None:  # else it is asked again later
            self._fixed(self.control.history.state(), done.of, done.fix, done.turns)
        if done.fault is not None:
            self._failed(self.control.history.state(), done.fault, done.why)

    def _write(self, done: JobResult) -> None:
        for do, fields in done.lines:
            self.control.note(do, **fields)
        for text in done.told:
            self.control.say(text)

    def _failed(self, state: CampaignState, fault: TurnFault, why: str) -> None:
        """Pause where nobody else has ideas; else go on without it."""
        if fault is TurnFault.STOPPED:
            return
        if state.research.failed >= MOST_FAILED:
            self._bar(state, f"{self.spec.agent} had no idea {state.research.failed} times in a row: {why or fault}")
        elif fault.needs_person:
            self._bar(state, f"the researcher {self.spec.agent} cannot be asked: {why or fault}")

    def _fruitless(self, state: CampaignState) -> bool:
        """Whether its ideas come to nothing new again and again: what is skipped counts against no rule, and costs."""
        times = state.research.requests
        if self.barred or times < MOST_FAILED or waiting(state):
            return False
        why = next((reason for one, reason in reversed(state.skipped) if one.proposer == AGENT), "none was tried")
        self._bar(state, f"{self.spec.agent} had no idea that could be tried {times} times in a row: {why}")
        return True

    def _bar(self, state: CampaignState, why: str) -> None:
        self.barred = why
        if state.spec.proposer.name == AGENT:
            self.control.pause(state, self.barred)
        else:
            self.control.say(f"{self.barred}; going on without it until `campaign resume`")

    def _fixed(self, state: CampaignState, idea: Idea, edit: Edit, turns: Sequence[str]) -> None:
        """Commit a fix, or say why there is none; both go into the log of the experiment."""
        from autoresearch.lab.campaigns.idea_commit import repair

        idea = next(one for one in state.ideas if one.index == idea.index)
        number, most = state.research.fixes.get(idea.index, 0), self.spec.max_fixes
        why, commit = edit.why, ""
        if edit.unmade is None:
            change = Hypothesis(idea.slug, edit.summary, patches=(edit.patch,), proposer=AGENT)
            try:
                commit = repair(self.control.builder, idea, change, edit.summary or "mended by the researcher")
                failpoint("research.mended")
            except IdeaRefused as refused:
                why = refused.message
        told = f"fix {number} of {most} by {self.spec.agent}"
        if commit:
            text = " ".join(edit.summary.split())[:300] or "mended"
            told += f": {text}; files: {', '.join(edit.paths)}"
            fields = {"slug": idea.slug, "commit": commit, "note": text, "flags": list(edit.flags)}
            self.control.note("fixed", index=idea.index, turns=list(turns), told=told, **fields)
        else:
            told += f" came to nothing: {' '.join(why.split())[:500]}"
            self.control.note("fix_failed", index=idea.index, turns=list(turns), why=why, told=told)
        self.control.say(f"{idea.slug}: {told}")
        if idea.rows and idea.rows[-1].result_dir:
            with contextlib.suppress(AutoresearchError, OSError):
                journal.append(Path(idea.rows[-1].result_dir), told)

    # -- what is due ----------------------------------------------------------------------------------------------

    def _due(self, state: CampaignState) -> Callable[[], JobResult] | None:
        """The next job; None where there is none, or it is not the time."""
        if self.barred or state.stop_mode or state.phase not in (CampaignPhase.RUNNING, CampaignPhase.WAITING):
            return None
        if (idea := self._next_fix(state)) is not None:
            return lambda: self._fix(idea)
        if state.spec.proposer.name not in (AGENT, HYBRID) or not self._wanted(state):
            return None
        waits = waiting(state)
        if any(one.made for one in waits):
            return None
        kept_back = {one.slug for one in held(state)}
        for one in waits:
            if one.hypothesis.slug not in kept_back:
                return lambda: self.study.edit(one.hypothesis)
        return None if kept_back else self.study.propose

    def _wanted(self, state: CampaignState) -> bool:
        """Whether another idea would be tried: the baseline is measured, and no rule is met."""
        baseline = state.baseline
        if baseline is None or not baseline.values or self.control.stand(state, conceived=True).met:
            return False
        return not self._too_late(state)

    def _too_late(self, state: CampaignState) -> bool:
        """Whether what is made now could not be run before the deadline."""
        deadline = state.spec.rules.deadline
        return deadline is not None and deadline - self.control.parts.clock() < scheduler.expected_run_s(state)

    def _next_fix(self, state: CampaignState) -> Idea | None:
        if not self.spec.agent or self.barred or state.stop_mode or self._spent(state) or self._too_late(state):
            return None
        return next((idea for idea in state.ideas if scheduler.fixable(state, idea)), None)

    def _spent(self, state: CampaignState) -> bool:
        rules, usage = state.spec.rules, state.research.usage
        money = rules.budget_usd is not None and (usage.usd or 0.0) >= rules.budget_usd
        return money or (rules.budget_tokens is not None and (usage.tokens or 0) >= rules.budget_tokens)

    def _fix(self, idea: Idea) -> JobResult:
        return self.study.fix(idea)

    def _begin(self, job: Callable[[], JobResult]) -> None:
        state = self.control.history.state()
        idea = self._next_fix(state)
        if idea is not None and idea.index not in state.research.fixing:
            run = idea.rows[-1].run_id if idea.rows else ""
            self.control.note("fixing", index=idea.index, run=run)
            self.control.say(f"{idea.slug}: {self.spec.agent} is asked to mend it")
        self._start(job)

    def _start(self, job: Callable[[], JobResult]) -> None:
        self.study  # noqa: B018 - made by this thread
        failpoint("research.begins")
        self._thread = threading.Thread(target=self._work, args=(job,), name="researcher", daemon=True)
        self._thread.start()

    # -- the other thread -----------------------------------------------------------------------------------------

    def _work(self, job: Callable[[], JobResult]) -> None:
        from autoresearch.lab.agent_work.agent_jobs import JobResult

        try:
            self._done = job()
        except (AutoresearchError, OSError) as error:
            self._done = JobResult(lines=self.study.taken(), error=error)
