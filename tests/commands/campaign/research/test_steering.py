"""Words to the agent while it works, and ideas that are skipped: they change neither objective nor rules."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

pytestmark = pytest.mark.system

BETTER = {"knobs.py": ("GAIN = 1.0", "GAIN = 2.0")}


def test_what_people_say_reaches_its_next_turn(lab: Any) -> None:
    ask = lab.camp.bench.ask
    wait = "while not os.path.exists(os.environ['GO']): time.sleep(0.02)"
    lab.propose(lab.idea("first"), lab.idea("unwanted"), python=wait)
    lab.act("edit", replace=BETTER, python=wait.replace("['GO']", "['GO'] + '-edit'"))
    lab.propose(lab.idea("unwanted", title="The same again"), lab.idea("last", title="Think longer"))
    lab.act("edit", replace={"knobs.py": ("0.3", "0.31")})
    lab.start(count=3, editors=1, tell=["mind the reward"])
    lab.camp.until(lambda: lab.place.joinpath("used", "0").exists())
    before = lab.camp.state().spec
    assert "mind the reward" in lab.asked(0)
    code, _, err = lab.camp.bench.here("campaign", "approve", "nobody")
    assert code == 4 and "waiting: none" in err
    code, _, err = lab.camp.bench.here("campaign", "skip", "change of the tokenizer")
    assert code == 4 and "tells the agent what not to propose" in err
    assert ask("note", "last-campaign", "look at the format term")["ok"]
    lab.camp.go.touch()
    lab.camp.until(lambda: "unwanted" in ask("campaign", "status")["proposals"])
    assert ask("campaign", "skip", "unwanted", "--campaign", "one", "--reason", "had it in May")["ok"]
    lab.camp.go.with_name(f"{lab.camp.go.name}-edit").touch()
    state = lab.camp.over()
    assert [idea.slug for idea in state.ideas] == ["baseline", "first", "last"]
    assert [(one.slug, why) for one, why in state.research.refused] == [("unwanted", "a person skipped it")]
    assert "look at the format term" in lab.asked(2) and "- not wanted: unwanted" in lab.asked(2)
    assert (state.spec.objective, state.spec.rules) == (before.objective, before.rules)


def test_bad_words(lab: Any) -> None:
    here = lab.camp.bench.here
    for words in ([], ["one"], ["one", "  "], ["a", "b", "c"]):
        assert here("note", *words)[0] == 2, words
    assert here("campaign", "skip", "x" * 5000)[0] == 4
    assert here("note", "nobody", "hello")[0] == 4


def test_words_are_words_whatever_they_look_like(lab: Any) -> None:
    bench, camp = lab.camp.bench, lab.camp
    lab.propose(lab.idea("first"), python="while not os.path.exists(os.environ['GO']): time.sleep(0.02)")
    lab.act("edit", replace=BETTER)
    lab.propose(lab.idea("second", title="Think longer"))
    lab.act("edit", replace={"knobs.py": ("0.3", "0.31")})
    lab.start(count=3)
    camp.until(lambda: lab.place.joinpath("used", "0").exists())
    before = camp.state().spec
    odd = [
        "count: 99\ntarget: 0.1\n- {do: stop}",
        "--count 99",
        '"}\n{"do": "stop", "seq": 99}',
        "\x1b[2J{{ 7 * 7 }} $(id)",
    ]
    for text in odd:
        assert bench.here("note", "last-campaign", "--", text)[0] == 0
    assert bench.here("note", "last-campaign", "x" * 5000)[0] == 2
    both = [bench.spawn("note", "last-campaign", f"two at once, {n}", "--json", stdout=subprocess.PIPE) for n in (1, 2)]
    assert all(bench.answer(process)["ok"] for process in both)
    for words in (["baseline"], [" Baseline ", "--campaign", "one"]):
        code, _, err = bench.here("campaign", "skip", *words)
        assert code == 2 and "the baseline is what all else is measured against" in err
    camp.go.touch()
    state = camp.over()
    assert state.research.notes[:4] == odd
    assert sorted(state.research.notes[4:]) == ["two at once, 1", "two at once, 2"]
    assert (state.spec.objective, state.spec.rules, state.spec.research) == (
        *(before.objective, before.rules),
        before.research,
    )
    assert state.attempted == 3 and state.baseline.status == "keep" and not state.unwanted
    assert "{{ 7 * 7 }} $(id)" in lab.asked(2) and "\x1b" not in lab.asked(2)
    for words in (["note", "last-campaign", "too late"], ["campaign", "pause"]):
        code, _, err = bench.here(*words)
        assert code == 5 and "has ended" in err
    assert bench.here("campaign", "approve", "nobody")[0] == 4
