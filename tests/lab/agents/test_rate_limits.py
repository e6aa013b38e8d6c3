"""What passes is waited out, at the pace that was promised, and no longer than makes sense."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from autoresearch.core.agents.agent import Answer, Turn, TurnFault, TurnRole
from autoresearch.lab.agent_work.agent_turns import Tell, Waiting, Waits, read_waiting, waiting_out_limits
from autoresearch.lab.agent_work.turn_dir import next_directory

HOUR = 3600.0
BUSY = Answer(fault=TurnFault.QUOTA, message="429, sk-ant-REDACTED0123456789")
DOWN = Answer(fault=TurnFault.OUTAGE, message="no network")
FINE = Answer("three ideas")


class Agent:
    """Answers from a list, the last one for ever; a clock that only its naps move."""

    def __init__(self, turns: Path, *answers: Answer) -> None:
        self.turns, self.answers = turns, list(answers)
        self.now = self.start = 1_790_000_000.0
        self.asked: list[tuple[float, str]] = []
        self.told: list[Waiting | None] = []
        self.tell: Tell = self.told.append
        self.stop = threading.Event()

    def ask(self, turn: Turn) -> Answer:
        self.asked.append((self.now - self.start, Path(turn.directory).name))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds <= 60 and self.now < self.start + 48 * HOUR, "it waits for ever"
        self.now += seconds

    def persist(self, deadline_s: float | None = None) -> Answer:
        deadline = None if deadline_s is None else self.start + deadline_s
        turn = Turn(TurnRole.PROPOSE, "go", self.turns, next_directory(self.turns, TurnRole.PROPOSE))
        return waiting_out_limits(
            self.ask, self.stop, self.tell, deadline=deadline, clock=lambda: self.now, sleep=self.sleep
        )(turn)

    @property
    def times(self) -> list[float]:
        return [round(time) for time, _ in self.asked]


def wishes(fault: TurnFault, seconds: float) -> Answer:
    return Answer(fault=fault, retry_s=seconds)


PASSING = {
    "no wait": ([FINE], [0]),
    "the promised pace": ([*[DOWN] * 7, FINE], [0, 30, 90, 210, 450, 930, 1890, 2850]),
    "too soon": ([wishes(TurnFault.QUOTA, 5.0), FINE], [0, 30]),
    "as it wishes": ([wishes(TurnFault.QUOTA, 3 * HOUR), FINE], [0, 3 * HOUR]),
    "not for days": ([wishes(TurnFault.QUOTA, 90 * HOUR), FINE], [0, 5 * HOUR]),
    "an outage is not trusted with its time": ([wishes(TurnFault.OUTAGE, HOUR), FINE], [0, 960]),
    **{f"{fault} does not pass": ([Answer(fault=fault)], [0]) for fault in TurnFault if not fault.passes},
}


@pytest.mark.parametrize(("answers", "times"), PASSING.values(), ids=PASSING)
def test_when_it_is_asked_again(tmp_path: Path, answers: list[Answer], times: list[float]) -> None:
    """Each try in a turn of its own."""
    agent = Agent(tmp_path, *answers)
    answer = agent.persist()
    assert agent.times == times and (answer.text, answer.fault) == (answers[-1].text, answers[-1].fault)
    assert [name for _, name in agent.asked] == [f"{n:04}-propose" for n in range(1, len(times) + 1)]


@pytest.mark.parametrize(("answer", "most"), [(DOWN, 2 * HOUR), (BUSY, 24 * HOUR)])
def test_patience_ends(tmp_path: Path, answer: Answer, most: float) -> None:
    agent = Agent(tmp_path, answer)
    found = agent.persist()
    assert found.fault is answer.fault
    assert most - 960 < agent.times[-1] <= most


def test_nobody_waits_beyond_the_deadline(tmp_path: Path) -> None:
    """Nor for something that would come after it: the campaign has better to do."""
    agent = Agent(tmp_path, Answer(fault=TurnFault.QUOTA, retry_s=2 * HOUR))
    assert agent.persist(HOUR).fault is TurnFault.QUOTA
    assert agent.times == [0] and agent.told == []
    patient = Agent(tmp_path, DOWN)
    patient.persist(10 * HOUR)
    assert 9.7 * HOUR < patient.times[-1] <= 10 * HOUR, "a deadline is more than two hours"


def test_it_is_interrupted(tmp_path: Path) -> None:
    agent = Agent(tmp_path, BUSY)
    agent.sleep = lambda seconds: agent.stop.set()  # type: ignore[method-assign]
    answer = agent.persist()
    assert answer.fault is TurnFault.STOPPED
    assert len(agent.asked) == 1 and agent.told[-1] is None
    stop = threading.Event()  # real time, too, at once
    turn = Turn(TurnRole.EDIT, "go", tmp_path, next_directory(tmp_path, TurnRole.EDIT))
    assert waiting_out_limits(lambda _: BUSY, stop, lambda waiting: stop.set())(turn).fault is TurnFault.STOPPED


def test_what_is_waited_for_is_said_and_shown(tmp_path: Path) -> None:
    key = "key sk-ant-api03-0123456789abcdefghij is over its limit"
    agent = Agent(tmp_path / "turns", Answer(fault=TurnFault.QUOTA, message=key), FINE)
    place, said, shown = tmp_path / "waiting.json", list[str](), list[list[Waiting]]()
    waits = Waits(place, said.append)
    tell, other = waits.told_by("propose", "claude"), waits.told_by("edit one", "claude")

    def listen(waiting: Waiting | None) -> None:
        tell(waiting)
        shown.append(read_waiting(place))
        assert waits.jobs == ({"propose"} if waiting else set())

    agent.tell = listen
    agent.persist()
    (first,), last = shown
    assert last == [] and not place.exists()
    assert (first.agent, first.fault, first.role, first.tries) == ("claude", TurnFault.QUOTA, TurnRole.PROPOSE, 1)
    assert first.until - first.since == 30 and "over its limit" in first.message and "0123456789" not in first.message
    assert len(said) == 1 and "a usage limit" in said[0] and "try 2" in said[0] and "claude: the propose" in said[0]
    tell(first)
    other(first)
    assert len(said) == 2, "the second job of an agent at its limit says nothing"
    waits.told_by("edit two", "codex")(first)
    assert len(said) == 3 and [one.agent for one in read_waiting(place)] == ["claude", "codex"]
    tell(None)
    assert waits.jobs == {"edit one", "edit two"}
    for text in ("", "{}", "[]", '{"waits": [{"role": "sing"}]}', '{"waits": 3}'):
        place.write_text(text)
        assert read_waiting(place) == []
