"""TPE with the real Optuna: it learns, it never repeats itself, and its journal follows the attempts."""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.overrides import changed, fingerprint
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.space import Space
from autoresearch.core.campaign.space_file import read_space
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.errors import EnvironmentUnusable
from autoresearch.proposers.tpe import JOURNAL, Tpe

UP = Objective("pass@1")
BASE = {"lr": 1e-3, "g": 8, "agg": "token", "steps": 80, "t": 1.0}
SPACE = read_space(
    {
        "lr": {"low": 1e-4, "high": 1e-1, "log": True},
        "g": [16, 4, 8],
        "agg": ["token", "seq"],
        "steps": {"value": 80},
        "t": {"low": 0.5, "high": 1.5, "step": 0.25},
    }
)


def score(recipe: dict[str, Any]) -> float:
    return -((math.log10(recipe["lr"]) + 2) ** 2) - (recipe["g"] - 16) ** 2 / 144 - abs(recipe["t"] - 1.25)


@pytest.fixture
def tpe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Tpe]:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a killed process loses nothing that was written

    def make(space: Space = SPACE, objective: Objective = UP, **more: Any) -> Tpe:
        return Tpe(space, objective, tmp_path, **{"baseline": BASE, **more})

    return make


def trials(tmp_path: Path) -> list[Any]:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = JournalStorage(JournalFileBackend(str(tmp_path / JOURNAL)))
    name = optuna.get_all_study_names(storage)[-1]
    return optuna.load_study(study_name=name, storage=storage).get_trials()


def states(tmp_path: Path) -> list[str]:
    return [t.state.name for t in trials(tmp_path)]


def test_an_idea_says_every_key_in_tidy_numbers(tpe: Any, campaign: Any) -> None:
    for idea in campaign(score, BASE).run(tpe(), 12):
        assert list(idea.overrides) == ["lr", "g", "agg", "steps", "t"]
        assert SPACE.point_in(idea.overrides) == idea.overrides
        assert idea.overrides["lr"] == float(f"{idea.overrides['lr']:.3g}")
        assert isinstance(idea.overrides["g"], int)
        assert (idea.parent, idea.proposer) == (BASELINE, "tpe")
        json.dumps(idea.to_json())


@pytest.mark.parametrize("direction", list(Direction))
def test_it_learns_in_either_direction(tpe: Any, campaign: Any, direction: Direction) -> None:
    sign = 1 if direction is Direction.MAXIMIZE else -1
    running = campaign(lambda recipe: sign * score(recipe), BASE)
    ideas = running.run(tpe(objective=Objective("x", direction), seed=1), 40)
    late = [score(dict(idea.overrides)) for idea in ideas[-15:]]
    early = [score(dict(idea.overrides)) for idea in ideas[:5]]
    assert sum(late) / len(late) > sum(early) / len(early) + 0.3


def test_the_baseline_is_the_first_that_it_learns(tpe: Any, campaign: Any, tmp_path: Path) -> None:
    campaign(score, BASE).run(tpe(), 2)
    first = trials(tmp_path)[0]
    assert first.value == score(BASE)
    assert first.params["lr"] == 1e-3
    assert states(tmp_path) == ["COMPLETE"] * 3


def test_a_baseline_outside_the_space_is_not_learnt_from(tpe: Any, campaign: Any, tmp_path: Path) -> None:
    far = {**BASE, "lr": 1.0}
    campaign(score, far).run(tpe(baseline=far), 2)
    assert len(trials(tmp_path)) == 2


