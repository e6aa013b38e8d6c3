"""What doctor sees, on this machine and on worse ones."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
from pathlib import Path

import pytest

from autoresearch.core.blueprint.finding import Severity
from autoresearch.launchers import host, program
from autoresearch.launchers.host import Disk, Surroundings
from autoresearch.launchers.tmux import TmuxLauncher


@pytest.fixture
def here(tmp_path: Path) -> Surroundings:
    (tmp_path / ".git").mkdir()
    return host.look([tmp_path / "not" / "yet"], git_directory=tmp_path / ".git", environ={"CLAUDECODE": "1"})


@pytest.mark.system
def test_the_facts_of_this_machine(here: Surroundings, tmp_path: Path) -> None:
    assert here.python == platform.python_version()
    assert here.tmux and here.tmux[0].isdecimal() and here.git[0].isdecimal()
    assert here.driven_by == "claude-code"
    assert here.git_directory_writable is True
    (disk,) = here.disks
    assert (disk.directory, disk.existing, disk.writable) == (tmp_path / "not" / "yet", tmp_path, True)
    assert abs(disk.free_bytes - shutil.disk_usage(tmp_path).free) < 1 << 30
    assert host.look(environ={}).git_directory_writable is None


@pytest.mark.system
def test_a_good_machine_has_no_findings(here: Surroundings, tmux_socket: str) -> None:
    roomy = tuple(dataclasses.replace(disk, free_bytes=1 << 30) for disk in here.disks)
    assert host.findings(dataclasses.replace(here, disks=roomy), TmuxLauncher(tmux_socket)) == []
    assert not Path(tmux_socket).exists()  # looking starts no server


@pytest.mark.system
@pytest.mark.parametrize(
    ("worse", "severity", "code"),
    [
        ({"python": "3.10.12"}, Severity.ERROR, "old_python"),
        ({"git": ""}, Severity.WARNING, "no_git"),
        ({"git_directory_writable": False}, Severity.ERROR, "git_read_only"),
        ({"disks": (Disk(Path("/a/b"), Path("/a"), 1 << 40, writable=False),)}, Severity.ERROR, "not_writable"),
        ({"disks": (Disk(Path("/a/b"), Path("/a"), (1 << 30) - 1, writable=True),)}, Severity.WARNING, "low_disk"),
    ],
)
def test_each_thing_that_is_wrong_is_said_once(
    worse: dict[str, object], severity: Severity, code: str, here: Surroundings, tmux_socket: str
) -> None:
    bad = dataclasses.replace(dataclasses.replace(here, disks=()), **worse)  # type: ignore[arg-type]
    (finding,) = host.findings(bad, TmuxLauncher(tmux_socket))
    assert (finding.severity, finding.code) == (severity, code)
    assert finding.message and (finding.hint or finding.where)


def test_a_disk_is_looked_at_where_the_place_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert host.disk(tmp_path / "file" / "x").existing == tmp_path
    assert host.disk(Path("relative/and/missing")).existing == Path.cwd()
    read_only = host.disk(Path("/proc/x"))
    assert (read_only.writable, read_only.free_bytes) == (False, 0)


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
