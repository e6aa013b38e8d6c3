"""What agents really printed, and what is made of it: the contract of `Agent.read`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autoresearch.core.agents.agent import TurnFault, TurnRole


@dataclass(frozen=True)
class Case:
    """One recorded turn. `text`, `said`, `denied` are parts of what must be there; "" means that nothing may be."""

    agent: str
    name: str
    returncode: int | None = 0
    fault: TurnFault | None = None
    text: str = ""
    said: str = ""
    denied: str = ""
    tokens: tuple[int | None, int | None] | None = None  # in and out; None: not looked at
    usd: float | None = None
    role: TurnRole = TurnRole.EDIT
    ended: TurnFault | None = None  # what we ended it for

    @property
    def id(self) -> str:
        return f"{self.agent}-{self.name}"


ASKED = TurnRole.PROPOSE
DONE = "I doubled the learning rate."

CASES = [
    Case("claude", "hello", text="Hello there.", tokens=(10, 5), usd=0.000105, role=ASKED),
    Case("claude", "edit", text=DONE, tokens=(30, 15), usd=0.000315),
    Case("claude", "denied", text="done shell", denied="Bash git log", usd=0.00021),
    Case("claude", "e401", 1, TurnFault.LOGIN, said="Invalid API key", role=ASKED),
    Case("claude", "nologin", 1, TurnFault.LOGIN, said="Not logged in", role=ASKED),
    Case("claude", "e429", 1, TurnFault.QUOTA, said="rate limit", role=ASKED),
    Case("claude", "e500", 1, TurnFault.OUTAGE, said="529 Overloaded", role=ASKED),
    Case("claude", "noapi", 1, TurnFault.OUTAGE, said="ConnectionRefused", role=ASKED),
    Case("claude", "turns", 1, TurnFault.TURNS, said="turns (2)", tokens=(20, 10), usd=0.00021, role=ASKED),
    Case("claude", "money", 1, TurnFault.MONEY, said="budget", tokens=(30, 15), usd=0.000315),
    Case("claude", "empty", fault=TurnFault.SILENT, usd=0.00021),
    Case("codex", "hello", text="Hello there.", tokens=(10, 5), role=ASKED),
    Case("codex", "edit", text=DONE, tokens=(30, 15)),
    Case("codex", "denied", text="I changed it.", denied="outside of the project", tokens=(20, 10)),
    Case("codex", "denied_ro", text=DONE, denied="read-only sandbox", role=ASKED),
    Case("codex", "e401", 1, TurnFault.LOGIN, said="401 Unauthorized", role=ASKED),
    Case("codex", "nologin", 1, TurnFault.LOGIN, said="Missing environment variable", role=ASKED),
    Case("codex", "e429", 1, TurnFault.QUOTA, said="usage limit", role=ASKED),
    Case("codex", "e500", 1, TurnFault.OUTAGE, said="high demand", role=ASKED),
    Case("codex", "noapi", None, TurnFault.OUTAGE, said="waiting for network", role=ASKED, ended=TurnFault.TIMEOUT),
    Case("codex", "empty", fault=TurnFault.SILENT, tokens=(10, 5)),
    # the lines of our own client of ACP
    Case("opencode", "edit", text="It is 2.", tokens=(7884, 2)),
    Case("gemini", "edit", text="It is 2.", tokens=(36468, 34)),
    Case("qwen", "edit", text="It is 2.", tokens=(59371, 44)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_recorded(case: Case, make, ask, hear) -> None:
    answer = make(case.agent).read(ask(case.role), hear(case.agent, case.name, case.returncode, case.ended))
    assert answer.fault is case.fault, answer
    denied = " ".join(answer.denied)
    for wanted, found in ((case.text, answer.text), (case.said, answer.message), (case.denied, denied)):
        assert wanted in found if wanted else not found, answer
    assert case.tokens is None or (answer.usage.tokens_in, answer.usage.tokens_out) == case.tokens
    assert case.usd is None or answer.usage.usd == pytest.approx(case.usd)
    assert answer.usage.seconds == 2.5
    assert "\n" not in answer.message and len(answer.message) <= 300


def test_every_recorded_file_is_a_case() -> None:
    found = {f"{path.parent.name}-{path.stem}" for path in (Path(__file__).parent / "recorded").rglob("*.out")}
    assert found == {case.id for case in CASES}


def test_a_turn_that_we_ended_is_charged_from_its_stream(make, ask, hear) -> None:
    """After two of its requests; a message whose parts come one by one tells the usage of the whole with each."""
    whole = hear("claude", "edit", None, TurnFault.TIMEOUT)
    lines = whole.out.splitlines(keepends=True)
    second = [at for at, line in enumerate(lines) if b'"type": "assistant"' in line][1]
    answer = make("claude").read(
        ask(TurnRole.EDIT), replace(whole, out=b"".join([*lines[: second + 1], lines[second]]))
    )
    assert answer.fault is TurnFault.TIMEOUT
    assert (answer.usage.tokens_in, answer.usage.tokens_out) == (20, 10)
