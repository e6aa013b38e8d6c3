"""`search: tip`: ideas run once, on the merge of all that seem good; the merge is judged, and kept or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.campaign.tip import edits_of
from autoresearch.core.controller.ablation import edit_worths
from autoresearch.lab.agent_work.propose_ideas import earlier_section

pytestmark = pytest.mark.system

PARTS = "A = 0.0\n" + "#\n" * 9 + "B = 0.0\n" + "#\n" * 9 + "C = 0.0\n"


def project(camp: Any) -> None:
    """A trainer whose score, and loss, is a sum of parts that lie apart in a file of their own."""
    trainer = camp.bench.repo / "train.py"
    text = trainer.read_text().replace('float(recipe["bonus"])', "parts.A + parts.B")
    text = text.replace("pg_loss:0.1", "pg_loss:{score * n:.6f}").replace('int(recipe["steps"])', "12")
    trainer.write_text(f"import parts\n{text}")
    (camp.bench.repo / "parts.py").write_text(PARTS)
    camp.bench.commit("parts")


def edit(camp: Any, slug: str, before: str, after: str, **more: Any) -> dict[str, Any]:
    """An idea that changes a line of parts.py, by a patch such as `git diff` makes."""
    path = camp.bench.repo / "parts.py"
    path.write_text(PARTS.replace(before, after))
    (camp.bench.root / f"{slug}.patch").write_text(camp.bench.git("diff", "--full-index") + "\n")
    path.write_text(PARTS)
    return {"slug": slug, "patches": [str(camp.bench.root / f"{slug}.patch")], **more}


def test_what_seems_good_is_merged_and_the_merge_is_proved(camp: Any) -> None:
    project(camp)
    queue = [
        edit(camp, "a", "A = 0.0", "A = 0.04"),
        edit(camp, "b", "B = 0.0", "B = 0.05"),
        {"slug": "worse", "overrides": {"lr": 0.5}},
        {"slug": "lower", "overrides": {"lr": 0.05}},
        {"slug": "broken", "overrides": {"mode": "crash"}},
    ]
    before = camp.checkout()["files"]
    state = camp.run(queue=queue, count=6, baseline=4, search="tip", confirm=False)
    assert state.attempted == 6, "merges are no ideas"
    best = state.best
    assert {*best.hypothesis.merges} == {"a", "b", "lower"}, camp.said()
    text = camp.bench.git("show", f"{best.branch}:parts.py")
    assert "A = 0.04" in text and "B = 0.05" in text
    assert "lr: 0.05" in camp.bench.git("show", f"{best.branch}:recipe.yaml")
    singles = [idea for idea in state.ideas if idea.hypothesis.proposer == "queue"]
    assert [len(idea.rows) for idea in singles] == [1] * 5
    assert {idea.status for idea in singles} == {"discard", "crash"}
    assert best.runs[0].why == "proof" and best.status == "keep" and len(best.values) >= 4
    second = state.by_slug("lower")
    assert edits_of(state, second) >= {second.index, state.by_slug("a").index}, "it was edited on the tip"
    first = {idea.runs[0].seed for idea in singles}
    assert first.isdisjoint(run.seed for run in best.runs), "its edits were picked by runs of that seed"
    after = camp.checkout()["files"]
    assert {path: after.get(path) for path in before} == before, "the user's files are as they were"
    report = (camp.place.path / "report.md").read_text()
    rows = [line for line in report.splitlines() if line.startswith("| #") and "if effects add" in line]
    assert sorted(line.split(" | ")[3].partition(":")[0] for line in rows) == ["in the tip"] * 3 + ["out"]


def test_edits_of_one_place_do_not_fit_and_what_makes_it_worse_leaves(camp: Any) -> None:
    project(camp)
    queue = [
        edit(camp, "a", "A = 0.0", "A = 0.04"),
        edit(camp, "other", "A = 0.0", "A = 0.03", parent="baseline"),
        edit(camp, "same", "A = 0.0", "A = 0.04  # as before", parent="baseline"),
        {"slug": "near", "overrides": {"lr": 0.05}, "parent": "baseline"},
        {"slug": "nearer", "overrides": {"lr": 0.03}, "parent": "baseline"},
    ]
    state = camp.run(queue=queue, count=6, baseline=4, search="tip", confirm=False)
    assert {*state.best.hypothesis.merges} == {"a", "nearer"}
    assert "are the same program: equal runs" in camp.said()
    assert [idea.equal_to for idea in state.ideas if idea.equal_to] == [state.by_slug("a").index]
    assert {*state.made_tip.left} == {state.by_slug("other").index, state.by_slug("near").index}
    tips = [line for line in camp.said().splitlines() if "the tip, on which new ideas are edited, is now #" in line]
    assert "; what does not fit: #" in tips[-1]
    assert len(tips) == len({line.partition(" ")[2] for line in tips}), "a tip that stays as it is is said once"


def test_a_controller_that_is_killed_before_it_compares_runs(camp: Any) -> None:
    project(camp)
    same = edit(camp, "same", "A = 0.0", "A = 0.04  # as before", parent="baseline")
    keys = {"queue": [edit(camp, "a", "A = 0.0", "A = 0.04"), same], "count": 3, "baseline": 3, "search": "tip"}
    words: tuple[object, ...] = ("campaign", camp.file(**keys, confirm=False), "--yes")
    camp.known(camp.bench.ask(*words, "--detach", AUTORESEARCH_FAILPOINT="campaign.recorded:kill:5"))
    camp.bench.until(lambda: not camp.place.controlled)
    camp.bench.ask("campaign", "resume", camp.state().spec.name, "--detach")
    state = camp.over()
    assert state.by_slug("same").equal_to == state.by_slug("a").index, camp.said()


@pytest.mark.parametrize(
    "points", [("campaign.drafted:kill:3", "campaign.claimed:kill:1"), ("campaign.conceived:kill:3",)]
)
def test_controllers_that_are_killed_while_they_merge(camp: Any, points: tuple[str, ...]) -> None:
    """The next one goes on. At first the third time: the baseline and an idea are committed before."""
    project(camp)
    keys = {"queue": [edit(camp, "a", "A = 0.0", "A = 0.04")], "count": 2, "baseline": 3, "search": "tip"}
    path = camp.file(**keys, confirm=False)
    words: tuple[object, ...] = ("campaign", path, "--yes")
    for point in points:
        camp.known(camp.bench.ask(*words, "--detach", AUTORESEARCH_FAILPOINT=point))
        camp.bench.until(lambda: not camp.place.controlled)
        assert camp.state().phase != "ended", f"{point} was never reached"
        words = ("campaign", "resume", camp.state().spec.name)
    camp.bench.ask(*words, "--detach")
    state = camp.over()
    (merge,) = (idea for idea in state.ideas if idea.hypothesis.merges)
    assert merge.hypothesis.merges == ("a",) and merge is state.best
    branches = camp.bench.git("branch", "--list", "autoresearch/one/tip*", "--format", "%(refname:short)").split()
    assert branches == [merge.branch]


def test_what_the_edits_of_a_confirmed_tip_are_worth_is_measured(camp: Any) -> None:
    """Each version without one edit runs beside the tip; what gains nothing may be dropped, and is put to the proof."""
    project(camp)
    queue = [
        edit(camp, "idle", "C = 0.0", "C = 1.0"),  # on the baseline, whose runs have its seed; a tip's may not
        edit(camp, "a", "A = 0.0", "A = 0.2"),
        edit(camp, "b", "B = 0.0", "B = 0.3"),
    ]
    state = camp.run(queue=queue, count=4, baseline=4, search="tip", confirm_runs=16)
    best, ablation = state.best, state.rounds[-1]
    assert best.confirmed == "confirmed" and ablation.of == best.index, camp.said()
    lacking = {
        next(iter({*best.hypothesis.merges} - {*idea.hypothesis.merges})): idea
        for idea in state.ideas
        if idea.index in ablation.candidates
    }
    assert {*lacking} == {*best.hypothesis.merges} and {"a", "b"} <= {*lacking}
    assert all(len(idea.fresh_values(ablation.number)) == 4 for idea in (best, *lacking.values()))
    gains = {one.edit.slug: one for one in edit_worths(state)}
    assert gains["a"].low < 0.2 < gains["a"].high and gains["b"].low < 0.3 < gains["b"].high
    assert not (gains["a"].droppable or gains["b"].droppable)
    assert state.attempted == 4 and not any(idea.values or idea.confirmed for idea in lacking.values())
    assert best.claim.n == 4, "what was confirmed says what its proof showed"
    report = (camp.place.path / "report.md").read_text()
    assert "## What the edits of the winner are worth" in report and "fresh runs with it, 4 without)" in report
    told = earlier_section(replace(state.spec, earlier=(state.spec.directory,)))
    assert "- confirmed: #" in told and told.count("  - with #") == len(best.hypothesis.merges), told
    given_up = [line for line in told.splitlines() if "given up: " in line]
    assert len(given_up) == 1 and "it changes nothing: a run equal to that of #" in given_up[0], told
