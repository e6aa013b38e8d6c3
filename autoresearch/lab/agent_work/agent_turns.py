"""A campaign's coding agent: made from its spec, asked one turn after another, its limits waited out, its cost kept."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from autoresearch.agents import registry
from autoresearch.core.agents.agent import Agent, AgentSpec, Answer, Ask, Turn, TurnFault, TurnRole, Usage
from autoresearch.core.agents.turns import TurnNote
from autoresearch.core.campaign.state import Idea
from autoresearch.core.run.limits import nap
from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.lab.agent_work import sandbox
from autoresearch.lab.agent_work.turn import lost_turns, run_turn
from autoresearch.lab.agent_work.turn_dir import TurnDir, TurnEnvironment, anew, next_directory, read_result
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.lab.results.explain import Explanation, explain_run
from autoresearch.records import exit_record
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir, read_json, write_json
from autoresearch.runner.basics import failpoint
from autoresearch.runner.masking import mask_text
from autoresearch.trainers import registry as trainers

# Wait out what passes by itself: a usage limit, an outage. Nobody is there at night to ask again.

MOST_S = {TurnFault.QUOTA: 5 * 3600.0, TurnFault.OUTAGE: 16 * 60.0}  # between two tries, whatever the agent says
TOTAL_S = {TurnFault.QUOTA: 24 * 3600.0, TurnFault.OUTAGE: 2 * 3600.0}  # in all, where no deadline is set
LOOK_S = 60.0  # of wall time: a machine that slept goes on when it is time


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a question waits for, and until when; times are seconds since 1970."""

    role: TurnRole
    fault: TurnFault
    message: str  # the agent's words, masked
    since: float  # when it was first told to come back
    until: float  # when it is asked again
    tries: int  # so far

    @property
    def sentence(self) -> str:
        """For a log, and for `campaign status`."""
        what = "a usage limit" if self.fault is TurnFault.QUOTA else "an outage"
        clock = time.strftime("%H:%M", time.localtime(self.until))
        words = (
            f"the {self.role} turn waits for the end of {what}, and is tried again at {clock} (try {self.tries + 1})"
        )
        return f"{words}: {self.message}" if self.message else words


Tell = Callable[[Waiting | None], None]
"""Hears what is waited for, and None when that is over."""


def waiting_out_limits(
    ask: Ask,
    stop: threading.Event,
    tell: Tell,
    *,
    deadline: float | None = None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], object] | None = None,
) -> Ask:
    """The same agent, asked again until it answers, each try in a turn directory of its own.

    The pauses are 30 s, 1, 2, 4, 8, 16 min, or what the agent asks for. It is given up where the next try would
    come after `deadline` (wall time; without one: 24 h for usage limits, 2 h for outages, since the first try), and
    the last answer is returned; Fault.STOPPED when `stop` is set meanwhile. Usage and steps are those of all tries.
    """
    rest = sleep or stop.wait

    def persist(turn: Turn) -> Answer:
        since, used, steps, tries = clock(), Usage(), 0, 0
        while True:
            answer = ask(turn if not tries else anew(turn))
            used, steps, tries = used + answer.usage, steps + answer.steps, tries + 1
            answer = replace(answer, usage=used, steps=steps)
            if answer.fault not in MOST_S:
                return answer
            pause = min(max(answer.retry_s or 0.0, nap(tries - 1)), MOST_S[answer.fault])
            until = clock() + pause
            if until > (since + TOTAL_S[answer.fault] if deadline is None else deadline):
                return answer
            tell(Waiting(turn.role, answer.fault, mask_text(answer.message)[:300], since, until, tries))
            while not stop.is_set() and clock() < until:
                rest(min(LOOK_S, until - clock()))
            tell(None)
            if stop.is_set():
                return replace(answer, fault=TurnFault.STOPPED)

    return persist


def notice_of_waiting(path: Path, say: Callable[[str], None]) -> Tell:
    """Says what is waited for, and keeps it in a file as long as it is: `read_waiting` reads that."""

    def tell(waiting: Waiting | None) -> None:
        if waiting is None:
            path.unlink(missing_ok=True)
        else:
            write_json(path, asdict(waiting), durable=False)
            say(waiting.sentence)

    return tell


def read_waiting(path: Path) -> Waiting | None:
    """What is waited for now; None for nothing. A controller that was killed leaves it there: see whether one lives."""
    record = read_json(path)
    with contextlib.suppress(KeyError, TypeError, ValueError):
        if record is not None:
            return Waiting(**record | {"role": TurnRole(record["role"]), "fault": TurnFault(record["fault"])})
    return None


