"""The tmux launcher against the real tmux, on private sockets."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.launchers import tmux
from autoresearch.launchers.program import is_older, version
from autoresearch.launchers.tmux import SessionInfo, TmuxLauncher
from tests.processes import is_dead

pytestmark = pytest.mark.system

Eventually = Callable[[Callable[[], object]], None]

HOSTILE = """
set -g exit-unattached on
set -g destroy-unattached on
set -g default-shell /bin/false
set -g default-command "exit 1"
set -g default-terminal nonsense
set -g base-index 1
setw -g pane-base-index 1
set -g renumber-windows on
set -g set-titles on
set -g status off
set -g remain-on-exit off
set -g history-limit 0
set -g no-such-option on
set-hook -g after-new-session "display-message -p welcome"
"""
HUNTED = ("ray", "vllm", "sglang", "python")  # what `--autokill` looks for in command lines
NASTY = (
    *("", " ", "a b", "$HOME", "$(date)", "`date`", "'", '"', "\\", "a\nb", ";", "x;", "x\\;", "a;b", "#{pid}"),
    *("#S", "%H", "-x", "--", "é 中", "{", "}", "~", "*", "Enter", "C-c", "\\$x", "!", "=x"),
)


def tell(socket: str, *words: str) -> str:
    """The plain tmux, beside the launcher."""
    flags = ["-S", socket] if "/" in socket else ["-L", socket]
    said = subprocess.run(["tmux", *flags, *words], capture_output=True, text=True, check=False)
    return (said.stdout + said.stderr).strip()


def environment_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)


def busy(launcher: TmuxLauncher) -> list[str]:
    """The sessions of ours in which something runs."""
    ended = launcher.list_ended()
    return [info.session for info in launcher.list_ours() if info not in ended]


def writes(path: Path, what: str) -> list[str]:
    """An argv that writes a Python expression's value as JSON, atomically."""
    code = f"import json,os,sys; t={str(path)!r}; open(t+'_','w').write(json.dumps({what})); os.replace(t+'_',t)"
    return [sys.executable, "-c", code]


@pytest.fixture
def launcher(tmux_socket: str) -> Iterator[TmuxLauncher]:
    """A launcher on a server of its own; whatever it still has at the end is closed."""
    launcher = TmuxLauncher(tmux_socket)
    path = os.environ["PATH"]
    yield launcher
    os.environ["PATH"] = path
    for info in launcher.list_ours():
        launcher.close(info)


