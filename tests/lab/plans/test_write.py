"""The skeleton that a person fills in, and the page that explains it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.plans.condition import OF_IDEA, WORDS
from autoresearch.errors import ConflictError, EnvironmentUnusable, NotFoundError, UsageError
from autoresearch.lab.plans.draft import read_draft
from autoresearch.lab.plans.write import new_plan_dir, out_path, skeleton, topic_of
from autoresearch.lab.yaml_files import parse_any

REPO = Path(__file__).parents[3]


@pytest.mark.system
@pytest.mark.parametrize(
    "topic",
    [
        "# KL: does it matter?\n",
        "{{ 7 * 7 }} {% raw %} 'x' \"y\" \\",
        "- a: [1\n\tb\n#c",
        "ключ: \u202etxt\x1b[31m\n",
        "x" * 200_000,
    ],
)
def test_any_topic_makes_a_skeleton_that_is_yaml(yard: Any, topic: str) -> None:
    (yard.repo / "T.md").write_text(topic)
    path = out_path(yard.repo / "T.md", "")
    text = skeleton(yard.repo / "T.md", path)
    plan = parse_any(text.encode(), "T")
    assert plan["topic"] == "T.md" and plan["stages"][0]["campaign"]["blueprint"] == "exp.md"
    assert len(text) < 20_000 and "49" not in text
    path.write_text(text)
    found = read_draft(path, yard.parts).findings
    assert found and all("TODO" in text.splitlines()[f.line - 1] for f in found), found  # nothing else is wrong


@pytest.mark.system
def test_a_long_topic_is_quoted_in_part(yard: Any) -> None:
    (yard.repo / "T.md").write_text("line\n" * 500)
    assert "# > ... 440 more lines" in skeleton(yard.repo / "T.md", yard.repo / "t.plan.yaml")


@pytest.mark.system
def test_what_is_in_the_way(yard: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        skeleton(yard.repo / "gone.md", yard.repo / "x.yaml")
    with pytest.raises(ConflictError, match="already exists"):
        out_path(yard.repo / "lr.md", "")
    with pytest.raises(EnvironmentUnusable, match="not in a git repository"):
        new_plan_dir(tmp_path / "x.plan.yaml", yard.parts)
    yard.approved()
    with pytest.raises(ConflictError, match="a plan lr is already registered"):
        new_plan_dir(yard.repo / "lr.plan.yaml", yard.parts)
    assert topic_of(yard.draft()) == yard.repo / "topic.md"
    yard.write(lambda p: p.pop("topic"))
    with pytest.raises(UsageError, match="names no topic"):
        topic_of(yard.draft())


def test_the_page_names_every_word_of_a_condition() -> None:
    page = (REPO / "docs" / "plans.md").read_text()
    assert [word for word in WORDS if f"`{word}`" not in page] == []
    assert [word for word in OF_IDEA if f"`{word}(slug)`" not in page] == []
