"""What a run wrote for the next idea is read as anything that training can write: bounded, and no link followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.lab.agent_work.artifacts import FILE_BYTES, MOST_FILES, ArtifactNames, excerpts


@pytest.fixture
def row(tmp_path: Path) -> LedgerRow:
    for name in ("artifacts/deep/tasks.json", "profile.txt", "answers.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"what {path.stem} says, with HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz")
    return LedgerRow(1, result_dir=str(tmp_path))


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (ArtifactNames(), ["tasks"]),
        (ArtifactNames(("*.txt",)), ["profile", "tasks"]),
        (ArtifactNames(hidden=True), []),
        (ArtifactNames(("profile.txt",), hidden=True), ["profile"]),
        (ArtifactNames(("artifacts/",), hidden=True), ["tasks"]),
    ],
)
def test_what_is_named_is_shown(names: ArtifactNames, shown: list[str], row: LedgerRow) -> None:
    text = "\n".join(sorted(excerpts("one", row, names)))
    assert [stem for stem in ("answers", "profile", "tasks") if f"what {stem} says" in text] == shown
    assert "hf_abc" not in text


def test_what_is_no_plain_file_is_passed_over(row: LedgerRow, tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    os.mkfifo(folder / "pipe")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "away").symlink_to("/etc")
    (folder / "model.bin").write_bytes(bytes(9) * 1000)
    for n in range(20):
        (folder / f"z-{n}").write_text("a line\n" * 5000)
    found = excerpts("one", row, ArtifactNames())
    assert len(found) == MOST_FILES and sum(map(len, found)) < MOST_FILES * (FILE_BYTES + 500)
    assert "artifacts/model.bin of one: no text, 9000 bytes" in found
    assert not any(name in text for text in found for name in ("pipe", "zero", "away"))


@pytest.mark.parametrize("how", ["pipe", "link", "file", "nothing"])
def test_the_folder_itself_may_be_anything(how: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "one" / "artifacts", tmp_path / "two"
    folder.parent.mkdir()
    other.mkdir()
    (other / "secret").write_text("a secret")
    if how == "pipe":
        os.mkfifo(folder)
    elif how == "link":
        folder.symlink_to(other)
    elif how == "file":
        folder.write_text("a secret")
    assert excerpts("one", LedgerRow(1, result_dir=str(folder.parent)), ArtifactNames()) == []