def test_the_ideas_of_others_are_learnt_from_once(tpe: Any, campaign: Any, tmp_path: Path) -> None:
    running, mine = campaign(score, BASE), {"parent": BASELINE, "proposer": "queue"}
    whole = {"lr": 0.02, "g": 4, "agg": "seq", "steps": 80, "t": 0.5}
    for number, idea in enumerate(
        (
            Hypothesis("part", "", overrides={"lr": "1e-2"}, **mine),
            Hypothesis("on-part", "", overrides={"g": 16}, proposer="queue", parent="part"),
            Hypothesis("on-best", "", overrides=whole, proposer="queue"),
            Hypothesis("unclear", "", overrides={"lr": 0.03}, proposer="queue"),  # on top of which best?
            Hypothesis("code", "", overrides={"lr": 0.04}, files={"a": "b"}, **mine),
            Hypothesis("smoke", "", overrides={"lr": 0.05}, smoke=True, **mine),
            Hypothesis("outside", "", overrides={"lr": 1.0}, **mine),
        ),
        2,
    ):
        running.attempts.append(Attempt(number, idea, "keep", number / 10, 1))
    for _ in range(3):
        running.step(tpe())
    learnt = [t.user_attrs["slug"] for t in trials(tmp_path) if t.user_attrs]
    assert learnt == [BASELINE, "part", "on-part", "on-best"]
    assert [t.params["lr"] for t in trials(tmp_path)[1:4]] == [0.01, 0.01, 0.02]
    assert [t.params["g"] for t in trials(tmp_path)[1:4]] == [1, 2, 0], "the rank among 4, 8, 16"


def test_what_it_is_told(tpe: Any, campaign: Any, tmp_path: Path) -> None:
    running, proposer = campaign(None, BASE), tpe(parallel=7)
    ideas = running.run(proposer, 7)
    assert states(tmp_path) == ["RUNNING"] * 7
    for place, (status, value) in enumerate(
        [("keep", 0.5), ("discard", 0.25), ("crash", None), ("skipped", None), ("discard", math.nan), ("pruned", None)],
        1,
    ):
        attempt = Attempt(place + 1, ideas[place - 1], status, value, 1)
        proposer.tell(attempt)
        proposer.tell(replace(attempt, value=99.0))
    expected = ["COMPLETE", "COMPLETE", "PRUNED", "FAIL", "PRUNED", "PRUNED", "RUNNING"]
    assert states(tmp_path) == expected
    assert [t.value for t in trials(tmp_path)[:2]] == [0.5, 0.25]


def test_it_turns_away_from_where_runs_crash(tpe: Any, campaign: Any) -> None:
    def breaks(recipe: dict[str, Any]) -> float | None:
        return None if recipe["lr"] > 3e-3 else 0.5

    space = read_space({"lr": {"low": 1e-4, "high": 1e-1, "log": True}})
    late = []
    for seed in range(4):
        ideas = campaign(breaks, BASE).run(tpe(space, seed=seed), 24)
        late += [idea.overrides["lr"] > 3e-3 for idea in ideas[12:]]
        for path in Path(tpe(space)._journal).parent.iterdir():
            path.unlink()
    assert sum(late) / len(late) < 0.35, "half of the space breaks"


def test_what_survives_in_a_narrow_window_counts_as_good(tpe: Any, campaign: Any, tmp_path: Path) -> None:
    def narrow(recipe: dict[str, Any]) -> float | None:
        return 0.5 if 5e-4 < recipe["lr"] < 2e-3 else None

    space, late = read_space({"lr": {"low": 1e-4, "high": 1e-1, "log": True}}), list[bool]()
    for seed in range(8):
        ideas = campaign(narrow, BASE).run(tpe(space, seed=seed), 24)
        late += [narrow(dict(idea.overrides)) is None for idea in ideas[12:]]
        (tmp_path / JOURNAL).unlink()
    assert sum(late) / len(late) < 0.45, "0.3 so, 0.6 where only a share of the survivors counts as good"


def test_several_at_once_differ(tpe: Any, campaign: Any) -> None:
    ideas = campaign(None, BASE).run(tpe(parallel=8), 16)
    assert len({fingerprint(idea.overrides) for idea in ideas}) == 16


@pytest.mark.parametrize("seed", range(3))
def test_a_small_space_is_tried_to_its_end_and_then_it_is_dry(tpe: Any, campaign: Any, seed: int) -> None:
    space = read_space({"g": [4, 8, 16], "agg": ["token", "seq"], "t": [1.0, 2.0]})
    running = campaign(lambda recipe: float(recipe["g"]), BASE)
    ideas = running.run(tpe(space, seed=seed), 50)
    assert len(ideas) == 11, "all twelve but the baseline's own"
    assert len({fingerprint(idea.overrides, BASE) for idea in ideas}) == 11
    assert tpe(space, seed=seed).ask(running.attempts) is None


