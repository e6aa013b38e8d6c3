"""A campaign's coding agent: made from its spec, asked one turn after another, its limits waited out, its cost kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoresearch.agents import registry
from autoresearch.core.agents.agent import Agent, AgentSpec, Answer, Turn, TurnFault, TurnRole
from autoresearch.core.agents.turns import AgentJob
from autoresearch.core.campaign.spec import Rules
from autoresearch.core.run.limits import nap
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.lab.agent_work.sandbox import can_see
from autoresearch.lab.agent_work.turn import Pending, answer_turn, begin_turn, is_over
from autoresearch.lab.agent_work.turn_dir import Level, TurnEnvironment, choose, next_directory
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.records import exit_record
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint
from autoresearch.runner.masking import mask_text

# Wait out what passes by itself: a usage limit, an outage. Nobody is there at night to ask again.

TOTAL_S = {TurnFault.QUOTA: 24 * 3600.0, TurnFault.OUTAGE: 2 * 3600.0}  # in all, where no deadline is set


def next_try(fault: TurnFault | None, tries: int, first: float, last: float, deadline: float | None) -> float | None:
    """When an agent at its limit is asked again; None where that is given up. All times are wall clock.

    The pauses after `tries` are 30 s, 1, 2, 4, 8, 16 min. `first`, `last`: the ends of the first and the last try. No
    try is made after `deadline`; without one, none 24 h after the first for usage limits, 2 h for outages.
    """
    if fault not in TOTAL_S:
        return None
    until = last + nap(tries - 1)
    return None if until > (first + TOTAL_S[fault] if deadline is None else deadline) else until


def waiting_sentence(agent_job: AgentJob) -> str:
    """What a job waits for, for a log and for `campaign status`; "" for nothing."""
    if (waits := agent_job.waits) is None:
        return ""
    what = "a usage limit" if waits.fault is TurnFault.QUOTA else "an outage"
    words = f"{agent_job.agent}: the {waits.role} turn waits for the end of {what}, and is tried again at "
    words += f"{time.strftime('%H:%M', time.localtime(waits.until))} (try {waits.tries + 1})"
    return f"{words}: {waits.message}" if waits.message else words


def call(
    agent_spec: AgentSpec, environ: Mapping[str, str], *, readable: Iterable[Path] = ()
) -> tuple[Agent, TurnEnvironment]:
    """The agent of a spec and the premises of its turns.

    Raises UsageError for one that is not known, EnvironmentUnusable where a sandbox is needed and none can be had.
    """
    probe = registry.researcher(agent_spec.agent, agent_spec.chosen())
    level = choose(agent_spec.sandbox, probe.traits)
    who = registry.researcher(agent_spec.agent, agent_spec.chosen(outside=level is Level.BUBBLEWRAP))
    mine = {str(home) for home in who.homes(environ)}
    others = registry.others(who, agent_spec.chosen())
    hidden = tuple(Path(home) for one in others for home in one.homes(environ) if str(home) not in mine)
    return who, TurnEnvironment(
        environ=environ, level=level, keep=agent_spec.keep, readable=(*readable, *_named(agent_spec)), hidden=hidden
    )


def _named(agent_spec: AgentSpec) -> Iterator[Path]:
    """The files and directories that the agent's command line names: it sees them wherever they lie."""
    for word in (*agent_spec.template, *agent_spec.extra):
        for path in map(Path, (word, word.partition("=")[2])):
            if path.is_absolute() and can_see(path):
                yield path


def check(agent_spec: AgentSpec, environ: Mapping[str, str], rules: Rules) -> Level:
    """Whether the agent of a spec can be asked here, as far as it can be told beforehand, and how it is confined.

    Raises UsageError (also for a budget in `rules` that this agent's reports cannot enforce), EnvironmentUnusable.
    """
    who, turn_environment = call(agent_spec, environ)
    if shutil.which(who.program(), path=environ.get("PATH")) is None:
        raise EnvironmentUnusable(
            f"the agent {agent_spec.agent} is not installed: {who.program()} is not on PATH",
            hint=f"installed: {', '.join(installed(environ)) or 'none that we know'}; `agent_program` names another",
            code="agent_not_installed",
        )
    if agent_spec.web and not who.traits.web:
        raise UsageError(
            f"`research: true` cannot be had with {agent_spec.agent}: it has no web tools that can be switched on",
            hint="claude, codex, gemini, opencode, qwen and command have them",
            code="no_web_tools",
        )
    if rules.budget_usd is not None and not who.traits.money:
        raise UsageError(
            f"{agent_spec.agent} does not report its cost, so a budget in USD cannot be enforced",
            hint="`--set budget_tokens=N` counts what it reads and writes",
            code="no_costs",
        )
    if rules.budget_tokens is not None and not who.traits.tokens:
        raise UsageError(
            f"{agent_spec.agent} reports only a part of its tokens, so a budget in them cannot be enforced",
            hint="`--set budget_usd=N` counts what it costs, where its model has a price",
            code="no_tokens",
        )
    return turn_environment.level


