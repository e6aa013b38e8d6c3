"""Make the coding agent that a spec names, and find out where its turns can run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from autoresearch.agents import registry
from autoresearch.core.agents.agent import Agent, AgentSpec
from autoresearch.core.campaign.state import Idea
from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.lab.agents import agent_sandbox
from autoresearch.lab.agents.turn import TurnEnvironment
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.lab.results.explain import Explanation, explain_run
from autoresearch.records import exit_record
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.trainers import registry as trainers

TAIL = 40  # lines of the log that a fixing agent is shown


def call(
    agent_spec: AgentSpec, environ: Mapping[str, str], *, readable: Iterable[Path] = ()
) -> tuple[Agent, TurnEnvironment]:
    """The agent of a spec and the premises of its turns.

    Raises UsageError for one that is not known, EnvironmentUnusable where a sandbox is needed and none can be had.
    """
    probe = registry.researcher(agent_spec.agent, agent_spec.chosen())
    level = agent_sandbox.choose(agent_spec.sandbox, probe.traits)
    who = registry.researcher(agent_spec.agent, agent_spec.chosen(outside=level is agent_sandbox.Level.BUBBLEWRAP))
    mine = {str(home) for home in who.homes(environ)}
    others = registry.others(who, agent_spec.chosen())
    hidden = tuple(Path(home) for one in others for home in one.homes(environ) if str(home) not in mine)
    return who, TurnEnvironment(
        environ=environ, level=level, keep=agent_spec.keep, readable=tuple(readable), hidden=hidden
    )


def check(agent_spec: AgentSpec, environ: Mapping[str, str], *, usd: bool = False) -> agent_sandbox.Level:
    """Whether the agent of a spec can be asked here, as far as it can be told beforehand, and how it is confined.

    Raises UsageError, EnvironmentUnusable. `usd`: a budget in money is set.
    """
    who, turn_environment = call(agent_spec, environ)
    if shutil.which(who.program(), path=environ.get("PATH")) is None:
        raise EnvironmentUnusable(
            f"the agent {agent_spec.agent} is not installed: {who.program()} is not on PATH",
            hint=f"installed: {', '.join(installed(environ)) or 'none that we know'}; `agent_program` names another",
            code="agent_not_installed",
        )
    if usd and not who.traits.money:
        raise UsageError(
            f"{agent_spec.agent} does not report its cost, so a budget in USD cannot be enforced",
            hint="`--set budget_tokens=N` counts what it reads and writes",
            code="no_costs",
        )
    return turn_environment.level


def installed(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The agents that are on PATH."""
    every = (registry.researcher(name, AgentSpec().chosen()) for name in registry.NAMES if name != "command")
    return tuple(one.name for one in every if shutil.which(one.program(), path=environ.get("PATH")))


def explained(idea: Idea, builder: CommitBuilder) -> Explanation:
    """Why the last run of an idea failed. ConflictError where its records are gone."""
    row = idea.rows[-1]
    rundir = RunDir(Path(row.run_dir))
    if not rundir.spec.exists():
        raise ConflictError(f"the records of {row.run_id} are gone: {rundir.path}", code="no_records")
    recorded = RecordedRun.read(rundir)
    trainer = trainers.of_run(recorded.spec)
    return explain_run(recorded, exit_record.read(rundir), trainer, TAIL)
