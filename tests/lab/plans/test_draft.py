"""A plan on the disk: what only files, blueprints and campaigns can tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.errors import BlueprintError, NotFoundError, UsageError
from autoresearch.lab.plans.draft import PlanInvalid, raise_on_faults, read_draft, slug_of


def stage(plan: dict[str, Any]) -> dict[str, Any]:
    found = plan["stages"][0]
    assert isinstance(found, dict)
    return found


@pytest.mark.system
def test_it_holds_everything_that_decides_what_is_run(yard: Any) -> None:
    draft = yard.draft()
    assert draft.findings == () and draft.slug == "lr"
    assert {Path(name).name for name in draft.files} == {"lr.plan.yaml", "topic.md", "exp.md", "exp.yaml"}
    assert draft.checkout.root == yard.repo.resolve()
    before = draft.digest
    for name in ("topic.md", "exp.md", "exp.yaml"):
        text = (yard.repo / name).read_text()
        (yard.repo / name).write_text(text + "\n# changed\n")
        assert yard.draft().digest != before, name
        (yard.repo / name).write_text(text)
    assert yard.draft().digest == before
    (yard.repo / "train.py").write_text("print('other')\n")  # the code is fixed by its commit
    assert yard.draft().digest == before


CASES: list[tuple[Callable[[dict[str, Any]], object], int, str]] = [
    (lambda p: stage(p)["campaign"].update(blueprint="gone.md"), 5, "gone.md"),
    (lambda p: stage(p)["campaign"].update(count="many"), 5, "'many'"),
    (lambda p: stage(p)["campaign"].update(cuont=3), 5, "unknown key `cuont`"),
    (lambda p: stage(p)["campaign"].update(prefix="x/y"), 5, "the plan names the branches"),
    (lambda p: stage(p)["campaign"].update(queue="ideas.yaml"), 5, "has no effect"),
    (lambda p: stage(p)["campaign"].update(file="c.yaml"), 5, "both given"),
    (lambda p: stage(p)["campaign"].update(target="0.8 or so"), 5, "target"),
    (lambda p: stage(p)["ideas"][0].pop("overrides"), 5, "idea 1: it changes nothing"),
    (lambda p: stage(p)["ideas"][1].update(slug="lr-high"), 5, "two ideas have the slug"),
    (lambda p: stage(p)["ideas"].append({"overrides": {"lr": 3}}), 5, "`slug: lr-3` is missing"),
    (lambda p: stage(p)["ideas"].append("lr 3"), 5, "it is no mapping"),
    (lambda p: p["stages"][1]["campaign"].pop("count"), 6, "no stop rule"),
    (lambda p: p["stages"][1]["campaign"].update(proposer="magic"), 6, "'magic' is not one of"),
    (lambda p: p.update(topic="nowhere.md"), 3, "nowhere.md"),
]


@pytest.mark.system
@pytest.mark.parametrize(("change", "line", "words"), CASES)
def test_what_is_wrong_is_told_with_its_line(
    yard: Any, change: Callable[[dict[str, Any]], object], line: int, words: str
) -> None:
    yard.write(change)
    draft = yard.draft()
    assert draft.plan is None
    found = [finding for finding in draft.findings if words in finding.message]
    assert found and found[0].line == line, draft.findings
    with pytest.raises(PlanInvalid) as caught:
        raise_on_faults(draft)
    assert caught.value.exit_code == 3 and "--count" not in str(caught.value)


@pytest.mark.system
def test_bad_yaml_has_its_line(yard: Any) -> None:
    yard.file.write_text("title: x\nstages:\n  - name: [\n")
    with pytest.raises(BlueprintError, match=r"lr\.plan\.yaml:\d"):
        yard.draft()
    yard.file.write_text("title: x\ntitle: y\n")
    with pytest.raises(BlueprintError, match="twice"):
        yard.draft()


@pytest.mark.system
@pytest.mark.parametrize(("content", "words"), [(b"", "is empty"), (b" \n", "is empty"), (b"a\0b", "is no text"),
                                                (b"x" * (300 << 10), "larger than 256 KiB")])  # fmt: skip
def test_a_topic_that_cannot_be_used(yard: Any, content: bytes, words: str) -> None:
    (yard.repo / "topic.md").write_bytes(content)
    found = yard.draft().findings
    assert [f.line for f in found] == [3] and words in found[0].message


@pytest.mark.system
def test_a_long_topic_is_a_topic(yard: Any) -> None:
    (yard.repo / "topic.md").write_text("why? " * (40 << 10))
    assert yard.draft().plan is not None


@pytest.mark.system
def test_no_file_and_too_large_a_file(yard: Any) -> None:
    with pytest.raises(NotFoundError):
        read_draft(yard.repo / "gone.yaml", yard.parts)
    with pytest.raises(NotFoundError):
        read_draft(yard.repo, yard.parts)
    yard.file.write_text("# " + "x" * (2 << 20))
    with pytest.raises(UsageError, match="larger than"):
        yard.draft()


@pytest.mark.parametrize(
    ("path", "slug"),
    [
        ("a/KL.plan.yaml", "kl"),
        ("a/kl.yaml", "kl"),
        ("my plans/plan.yaml", "my-plans"),
        (f"a/{'x' * 60}.yaml", "x" * 20),
    ],
)
def test_what_it_is_called(path: str, slug: str) -> None:
    assert slug_of(Path(path)) == slug


@pytest.mark.system
def test_stages_of_two_repositories_are_refused(yard: Any, tmp_path: Path) -> None:
    import shutil

    other = tmp_path / "other"
    shutil.copytree(yard.repo, other)
    text = (other / "exp.md").read_text().replace(str(yard.repo), str(other))
    (other / "exp.md").write_text(text)
    yard.write(lambda p: p["stages"][1]["campaign"].update(blueprint="../other/exp.md"))
    assert any("that of an earlier stage" in f.message and f.line == 6 for f in yard.draft().findings)