def test_a_restart_before_every_ask_changes_nothing(tpe: Any, campaign: Any, tmp_path: Path) -> None:
    whole, torn = campaign(score, BASE), campaign(score, BASE)
    whole.run(tpe(seed=5), 12)
    (tmp_path / JOURNAL).rename(tmp_path / "elsewhere")
    for _ in range(12):
        torn.step(tpe(seed=5))
    assert [i.overrides for i in torn.ideas] == [i.overrides for i in whole.ideas]
    assert [i.token for i in torn.ideas] == [i.token for i in whole.ideas]


def test_what_was_lost_in_a_crash_is_told_fail(tpe: Any, campaign: Any, tmp_path: Path) -> None:
    running = campaign(score, BASE)
    running.run(tpe(), 3)
    lost = tpe().ask(running.attempts)
    assert lost is not None
    running.run(tpe(), 2)
    assert states(tmp_path) == [*["COMPLETE"] * 4, "FAIL", "COMPLETE", "COMPLETE"]


def test_a_token_of_an_earlier_journal_is_not_mistaken(tpe: Any, campaign: Any, tmp_path: Path) -> None:
    running, proposer = campaign(None, BASE), tpe(parallel=2)
    idea = running.step(proposer)
    other = replace(idea, slug="other", overrides={**idea.overrides, "lr": 0.0123})
    proposer.tell(Attempt(9, other, "keep", 0.9, 1))
    assert states(tmp_path) == ["RUNNING"]


def test_ideas_that_run_push_the_next_ones_away(tpe: Any, campaign: Any, tmp_path: Path) -> None:
    space = read_space({"lr": {"low": 1e-4, "high": 1e-1, "log": True}})

    def spread(parallel: int) -> float:
        running = campaign(lambda recipe: -abs(math.log10(recipe["lr"]) + 2), BASE)
        running.run(tpe(space, parallel=parallel), 14)
        running.score, proposer = None, tpe(space, parallel=parallel)
        places = [math.log10(idea.overrides["lr"]) for idea in running.run(proposer, 8)[-8:]]
        (tmp_path / JOURNAL).unlink()
        return statistics.pstdev(places)

    assert spread(8) > 1.2 * spread(1)


def test_what_was_measured_but_never_told_is_told(tpe: Any, campaign: Any, tmp_path: Path) -> None:
    running = campaign(None, BASE)
    running.run(tpe(), 2)
    running.attempts[1] = replace(running.attempts[1], status="keep", value=0.75)
    tpe().ask(running.attempts)
    assert states(tmp_path) == ["COMPLETE", "RUNNING", "RUNNING"], "the second still runs, the third was asked for"
    assert trials(tmp_path)[0].value == 0.75


@pytest.mark.parametrize("harm", ["removed", "torn", "garbled", "emptied"])
def test_a_damaged_journal_is_made_anew_from_the_attempts(tpe: Any, campaign: Any, tmp_path: Path, harm: str) -> None:
    running, path = campaign(score, BASE), tmp_path / JOURNAL
    running.run(tpe(), 6)
    data = path.read_bytes()
    if harm == "removed":
        path.unlink()
    elif harm == "torn":
        path.write_bytes(data[:-20])
    elif harm == "garbled":
        path.write_bytes(data[:900] + b"\x00\n{" + data[900:])
    else:
        path.write_bytes(b"")
    ideas = running.run(tpe(), 6)
    assert len({fingerprint(i.overrides, BASE) for i in ideas}) == 12
    values = sorted(t.value for t in trials(tmp_path) if t.value is not None)
    assert values == pytest.approx(sorted(a.value for a in running.attempts)), "each is known once"
    assert len(list(tmp_path.glob(f"{JOURNAL}.damaged-*"))) == (harm in ("torn", "garbled"))


def test_another_space_is_another_study(tpe: Any, campaign: Any, tmp_path: Path) -> None:
    running = campaign(score, BASE)
    running.run(tpe(), 4)
    narrow = read_space({"lr": {"low": 1e-4, "high": 1e-1, "log": True}, "g": [8, 16, 4]})
    same = {"lr": 0.02, "g": 4, "agg": "token", "steps": 80, "t": 1.0}
    idea = Hypothesis("inside", "", parent=BASELINE, overrides=same, proposer="tpe", token="77")
    running.attempts.append(Attempt(6, idea, "keep", 0.5, 1))
    running.run(tpe(narrow), 3)
    learnt = {t.user_attrs["slug"] for t in trials(tmp_path) if t.user_attrs}
    inside = {i.slug for i in running.ideas[:5] if not changed(i.overrides, BASE).keys() & {"agg", "t"}}
    assert learnt == {BASELINE, *inside}, "only what differs in the keys of the space"
    assert "inside" in learnt


