"""The memory of a campaign: four files and a brief, from what was written, bounded and safe."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import Rules
from autoresearch.core.controller.standing import standing
from autoresearch.lab.campaign_report import memory
from autoresearch.lab.campaign_report.formatting import cell
from autoresearch.records import campaign_records

pytestmark = pytest.mark.system


def written(made: Any) -> dict[str, str]:
    state = made.state()
    paths = memory.update_memory(made.place, state, made.stand(state), now=made.clock)
    assert [path.name for path in paths][:4] == list(memory.NAMES)
    return {path.name: path.read_text() for path in paths}


SAYS = {
    "session_state.md": (
        "Maximize `task_pass_rate@1`",
        "at most 12 attempted ideas",
        "10/12 attempted",
        "Baseline: 0.5 ± 0.02 (sd of one run; mean of 3)",
        "Best: #9 lr=0.3 (on #2): confirmed, task_pass_rate@1 0.65, +0.15 against the baseline's 0.5 (90 % interval",
        "Runs now: `now-000001`",
        "## Blockers",
        "its controller is gone",  # nobody holds the lock
    ),
    "timeline.md": (
        "#4 Twice the batch (on #2), run 1: crash, no metric \\[memory\\]",
        "skipped The same once more: equal to lr-up",
        "confirmed #9 lr=0.3 (on #2): +0.19 over 8 fresh baseline runs, p 0.001",
        "&lt;script&gt;",
    ),
    "handoff.md": (
        "`autoresearch campaign resume 20261121-sort`",
        "## Resume from here",
        "## Next actions",
        "## Watch outs",
        "Only `confirmed` is a claim",
    ),
    "files.md": ("`autoresearch/20261121-sort/best`", "## Inspected", "## Changed", "## Generated"),
}


def test_what_each_page_says(lived: Any) -> None:
    """Each thing once and in its order, nothing of others as markup; writing again changes nothing, and leaves none."""
    lived.checked()
    campaign_records.append(lived.place, "requested", t=lived.clock + 1, request={"do": "pause"})
    pages = written(lived)
    for name, every in SAYS.items():
        assert [words for words in every if words not in pages[name]] == [] and "<script>" not in pages[name]
    lines = [line for line in pages["timeline.md"].splitlines() if line.startswith("- 2026")]
    told = [line.partition("Z ")[2] for line in lines]
    assert told[:2] == ["campaign 20261121-sort was begun", "idea #1 baseline: Change nothing"]
    assert told[-1] == "pause"
    assert [line[:21] for line in lines] == sorted(line[:21] for line in lines)
    assert sum("#9 lr=0.3 (on #2), run 3: keep" in line for line in told) == 1
    assert f"`{lived.place.ledger}` - the ledger" in pages["files.md"]
    assert written(lived) == pages and not [p for p in lived.place.path.iterdir() if p.name.startswith(".")]


def test_a_long_campaign_stays_bounded(campaign: Callable[..., Any]) -> None:
    made = campaign(rules=Rules(count=2000))
    for n in range(700):
        hypothesis = Hypothesis(f"idea-{n}", "x" * 5000).to_json()
        made.tell("skipped", hypothesis=hypothesis, reason="y" * 5000)
    texts = written(made)
    assert max(len(text) for text in texts.values()) < 200_000
    assert "lines are left out here" in texts["timeline.md"]
    assert "skipped xxx" in texts["timeline.md"]


def test_the_brief_says_what_a_fresh_agent_must_know(lived: Any) -> None:
    lived.checked()
    lived.tell("state", state="paused", reason="")
    state = lived.state()
    lines = memory.brief(state, lived.stand(state))
    text = "\n".join(lines)
    assert len(lines) <= 60
    assert lines[0] == "campaign 20261121-sort (paused)"
    for words in (
        "goal: maximize task_pass_rate@1",
        "stand: 10/12 attempted",
        "best: #9 lr=0.3 (on #2): confirmed, task_pass_rate@1 0.65, +0.15 against the baseline's 0.5 (90 % interval",
        "last: #9 lr=0.3 (on #2), fresh run 4: task_pass_rate@1 0.71",
        "  crashed: memory (1): #4 Twice the batch (on #2)",
        "better than the baseline, not the best (1): #5 Change the warm-up (on #2) +0.095",
        "discarded (1): #3 lr=0.05 −0.08",
        "skipped The same once more: equal to lr-up",
        "#2 lr=0.2: kept, not confirmed: task_pass_rate@1 0.59, +0.09 against the baseline's 0.5 (search mean",
        "next: autoresearch campaign resume 20261121-sort",
    ):
        assert words in text, words


def test_the_brief_says_that_re_tests_are_pending(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.checked()
    made.idea("ahead")
    made.run("ahead", 0.56, "discard", standing="pending")
    state = made.state()
    text = "\n".join(memory.brief(state, made.stand(state)))
    assert "pending (1): #2 Try ahead +0.06" in text and "run 1: pending" in text and "discard" not in text
    made.tell("state", state="ended", reason="stopped on request")  # it was never decided
    state = made.state()
    assert "pending (1): #2 Try ahead" in "\n".join(memory.brief(state, made.stand(state)))
    made.tell("unwanted", slug="ahead")
    state = made.state()
    assert "discarded (1): #2 Try ahead +0.06" in "\n".join(memory.brief(state, made.stand(state)))


def test_the_brief_is_never_longer_and_keeps_its_commands(campaign: Callable[..., Any]) -> None:
    made = campaign()
    for n in range(80):
        made.idea(f"i{n}", "\x1b[31mred\x07 " + "word " * 100, git=False)
        made.run(f"i{n}", None, "crash", failure=f"kind_{n}", curve=False)
    state = made.state()
    lines = memory.brief(state, made.stand(state))
    assert len(lines) == 60
    assert all(len(line) <= 242 and line.isprintable() for line in lines)
    assert lines[-1].startswith("next: ") and "report.md" in "".join(lines[-4:])


def test_an_idea_whose_row_has_no_time_is_over_all_the_same(campaign: Callable[..., Any]) -> None:
    """As a ledger may be that is older than the column."""
    made = campaign()
    made.idea("old")
    made.run("old", 0.2, "discard", ended=None)
    assert [idea.slug for idea, _ in memory.over(made.state())] == ["old"]


def test_what_a_campaign_found_is_one_page(lived: Any) -> None:
    """What was kept, what is open, what was given up, and what the agent concluded; nothing is in the file alone."""
    lived.tell("finding", idea="lr-up", text="It rose to 0.59.")
    lived.tell("finding", idea="flat", text="", wrong=["0.91"])  # as before: nothing was left of it
    memory.update_memory(lived.place, state := lived.state(), lived.stand(state))
    path = lived.place.path / "findings.md"
    text = path.read_text()
    measured = standing(state, state.by_slug("lr-up")).words
    assert f"({cell(measured, 400)})" in text and "> - #2 lr=0.2: It rose to 0.59.\n" in text and "in short" not in text
    assert "0.91" not in text
    assert re.search(r"## Confirmed\n\n- #9 .*## Given up.*- #6 Another schedule", text, re.DOTALL), text
    path.unlink()
    memory.update_memory(lived.place, state, lived.stand(state))
    assert path.read_text() == text
    lived.tell("finding", idea="all", text="Larger steps help.", covers=["lr-up", "flat"])
    lived.tell("finding", idea="oom", text="The batch is at its limit.")
    memory.update_memory(lived.place, state := lived.state(), lived.stand(state))
    text = path.read_text()
    places = [text.index(one) for one in ("## Confirmed", "## Given up", "in short: Larger", "The batch is", "It rose")]
    assert places == sorted(places)

