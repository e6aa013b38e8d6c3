"""What passes is waited out, at the pace that was promised, and no longer than makes sense."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from autoresearch.core.agents.agent import Answer, Turn, TurnFault, TurnRole, Usage
from autoresearch.lab.agent_work.rate_limits import Tell, Waiting, notice_of_waiting, read_waiting, waiting_out_limits
from autoresearch.lab.agent_work.turn_dir import next_directory

HOUR = 3600.0
BUSY = Answer(fault=TurnFault.QUOTA, message="429, sk-ant-REDACTED0123456789", usage=Usage(0.1, 10, 1, 2.0), steps=1)
DOWN = Answer(fault=TurnFault.OUTAGE, message="no network", usage=Usage(seconds=2.0))
FINE = Answer("three ideas", usage=Usage(0.5, 100, 50, 60.0), steps=4)


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
        assert 0 < seconds <= 60
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


def test_an_answer_needs_no_patience(tmp_path: Path) -> None:
    agent = Agent(tmp_path, FINE)
    assert agent.persist() == FINE and agent.told == [] and agent.times == [0]


def test_it_comes_back_at_the_promised_pace(tmp_path: Path) -> None:
    agent = Agent(tmp_path, *[DOWN] * 7, FINE)
    answer = agent.persist()
    assert agent.times == [0, 30, 90, 210, 450, 930, 1890, 2850]
    assert [name for _, name in agent.asked] == [f"{n:04}-propose" for n in range(1, 9)]
    assert answer.text == "three ideas"
    assert (answer.usage.seconds, answer.usage.tokens, answer.steps) == (74.0, 150, 4)


def test_what_all_tries_cost_is_told(tmp_path: Path) -> None:
    answer = Agent(tmp_path, BUSY, BUSY, FINE).persist()
    assert (round(answer.usage.usd or 0, 6), answer.usage.tokens, answer.steps) == (0.7, 172, 6)


@pytest.mark.parametrize(
    ("wish", "second"),
    [(5.0, 30.0), (3 * HOUR, 3 * HOUR), (90 * HOUR, 5 * HOUR)],
    ids=["too soon", "as it wishes", "not for days"],
)
def test_it_comes_back_when_it_is_told_to(tmp_path: Path, wish: float, second: float) -> None:
    busy = Answer(fault=TurnFault.QUOTA, retry_s=wish)
    agent = Agent(tmp_path, busy, FINE)
    assert agent.persist() == FINE and agent.times == [0, second]


def test_an_outage_is_not_trusted_with_its_time(tmp_path: Path) -> None:
    agent = Agent(tmp_path, Answer(fault=TurnFault.OUTAGE, retry_s=HOUR), FINE)
    agent.persist()
    assert agent.times == [0, 960]


@pytest.mark.parametrize(("answer", "most"), [(DOWN, 2 * HOUR), (BUSY, 24 * HOUR)])
def test_patience_ends(tmp_path: Path, answer: Answer, most: float) -> None:
    agent = Agent(tmp_path, answer)
    found = agent.persist()
    assert found.fault is answer.fault and found.usage.seconds == 2.0 * len(agent.asked)
    assert most - 960 < agent.times[-1] <= most


def test_nobody_waits_beyond_the_deadline(tmp_path: Path) -> None:
    """Nor for something that would come after it: the campaign has better to do."""
    agent = Agent(tmp_path, Answer(fault=TurnFault.QUOTA, retry_s=2 * HOUR))
    assert agent.persist(HOUR).fault is TurnFault.QUOTA
    assert agent.times == [0] and agent.told == []
    patient = Agent(tmp_path, DOWN)
    patient.persist(10 * HOUR)
    assert 9.7 * HOUR < patient.times[-1] <= 10 * HOUR, "a deadline is more than two hours"


@pytest.mark.parametrize("fault", [fault for fault in TurnFault if not fault.passes])
def test_what_does_not_pass_is_not_waited_for(tmp_path: Path, fault: TurnFault) -> None:
    agent = Agent(tmp_path, Answer(fault=fault))
    assert agent.persist().fault is fault and agent.times == [0]


def test_it_is_interrupted(tmp_path: Path) -> None:
    agent = Agent(tmp_path, BUSY)
    agent.sleep = lambda seconds: agent.stop.set()  # type: ignore[method-assign]
    answer = agent.persist()
    assert answer.fault is TurnFault.STOPPED and answer.usage == BUSY.usage
    assert len(agent.asked) == 1 and agent.told[-1] is None


def test_real_time_is_interrupted_at_once(tmp_path: Path) -> None:
    stop = threading.Event()
    turn = Turn(TurnRole.EDIT, "go", tmp_path, next_directory(tmp_path, TurnRole.EDIT))
    assert waiting_out_limits(lambda _: BUSY, stop, lambda waiting: stop.set())(turn).fault is TurnFault.STOPPED


def test_what_is_waited_for_is_said_and_shown(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "turns", BUSY, FINE)
    place, said, shown = tmp_path / "waiting.json", list[str](), list[Waiting | None]()
    tell = notice_of_waiting(place, said.append)

    def listen(waiting: Waiting | None) -> None:
        tell(waiting)
        shown.append(read_waiting(place))

    agent.tell = listen
    agent.persist()
    first, last = shown
    assert first is not None and last is None
    assert (first.fault, first.role, first.until - first.since, first.tries) == (
        TurnFault.QUOTA,
        TurnRole.PROPOSE,
        30,
        1,
    )
    assert len(said) == 1 and "a usage limit" in said[0] and "try 2" in said[0] and "propose" in said[0]


def test_secrets_in_its_words_are_masked(tmp_path: Path) -> None:
    agent = Agent(
        tmp_path, Answer(fault=TurnFault.QUOTA, message="key sk-ant-api03-0123456789abcdefghij is over its limit"), FINE
    )
    agent.persist()
    waiting = agent.told[0]
    assert waiting is not None and "over its limit" in waiting.message and "0123456789" not in waiting.message


def test_a_damaged_file_is_nothing(tmp_path: Path) -> None:
    for text in ("", "{}", "[]", '{"role": "sing"}'):
        (tmp_path / "waiting.json").write_text(text)
        assert read_waiting(tmp_path / "waiting.json") is None
