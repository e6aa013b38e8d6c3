"""Words to the researcher while it works: tell, veto, hold and approve; they change neither objective nor rules."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

pytestmark = pytest.mark.system

BETTER = {"knobs.py": ("GAIN = 1.0", "GAIN = 2.0")}


def test_what_people_say_reaches_its_next_turn(lab: Any) -> None:
    ask = lab.camp.bench.ask
    lab.propose(lab.idea("first"), lab.idea("unwanted"))
    lab.act("edit", replace=BETTER)
    lab.propose(lab.idea("freeze", title="Change the tokenizer"), lab.idea("last", title="Think longer"))
    lab.act("edit", replace={"knobs.py": ("0.3", "0.31")})
    lab.start(count=3, hold=True, tell=["mind the reward"])
    state = lab.camp.phase("waiting")
    assert "first, unwanted wait for a person" in state.reason and "approve first" in state.reason
    assert "mind the reward" in lab.asked(0)
    assert ask("campaign", "status")["next"][-1] == "autoresearch campaign approve first --campaign one --json"
    assert "first, unwanted wait for a person" in lab.camp.bench.here("wait", "last-campaign", "--for", "0s")[1]
    before = state.spec

    code, _, err = lab.camp.bench.here("campaign", "approve", "nobody")
    assert code == 4 and "waiting: first, unwanted" in err
    assert ask("campaign", "approve", "first")["held"] == ["unwanted"]
    lab.camp.until(lambda: lab.camp.state().attempted == 2 and lab.camp.state().phase == "waiting")
    assert ask("note", "last-campaign", "look at the format term")["ok"]
    assert ask("campaign", "skip", "no change of the tokenizer")["ok"]
    assert ask("campaign", "skip", "unwanted", "--campaign", "one", "--reason", "had it in May")["held"] == []
    lab.camp.until(lambda: lab.asked(2))
    lab.camp.until(lambda: "last" in [one["slug"] for one in ask("campaign", "approve")["proposals"]])
    found = ask("campaign", "approve")
    assert found["told"] == ["look at the format term"] and "no change of the tokenizer" in found["vetoes"]
    assert [one["slug"] for one in found["refused"]] == ["freeze"] and found["agent_tokens"] == 3 * 120
    assert "look at the format term" in lab.asked(2) and "no change of the tokenizer" in lab.asked(2)
    assert ask("campaign", "approve", "--all")["ok"]
    state = lab.camp.over()
    assert [idea.slug for idea in state.ideas] == ["baseline", "first", "last"]
    assert (state.spec.objective, state.spec.rules) == (before.objective, before.rules)
    said = lab.camp.bench.here("campaign", "approve")[1]
    assert "told: look at the format term" in said and "vetoed: no change of the tokenizer" in said
    assert "agent: command, " in said


def test_code_ideas_are_held_back_from_now_on(lab: Any) -> None:
    lab.propose(lab.idea("first"), python="while not os.path.exists(os.environ['GO']): time.sleep(0.02)")
    lab.start(count=3)
    lab.camp.until(lambda: lab.place.joinpath("used", "0").exists())
    lab.camp.bench.ask("campaign", "pause", "--before-edits", "--reason", "I want to see them")
    lab.camp.go.touch()
    state = lab.camp.phase("waiting")
    assert state.research.hold and state.attempted == 1 and "first waits for a person" in state.reason
    assert lab.camp.bench.ask("campaign", "stop")["ok"]
    lab.camp.over()


def test_bad_words(lab: Any) -> None:
    here = lab.camp.bench.here
    for words in ([], ["one"], ["one", "  "], ["a", "b", "c"]):
        assert here("note", *words)[0] == 2, words
    assert here("campaign", "skip", "x" * 5000)[0] == 2
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
    steered = (["campaign", "skip", "larger steps"], ["campaign", "pause", "--before-edits"])
    for words in (["note", "last-campaign", "too late"], *steered):
        code, _, err = bench.here(*words)
        assert code == 5 and "has ended" in err
    assert bench.here("campaign", "approve", "nobody")[0] == 4