@pytest.fixture
def start(launcher: TmuxLauncher, tmp_path: Path) -> Callable[..., SessionInfo]:
    def start(name: str, *argv: str, **environment: str) -> SessionInfo:
        words = argv or ("sleep", "1000")
        return launcher.start(name, words, cwd=tmp_path, environment=environment)

    return start


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts a shell script before the real program on PATH."""
    place = tmp_path / "bin"
    place.mkdir()

    def write(name: str, script: str) -> Path:
        (place / name).write_text(f"#!/bin/sh\n{script}\n")
        (place / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
        return place / name

    return write


def test_a_session_runs_its_argv_where_and_with_what_it_was_told(
    launcher: TmuxLauncher, tmp_path: Path, eventually: Eventually
) -> None:
    cwd = tmp_path / "a #{pid} 'b;"
    cwd.mkdir()
    out = tmp_path / "out"
    code = "[os.getcwd(), sys.argv[1:], os.environ['K'], os.environ['L'], [*os.get_terminal_size(1)]]"
    info = launcher.start(
        "ajet_x_1", [*writes(out, code), *NASTY], cwd=cwd, environment={"K": "a b;", "L": "$HOME\n#{pid}"}
    )
    eventually(out.exists)
    *told, size = json.loads(out.read_text())
    assert told == [str(cwd), list(NASTY), "a b;", "$HOME\n#{pid}"]
    if not is_older(version("tmux", "-V"), (3, 3)):  # 3.2 takes the size of the client, which has none
        assert size == [220, 50]
    assert info.session == "ajet_x_1" and info.socket == launcher.socket and info.launcher == "tmux"
    assert info.attach == f"tmux -S {launcher.socket} attach -t '=ajet_x_1'"
    again = SessionInfo.read(json.loads(json.dumps(dataclasses.asdict(info))))
    assert again == info


def test_one_word_is_a_program_and_not_a_line_for_a_shell(
    launcher: TmuxLauncher, tmp_path: Path, eventually: Eventually
) -> None:
    program = tmp_path / "a $(b); c"
    program.write_text("#!/bin/sh\necho ran > ran\n")
    program.chmod(0o755)
    launcher.start("ajet_x_1", [str(program)], cwd=tmp_path, environment={})
    eventually((tmp_path / "ran").exists)


def test_what_cannot_be_started_is_refused_before_tmux_is_asked(launcher: TmuxLauncher, tmp_path: Path) -> None:
    for name in ("", "x", "ajet_", "ajet_a.b", "ajet_a:b", "ajet_a b", "ajet_$(x)", "ajet_" + "x" * 61, "ajet_x\n"):
        with pytest.raises(UsageError):
            launcher.start(name, ["true"], cwd=tmp_path, environment={})
    with pytest.raises(EnvironmentUnusable) as no_directory:
        launcher.start("ajet_x", ["true"], cwd=tmp_path / "gone", environment={})
    assert no_directory.value.code == "no_directory"
    assert not Path(launcher.socket).exists()


def test_a_command_that_is_too_long_for_tmux_is_an_error(start: Callable[..., SessionInfo]) -> None:
    with pytest.raises(EnvironmentUnusable, match="too long") as error:
        start("ajet_x", "true", "x" * 20_000)
    assert error.value.code == "tmux_failed"


def test_a_taken_name_is_a_conflict_even_when_its_pane_is_dead(
    start: Callable[..., SessionInfo], launcher: TmuxLauncher, eventually: Eventually
) -> None:
    first = start("ajet_x_1", "true", "really")
    eventually(lambda: launcher.list_ended() == [first])
    with pytest.raises(ConflictError) as error:
        start("ajet_x_1")
    assert error.value.code == "session_exists" and first.attach in error.value.hint
    assert launcher.list_ours() == [first]


def test_sessions_without_a_server_without_tmux_and_on_another_server(
    start: Callable[..., SessionInfo], launcher: TmuxLauncher, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    first = start("ajet_x_1")
    assert launcher.exists(first) and busy(launcher) == ["ajet_x_1"]
    launcher.close(first)
    assert not launcher.exists(first) and launcher.list_ours() == []
    eventually(lambda: is_dead(first.server_pid))  # one that is about to end takes no session
    tell(launcher.socket, "new-session", "-d", "-s", "mine")  # the ids start again: $0, %0
    second = start("ajet_x_1")
    assert (second.session_id, second.pane_id) == (first.session_id, first.pane_id)
    assert not launcher.exists(first) and not launcher.close(first)
    assert busy(launcher) == ["ajet_x_1"]
    monkeypatch.setenv("PATH", "/nonexistent")
    for ask in (launcher.list_ours, lambda: launcher.exists(second)):
        with pytest.raises(EnvironmentUnusable) as error:
            ask()
        assert error.value.code == "no_tmux"
    monkeypatch.undo()
    tell(launcher.socket, "kill-session", "-t", "=mine")


def test_a_server_that_does_not_answer_is_unknown(
    start: Callable[..., SessionInfo], launcher: TmuxLauncher, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    info, other = start("ajet_x_1"), start("ajet_x_2")
    monkeypatch.setattr(tmux, "ANSWER_S", 0.2)
    os.kill(info.server_pid, signal.SIGSTOP)
    try:
        for ask in (launcher.list_ours, lambda: launcher.exists(info), lambda: launcher.close(other)):
            with pytest.raises(EnvironmentUnusable) as error:
                ask()
            assert error.value.code == "tmux_unreachable"
        assert [finding.code for finding in launcher.preflight()] == ["tmux_unreachable"]
    finally:
        os.kill(info.server_pid, signal.SIGCONT)
    monkeypatch.setattr(tmux, "ANSWER_S", 60.0)
    assert launcher.exists(info)


def test_close_ends_one_session_and_no_other(start: Callable[..., SessionInfo], launcher: TmuxLauncher) -> None:
    tell(launcher.socket, "new-session", "-d", "-s", "mine")
    infos = [start(name) for name in ("ajet_x", "ajet_x_1", "ajet_x_12")]
    launcher.close(infos[0])
    launcher.close(infos[0])
    assert [info.session for info in launcher.list_ours()] == ["ajet_x_1", "ajet_x_12"]
    tell(launcher.socket, "rename-session", "-t", "=ajet_x_1:", "renamed")  # ids, not names
    launcher.close(infos[1])
    assert tell(launcher.socket, "list-sessions", "-F", "#S").split() == ["ajet_x_12", "mine"]
    tell(launcher.socket, "kill-session", "-t", "=mine")


def test_the_server_we_start_says_nothing_of_us_and_is_an_ordinary_one(
    tmp_path: Path, launcher: TmuxLauncher, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    cwd, place = tmp_path / "ray-python", tmp_path / "python3.11" / "bin"
    cwd.mkdir()
    place.mkdir(parents=True)
    (place / "tmux").symlink_to(str(shutil.which("tmux")))
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")  # its own path is not in the command line either
    for name in ("AUTORESEARCH_RUN_ID", "TMUX_PANE", "CLAUDECODE", "CODEX_THREAD_ID"):
        monkeypatch.setenv(name, "outer")
    monkeypatch.setenv("TMUX", "/nonexistent/other,1,0")
    argv = [sys.executable, "-c", "import time; time.sleep(1000)", "vllm", "sglang"]
    info = launcher.start("ajet_ray-python_1", argv, cwd=cwd, environment={"AUTORESEARCH_RUN_ID": "inner"})
    line = Path(f"/proc/{info.server_pid}/cmdline").read_text().replace("\0", " ")
    betrayed = [word for word in (*HUNTED, "ajet", str(cwd), "inner") if word in line.lower()]
    assert line.startswith("tmux ") and not betrayed
    theirs = environment_of(info.server_pid)
    assert not theirs.keys() & {"AUTORESEARCH_RUN_ID", "TMUX", "TMUX_PANE", "CLAUDECODE", "CODEX_THREAD_ID"}
    assert Path(f"/proc/{info.server_pid}/cwd").readlink() == Path("/")
    (pid,) = launcher.living_pids(info.session) or ()
    eventually(lambda: environment_of(pid).get("AUTORESEARCH_RUN_ID") == "inner")
    assert tell(launcher.socket, "list-sessions", "-F", "#S") == "ajet_ray-python_1"  # the keeper is gone
    assert launcher.close(info) is True
    eventually(lambda: is_dead(info.server_pid))


@pytest.mark.parametrize("theirs", [False, True], ids=["our server", "the person's server"])
def test_a_server_outlives_our_last_session_until_we_have_looked(
    theirs: bool, launcher: TmuxLauncher, start: Callable[..., SessionInfo], eventually: Eventually
) -> None:
    """Else the Runner could not tell a killed session from a dead server."""
    if theirs:
        tell(launcher.socket, "new-session", "-d", "-s", "mine")
    infos = [start("ajet_x_1"), start("ajet_x_2")]
    if theirs:
        tell(launcher.socket, "kill-session", "-t", "=mine")
    assert launcher.close(infos[0]) is True
    tell(launcher.socket, "kill-session", "-t", "=ajet_x_2")
    for _ in range(3):
        assert tell(launcher.socket, "list-sessions") == ""  # it is there and has none
    assert not is_dead(infos[1].server_pid)
    assert launcher.close(infos[1]) is False
    eventually(lambda: is_dead(infos[1].server_pid))


@pytest.mark.parametrize("value", ["on", "off"])
def test_a_person_gets_the_server_back_as_it_was(
    value: str, launcher: TmuxLauncher, start: Callable[..., SessionInfo]
) -> None:
    def option() -> str:
        return tell(launcher.socket, "show-options", "-s", "exit-empty")

    tell(launcher.socket, "new-session", "-d", "-s", "mine", ";", "set-option", "-s", "exit-empty", value)
    for _ in range(2):
        infos = [start("ajet_x_1"), start("ajet_x_2")]
        assert option() == "exit-empty off"
        launcher.close(infos[0])
        assert option() == "exit-empty off"
        launcher.close(infos[1])
        assert option() == f"exit-empty {value}"
        assert "@autoresearch" not in tell(launcher.socket, "show-options", "-s")
    tell(launcher.socket, "kill-session", "-t", "=mine")


def test_the_default_server_is_the_users_whatever_pane_we_are_in(
    tmp_path: Path,
    launcher: TmuxLauncher,
    start: Callable[..., SessionInfo],
    monkeypatch: pytest.MonkeyPatch,
    clean_environment: Path,
) -> None:
    around = start("ajet_around_1")
    monkeypatch.setenv("TMUX", f"{launcher.socket},{around.server_pid},0")
    default = TmuxLauncher()
    info = default.start("ajet_x_1", ["sleep", "1000"], cwd=tmp_path, environment={})
    assert (info.socket, info.attach) == ("", "tmux attach -t '=ajet_x_1'")
    assert tell(str(clean_environment / f"tmux-{os.getuid()}" / "default"), "ls", "-F", "#S") == "ajet_x_1"
    assert default.exists(info) and default.exists(around)  # each on its own server
    assert launcher.attach_argv(around, os.environ)[-3:] == ["switch-client", "-t", "=ajet_around_1"]
    assert default.attach_argv(info, os.environ) == ["tmux", "-L", "default", "attach-session", "-t", "=ajet_x_1"]
    default.close(info)
    named = TmuxLauncher("other")
    info = named.start("ajet_x_1", ["sleep", "1000"], cwd=tmp_path, environment={})
    assert info.attach == "tmux -L other attach -t '=ajet_x_1'"
    named.close(info)


@pytest.mark.parametrize("running", [False, True], ids=["cold", "the person's server runs"])
def test_a_hostile_configuration_cannot_end_a_session(
    running: bool,
    clean_environment: Path,
    launcher: TmuxLauncher,
    start: Callable[..., SessionInfo],
    eventually: Eventually,
) -> None:
    (clean_environment / ".tmux.conf").write_text(HOSTILE)
    if running:
        keep = "set -s exit-unattached off ; set -t =mine: destroy-unattached off"
        tell(launcher.socket, *f"new-session -d -s mine sleep 1000 ; {keep}".split())
    info = start("ajet_x_1", "sh", "-c", "echo shown; sleep 1000")
    short = start("ajet_x_2", "true", "really")
    for _ in range(3):  # a client that leaves is what such options wait for
        attach_and_detach(info.attach, launcher.socket, eventually)
    eventually(lambda: launcher.list_ended() == [short])
    assert busy(launcher) == ["ajet_x_1"]
    assert len(launcher.list_ours()) == 2  # the dead pane stays until it is closed
    assert "shown" in tell(launcher.socket, "capture-pane", "-p", "-t", info.pane_id)
    if running:
        assert "destroy-unattached on" in tell(launcher.socket, "show-options", "-g", "destroy-unattached")
        tell(launcher.socket, "kill-session", "-t", "=mine")


def attach_and_detach(line: str, socket: str, eventually: Eventually) -> None:
    """What a person does, in a terminal of 80x24, with the line that we print."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm"}
    person = subprocess.Popen(["sh", "-c", line], stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    drained = threading.Thread(target=drain, args=(ours,))
    drained.start()
    try:
        eventually(lambda: tell(socket, "list-clients", "-F", "#{client_pid}").splitlines())
        tell(socket, "detach-client", "-t", tell(socket, "list-clients", "-F", "#{client_name}"))
        person.wait(60)
    finally:
        person.kill()
        person.wait()
        drained.join()
        os.close(ours)


def drain(fd: int) -> None:
    try:
        while os.read(fd, 65536):
            pass
    except OSError:  # EIO: the other side is closed
        pass


def test_a_pane_is_readable_after_the_end(
    start: Callable[..., SessionInfo], launcher: TmuxLauncher, eventually: Eventually, tmp_path: Path
) -> None:
    # tmux 3.3a loses what is printed less than some milliseconds before the exit, one time in eight
    info = start("ajet_x_1", "sh", "-c", "echo 'Traceback: boom'; until [ -e go ]; do sleep 0.02; done; exit 3")

    def shown() -> str:
        return tell(launcher.socket, "capture-pane", "-p", "-S", "-", "-t", info.pane_id)

    eventually(lambda: "boom" in shown())
    (tmp_path / "go").touch()
    eventually(lambda: launcher.list_ended() == [info])
    assert "Traceback: boom" in shown()
    launcher.close(info)
    assert launcher.list_ours() == []


def test_a_pane_closes_by_itself_when_its_day_is_over(
    start: Callable[..., SessionInfo],
    launcher: TmuxLauncher,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No process of ours waits for it; what a person opened in its session, or started again in it, stays."""
    monkeypatch.setattr(tmux, "READABLE_S", 5)
    kept, beside = start("ajet_x_1", "cat"), start("ajet_x_3", "true", "really")
    tell(launcher.socket, "new-window", "-d", "-t", "=ajet_x_3:", "sleep", "1000")
    again = start("ajet_x_4", "true", "really")
    tell(launcher.socket, "respawn-pane", "-k", "-t", again.pane_id, "sleep", "1000")
    gone = start("ajet_x_2", "true", "really")
    eventually(lambda: not launcher.exists(gone))
    eventually(lambda: beside.pane_id not in tell(launcher.socket, "list-panes", "-a", "-F", "#{pane_id}").split())
    assert {one.session for one in launcher.list_ours()} == {"ajet_x_1", "ajet_x_3", "ajet_x_4"}
    for info in (kept, beside, again):
        launcher.close(info)


def test_a_server_without_a_session_is_one_without_ours(
    launcher: TmuxLauncher, start: Callable[..., SessionInfo]
) -> None:
    tell(launcher.socket, "start-server", ";", "set-option", "-s", "exit-empty", "off")
    assert launcher.preflight() == [] and launcher.list_ours() == []
    info = start("ajet_x_1")
    launcher.close(info)
    assert not launcher.exists(info)


def test_a_window_that_a_person_opens_beside_the_run_is_not_part_of_it(
    start: Callable[..., SessionInfo], launcher: TmuxLauncher, eventually: Eventually
) -> None:
    info = start("ajet_x_1", AUTORESEARCH_RUN_ID="x-1", OTHER="kept")
    new = tell(launcher.socket, "new-window", "-d", "-P", "-F", "#{pane_pid}", "-t", "=ajet_x_1:", "sleep", "1000")
    eventually(lambda: environment_of(int(new)).get("OTHER") == "kept")
    assert "AUTORESEARCH_RUN_ID" not in environment_of(int(new))
    assert launcher.list_ours() == [info]
    tell(launcher.socket, "kill-pane", "-t", info.pane_id)
    assert launcher.list_ended() == []  # theirs is alive, ours is not


def test_many_start_at_once_where_no_server_runs(start: Callable[..., SessionInfo], launcher: TmuxLauncher) -> None:
    made: list[SessionInfo] = []
    threads = [threading.Thread(target=lambda n=n: made.append(start(f"ajet_x_{n}"))) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({info.server_pid for info in made}) == 1
    assert sorted(busy(launcher)) == [f"ajet_x_{n}" for n in range(6)]
    assert tell(launcher.socket, "list-sessions", "-F", "#S").split() == [f"ajet_x_{n}" for n in range(6)]


def test_a_keeper_whose_cli_was_killed_goes_by_itself(
    launcher: TmuxLauncher, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    monkeypatch.setattr(tmux, "KEEPER_S", 6)  # it is to be seen alive before
    with launcher._server():
        pid = int(tell(launcher.socket, "display-message", "-p", "#{pid}"))
        eventually(lambda: is_dead(pid))


def test_a_session_that_was_announced_but_is_gone_is_an_error(
    program: Callable[[str, str], Path], start: Callable[..., SessionInfo]
) -> None:
    real = shutil.which("tmux")
    program("tmux", f'case "$*" in *list-panes*) exit 0;; esac\nexec "{real}" "$@"')
    with pytest.raises(EnvironmentUnusable) as error:
        start("ajet_x_1", "true", "really")
    assert error.value.code == "session_lost" and "excludedCommands" in error.value.hint


@pytest.mark.parametrize(
    ("says", "code"), [(None, "no_tmux"), ("exit 1", "no_tmux"), ("2.7", "old_tmux"), ("3.1c", "old_tmux")]
)
def test_no_tmux_or_an_old_one(says: str | None, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "bin"
    place.mkdir()
    old = f'[ "$1" = -V ] && echo tmux {says} && exit; echo "tmux: unknown option -- N" >&2; exit 1'
    for name, script in (("apk", "exit 0"), ("tmux", old if code == "old_tmux" else says)):
        if script is not None:
            (place / name).write_text(f"#!/bin/sh\n{script}\n")
            (place / name).chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # root needs no sudo
    monkeypatch.setenv("PATH", str(place))
    launcher = TmuxLauncher(str(tmp_path / "s"))
    with pytest.raises(EnvironmentUnusable) as error:
        launcher.start("ajet_x", ["true"], cwd=tmp_path, environment={})
    assert (error.value.code, error.value.fix, error.value.exit_code) == (code, "sudo apk add tmux", 6)
    finding = launcher.preflight()[-1]
    assert finding.code == code and "sudo apk add tmux" in finding.hint
