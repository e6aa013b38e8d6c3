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
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.actions import AgentJob, ControllerAction
from autoresearch.core.controller.agent_schedule import MOST_FAILED, AgentStatus, spent
from autoresearch.core.controller.next_actions import suspend_agent
from autoresearch.core.controller.rules import past_deadline
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.lab.agent_work.edit_workspace import clean_slot, edited_slot
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.ideas.commit_builder import IdeaRefused
from autoresearch.records import campaign_records, journal
from autoresearch.runner.basics import failpoint

if TYPE_CHECKING:
    from autoresearch.lab.agent_work.agent_jobs import AgentJobs, JobResult

ENDS_IN_S = 30.0  # a turn that was told to stop
WAIT_S = 0.1


class AgentWorker:
    """Gives the coding agent its jobs and takes in what they come to; called by the controller's thread."""

    def __init__(self, context: CampaignContext) -> None:
        self.context = context
        self.spec = context.spec.research
        self.suspended = ""  # why it is not asked before somebody resumes the campaign
        self._jobs: AgentJobs | None = None
        self._thread: threading.Thread | None = None
        self._done: JobResult | None = None
        self._stop = threading.Event()

    @property
    def status(self) -> AgentStatus:
        """What the controller decides by."""
        busy = self._thread is not None
        return AgentStatus(busy, busy and (self._done is not None or self._broke_off), self.suspended)

    @property
    def _broke_off(self) -> bool:
        """Whether the thread died without a word: nobody would wait for it in vain."""
        return self._thread is not None and not self._thread.is_alive() and self._done is None

    @property
    def jobs(self) -> AgentJobs:
        """Where the jobs are done."""
        if self._jobs is None:
            from autoresearch.lab.agent_work.agent_jobs import AgentJobs

            context = self.context
            self._jobs = AgentJobs.of(context.campaign_dir, context.builder, context.parts, context.say, self._stop)
        return self._jobs

    # -- the controller's thread --------------------------------------------------------------------------------

    def start(self, agent_job: AgentJob) -> None:
        """Begin a job, in a thread of its own."""
        if agent_job.guard is not None:
            merge = agent_job.guard
            self._start(lambda: self.jobs.guard(merge))
        elif agent_job.fix is not None:
            idea = agent_job.fix
            self._start(lambda: self.jobs.fix(idea))
        elif agent_job.edit is not None:
            hypothesis = agent_job.edit
            self._start(lambda: self.jobs.edit(hypothesis))
        else:
            self._start(self.jobs.propose)

    def collect(self) -> tuple[ControllerAction, ...]:
        """Take in what the job came to; returns what follows for the campaign. Raises the error that ended the job."""
        done, self._done, self._thread = self._done, None, None
        if done is None:
            why = "an internal error ended the agent's job; the controller's pane shows where"
            return suspend_agent(self.context.state, why)
        self._write(done)
        failpoint("research.written")
        if done.error is not None:
            raise done.error
        if done.fix is not None and done.of is not None and done.fault is None:  # else it is asked again later
            self._fixed(self.context.state, done.of, done.fix, done.turns)
        return self._after_fault(self.context.state, done.fault, done.why) if done.fault is not None else ()

    def _after_fault(self, state: CampaignState, fault: TurnFault, why: str) -> tuple[ControllerAction, ...]:
        """Suspend an agent that fails again and again, or that needs a person first."""
        if fault is TurnFault.STOPPED:
            return ()
        if state.research.failed >= MOST_FAILED:
            text = f"{self.spec.agent} had no idea {state.research.failed} times in a row: {why or fault}"
            return suspend_agent(state, text)
        if fault.needs_person:
            return suspend_agent(state, f"the agent {self.spec.agent} cannot be asked: {why or fault}")
        return ()

    def suspend(self, why: str) -> None:
        """Ask the agent for nothing more until `readmit`."""
        self.suspended = why

    def readmit(self) -> None:
        """Ask the agent again: somebody resumed the campaign."""
        self.suspended = ""

    def recover(self) -> None:
        """Write down what turns cost that a killed controller had begun or not written down; end what lives of them."""
        from autoresearch.lab.agent_work.guard import end_leftover

        if self.spec.agent:
            end_leftover(self.jobs.workspace)
            known = self.context.state.research.turns
            for name, fields in self.jobs.turns.unwritten(known):
                self.context.note("turn", name=name, **fields)

    def summarise(self, state: CampaignState) -> None:
        """At the end: let it say what was found; a request to stop ends that, and a deadline is a deadline."""
        late = past_deadline(state, self.context.parts.clock())
        if not (self.spec.agent and self.spec.summarise) or self.suspended or spent(state) or late:
            return
        if state.stop_mode == "stop" or not state.research.turns or state.research.summarised:
            return
        self._halt()  # a rule was met in the middle of another job
        self._start(self.jobs.summarise)
        while self._done is None and not self._broke_off:
            time.sleep(WAIT_S)
            requests = campaign_records.entries(self.context.campaign_dir.requests, state.requests)
            if any(one["do"] == "stop" for one in requests):
                self._stop.set()
        done, self._done, self._thread = self._done, None, None
        if done is not None:
            self._write(done)
        if done is None or done.error is not None:
            self.context.say(f"no summary: {done.error if done else 'internal error, see its pane'}")

    def close(self) -> None:
        """End what is under way; what it cost is written down."""
        self._halt()
        self._jobs = None

    def remove(self) -> None:
        """The campaign is over: its worktrees go."""
        checkout, trees = self.context.builder.checkout, Path(self.context.spec.trees)
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

    def _write(self, done: JobResult) -> None:
        for do, fields in done.lines:
            self.context.note(do, **fields)
        for text in done.messages:
            self.context.say(text)
        if any(do == "finding" for do, _ in done.lines):
            self.context.write_documents()

    def _fixed(self, state: CampaignState, idea: Idea, edit: Edit, turns: Sequence[str]) -> None:
        """Commit a fix, or say why there is none; both go into the log of the experiment."""
        from autoresearch.lab.ideas.run_commit import repair

        idea = next(one for one in state.ideas if one.index == idea.index)
        number, most = state.research.fixes.get(idea.index, 0), self.spec.max_fixes
        why, commit = edit.why, ""
        if edit.unmade is None:
            change = Hypothesis(idea.slug, edit.summary, patches=(edit.patch,), proposer=AGENT)
            try:
                commit = repair(self.context.builder, idea, change, edit.summary or "mended by the agent")
                failpoint("research.mended")
            except IdeaRefused as refused:
                why = refused.message
        story = f"fix {number} of {most} by {self.spec.agent}"
        if commit:
            text = " ".join(edit.summary.split())[:300] or "mended"
            story += f": {text}; files: {', '.join(edit.paths)}"
            fields = {"slug": idea.slug, "commit": commit, "note": text, "flags": list(edit.flags)}
            self.context.note("fixed", index=idea.index, turns=list(turns), told=story, **fields)
        else:
            story += f" came to nothing: {' '.join(why.split())[:500]}"
            self.context.note("fix_failed", index=idea.index, turns=list(turns), why=why, told=story)
        self.context.say(f"{idea.name}: {story}")
        if idea.rows and idea.rows[-1].result_dir:
            with contextlib.suppress(AutoresearchError, OSError):
                journal.append(Path(idea.rows[-1].result_dir), story)

    def _start(self, agent_task: Callable[[], JobResult]) -> None:
        self.jobs  # noqa: B018 - made by this thread
        failpoint("research.begins")
        self._thread = threading.Thread(target=self._work, args=(agent_task,), name="researcher", daemon=True)
        self._thread.start()

    # -- the other thread -----------------------------------------------------------------------------------------

    def _work(self, agent_task: Callable[[], JobResult]) -> None:
        from autoresearch.lab.agent_work.agent_jobs import JobResult

        try:
            self._done = agent_task()
        except (AutoresearchError, OSError) as error:
            self._done = JobResult(lines=self.jobs.turns.take_lines(), error=error)