def installed(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The agents that are on PATH."""
    every = (registry.researcher(name, AgentSpec().chosen()) for name in registry.PROGRAMS)
    return tuple(one.name for one in every if shutil.which(one.program(), path=environ.get("PATH")))


class JobEnded(Exception):  # noqa: N818 - it may have been asked for
    """A job ends without an outcome, as its turn was stopped, or as a person is needed first: it begins anew later."""

    def __init__(self, fault: TurnFault, why: str) -> None:
        super().__init__(why)
        self.fault, self.why = fault, why


@dataclass(slots=True)
class AgentTurns:
    """Asks one agent for one job. What was asked before is answered from its directory; no turn is waited for here."""

    context: CampaignContext
    researcher: Agent
    turn_environment: TurnEnvironment
    job: AgentJob
    left: list[tuple[str, ...]]  # questions that were asked before and not come back to yet: the turns of each
    tries: list[str] = field(default_factory=list)  # of these, further ones of the question in hand

    def directory(self, role: TurnRole) -> Path:
        """The directory of the job's next question."""
        if not self.left:
            return self._next(role, again=False)
        name, *self.tries = self.left.pop(0)
        return self.context.campaign_dir.turns / name

    def _next(self, role: TurnRole, *, again: bool) -> Path:
        if again and self.tries:
            return self.context.campaign_dir.turns / self.tries.pop(0)
        made = next_directory(self.context.campaign_dir.turns, role)
        self.context.note("asking", job=self.job.name, turn=made.name, again=again)
        return made

    def ask(self, turn: Turn) -> Answer:
        """The agent's answer, after its limits.

        Raises Pending where the answer, or the end of a limit, is not there yet, and JobEnded.
        """
        tries, first = 0, 0.0
        while True:
            answer, ended = self._answer(turn)
            tries, first = tries + 1, first or ended
            if answer.fault is TurnFault.STOPPED or (answer.fault is not None and answer.fault.needs_person):
                raise JobEnded(answer.fault, mask_text(answer.message))
            if not (self.tries or self._waited(turn, answer, tries, first, ended)):
                return answer
            turn = replace(turn, directory=self._next(turn.role, again=True))

    def _waited(self, turn: Turn, answer: Answer, tries: int, first: float, last: float) -> bool:
        """Whether an agent was at its limit and is to be asked again now. Raises Pending as long as it is too early."""
        until = next_try(answer.fault, tries, first, last, self.context.state.spec.rules.deadline)
        if until is None or answer.fault is None:
            return False
        if self.context.parts.clock() < until:
            said = {job.agent for job in self.context.state.research.waiting}
            words = {"fault": answer.fault.value, "said": mask_text(answer.message)[:300]}
            self.context.note("waits", job=self.job.name, role=turn.role.value, until=until, tries=tries, **words)
            if self.job.agent not in said:
                self.context.say(waiting_sentence(self.context.state.research.jobs[self.job.name]))
            raise Pending
        return True

    def _answer(self, turn: Turn) -> tuple[Answer, float]:
        """What a turn came to, and when it was over; it is begun first where it was not."""
        rundir, name = RunDir(Path(turn.directory)), Path(turn.directory).name
        if not rundir.spec.exists():
            refused = begin_turn(self.researcher, turn, self.turn_environment)
            if refused is None:
                raise Pending
            answer = refused
        elif not is_over(rundir):
            raise Pending
        else:
            answer = answer_turn(self.researcher, turn, self.turn_environment)
        if name not in self.context.state.research.turns:
            self.context.note("turn", name=name, **turn_fields(turn.role, self.job.agent, answer))
            failpoint("research.asked")
        record = exit_record.read(rundir)
        return answer, record.ended if record else self.context.parts.clock()


def turn_fields(role: str, agent: str, answer: Answer) -> dict[str, Any]:
    """The journal's fields of a turn."""
    usage = answer.usage
    fields: dict[str, Any] = {
        "role": str(role),
        "agent": agent,
        "usd": usage.usd,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "seconds": round(usage.seconds, 3),
    }
    if answer.fault is not None:
        fields |= {"fault": answer.fault.value, "said": answer.message[:500]}
    if answer.denied:
        fields["denied"] = [mask_text(one) for one in answer.denied]
    return fields
