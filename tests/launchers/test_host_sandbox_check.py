"""Who typed the command and what hems it in: from recorded /proc files, and in real sandboxes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.blueprint.finding import Severity
from autoresearch.launchers import host_sandbox_check

HOST_PIDS, OTHER_PIDS = "pid:[4026531836]", "pid:[4026532561]"


DRIVEN = [
    ({}, ""),
    ({"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli"}, "claude-code"),
    ({"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_API_KEY": "x"}, ""),
    ({"CODEX_SANDBOX_NETWORK_DISABLED": "1"}, "codex"),
    ({"CODEX_THREAD_ID": "0199"}, "codex"),
    ({"CODEX_HOME": "/home/a/.codex"}, ""),
    ({"GEMINI_CLI": "1"}, "gemini-cli"),
    ({"GEMINI_API_KEY": "x"}, ""),
    ({"CURSOR_AGENT": "1"}, "cursor"),
    ({"CURSOR_TRACE_ID": "x"}, ""),  # a person in the editor's terminal has that too
    ({"OPENCODE": "1"}, "opencode"),
    ({"OPENCODE_CONFIG": "/x"}, ""),
    ({"CLAUDECODE": ""}, ""),
    ({"AI_AGENT": "claude-code_2.1.329_agent"}, "claude-code"),
    ({"AGENT": "goose"}, "goose"),
    ({"AGENT": "1"}, "unnamed-agent"),
    ({"AGENT": "true"}, "unnamed-agent"),
    ({"AI_AGENT": "evil\tname\n"}, "evil"),
    ({"AI_AGENT": "\x1b[31m"}, "unnamed-agent"),
]


def test_driven_by() -> None:
    assert [host_sandbox_check.driven_by(environ) for environ, _ in DRIVEN] == [agent for _, agent in DRIVEN]


def proc(place: Path, *, first: str, pids: str) -> Path:
    """A /proc with what is read of it."""
    (place / "proc" / "1").mkdir(parents=True)
    (place / "proc" / "self" / "ns").mkdir(parents=True)
    (place / "proc" / "self" / "ns" / "pid").symlink_to(pids)
    (place / "proc" / "1" / "cmdline").write_text(first)
    return place / "proc"


@pytest.mark.parametrize(
    ("first", "pids", "environ", "codes"),
    [
        ("/sbin/init\0splash\0", HOST_PIDS, {}, []),
        ("bwrap\0--new-session\0--unshare-pid\0--\0bash\0", OTHER_PIDS, {}, ["sandbox"]),
        ("/usr/bin/bwrap\0--ro-bind\0/\0/\0", OTHER_PIDS, {"CODEX_SANDBOX": "x"}, ["sandbox"]),
        ("/proc/self/fd/3\0/bin/bash\0-c\0x\0", OTHER_PIDS, {"SANDBOX_RUNTIME": "1"}, ["sandbox"]),
        ("/sbin/init\0", HOST_PIDS, {"SANDBOX_RUNTIME": "1"}, ["sandbox"]),  # a marker alone: a warning
        ("/opt/codex/codex-linux-sandbox\0--\0bash\0", OTHER_PIDS, {}, ["sandbox"]),
        ("/sbin/init\0", HOST_PIDS, {"CODEX_SANDBOX_NETWORK_DISABLED": "1"}, ["sandbox"]),
        ("sleep\0infinity\0", OTHER_PIDS, {}, []),  # a container
        ("vim\0notes-on-bwrap.md\0", HOST_PIDS, {}, []),
        ("", "", {}, []),  # no such /proc: macOS
    ],
)
def test_look(first: str, pids: str, environ: dict[str, str], codes: list[str], tmp_path: Path) -> None:
    place = proc(tmp_path, first=first, pids=pids) if pids else tmp_path / "none"
    seen = host_sandbox_check.look(environ, proc=place)
    assert [finding.code for finding in host_sandbox_check.findings(seen)] == codes
    assert seen.private_pids == (pids == OTHER_PIDS)
    assert seen.doomed == ("sandbox" in codes and pids == OTHER_PIDS)
    for finding in host_sandbox_check.findings(seen):
        assert (finding.severity is Severity.ERROR) == seen.doomed
        assert finding.hint


def test_can_write_leaves_nothing(tmp_path: Path) -> None:
    assert host_sandbox_check.can_write(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not host_sandbox_check.can_write(tmp_path / "gone")


def inside(*wrapper: str, code: str, environ: dict[str, str] | None = None) -> str:
    """Run Python code inside a real sandbox."""
    if not shutil.which(wrapper[0]):
        pytest.skip(f"{wrapper[0]} is not installed: apt-get install bubblewrap util-linux")
    tried = subprocess.run([*wrapper, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no such sandbox can be made here: {tried.stderr.strip()}")
    root = str(Path(host_sandbox_check.__file__).parents[2])
    said = subprocess.run(
        [*wrapper, sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": root, **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or said.stderr


LOOK = (
    "import os; from autoresearch.launchers import host_sandbox_check as s; x = s.look(os.environ);"
    "print([f.code for f in s.findings(x)], x.doomed, x.private_pids)"
)
START = """
from pathlib import Path
from autoresearch.launchers.tmux import TmuxLauncher
launcher = TmuxLauncher()
print([f.code for f in launcher.preflight()])
print(launcher.start('ajet_x', ['sleep', '1000'], cwd=Path('/'), environment={}).session)
"""
BWRAP = ("bwrap", "--dev-bind", "/", "/")


@pytest.mark.real
def test_bubblewrap_is_doomed_with_a_pid_namespace_of_its_own_and_says_so() -> None:
    assert inside(*BWRAP, "--unshare-pid", "--proc", "/proc", code=LOOK) == "['sandbox'] True True"
    assert inside(*BWRAP, code=LOOK).endswith("False False")


@pytest.mark.real
def test_what_bubblewrap_starts_really_dies_with_the_command(eventually: Any) -> None:
    """The reason for all this: tmux answers that the session lives, and then it does not."""
    said = inside(*BWRAP, "--unshare-pid", "--proc", "/proc", "--die-with-parent", code=START)
    assert said.splitlines() == ["['sandbox']", "ajet_x"]
    asks = ["tmux", "-L", "default", "has-session", "-t", "=ajet_x"]
    eventually(lambda: subprocess.run(asks, check=False, capture_output=True).returncode == 1)


@pytest.mark.real
def test_a_read_only_directory_is_seen_by_root_too(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from autoresearch.launchers import host_sandbox_check;"
        f"print(host_sandbox_check.can_write(Path({str(tmp_path)!r})))"
    )
    assert inside(*BWRAP, "--ro-bind", str(tmp_path), str(tmp_path), code=code) == "False"
    assert inside(*BWRAP, code=code) == "True"


@pytest.mark.parametrize(
    ("environ", "first", "line"),
    [
        ({}, "bwrap --unshare-pid", ""),
        ({"CLAUDECODE": "1"}, "bwrap --unshare-pid", "claude mcp add autoresearch -- autoresearch mcp"),
        ({"CODEX_THREAD_ID": "x"}, "/sbin/init", "codex mcp add autoresearch -- autoresearch mcp"),
        ({}, "/x/codex-linux-sandbox --sandbox-policy-cwd /r", "codex mcp add autoresearch -- autoresearch mcp"),
        ({"GEMINI_CLI": "1"}, "sleep infinity", ""),
    ],
)
def test_the_way_out_is_the_agent_s_own(environ: dict[str, str], first: str, line: str, tmp_path: Path) -> None:
    seen = host_sandbox_check.look(
        environ, proc=proc(tmp_path, first=first.replace(" ", "\0"), pids=OTHER_PIDS)
    )
    assert host_sandbox_check.way_out(seen, environ) == line


@pytest.mark.parametrize("forbidden", ["bind", "connect"])
def test_a_socket_that_may_be_made_and_not_used(forbidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Codex has it since 0.169: socket() works, and connect() does not."""

    class Useless(socket.socket):
        def _refuse(self, *_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

    assert host_sandbox_check.look({}).unix_sockets
    monkeypatch.setattr(Useless, forbidden, Useless._refuse)
    monkeypatch.setattr(socket, "socket", Useless)
    (finding,) = host_sandbox_check.findings(host_sandbox_check.look({}))
    assert (finding.severity, finding.code) == (Severity.ERROR, "no_unix_sockets")
    assert "autoresearch mcp" in finding.hint


@pytest.mark.parametrize(("mode", "hint"), [(0o500, "chmod -R u+rwX PLACE"), (0o700, host_sandbox_check.REMEDY)])
def test_a_git_directory_whose_mode_forbids_writing_is_no_sandbox(tmp_path: Path, mode: int, hint: str) -> None:
    place = tmp_path / "a git"
    place.mkdir()
    place.chmod(mode)
    try:
        assert host_sandbox_check.git_is_read_only(place).hint.endswith(hint.replace("PLACE", f"'{place}'"))
    finally:
        place.chmod(0o700)


def test_a_full_disk_forbids_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    def read_only(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    assert not host_sandbox_check.forbids_writing(tmp_path) and not host_sandbox_check.forbids_writing(
        tmp_path / "gone"
    )
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    assert not host_sandbox_check.forbids_writing(tmp_path)
    monkeypatch.setattr("tempfile.TemporaryFile", read_only)
    assert host_sandbox_check.forbids_writing(tmp_path)
