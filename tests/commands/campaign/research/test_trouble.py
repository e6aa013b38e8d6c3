"""A researcher that is not there, not logged in, out of quota, speechless, killed, or too expensive."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

WORDS = ["Clip the gain", "Learn a bias", "Square its input", "Cut long tails", "Anneal warmth", "Mix tasks evenly"]
BETTER = {"knobs.py": ("GAIN = 1.0", "GAIN = 2.0")}


def quick(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """A clock on which a minute passes in half a second."""
    from autoresearch.lab.research import patience

    monkeypatch.setattr(patience, "LOOK_S", 0.05)
    start, real = time.time(), time.monotonic()
    return lambda: start + 120 * (time.monotonic() - real)


def test_an_agent_that_is_not_installed_begins_nothing(lab: Any) -> None:
    for keys, code, word in (
        ({"agent": "claude", "agent_program": "/nowhere/claude", "agent_command": None}, 6, "agent_not_installed"),
        ({"agent": "cloude", "agent_command": None}, 2, "unknown_agent"),
        ({"agent": None, "agent_command": None}, 2, "no_agent"),
        ({"agent_command": ["x", "{nonsense}"]}, 2, "bad_template"),
        ({"agent": "codex", "agent_program": "true", "agent_command": None, "budget_usd": 3}, 2, "no_costs"),
    ):
        path = lab.camp.file(**lab.keys(**keys))
        found = lab.camp.bench.ask("campaign", path, "--yes", "--detach", check=code)
        assert found["error"]["code"] == word, found
    assert not lab.camp.bench.git("branch", "--list", "autoresearch/*")


def test_a_usage_limit_is_waited_out(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.propose(lab.idea("first"), exit=75)
    lab.propose(lab.idea("first"), exit=75)
    lab.propose(lab.idea("first"))
    lab.act("edit", replace=BETTER)
    view = lab.camp.run(clock=quick(monkeypatch), **lab.keys(count=2))
    assert view.by_slug("first").status == "keep"
    turns = lab.journal("turn")
    assert [turn.get("fault") for turn in turns] == ["quota", "quota", None, None]
    assert "waits for the end of a usage limit" in lab.camp.said()
    assert not lab.camp.place.waiting.exists() and view.research.usage.tokens == 480


def test_who_is_not_logged_in_pauses_the_campaign(lab: Any) -> None:
    lab.act("propose", text="please log in", exit=77)
    lab.propose(lab.idea("first"))
    lab.act("edit", replace=BETTER)
    lab.start(count=2)
    view = lab.camp.state("paused")
    assert "command cannot be asked" in view.reason
    assert lab.camp.bench.ask("campaign", "resume", "--detach")["ok"]
    assert lab.camp.over().by_slug("first").status == "keep"


def test_prose_is_asked_again_twice_and_then_a_failed_turn(lab: Any) -> None:
    lab.act("propose", text="I think the learning rate is too high, you should lower it.", always=True)
    lab.start(count=2)
    view = lab.camp.state("paused")
    assert "had no idea 3 times in a row" in view.reason
    assert len(lab.journal("turn")) == 9, "each was asked again twice"
    assert view.attempted == 1


def test_budgets_end_it(lab: Any) -> None:
    for number in range(6):
        lab.propose(lab.idea(f"idea-{number}", title=WORDS[number]))
        lab.act("edit", replace={"knobs.py": ("0.3", f"0.3{number}1")})
    view = lab.run(count=6, budget_tokens=400)
    assert view.research.usage.tokens == 480 and view.attempted == 2
    assert "480 of 400 tokens are spent" in view.reason
    assert lab.camp.bench.ask("campaign", "set", "--budget-tokens", "500")["ok"], "more of it, and it goes on"
    view = lab.camp.over()
    assert view.attempted == 3 and " of 500 tokens are spent" in view.reason


def test_numbers_from_the_optimiser_and_ideas_from_the_agent(lab: Any) -> None:
    for number in range(5):
        lab.propose(lab.idea(f"code-{number}", title=WORDS[number]))
        lab.act("edit", replace={"knobs.py": ("0.3", f"0.3{number}2")})
    space = {"lr": {"low": 0.01, "high": 0.2, "log": True}}
    view = lab.run(count=7, proposer="hybrid", agent_share=0.5, space=space)
    by = [idea.hypothesis.proposer for idea in view.ideas[1:]]
    assert len(by) == 6 and {"agent", "tpe"} == set(by), "whoever has an idea ready gives it: no GPU waits for a turn"
    assert "config" not in lab.asked(0).split("# Now")[-1], "numbers are the optimiser's"


def test_a_controller_that_is_killed_in_a_turn_leaves_nothing_and_goes_on(lab: Any) -> None:
    lab.propose(lab.idea("first"))
    stay = "import subprocess; subprocess.Popen(['sleep', '300'], start_new_session=True); time.sleep(300)"
    lab.act("edit", python=stay)
    lab.act("edit", replace=BETTER)
    lab.start(count=2)
    place = lab.camp.place

    def working() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter(["cmdline"]):
            if process.info["cmdline"] == ["sleep", "300"] and carries(process, str(lab.camp.bench.root)):
                found.append(process)
        return found

    lab.camp.until(working)
    import json

    pid = json.loads(place.controller.read_bytes())["pid"]
    os.kill(pid, signal.SIGKILL)
    lab.camp.bench.until(lambda: not place.controlled)
    assert lab.camp.bench.ask("campaign", "resume", "--detach")["ok"]
    view = lab.camp.over()
    assert view.by_slug("first").status == "keep" and view.attempted == 2
    assert not working(), "what the first turn started is gone"
    faults = [turn.get("fault") for turn in lab.journal("turn")]
    assert faults == [None, "lost", None], "the turn that was lost is written down"


def carries(process: psutil.Process, root: str) -> bool:
    """Whether a process is of this test."""
    try:
        return any(root in value for value in itertools.chain([process.cwd()], process.environ().values()))
    except psutil.Error:
        return False
