"""A campaign whose researcher is a small program that does what a list says: the whole cycle without a model."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

# One turn after the other, each by the first entry of `acts.json` for its role that was not used yet.
AGENT = """
import json, os, re, sys, time
role, place = sys.argv[1], os.path.dirname(os.path.abspath(__file__))
prompt = sys.stdin.read()
acts = json.load(open(os.path.join(place, "acts.json")))
task = re.sub(r"(?s)## What is known.*?(?=## What you may)", "", prompt)  # without what it is told of other ideas
used = os.environ["USED"] if "USED" in os.environ else os.path.join(place, "used")
mine = [n for n, act in enumerate(acts) if act["role"] == role and act.get("if", "") in task]
n = next((n for n in mine if not os.path.exists(os.path.join(used, str(n)))), mine[-1] if mine else None)
if n is None:
    sys.exit(f"nothing is written down for {role}")
act = acts[n]
if not act.get("always"):
    os.makedirs(used, exist_ok=True)
    open(os.path.join(used, str(n)), "w").write(prompt)
for path, text in act.get("files", {}).items():
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    open(path, "w").write(text)
for path, (old, new) in act.get("replace", {}).items():
    text = open(path).read()
    assert old in text, (path, old)
    open(path, "w").write(text.replace(old, new))
exec(act.get("python", ""))
print(json.dumps({"autoresearch": act.get("cost", {"usd": 0.01, "tokens_in": 100, "tokens_out": 20})}), file=sys.stderr)
print(json.dumps(act["json"]) if "json" in act else act.get("text", "done"))
sys.exit(act.get("exit", 0))
"""

# A trainer whose score is decided by code that a researcher may edit: knobs.py.
TRAINER = """
import os, sys
import knobs
lines = [line.partition(": ") for line in open(sys.argv[1]).read().splitlines()]
recipe = {key: value for key, sign, value in lines if sign}
seed, lr = int(recipe["data.seed"]), float(recipe["lr"])
for n in (1, 2, 3):
    print(f"step:{n} - actor/kl_loss:0.00{n} - actor/pg_loss:0.1 - critic/rewards/mean:0.{n}", flush=True)
score = knobs.score(lr) + 0.0001 * (seed % 3)
print(f"step:3 - global_steps:3 - pass_n:2 - task_pass_rate@1:{score:.5f} - mean_reward:{score:.5f}", flush=True)
"""
KNOBS = '''"""What the score is made of."""

GAIN = 1.0


def score(lr):
    return 0.3 + GAIN * lr
'''
TESTS = """
import knobs


def test_the_score_is_a_share():
    assert 0.0 <= knobs.score(0.1) <= 1.0
"""


def idea(slug: str, kind: str = "code", **more: Any) -> dict[str, Any]:
    """A hypothesis as an agent answers it."""
    given: dict[str, Any] = {
        "slug": slug,
        "title": f"Try {slug.replace('-', ' ')}",
        "rationale": f"The score grows with what {slug} changes in knobs.py, as the last runs show.",
        "expected": "task_pass_rate@1 up: 0.05",
        "kind": kind,
        "overrides": {},
        "files": ["knobs.py"] if kind == "code" else [],
        "risk": "none",
        "parent": "best",
    }
    return given | more


@dataclass
class Lab:
    """A camp with a researcher."""

    camp: Any
    place: Path  # of the agent
    acts: list[dict[str, Any]] = field(default_factory=list)

    idea = staticmethod(idea)

    def act(self, role: str, **what: Any) -> None:
        """What the agent does in its next turn of this role."""
        self.acts.append({"role": role, **what})
        (self.place / "acts.json").write_text(json.dumps(self.acts))

    def propose(self, *ideas: dict[str, Any], **what: Any) -> None:
        """The answer of its next turn for ideas."""
        self.act("propose", json={"hypotheses": list(ideas)}, **what)

    def asked(self, number: int) -> str:
        """The prompt of the turn that did what entry `number` says; "" as long as there was none."""
        path = self.place / "used" / str(number)
        return path.read_text() if path.exists() else ""

    def keys(self, **more: object) -> dict[str, object]:
        """A campaign file with this researcher."""
        command = [sys.executable, str(self.place / "agent.py"), "{role}"]
        usual: dict[str, object] = {
            "agent": "command",
            "agent_command": command,
            "proposer": "agent",
            "search": "chain",
            "sandbox": "off",
            "count": 3,
            "editors": more.get("parallel", 1),  # one idea after the other
            "baseline": 2,
            "retests": 0,
            "confirm": False,
        }
        return usual | more

    def run(self, *flags: object, **more: object) -> Any:
        """A campaign from its start to its end; its state."""
        return self.camp.run(*flags, **self.keys(**more))

    def start(self, *flags: object, **more: object) -> Any:
        """Begin it, with a controller of its own."""
        return self.camp.start(*flags, **self.keys(**more))

    def journal(self, do: str) -> list[dict[str, Any]]:
        """Lines of a kind."""
        from autoresearch.records.campaign_records import read

        return [line for line in read(self.camp.place).events if line["do"] == do]


@pytest.fixture
def lab(camp: Any) -> Iterator[Lab]:
    """A repository whose score a researcher can better, with a test that guards it."""
    repo = camp.bench.repo
    (repo / "train.py").write_text(textwrap.dedent(TRAINER))
    (repo / "knobs.py").write_text(KNOBS)
    (repo / "tests").mkdir()
    (repo / "tests" / "test_knobs.py").write_text(textwrap.dedent(TESTS))
    camp.bench.git("add", "-A")
    camp.bench.git("commit", "-qm", "a score that code decides")
    place = Path(camp.bench.env["HOME"]) / "agent"  # a sandbox shows it
    place.mkdir()
    (place / "agent.py").write_text(textwrap.dedent(AGENT))
    yield Lab(camp, place)
