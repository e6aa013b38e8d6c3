"""Attempts as points of the recipe."""

from __future__ import annotations

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.overrides import fingerprint
from autoresearch.core.campaign.proposer import Attempt, points, tried

BASE = {"lr": 0.001, "g": 8}


def attempts(*ideas: Hypothesis) -> list[Attempt]:
    return [Attempt(n, idea, "keep", 0.5, 1) for n, idea in enumerate((Hypothesis(BASELINE, "as it is"), *ideas), 1)]


def idea(slug: str, parent: str = BASELINE, **more: object) -> Hypothesis:
    return Hypothesis(slug, slug, parent=parent, **more)  # type: ignore[arg-type]


def test_an_idea_on_an_idea_changes_what_both_change() -> None:
    found = points(attempts(idea("a", overrides={"lr": 1, "g": 4}), idea("b", "a", overrides={"lr": 2})))
    assert found == {BASELINE: {}, "a": {"lr": 1, "g": 4}, "b": {"lr": 2, "g": 4}}


def test_what_changes_code_or_is_a_smoke_run_is_no_point() -> None:
    code = idea("code", files={"a.py": "x"}, overrides={"lr": 1})
    smoke, patch = idea("smoke", overrides={"lr": 1}, smoke=True), idea("patch", patches=("diff",))
    assert set(points(attempts(code, smoke, patch, idea("on-code", "code", overrides={"lr": 2})))) == {BASELINE}


def test_a_parent_that_is_not_known_makes_no_point() -> None:
    ideas = idea("a", "best", overrides={"lr": 1}), idea("b", "nobody"), idea("c", "d"), idea("d", "c")
    assert set(points(attempts(*ideas))) == {BASELINE}


def test_what_was_tried() -> None:
    known = tried(attempts(idea("a", overrides={"lr": "1e-2"})), BASE)
    assert fingerprint({"lr": 0.01, "g": 8.0}, BASE) in known
    assert fingerprint({"lr": 0.001}, BASE) in known, "the baseline's own point"
    assert fingerprint({"lr": 0.02}, BASE) not in known
    assert fingerprint({"g": 8}, BASE) in tried([], BASE)
