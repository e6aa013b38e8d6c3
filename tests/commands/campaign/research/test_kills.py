"""A controller that is killed again and again while its researcher works: nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.json_record import as_recorded
from autoresearch.records import campaign_records
from tests.processes import is_dead

pytestmark = pytest.mark.system

BOTH, ONE = ("typo", "spoilt"), ("typo",)
QUICK = ("turn.begun", "research.asked", "research.guarding", "research.written", "campaign.unmade")
QUICK_FIX = ("turn.begun:3", "research.asked", "research.mended")  # the third turn is the fix
OTHERS = (
    *("enclosure.switched", "enclosure.opened", "research.turned", "research.gathered"),
    *("research.patched", "research.guarded", "campaign.drafted", "campaign.claimed", "campaign.conceived"),
)
OTHERS_FIX = (
    *("enclosure.opened:3", "turn.begun", "research.turned", "research.gathered"),
    *("research.patched", "research.guarding", "research.guarded", "research.written"),
)


class Killed:
    """A campaign of two ideas by a researcher, one of which crashes at first, under controllers that are killed."""

    def __init__(self, lab: Any) -> None:
        self.lab, self.bench, self.camp = lab, lab.camp.bench, lab.camp
        lab.propose(lab.idea("typo"), lab.idea("spoilt", title="Spoil the tests"), always=True)
        lab.act("edit", replace={"knobs.py": ("return 0.3", "return nought.3")}, always=True, **{"if": "Try typo"})
        lab.act("edit", files={"tests/test_knobs.py": ""}, always=True, **{"if": "Spoil the tests"})
        lab.act("fix", replace={"knobs.py": ("return nought.3", "return 0.5")}, text="a number", always=True)

    def at(self, points: tuple[str, ...], slugs: tuple[str, ...] = BOTH, *, editors: int = 1) -> Any:
        """Its state at the end, after a death at each point (`name:n`: its n-th passing)."""
        for number, point in enumerate(points):
            name, _, passing = point.partition(":")
            self.bench.env["AUTORESEARCH_FAILPOINT"] = f"{name}:kill:{passing or 1}"
            if number:
                self.bench.ask("campaign", "resume", "--detach")
            else:
                keys = {"guard": ["true"], "editors": editors, "parallel": editors}
                self.lab.start(count=1 + len(slugs), max_fixes=1, **keys)
            self.bench.until(lambda: not self.camp.place.controlled)
            assert self.camp.state().phase != "ended", f"{point} was never reached"
        del self.bench.env["AUTORESEARCH_FAILPOINT"]
        self.bench.ask("campaign", "resume", "--detach")
        state = self.camp.over()
        self.sound(state, slugs)
        return state

    def sound(self, state: Any, slugs: tuple[str, ...]) -> None:
        """What holds however often it was killed."""
        assert {idea.slug for idea in state.ideas} == {"baseline", *slugs} and state.attempted == 1 + len(slugs)
        typo = state.by_slug("typo")
        assert [(row.status, row.failure) for row in typo.rows] == [("crash", "program"), ("keep", "")]
        if "spoilt" in slugs:
            rows = state.by_slug("spoilt").rows
            assert [(row.status, row.failure) for row in rows] == [("crash", "protected_path")]
        assert state.research.fixes == {typo.index: 1}, "one try, however often it was begun"
        assert not state.research.fixing
        names = [line["name"] for line in self.lab.journal("turn")]
        turns = [path.name for path in self.camp.place.turns.iterdir() if (path / "exit.json").exists()]
        assert len(names) == len(set(names)) and set(names) == set(turns), "each turn is written down once"
        found = self.bench.git("for-each-ref", "--format=%(refname:short)", "refs/heads/autoresearch/").split()
        assert set(found) == {idea.branch for idea in state.ideas} and len(found) == 1 + len(slugs), (
            "a branch was claimed twice"
        )
        assert "return 0.5" in self.bench.git("show", f"{typo.branch}:knobs.py")
        assert len(self.bench.git("worktree", "list").splitlines()) == 1
        assert not list(Path(state.spec.trees).glob("*"))
        self.bench.until(lambda: not self.bench.carriers())


@pytest.fixture
def killed(lab: Any) -> Killed:
    return Killed(lab)


def test_kill_9_while_it_is_asked_and_edits(killed: Killed) -> None:
    killed.at(QUICK)


def test_kill_9_while_two_edit(killed: Killed) -> None:
    killed.at(("research.turned:2", "research.written:2", "research.guarding"), editors=2)


def test_kill_9_while_it_mends(killed: Killed) -> None:
    killed.at(QUICK_FIX, ONE)


@pytest.mark.real
@pytest.mark.parametrize("points", [OTHERS, OTHERS_FIX], ids=["edited", "mended"])
def test_kill_9_wherever_else_it_works(killed: Killed, points: tuple[str, ...]) -> None:
    killed.at(points, ONE if points is OTHERS_FIX else BOTH)


def test_a_guard_that_a_dead_controller_left_is_ended_by_the_next(lab: Any) -> None:
    lab.propose(lab.idea("first"))
    lab.act("edit", replace={"knobs.py": ("GAIN = 1.0", "GAIN = 2.0")})
    bench, camp = lab.camp.bench, lab.camp
    mark = bench.root / "guards"
    lab.start(count=2, guard=[f"echo $$ >> {mark}; exec sleep 300"])
    camp.until(mark.exists)
    pid = int(bench.until(mark.read_text).split()[0])
    os.kill(json.loads(camp.place.controller.read_bytes())["pid"], signal.SIGKILL)
    bench.until(lambda: not camp.place.controlled)
    bench.ask("campaign", "stop")
    bench.ask("campaign", "resume", "--detach")
    camp.over()
    assert is_dead(pid)


def test_a_campaign_whose_agent_cannot_be_asked_any_more_pauses_and_can_be_stopped(lab: Any) -> None:
    """Its command is one of before, with a place that nobody fills in any more."""
    lab.propose(lab.idea("first"), always=True)
    lab.camp.bench.env["AUTORESEARCH_FAILPOINT"] = "turn.begun:kill"
    lab.start(count=2)
    lab.camp.bench.until(lambda: not lab.camp.place.controlled)
    del lab.camp.bench.env["AUTORESEARCH_FAILPOINT"]
    research = lab.camp.state().spec.research
    terms = {"research": as_recorded(replace(research, template=(*research.template, "{session}")))}
    campaign_records.append(lab.camp.place, "rules", terms=terms)
    lab.camp.bench.ask("campaign", "resume", "--detach")
    lab.camp.phase("paused")
    assert "the agent command cannot be asked: `agent_command` knows no {session}" in lab.camp.state().reason
    lab.camp.bench.ask("campaign", "stop")
    assert lab.camp.over().attempted <= 1
