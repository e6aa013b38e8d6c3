"""A campaign's coding agents at work: several jobs at a time, which the controller goes on with as their turns end.

A job is a fix that is owed, the edit of a code idea, the guard on a merge of edits, or a turn for new ideas. The record
says which are under way and which turns each has begun; turns and guard commands are runs, and outlive a controller.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.agents.agent import Agent
from autoresearch.core.agents.turns import EDIT, FIX, GUARD, AgentJob
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller import agent_schedule
from autoresearch.core.controller.actions import ControllerAction
from autoresearch.core.controller.next_actions import suspend_agent
from autoresearch.errors import AutoresearchError, EnvironmentUnusable, UsageError
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.lab.agent_work.agent_jobs import JobAtWork, JobOutcome, fix, guards_of
from autoresearch.lab.agent_work.agent_turns import AgentTurns, JobEnded, call, turn_fields
from autoresearch.lab.agent_work.artifacts import artifacts
from autoresearch.lab.agent_work.edit_prompt import background
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace, workspace_for
from autoresearch.lab.agent_work.turn import Pending, answer_of, clear, is_over
from autoresearch.lab.agent_work.turn_dir import PRINTED_BYTES, TurnEnvironment, guard_in, read_turn
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.records.order_file import request_stop
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint

ENDS_IN_S = 60.0  # all jobs together, once they were told to stop
LOOK_S = 0.05


class _NoAgent(Exception):  # noqa: N818 - what it is about
    """An agent that cannot be asked here any more: a plug-in or a sandbox that is gone, terms that no longer hold."""


@dataclass(frozen=True, slots=True)
class AgentJobs:
    """Does the jobs of one agent of a campaign."""

    context: CampaignContext
    researcher: Agent
    turn_environment: TurnEnvironment
    workspace: EditWorkspace  # without an editor, and without turns

    @classmethod
    def of(cls, agent: str, context: CampaignContext) -> AgentJobs:
        """The jobs of one of a campaign's agents. EnvironmentUnusable where a sandbox is needed and cannot be had."""
        builder, environ = context.builder, context.parts.environ
        spec, agent_spec = builder.spec, builder.spec.research.of(agent)
        researcher, turn_environment = call(agent_spec, environ, readable=(Path(spec.interpreter),))
        hidden = (*turn_environment.hidden, *map(Path, spec.hidden_inputs))
        turn_environment = replace(turn_environment, hidden=hidden, interpreter=spec.interpreter)
        workspace = workspace_for(builder, agent_spec, lambda role: Path())
        workspace = replace(workspace, environment=dict(environ), confined=guard_in(turn_environment))
        return cls(context, researcher, turn_environment, workspace)

    def do(self, agent_job: AgentJob) -> JobOutcome:
        """Do a job as far as that is possible now. Raises Pending, JobEnded."""
        state = self.context.state
        turns = AgentTurns(self.context, self.researcher, self.turn_environment, agent_job, list(agent_job.questions))
        spec = replace(self.workspace.spec, turn_usd=agent_job.usd)
        workspace = replace(self.workspace, spec=spec, editor=agent_job.editor, turn=turns.directory)
        at_work = JobAtWork(self.context, agent_job, state, turns, workspace)
        if agent_job.kind == EDIT:
            hypothesis, parent = agent_schedule.proposal(state, agent_job.slug), at_work.idea(agent_job.parent)
            known = (*background(state, hypothesis, parent), *artifacts(state, self.context.builder))
            return replace(at_work, workspace=replace(workspace, known=known)).edit(hypothesis, parent)
        if agent_job.kind == FIX:
            return fix(at_work, at_work.idea(agent_job.slug))
        return at_work.guard(at_work.idea(agent_job.slug)) if agent_job.kind == GUARD else at_work.propose()