def call(
    agent_spec: AgentSpec, environ: Mapping[str, str], *, readable: Iterable[Path] = ()
) -> tuple[Agent, TurnEnvironment]:
    """The agent of a spec and the premises of its turns.

    Raises UsageError for one that is not known, EnvironmentUnusable where a sandbox is needed and none can be had.
    """
    probe = registry.researcher(agent_spec.agent, agent_spec.chosen())
    level = sandbox.choose(agent_spec.sandbox, probe.traits)
    who = registry.researcher(agent_spec.agent, agent_spec.chosen(outside=level is sandbox.Level.BUBBLEWRAP))
    mine = {str(home) for home in who.homes(environ)}
    others = registry.others(who, agent_spec.chosen())
    hidden = tuple(Path(home) for one in others for home in one.homes(environ) if str(home) not in mine)
    return who, TurnEnvironment(
        environ=environ, level=level, keep=agent_spec.keep, readable=tuple(readable), hidden=hidden
    )


def check(agent_spec: AgentSpec, environ: Mapping[str, str], *, usd: bool = False) -> sandbox.Level:
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
    if agent_spec.web and not who.traits.web:
        raise UsageError(
            f"`research: true` cannot be had with {agent_spec.agent}: it has no web tools that can be switched on",
            hint="claude, codex, gemini, opencode, qwen and command have them",
            code="no_web_tools",
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
    every = (registry.researcher(name, AgentSpec().chosen()) for name in registry.PROGRAMS)
    return tuple(one.name for one in every if shutil.which(one.program(), path=environ.get("PATH")))


TAIL = 40  # lines of the log that a fixing agent is shown
Line = tuple[str, dict[str, Any]]  # of the journal: what was done, and its fields


@dataclass(slots=True)
class AgentTurns:
    """Asks the agent; `stop` ends the turn that is under way."""

    campaign_dir: CampaignDir
    researcher: Agent
    turn_environment: TurnEnvironment
    stop: threading.Event
    say: Callable[[str], None]
    deadline: Callable[[], float | None]  # of the campaign: a limit is not waited out beyond it
    clock: Callable[[], float]
    _lines: list[Line] = field(default_factory=list)  # of turns that are over, and not handed out yet

    def next_directory(self, role: TurnRole) -> Path:
        """The directory of the next turn."""
        return next_directory(self.campaign_dir.turns, role)

    @property
    def unwritten_usd(self) -> float:
        """What the turns cost whose lines were not handed out yet."""
        return sum(fields["usd"] or 0.0 for _, fields in self._lines)

    def take_lines(self) -> list[Line]:
        """The journal lines of turns that are over, each handed out once."""
        lines, self._lines = self._lines, []
        return lines

    def ask(self, turn: Turn) -> Answer:
        """Ask the agent, wait out its limits, and remember what it cost."""
        notice = notice_of_waiting(self.campaign_dir.waiting, self.say)
        ask = waiting_out_limits(self._ask_once, self.stop, notice, deadline=self.deadline(), clock=self.clock)
        return ask(turn)

    def _ask_once(self, turn: Turn) -> Answer:
        answer = run_turn(self.researcher, turn, self.turn_environment, self.stop)
        fields = {"name": Path(turn.directory).name, **turn_fields(turn.role, self.researcher, answer)}
        self._lines.append(("turn", fields))
        failpoint("research.asked")
        return answer

    def unwritten(self, turn_notes: Mapping[str, TurnNote]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The turns that the journal does not know: their controller was killed. Ends what lives of them."""
        lost_turns(self.campaign_dir.turns, self.researcher)
        for path in sorted(self.campaign_dir.turns.iterdir()) if self.campaign_dir.turns.is_dir() else ():
            answer = read_result(TurnDir(path)) if path.name not in turn_notes else None
            if answer is not None:
                role = TurnRole(path.name.partition("-")[2].split("-")[0])
                yield path.name, turn_fields(role, self.researcher, answer)


def turn_fields(role: TurnRole, researcher: Agent, answer: Answer) -> dict[str, Any]:
    """The journal's fields of a turn."""
    usage = answer.usage
    fields: dict[str, Any] = {
        "role": role.value,
        "agent": researcher.name,
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


def explained(idea: Idea, builder: CommitBuilder) -> Explanation:
    """Why the last run of an idea failed. ConflictError where its records are gone."""
    row = idea.rows[-1]
    rundir = RunDir(Path(row.run_dir))
    if not rundir.spec.exists():
        raise ConflictError(f"the records of {row.run_id} are gone: {rundir.path}", code="no_records")
    recorded = RecordedRun.read(rundir)
    trainer = trainers.of_run(recorded.spec)
    return explain_run(recorded, exit_record.read(rundir), trainer, TAIL)
