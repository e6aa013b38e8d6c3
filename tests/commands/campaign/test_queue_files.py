"""A queue of ideas: checked whole before the first run, and nothing in it vanishes when it is edited later."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

SPACE = {"lr": {"low": 0.001, "high": 0.1, "log": True}}
ENDS = {"retests": 0, "confirm": False}


def rows(camp: Any) -> list[dict[str, str]]:
    with camp.place.ledger.open() as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def save(path: Path, text: str) -> None:
    """As an editor does it: nobody ever reads half of it."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


def test_everything_that_is_wrong_is_said_before_the_first_run(camp: Any) -> None:
    (camp.bench.repo / "ideas.yaml").write_text(
        "- {slug: a, overrides: {lr: 0.2}}\n"
        "- {slug: b, override: {lr: 0.3}}\n"
        "- slug: c\n"
        "  overrides: {slep: 2}\n"
        "- {slug: d, files: {../../x: text}}\n"
        "- {slug: a, overrides: {lr: 0.4}}\n"
        "- {slug: e, overrides: {lr: fast}}\n"
    )
    path = camp.file(queue="ideas.yaml", count=4)
    before = camp.bench.picture()
    error = camp.bench.ask("campaign", path, "--yes", "--detach", check=3)["error"]
    assert error["code"] == "bad_queue"
    assert error["message"].startswith("ideas.yaml:2: entry 2: `override` is no key of an entry; write `overrides` (")
    assert [finding.partition(" error: ")[0] for finding in error["findings"]] == [
        f"ideas.yaml:{line}:" for line in (2, 4, 5, 6, 7)
    ]
    assert "slep" in error["findings"][1]
    assert "did you mean sleep?" in error["findings"][1], "the nearest key of the recipe"
    assert camp.bench.picture() == before


def test_a_list_in_the_campaign_file_and_the_text_of_a_file(camp: Any) -> None:
    ideas = [
        {"slug": "lower", "overrides": {"lr": 0.05}},
        {"slug": "new-file", "parent": "baseline", "files": {"prompt.txt": "Think first.\n"}},
    ]
    state = camp.run(queue=ideas, count=3, **ENDS)
    assert [idea.slug for idea in state.ideas] == ["baseline", "lower", "new-file"]
    assert camp.bench.git("show", f"{camp.idea('new-file').branch}:prompt.txt").strip() == "Think first."
    wrong = camp.bench.ask("campaign", camp.file(queue=[{"slug": "a", "overides": {}}], prefix="two"), check=3)
    assert wrong["error"]["message"].startswith("campaign.yaml:4: entry 1: `overides` is no key of an entry")


def test_a_queue_goes_before_another_proposer(camp: Any) -> None:
    queue = camp.ideas({"slug": "mine", "overrides": {"lr": 0.05}})
    state = camp.run(queue=queue, proposer="random", space=SPACE, count=3, **ENDS)
    assert [idea.hypothesis.proposer for idea in state.ideas] == ["campaign", "queue", "random"]


def test_what_is_edited_while_it_runs_is_said_and_has_its_row(camp: Any) -> None:
    from autoresearch.records.campaign_records import entries

    queue = camp.ideas({"slug": "held", "overrides": {"mode": "hold"}})
    camp.start(queue=queue, count=4, **ENDS)
    camp.until(lambda: camp.live("held"))
    path = camp.bench.repo / queue
    sound = path.read_text()
    save(path, f"{sound}- {{slug: typo, overrids: {{lr: 0.3}}}}\n- {{slug: lost, patches: [gone.diff]}}\n")
    camp.until(lambda: len(camp.state().queue_faults) == 2)
    status = camp.bench.ask("campaign", "status")
    assert status["queue_faults"][0].startswith("ideas.yaml:2: error: entry 2: `overrids` is no key of an entry; ")
    assert "queue: ideas.yaml:2:" in camp.bench.here("campaign", "status")[1]

    save(path, path.read_text().replace("overrids", "overrides"))
    camp.until(lambda: len(camp.state().queue_faults) == 1)
    camp.go.touch()
    camp.phase("waiting")
    assert camp.idea("typo").rows, "it was mended in time"
    save(path, path.read_text() + "- [\n")
    camp.until(lambda: "ideas.yaml:5: did not find expected" in camp.state().queue_faults[0])
    save(path, path.read_text().removesuffix("- [\n"))
    camp.until(lambda: "gone.diff" in camp.state().queue_faults[0])
    camp.bench.ask("campaign", "stop", "--drain")
    camp.over()

    assert not [row for row in rows(camp) if row["run_id"].startswith("lost-")]
    assert camp.bench.ask("campaign", "status")["attempted"] == 3, "it was no attempt"
    assert len(list(entries(camp.place, "queue"))) == 4
    assert "could not be used: ideas.yaml:3: entry 3:" in (camp.place.path / "report.md").read_text()


def test_what_is_added_is_checked_first(camp: Any) -> None:
    queue = camp.ideas({"slug": "held", "overrides": {"mode": "hold"}})
    camp.start(queue=queue, count=3, **ENDS)
    camp.until(lambda: camp.live("held"))
    bad = camp.bench.repo / "more.yaml"
    bad.write_text("- {slug: x, overrides: {lr: 0.3}}\n- slug: y\n  parrent: held\n")
    error = camp.bench.ask("campaign", "add", "--from", bad, check=3)["error"]
    assert "more.yaml:3: `parrent` is no key of an entry; write `parent`" in error["message"]
    error = camp.bench.ask("campaign", "add", "--set", "lr=0.3", "--slug", "held", check=5)["error"]
    assert error["message"] == "an idea of one is called `held` already"
    assert not camp.place.queue.exists()
    camp.bench.ask("campaign", "add", "--set", "lr=0.3")
    assert "changes this already" in camp.bench.ask("campaign", "add", "--set", "lr=0.3", check=5)["error"]["message"]
    camp.go.touch()
    assert camp.over().attempted == 3
