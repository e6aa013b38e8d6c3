"""Where the skill is installed; nothing of anybody's is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from autoresearch.errors import ConflictError
from autoresearch.lab import skill

REAL = ".agents/skills/autoresearch"
CLAUDE = ".claude/skills/autoresearch"


def done(root: Path) -> list[str]:
    return [one.done for one in skill.install(root)]


def listing(root: Path) -> list[str]:
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if not p.is_dir() or p.is_symlink())


def test_it_is_written_where_agents_look(tmp_path: Path) -> None:
    assert done(tmp_path) == ["written", "written"]
    for place in (REAL, CLAUDE):
        assert {p.name for p in (tmp_path / place).iterdir()} == {"SKILL.md", "references", skill.STAMP}, "no evals"
        assert (tmp_path / place / "references/run.md").read_text() == skill.topic("run").text


def test_an_older_version_is_updated_and_not_kept(tmp_path: Path) -> None:
    with mock.patch.object(skill, "_ours", return_value={"SKILL.md": b"old", "references/gone.md": b"x"}):
        done(tmp_path)
    placed = skill.install(tmp_path)
    assert [(one.done, one.kept) for one in placed] == [("updated", None)] * 2
    assert not (tmp_path / REAL / "references/gone.md").exists()
    assert not (tmp_path / ".agents/skills-kept").exists()


@pytest.mark.parametrize("edit", ["change", "add", "unstamped"])
def test_what_was_edited_is_kept_aside(tmp_path: Path, edit: str) -> None:
    done(tmp_path)
    if edit == "add":
        (tmp_path / REAL / "mine.md").write_text("mine")
    else:
        (tmp_path / REAL / "SKILL.md").write_text("mine")
    if edit == "unstamped":
        (tmp_path / REAL / skill.STAMP).unlink()
    first = skill.install(tmp_path)[0]
    assert first.done == "updated" and first.kept == tmp_path / ".agents/skills-kept/autoresearch-1"
    assert "mine" in [p.read_text() for p in first.kept.iterdir() if p.is_file()]
    (tmp_path / REAL / "SKILL.md").write_text("mine again")
    assert skill.install(tmp_path)[0].kept == tmp_path / ".agents/skills-kept/autoresearch-2"
    assert first.kept.is_dir()
    assert done(tmp_path) == ["unchanged", "unchanged"]


def test_a_link_of_an_earlier_version_becomes_files(tmp_path: Path) -> None:
    done(tmp_path)
    shutil.rmtree(tmp_path / CLAUDE)
    (tmp_path / CLAUDE).symlink_to("../../.agents/skills/autoresearch")
    assert done(tmp_path) == ["unchanged", "written"]
    assert not (tmp_path / CLAUDE).is_symlink() and (tmp_path / REAL / "SKILL.md").is_file()


def a_link_elsewhere(root: Path) -> None:
    (root / "mine").mkdir()
    (root / ".claude/skills").mkdir(parents=True)
    (root / CLAUDE).symlink_to(root / "mine")


def a_link_in_place_of_the_files(root: Path) -> None:
    (root / "mine").mkdir()
    (root / ".agents/skills").mkdir(parents=True)
    (root / REAL).symlink_to(root / "mine")


def a_file(root: Path) -> None:
    (root / ".agents/skills").mkdir(parents=True)
    (root / REAL).write_text("mine")


@pytest.mark.parametrize("obstacle", [a_link_elsewhere, a_link_in_place_of_the_files, a_file])
def test_what_is_in_the_way_stops_it_before_anything_is_written(
    tmp_path: Path, obstacle: Callable[[Path], None]
) -> None:
    obstacle(tmp_path)
    before = listing(tmp_path)
    with pytest.raises(ConflictError):
        skill.install(tmp_path)
    assert listing(tmp_path) == before


def test_a_link_that_leads_nowhere_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".claude/skills").mkdir(parents=True)
    (tmp_path / CLAUDE).symlink_to("../../gone")
    assert done(tmp_path) == ["written", "written"]
    assert (tmp_path / CLAUDE / "SKILL.md").is_file()


def test_folders_that_are_links_themselves(tmp_path: Path) -> None:
    (tmp_path / "deep/er/skills").mkdir(parents=True)
    (tmp_path / ".agents").symlink_to("deep/er")
    (tmp_path / ".claude").symlink_to("deep/er")
    assert done(tmp_path) == ["written", "unchanged"]  # both are the same place
    (tmp_path / ".claude").unlink()
    (tmp_path / "far").mkdir()
    (tmp_path / ".claude").symlink_to("far")
    assert done(tmp_path) == ["unchanged", "written"]
    assert (tmp_path / CLAUDE / "SKILL.md").is_file()


def test_a_fault_halfway_leaves_what_was_there(tmp_path: Path) -> None:
    done(tmp_path)
    (tmp_path / REAL / "SKILL.md").write_text("mine")
    before = listing(tmp_path)
    with mock.patch.object(skill, "_make_way", side_effect=OSError("disk full")), pytest.raises(OSError, match="full"):
        skill.install(tmp_path)
    assert listing(tmp_path) == before
    assert (tmp_path / REAL / "SKILL.md").read_text() == "mine"