class AgentWorker:
    """Goes on with the jobs of a campaign's coding agents."""

    def __init__(self, context: CampaignContext) -> None:
        self.context = context
        self._jobs: dict[str, AgentJobs] = {}  # by agent

    def due(self, state: CampaignState) -> tuple[str, ...]:
        """The names of the jobs that wait for nothing: neither for a turn or a guard command, nor for a time."""
        now, jobs = self.context.parts.clock(), state.research.jobs
        return tuple(
            name for name, job in jobs.items() if not (job.waits and now < job.waits.until) and not self._running(job)
        )

    def _running(self, agent_job: AgentJob) -> RunDir | None:
        """The turn or the guard command of a job that is not over."""
        turns = [self.context.campaign_dir.turns / name for name in agent_job.turns]
        for directory in turns if agent_job.kind != GUARD else [guards_of(self.context, agent_job)]:
            for rundir in (RunDir(directory), *map(RunDir, directory.glob("guard-*"))):
                if rundir.spec.exists() and not is_over(rundir, PRINTED_BYTES):
                    return rundir
        return None

    def step(self, name: str) -> tuple[ControllerAction, ...]:
        """Go on with a job that is due; returns what follows for the campaign. Raises the error that it met."""
        state = self.context.state
        job = state.research.jobs[name]
        if name in agent_schedule.unwanted_jobs(state):
            self._end(job)
            return ()
        try:
            done = self._jobs_of(job.agent).do(job)
        except Pending:
            return ()
        except JobEnded as ended:
            self._end(job)
            if ended.fault.needs_person and job.agent not in state.research.suspended:
                why = f"the agent {job.agent} cannot be asked: {ended.why or ended.fault}"
                return suspend_agent(state, job.agent, why)
            return ()
        except _NoAgent as gone:
            return self._without(job, f"the agent {job.agent} cannot be asked: {gone}")
        except (AutoresearchError, OSError):
            if self._unrecorded(job):  # the turn itself met it, and would again
                self._end(job)
            raise
        except Exception:  # noqa: BLE001 - of ours: the campaign goes on without this agent
            traceback.print_exc()
            return self._without(job, f"an internal error ended the job `{name}`; the controller's pane shows where")
        self._write(job, done)
        return ()

    def _without(self, agent_job: AgentJob, why: str) -> tuple[ControllerAction, ...]:
        """Go on without the agent of a job that cannot be done; a merge that cannot be guarded is left."""
        state = self.context.state
        merge = state.by_slug(agent_job.slug) if agent_job.kind == GUARD else None
        if merge is None:
            self._end(agent_job)
            return suspend_agent(state, agent_job.agent, why)
        self._write(agent_job, JobOutcome.of_guard(merge, why))  # no agent was asked, and it would begin again
        return ()

    def _write(self, agent_job: AgentJob, done: JobOutcome) -> None:
        *lines, (do, fields) = done.lines
        for other, told in lines:
            self.context.note(other, **told)
        self.context.note(do, **fields, ends=agent_job.name)
        failpoint("research.written")
        for text in done.messages:
            self.context.say(text)
        if any(do == "finding" for do, _ in lines):
            self.context.write_documents()

    def _jobs_of(self, agent: str) -> AgentJobs:
        """Where the jobs of an agent are done; of no agent, the guard's. Raises _NoAgent."""
        agent = agent or self.context.spec.research.agents[0]
        if agent not in self._jobs:
            try:
                self._jobs[agent] = AgentJobs.of(agent, self.context)
            except (UsageError, EnvironmentUnusable) as error:
                raise _NoAgent(error.message) from error
        return self._jobs[agent]

    def _workspace(self, editor: int = 0) -> EditWorkspace:
        """The worktrees of an editor, for which no agent is needed."""
        context = self.context
        return replace(workspace_for(context.builder, context.spec.research, lambda role: Path()), editor=editor)

    # -- ends ---------------------------------------------------------------------------------------------------

    def stop(self, name: str) -> bool:
        """End the job of this name: at once, or when what runs of it is over. False if it was told before."""
        job = self.context.state.research.jobs[name]
        if (running := self._running(job)) is None:
            self._end(job)
            return True
        if running.stop.exists():
            return False
        request_stop(running, "nobody wants its outcome", durable=False)
        return True

    def _end(self, agent_job: AgentJob) -> None:
        """End a job of which nothing runs, without an outcome; what its last turn cost is recorded."""
        if (path := self._unrecorded(agent_job)) and (turn := read_turn(path)):
            clear(turn)
            with contextlib.suppress(_NoAgent):  # then nobody can tell what it cost
                answer = answer_of(self._jobs_of(agent_job.agent).researcher, turn)
                self.context.note("turn", name=path.name, **turn_fields(turn.role, agent_job.agent, answer))
        self._workspace(agent_job.editor).isolated_worktree.close()
        if agent_job.kind == GUARD:
            wipe(guards_of(self.context, agent_job))  # else the next one would take its results
        self.context.note("job_over", ends=agent_job.name)

    def _unrecorded(self, agent_job: AgentJob) -> Path | None:
        """The job's last turn, if it was begun, and what it cost is not in the record."""
        known = self.context.state.research.turns
        paths = [self.context.campaign_dir.turns / name for name in agent_job.turns[-1:] if name not in known]
        return next((path for path in paths if RunDir(path).spec.exists()), None)

    def end_all(self) -> None:
        """End all jobs: the campaign is over."""
        for name in self.context.state.research.jobs.copy():
            self.stop(name)
        until = time.monotonic() + ENDS_IN_S
        while any(map(self._running, self.context.state.research.jobs.values())) and time.monotonic() < until:
            time.sleep(LOOK_S)
        for job in list(self.context.state.research.jobs.values()):
            self._end(job)

    def remove(self) -> None:
        """The campaign is over: its worktrees go."""
        if not self.context.spec.research.agent:
            return
        for one in self._workspace().left:
            with contextlib.suppress(AutoresearchError, OSError):  # `git worktree list` still knows it
                one.remove()
                for left in one.path.parent.glob(f"*{one.path.name}.*"):  # of the last guard, of a killed edit
                    wipe(left)
