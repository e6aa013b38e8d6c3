"""What doctor sees, on this machine and on worse ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoresearch.commands.doctor import machine_findings
from autoresearch.core.blueprint.finding import Severity
from autoresearch.launchers import program


@pytest.mark.parametrize(
    ("git", "existing", "free", "said"),
    [
        ("2.39", "", 1 << 30, []),
        ("", "", 1 << 30, [(Severity.WARNING, "no_git")]),
        ("2.39", "/proc", 1 << 40, [(Severity.ERROR, "not_writable")]),
        ("2.39", "", (1 << 30) - 1, [(Severity.WARNING, "low_disk")]),
    ],
)
def test_each_thing_that_is_wrong_is_said_once(
    tmp_path: Path, git: str, existing: str, free: int, said: list[tuple[Severity, str]]
) -> None:
    disks = {tmp_path / "not" / "yet": (Path(existing or tmp_path), free)}
    assert [(one.severity, one.code) for one in machine_findings(git, disks)] == said
    assert not list(tmp_path.iterdir())


SAID = {
    "git version 2.39.5 (Apple Git-154)": "2.39.5",
    "git version 2.48.0.windows.1": "2.48.0.windows.1",
    "tmux 3.3a": "3.3a",
    "tmux next-3.8": "next-3.8",
    "tmux master": "master",
    "tmux": "",
    "": "",
}


@pytest.mark.system
def test_versions_as_programs_say_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool").write_text('#!/bin/sh\necho "$SAYS"\n')
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for says, version in SAID.items():
        monkeypatch.setenv("SAYS", says)
        assert program.version("tool", "-V") == version
    assert program.version("no-such-tool", "-V") == ""


def test_is_older() -> None:
    older = {"2.7": True, "3.1c": True, "next-3.1": True, "3.2": False, "3.2a": False, "3.10": False, "master": False}
    assert {version: program.is_older(version, (3, 2)) for version in older} == older


@pytest.mark.system
def test_a_program_that_cannot_be_run_or_hangs_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken").write_bytes(b"\x7fELF no")
    (tmp_path / "slow").write_text("#!/bin/sh\nexec sleep 1000\n")
    for name in ("broken", "slow"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert program.output("broken") is None
    assert program.output("slow", timeout_s=0.1) is None
