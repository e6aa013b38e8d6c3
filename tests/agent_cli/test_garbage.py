"""Whatever an agent prints, `read` answers: recorded streams cut, mixed and spoilt by a seeded die, and floods."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from autoresearch.core.agents.agent import Answer, Spoken, TurnFault, TurnRole

RECORDED = sorted((Path(__file__).parent / "recorded").rglob("*.*"))
ODD = (None, True, -1, 1e400, 10**30, "\ud800", "429", [], [[{}]], {}, {"message": 5}, "x" * 5000, 529, "Not logged in")
ROUNDS = 30
NAMES = ("claude", "codex", "acp", "command")


def spoilt(die: random.Random, value: object) -> object:
    """The same JSON with some values replaced by others that nobody expects."""
    if die.random() < 0.08:
        return die.choice(ODD)
    if isinstance(value, dict):
        return {key: spoilt(die, inner) for key, inner in value.items() if die.random() > 0.05}
    return [spoilt(die, inner) for inner in value] if isinstance(value, list) else value


def stream(die: random.Random) -> bytes:
    """Lines of some recorded streams: spoilt, halved, shuffled, with noise between them."""
    lines = [line for path in die.choices(RECORDED, k=3) for line in path.read_bytes().splitlines()]
    die.shuffle(lines) if die.random() < 0.3 else None
    made = []
    for line in lines:
        what = die.random()
        if what < 0.5 and line.startswith(b"{"):
            line = json.dumps(spoilt(die, json.loads(line))).encode()
        elif what < 0.6:
            line = line[: die.randrange(len(line) + 1)]
        elif what < 0.7:
            line = die.randbytes(die.randrange(200))
        made.append(line)
    return b"\n".join(made)


def seems_right(answer: Answer) -> None:
    assert isinstance(answer, Answer) and answer.fault in {None, *TurnFault}
    text = json.dumps([answer.text, answer.message, answer.denied])
    assert len(text) < 13 << 20
    for part in (answer.text, answer.message, *answer.denied):
        part.encode()  # it can be written down
    assert "\n" not in answer.message and len(answer.message) <= 300
    for each in (answer.usage.usd, answer.usage.tokens_in, answer.usage.tokens_out):
        assert each is None or each >= 0


@pytest.mark.parametrize("name", NAMES)
def test_spoilt_streams(name: str, make, ask) -> None:
    die = random.Random(f"garbage of {name}")
    agent = make(name)
    for _ in range(ROUNDS):
        turn = ask(die.choice(list(TurnRole)))
        fault = die.choice([None, None, TurnFault.TIMEOUT, TurnFault.FLOOD])
        code = None if fault else die.choice([0, 0, 1, 41, 53, 75, 77, 145, -9])
        seems_right(agent.read(turn, Spoken(stream(die), stream(die), code, "", fault, 1.0)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("unit", [b"{", b'{"type":"result"}\n', b"\x00\xff\n"])
def test_floods(name: str, unit: bytes, make, ask) -> None:
    flood = unit * ((17 << 20) // len(unit))
    seems_right(make(name).read(ask(TurnRole.EDIT), Spoken(flood, flood[: 1 << 20], 0)))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_at_all(name: str, make, ask) -> None:
    agent = make(name)
    assert agent.read(ask(TurnRole.EDIT), Spoken(b"", b"", 0)).fault is TurnFault.SILENT
    assert agent.read(ask(TurnRole.EDIT), Spoken(b"", b"", 1)).fault is TurnFault.ENDED
    assert agent.read(ask(TurnRole.EDIT), Spoken(b"", b"", -9)).fault is TurnFault.ENDED
    assert agent.read(ask(TurnRole.EDIT), Spoken(b"", b"", None, "", TurnFault.TIMEOUT)).fault is TurnFault.TIMEOUT
