"""A campaign's coding agent: made from its spec, asked one turn after another, its limits waited out, its cost kept."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from autoresearch.agents import registry
from autoresearch.core.agents.agent import Agent, AgentSpec, Answer, Ask, Turn, TurnFault, TurnRole, Usage
from autoresearch.core.campaign.spec import Rules
from autoresearch.core.campaign.state import Idea
from autoresearch.core.run.limits import nap
from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.lab.agent_work import sandbox
from autoresearch.lab.agent_work.turn import answer_of, clear, run_turn, settled, wait_for_end
from autoresearch.lab.agent_work.turn_dir import TurnEnvironment, anew, read_turn
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.lab.results.explain import Explanation, explain_run
from autoresearch.records import exit_record
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
    agent: str = ""

    @property
    def sentence(self) -> str:
        """For a log, and for `campaign status`."""
        what = "a usage limit" if self.fault is TurnFault.QUOTA else "an outage"
        clock = time.strftime("%H:%M", time.localtime(self.until))
        words = (
            f"{f'{self.agent}: ' if self.agent else ''}the {self.role} turn waits for the end of {what}, "
            f"and is tried again at {clock} (try {self.tries + 1})"
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
    the last answer is returned; Fault.STOPPED when `stop` is set meanwhile.
    """
    rest = sleep or stop.wait

    def persist(turn: Turn) -> Answer:
        since, tries = clock(), 0
        while True:
            answer = ask(turn if not tries else anew(turn))
            tries += 1
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


class Waits:
    """What the turns under way wait for, in a file as long as they do: `read_waiting` reads that. For all threads."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path, self._say = path, say
        self._lock = threading.Lock()
        self._waits: dict[str, Waiting] = {}
        path.unlink(missing_ok=True)  # of a controller that was killed

    @property
    def jobs(self) -> frozenset[str]:
        """The names of the jobs that wait."""
        return frozenset(self._waits)

    def told_by(self, job: str, agent: str) -> Tell:
        """Hears what this job waits for; of several jobs of one agent, the first says so."""

        def tell(waiting: Waiting | None) -> None:
            with self._lock:
                said = any(one.agent == agent for one in self._waits.values())
                self._waits.pop(job, None)
                if waiting is not None:
                    self._waits[job] = waiting = replace(waiting, agent=agent)
                    if not said:
                        self._say(waiting.sentence)
                if self._waits:
                    record = {"waits": [asdict(one) for one in self._waits.values()]}
                    write_json(self._path, record, durable=False)
                else:
                    self._path.unlink(missing_ok=True)

        return tell


def read_waiting(path: Path) -> list[Waiting]:
    """What is waited for now, one of each agent. A killed controller leaves it there: see whether one lives."""
    record = read_json(path) or {}
    found: dict[str, Waiting] = {}
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        for one in record.get("waits", ()):
            wait = Waiting(**one | {"role": TurnRole(one["role"]), "fault": TurnFault(one["fault"])})
            found[wait.agent] = wait
    return list(found.values())


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
        environ=environ, level=level, keep=agent_spec.keep, readable=(*readable, *_named(agent_spec)), hidden=hidden
    )


def _named(agent_spec: AgentSpec) -> Iterator[Path]:
    """The files and directories that the agent's command line names: it sees them wherever they lie."""
    for word in (*agent_spec.template, *agent_spec.extra):
        for path in map(Path, (word, word.partition("=")[2])):
            if path.is_absolute() and sandbox.can_see(path):
                yield path


def check(agent_spec: AgentSpec, environ: Mapping[str, str], rules: Rules) -> sandbox.Level:
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


TAIL = 40  # lines of the log that a fixing agent is shown
Line = tuple[str, dict[str, Any]]  # of the journal: what was done, and its fields


@dataclass(slots=True)
class AgentTurns:
    """Asks one agent, for one job; `stop` ends the turn that is under way."""

    name: str  # of the agent, as the campaign has it
    researcher: Agent
    turn_environment: TurnEnvironment
    stop: threading.Event
    tell: Tell
    deadline: Callable[[], float | None]  # of the campaign: a limit is not waited out beyond it
    clock: Callable[[], float]
    say: Callable[[str], None]
    job: str = ""  # the name of the job
    editor: int = 0  # whose worktrees it is done in
    _lines: list[Line] = field(default_factory=list)  # of turns that are over, and not handed out yet

    @property
    def usage(self) -> Usage:
        """What the turns took whose lines were not handed out yet."""
        told = (fields for _, fields in self._lines)
        return sum((Usage(one["usd"], one["tokens_in"], one["tokens_out"]) for one in told), Usage())

    def take_lines(self) -> list[Line]:
        """The journal lines of turns that are over, each handed out once."""
        lines, self._lines = self._lines, []
        return lines

    def ask(self, turn: Turn) -> Answer:
        """Ask the agent, wait out its limits, and remember what it cost; without its session where that is gone."""
        ask = waiting_out_limits(self._ask_once, self.stop, self.tell, deadline=self.deadline(), clock=self.clock)
        answer = ask(turn)
        if answer.fault is not TurnFault.SESSION:
            return answer
        why = mask_text(answer.message)[:300]
        self.say(f"{self.name}: the {turn.role} turn begins a new session, as its own cannot be resumed: {why}")
        return ask(anew(replace(turn, session="", prompt=turn.alone or turn.prompt)))

    def _ask_once(self, turn: Turn) -> Answer:
        whose = {"asked": self.name, "job": self.job, "editor": self.editor}
        answer = run_turn(self.researcher, turn, self.turn_environment, self.stop, **whose)
        fields = {"name": Path(turn.directory).name, **turn_fields(turn.role, self.name, answer)}
        self._lines.append(("turn", fields))
        failpoint("research.asked")
        return answer


@dataclass(frozen=True, slots=True)
class BegunTurn:
    """A turn that the journal does not know, as its controller was killed; under way, or over."""

    turn: Turn
    agent: str  # as the campaign has it
    job: str
    editor: int

    @property
    def directory(self) -> Path:
        """Its directory, whose name is its own."""
        return Path(self.turn.directory)

    def usable(self, agent: Agent) -> bool:
        """Whether its job can go on with it: it is under way, or has an answer."""
        if not settled(RunDir(self.directory)):
            return True
        return answer_of(agent, self.turn).fault in (None, TurnFault.SILENT, TurnFault.ANSWER)

    def end(self, agent: Agent) -> dict[str, Any]:
        """End what lives of it; returns its fields of the journal."""
        wait_for_end(RunDir(self.directory), lambda: True)
        clear(self.turn)
        return turn_fields(self.turn.role, self.agent, answer_of(agent, self.turn))


def begun_turns(turns: Path, known: Container[str]) -> Iterator[BegunTurn]:
    """Those of a campaign that are not known by their names, in order."""
    for path in sorted(turns.iterdir()) if turns.is_dir() else ():
        if path.name not in known and (begun := read_turn(path)) is not None:
            turn, record = begun
            agent, job = str(record.get("asked", "")), str(record.get("job", ""))
            yield BegunTurn(turn, agent, job, int(record.get("editor") or 0))


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


def explained(idea: Idea, builder: CommitBuilder) -> Explanation:
    """Why the last run of an idea failed. ConflictError where its records are gone."""
    row = idea.rows[-1]
    rundir = RunDir(Path(row.run_dir))
    if not rundir.spec.exists():
        raise ConflictError(f"the records of {row.run_id} are gone: {rundir.path}", code="no_records")
    recorded = RecordedRun.read(rundir)
    trainer = trainers.of_run(recorded.spec)
    return explain_run(recorded, exit_record.read(rundir), trainer, TAIL)
