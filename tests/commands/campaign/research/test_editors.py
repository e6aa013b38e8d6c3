"""Several edits at a time, by one agent or by two: side by side, and nothing of one in another."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.agents.homes import AgentHome
    from tests.agents.model_server import ModelServer
    from tests.agents.script import Asked, Step

pytestmark = pytest.mark.system

WORDS = ("Clip the gain", "Learn a bias", "Square its input", "Cut long tails")


def ideas(lab: Any, number: int) -> None:
    """So many code ideas of one answer, each of which sets another gain."""
    lab.propose(*(lab.idea(f"idea-{n}", title=WORDS[n], parent="baseline") for n in range(number)))


def test_three_edit_at_once_while_one_is_skipped(lab: Any) -> None:
    ideas(lab, 3)
    lab.act("edit", python="time.sleep(600)", **{"if": WORDS[2]})
    wait = "while not os.path.exists(os.environ['GO']): time.sleep(0.02)"
    for n in range(2):
        lab.act("edit", python=wait, replace={"knobs.py": ("GAIN = 1.0", f"GAIN = {n}.5")}, **{"if": WORDS[n]})
    lab.start(count=4, parallel=3, guard=["true"])
    camp = lab.camp
    camp.until(lambda: len(list(lab.place.joinpath("used").glob("[123]"))) == 3)
    assert camp.bench.ask("campaign", "skip", "idea-2", "--campaign", "one")["ok"]
    camp.until(lambda: [turn for turn in lab.journal("turn") if turn.get("fault") == "stopped"])
    assert camp.bench.ask("campaign", "set", "count=3")["ok"]
    camp.go.touch()
    state = camp.over()
    assert {idea.slug for idea in state.ideas} == {"baseline", "idea-0", "idea-1"}
    for n in range(2):
        idea = state.by_slug(f"idea-{n}")
        assert f"GAIN = {n}.5" in camp.bench.git("show", f"{idea.branch}:knobs.py"), "each has its own edit alone"
    assert not list(Path(state.spec.trees).glob("*")), "the worktrees of all editors are gone"
    camp.bench.until(lambda: not camp.bench.carriers())


def test_what_a_dead_controller_left_of_several_editors_is_removed(lab: Any) -> None:
    ideas(lab, 3)
    for n in range(3):
        lab.act("edit", python="time.sleep(600)", **{"if": WORDS[n]})
    lab.start(count=4, parallel=3)
    camp = lab.camp
    camp.until(lambda: len(list(lab.place.joinpath("used").glob("[123]"))) == 3)
    os.kill(json.loads(camp.place.controller.read_bytes())["pid"], signal.SIGKILL)
    camp.bench.until(lambda: not camp.place.controlled)
    assert len(list(Path(camp.state().spec.trees).glob("agent-a*.slot"))) == 3
    camp.bench.ask("campaign", "stop")
    camp.bench.ask("campaign", "resume", "--detach")
    state = camp.over()
    assert sorted(turn.get("fault") or "" for turn in lab.journal("turn")) == ["", "stopped", "stopped", "stopped"]
    assert not list(Path(state.spec.trees).glob("*"))
    camp.bench.until(lambda: not camp.bench.carriers())


@pytest.mark.real
def test_claude_and_codex_share_the_ideas_and_edit_at_once(
    lab: Any, agent_home: Callable[[str], AgentHome], model_server: ModelServer
) -> None:
    homes = {name: agent_home(name) for name in ("claude", "codex")}
    for one in homes.values():
        lab.camp.bench.env |= one.variables
    lab.camp.bench.env["PATH"] = os.environ["PATH"]

    def answer(asked: Asked) -> list[Step]:
        if "# Change the code" in asked.text:
            word = next(word for word in WORDS if f"- what: {word}" in asked.text)
            edit = {"path": "knobs.py", "old": "GAIN = 1.0", "new": f"GAIN = 1.{WORDS.index(word)}"}
            return [{"read": "knobs.py"}, {"edit": edit}, {"text": "done"}]
        titles = WORDS[2:] if WORDS[0] in asked.text else WORDS[:2]  # the first two are ideas of the campaign by then
        slugs = {title: f"idea-{WORDS.index(title)}" for title in titles}
        proposed = [lab.idea(slugs[one], title=one, parent="baseline") for one in titles]
        return [{"json": {"hypotheses": proposed, "findings": []}}]

    model_server.answer_with(answer)
    own = {
        "agent_program": {name: str(one.program) for name, one in homes.items()},
        "agent_model": {name: one.model for name, one in homes.items()},
    }
    keys = lab.keys(agent=["claude", "codex"], agent_command=None, sandbox=None, count=5, parallel=2, **own)
    lab.camp.start(**keys)
    state = lab.camp.over()
    seen = lab.camp.said()
    by = {idea.slug: [row.agent for row in idea.rows] for idea in state.ideas[1:]}
    assert by == {"idea-0": ["claude"], "idea-1": ["claude"], "idea-2": ["codex"], "idea-3": ["codex"]}, seen
    turns = {(turn["role"], turn["agent"]) for turn in lab.journal("turn")}
    edits = {
        name: [t["name"] for t in lab.journal("turn") if (t["role"], t["agent"]) == ("edit", name)] for name in homes
    }
    assert turns == {(role, name) for role in ("propose", "edit") for name in homes}, seen
    assert not [turn for turn in lab.journal("turn") if turn.get("fault")], seen
    starts = [json.loads((lab.camp.place.turns / n / "exit.json").read_bytes())["started"] for n in edits["claude"]]
    spans = [line["seconds"] for line in lab.journal("turn") if line["name"] in edits["claude"]]
    assert max(starts) < min(start + took for start, took in zip(starts, spans, strict=True)), "both edit at once"