def test_without_optuna_it_says_what_to_install(tpe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentUnusable) as caught:
        tpe()
    assert caught.value.fix == f"{sys.executable} -m pip install 'optuna>=4'"
    assert caught.value.code == "no_optuna"


@pytest.mark.system
def test_nothing_is_written_or_imported_before_the_first_ask(program: Any, tmp_path: Path) -> None:
    text = (
        "import sys; from pathlib import Path; from autoresearch.proposers.registry import *\n"
        "from autoresearch.core.campaign.space_file import read_space\n"
        "given = ProposerInputs(Path('.'), Objective('x'), None, space=read_space({'a': [1, 2]}))\n"
        "proposer('tpe', given); print('optuna' in sys.modules, *Path('.').iterdir())"
    )
    assert program(text).communicate()[0].split() == ["False"]


def test_optuna_is_quiet(tpe: Any, campaign: Any, capfd: pytest.CaptureFixture[str]) -> None:
    campaign(score, BASE).run(tpe(), 2)
    logging.getLogger("optuna").info("not shown")
    assert capfd.readouterr() == ("", "")


LIFE = """
import json, sys
from pathlib import Path
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.space_file import read_space
from autoresearch.proposers.tpe import Tpe

base, journal = {"lr": 1e-3, "g": 8}, Path("attempts")
space = read_space({"lr": {"low": 1e-4, "high": 1e-1, "log": True}, "g": [4, 8, 16]})
found = {}
for line in journal.read_text().splitlines() if journal.exists() else ():
    index, idea, status, value = json.loads(line)
    found[index] = Attempt(index, Hypothesis.from_json(idea), status, value)
proposer, out = Tpe(space, Objective("x"), Path("."), baseline=base, parallel=2), journal.open("a")

def say(word):
    print(word, flush=True)
    sys.stdin.readline()  # go on: not far ahead of who kills us

def write(attempt):
    found[attempt.index] = attempt
    out.write(json.dumps([attempt.index, attempt.hypothesis.to_json(), attempt.status, attempt.value]) + chr(10))
    out.flush()

def settle():
    for attempt in [a for a in found.values() if not a.settled]:
        write(Attempt(attempt.index, attempt.hypothesis, "keep", attempt.hypothesis.overrides["lr"]))
        say("settled")
        proposer.tell(found[attempt.index])

while len(found) < 24:
    idea = proposer.ask(list(found.values()))
    say("asked")
    write(Attempt(len(found) + 1, idea))
    if len(found) % 2 == 0:
        settle()
settle()
print("done", flush=True)
"""


@pytest.mark.system
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_moments(program: Any, tmp_path: Path, seed: int) -> None:
    chance, killed, said = random.Random(seed), 0, ""
    while said != "done":
        process, lines = program(LIFE), chance.randrange(1, 9)
        while said := process.stdout.readline().strip():
            lines -= 1
            if said == "done":
                break
            process.stdin.write("go on\n")
            process.stdin.flush()
            if lines == 0 and killed < 4:
                time.sleep(chance.random() * 0.01)
                process.kill()
                killed += 1
                break
        process.wait()
    assert killed == 4
    rows = [json.loads(line) for line in (tmp_path / "attempts").read_text().splitlines()]
    ideas = {index: idea for index, idea, *_ in rows}
    assert len(ideas) == 24
    assert len({fingerprint(idea["overrides"]) for idea in ideas.values()}) == 24
    assert len({idea["token"] for idea in ideas.values()}) == 24
    finished = {str(t.number): t.value for t in trials(tmp_path) if t.state.name == "COMPLETE"}
    assert finished == {idea["token"]: idea["overrides"]["lr"] for idea in ideas.values()}
    assert set(states(tmp_path)) <= {"COMPLETE", "FAIL"}
