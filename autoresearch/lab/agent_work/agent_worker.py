"""A campaign's coding agents at work: several jobs at a time, each in a thread beside the controller's loop.

A job is a fix that is owed, the edit of a code idea, the guard on a merge of edits, or a turn for new ideas. Its thread
asks an agent and works in worktrees of its own; the journal is written, and branches are moved, by the controller's
thread only, when it looks. A controller that is killed loses at most the jobs: what they cost is found in the turns'
directories.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.agents.agent import Agent, Edit, TurnFault
from autoresearch.core.agents.turns import AGENT
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller import agent_schedule
from autoresearch.core.controller.actions import AgentJob, ControllerAction
from autoresearch.core.controller.agent_schedule import MOST_FAILED, AgentStatus
from autoresearch.core.controller.next_actions import suspend_agent
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace, editors_in
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.ideas.commit_builder import IdeaRefused
from autoresearch.records import journal
from autoresearch.runner.basics import failpoint

if TYPE_CHECKING:
    from autoresearch.lab.agent_work.agent_jobs import AgentJobs, JobResult, Remembered
    from autoresearch.lab.agent_work.agent_turns import BegunTurn, Waits

ENDS_IN_S = 30.0  # all jobs together, once they were told to stop


class JobThread(threading.Thread):
    """A job under way. It is over when the thread is; without a result, an internal error of ours ended it."""

    def __init__(self, agent_job: AgentJob, agent_jobs: AgentJobs, editor: int, stop: threading.Event) -> None:
        super().__init__(name=agent_job.name, daemon=True)
        self.agent_job, self.agent_jobs, self.editor = agent_job, agent_jobs, editor
        self.result: JobResult | None = None
        self._stop_it = stop

    def run(self) -> None:
        """Do the job."""
        from autoresearch.lab.agent_work.agent_jobs import JobResult

        try:
            self.result = self.agent_jobs.do(self.agent_job)
        except (AutoresearchError, OSError) as error:
            self.result = JobResult(lines=self.agent_jobs.turns.take_lines(), error=error)

    def end(self) -> bool:
        """Tell it to end; False if it was told before."""
        if self._stop_it.is_set():
            return False
        self._stop_it.set()
        return True


class AgentWorker:
    """Gives the coding agents their jobs and takes in what they come to; called by the controller's thread."""

    def __init__(self, context: CampaignContext) -> None:
        self.context = context
        self.spec = context.spec.research
        self._suspended: dict[str, str] = {}  # by agent: why it is not asked before somebody resumes the campaign
        self._jobs: dict[str, AgentJobs] = {}  # by agent
        self._remembered: Remembered | None = None
        self._waits: Waits | None = None
        self._threads: list[JobThread] = []

    @property
    def status(self) -> AgentStatus:
        """What the controller decides by."""
        done = any(not thread.is_alive() for thread in self._threads)
        waiting = self._waits.jobs if self._waits else frozenset()
        return AgentStatus(tuple(thread.agent_job for thread in self._threads), done, waiting, dict(self._suspended))

    def _jobs_of(self, agent: str) -> AgentJobs:
        """Where the jobs of an agent are done."""
        if agent not in self._jobs:
            from autoresearch.lab.agent_work.agent_jobs import AgentJobs, Remembered

            context, parts = self.context, self.context.parts
            self._remembered = self._remembered or Remembered()
            self._jobs[agent] = AgentJobs.of(
                agent, context.campaign_dir, context.builder, parts.environ, parts.clock, context.say, self._remembered
            )
        return self._jobs[agent]

    # -- the controller's thread --------------------------------------------------------------------------------

    def start(self, agent_job: AgentJob) -> None:
        """Begin a job, in a thread of its own and in the worktrees of an editor who has no other."""
        busy = {thread.editor for thread in self._threads}
        editor = next(
            number for number in (*self._edited_in(agent_job), *range(1, len(busy) + 2)) if number not in busy
        )
        self._begin(agent_job, editor)

    def _begin(self, agent_job: AgentJob, editor: int, begun: Sequence[BegunTurn] = ()) -> None:
        from autoresearch.lab.agent_work.agent_turns import Waits

        context = self.context
        if self._waits is None:
            self._waits = Waits(context.campaign_dir.waiting, context.say)
        agent, stop = agent_job.agent or self.spec.agents[0], threading.Event()
        tell = self._waits.told_by(agent_job.name, agent)
        at_work = self._jobs_of(agent).at_work(agent_job, editor, stop, tell, begun)
        failpoint("research.begins")
        thread = JobThread(agent_job, at_work, editor, stop)
        self._threads.append(thread)
        thread.start()

    def _edited_in(self, agent_job: AgentJob) -> list[int]:
        """Whose worktrees an idea that is to be mended was edited in: a session goes on there only."""
        known = self._remembered.sessions if self._remembered and agent_job.fix else {}
        return [known[agent_job.fix.slug][1]] if agent_job.fix and agent_job.fix.slug in known else []

    def stop(self, name: str) -> bool:
        """End the job of this name; False if it was told before."""
        return any(thread.end() for thread in self._threads if thread.agent_job.name == name)

    def collect(self) -> tuple[ControllerAction, ...]:
        """Take in what a job came to; returns what follows for the campaign. Raises the error that ended the job."""
        thread = next(thread for thread in self._threads if not thread.is_alive())
        self._threads.remove(thread)
        done, agent = thread.result, thread.agent_job.agent or self.spec.agents[0]
        if done is None:
            from autoresearch.lab.agent_work.agent_jobs import JobResult

            why = f"an internal error ended the job `{thread.agent_job.name}`; the controller's pane shows where"
            if thread.agent_job.guard is None:
                self._write(JobResult(thread.agent_jobs.turns.take_lines()))
                return suspend_agent(self.context.state, self.status, agent, why)
            done = JobResult.of_guard(thread.agent_job.guard, why)  # no agent was asked, and it would begin again
        self._write(done)
        failpoint("research.written")
        if done.error is not None:
            raise done.error
        state = self.context.state
        if done.fix is not None and done.of is not None and (done.fault is None or done.of.slug in state.unwanted):
            self._fixed(state, agent, done.of, done.fix, done.turns)  # else it is asked again later
        return self._after_fault(state, agent, done.fault, done.why) if done.fault is not None else ()

    def _after_fault(
        self, state: CampaignState, agent: str, fault: TurnFault, why: str
    ) -> tuple[ControllerAction, ...]:
        """Suspend an agent that fails again and again, or that needs a person first."""
        if fault is TurnFault.STOPPED or agent in self._suspended:
            return ()
        failed = state.research.failed[agent]
        if failed >= MOST_FAILED:
            text = f"{agent} had no idea {failed} times in a row: {why or fault}"
            return suspend_agent(state, self.status, agent, text)
        if fault.needs_person:
            return suspend_agent(state, self.status, agent, f"the agent {agent} cannot be asked: {why or fault}")
        return ()

    def suspend(self, agent: str, why: str) -> None:
        """Ask this agent for nothing more until `readmit`."""
        self._suspended[agent] = why

    def readmit(self) -> None:
        """Ask every agent again: somebody resumed the campaign."""
        self._suspended.clear()

    def recover(self) -> None:
        """Go on with the jobs of a controller that was killed: their turns may be under way still, or have an answer.

        Other turns of its are ended, and what they cost is written down.
        """
        if not self.spec.agent:
            return
        from autoresearch.lab.agent_work.guard import end_leftover

        for workspace in self._workspaces():
            end_leftover(workspace)
        jobs: dict[str, tuple[AgentJob, list[BegunTurn]]] = {}
        for one in self._begun_turns():
            job = _job_named(self.context.state, one.job, one.agent, one.turn.bounds.usd)
            if job is not None and one.usable(self._agent_of(one)):
                jobs.setdefault(job.name, (job, []))[1].append(one)
            else:
                self._end(one)
        for job, begun in jobs.values():
            self.context.say(f"{job.name}: goes on with {', '.join(one.directory.name for one in begun)}")
            self._begin(job, begun[0].editor, begun)

    def _begun_turns(self) -> list[BegunTurn]:
        from autoresearch.lab.agent_work.agent_turns import begun_turns

        return list(begun_turns(self.context.campaign_dir.turns, self.context.state.research.turns))

    def _agent_of(self, begun: BegunTurn) -> Agent:
        known = self.spec.agents
        return self._jobs_of(begun.agent if begun.agent in known else known[0]).researcher

    def _end(self, begun: BegunTurn) -> None:
        self.context.note("turn", name=begun.directory.name, **begun.end(self._agent_of(begun)))

    def close(self, *, over: bool = False) -> None:
        """End what is under way; what it cost is written down. `over`: nobody goes on with any turn."""
        self._halt()
        for begun in self._begun_turns() if over and self.spec.agent else ():
            self._end(begun)
        self._jobs.clear()

    def remove(self) -> None:
        """The campaign is over: its worktrees go."""
        for workspace in self._workspaces() if self.spec.agent else ():
            for one in (workspace.isolated_worktree.slot, workspace.clean):
                with contextlib.suppress(AutoresearchError, OSError):  # `git worktree list` still knows it
                    one.remove()
                    for left in one.path.parent.glob(f"*{one.path.name}.*"):  # of the last guard, of a killed edit
                        wipe(left)

    def _workspaces(self) -> list[EditWorkspace]:
        """Those of which something is left, whoever made them."""
        own = self._jobs_of(self.spec.agents[0]).workspace
        return [replace(own, editor=editor) for editor in editors_in(own.trees)]

    def _halt(self) -> None:
        threads, self._threads = self._threads, []
        until = time.monotonic() + ENDS_IN_S
        for thread in threads:
            thread.end()
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.result is not None:
                with contextlib.suppress(AutoresearchError, OSError):
                    self._write(thread.result)

    def _write(self, done: JobResult) -> None:
        for do, fields in done.lines:
            self.context.note(do, **fields)
        for text in done.messages:
            self.context.say(text)
        if any(do == "finding" for do, _ in done.lines):
            self.context.write_documents()

    def _fixed(self, state: CampaignState, agent: str, idea: Idea, edit: Edit, turns: Sequence[str]) -> None:
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
        story = f"fix {number} of {most} by {agent}"
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


def _job_named(state: CampaignState, name: str, agent: str, usd: float | None) -> AgentJob | None:
    """The job of this name, which a controller had begun that was killed; None where nobody wants it any more."""
    if state.stop_mode or agent not in state.spec.research.agents:
        return None
    ideas = [idea for idea in state.ideas if idea.index in state.research.fixing and idea.slug not in state.unwanted]
    edits = [one.hypothesis for one in agent_schedule.waiting(state) if not one.made]
    jobs = [AgentJob(fix=idea) for idea in ideas] + [AgentJob(edit=one) for one in edits]
    jobs.append(AgentJob(ideas=state.spec.research.ideas, agent=agent))
    found = next((job for job in jobs if job.name == name), None)
    return replace(found, agent=agent, usd=usd) if found else None
