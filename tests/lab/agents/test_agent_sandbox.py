"""What a confined agent can see and write: tried for real within bubblewrap, with somebody to be robbed outside."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.agents.agent import Traits
from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.agent_work import sandbox
from autoresearch.lab.agent_work.sandbox import (
    Cell,
    confined,
    import_roots,
    prefixes,
    socket_directories,
    ways_out,
    why_not,
    worth_hiding,
)
from autoresearch.lab.agent_work.turn_dir import Level, choose
from autoresearch.runner.spawn import _without_gone


@pytest.fixture
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    why_not.cache_clear()
    monkeypatch.setattr(sandbox, "PROGRAM", "bwrap-that-is-nowhere")
    yield
    why_not.cache_clear()


def test_the_level_without_bubblewrap(without_bubblewrap: None) -> None:
    own = Traits(sandbox=True)
    assert [choose(wanted, own) for wanted in ("auto", "off")] == [Level.AGENT] * 2
    assert [choose(wanted, Traits()) for wanted in ("auto", "off")] == [Level.NONE] * 2
    for traits in (own, Traits()):
        with pytest.raises(EnvironmentUnusable, match="not installed") as caught:
            choose("need", traits)
    assert caught.value.exit_code == 6 and "bubblewrap" in caught.value.hint


@pytest.mark.system
def test_bubblewrap_that_may_not_work_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed is not allowed: it is tried, once."""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho x >> {tmp_path}/tried\necho 'bwrap: No permissions' >&2\nexit 1\n")
    program.chmod(0o755)
    why_not.cache_clear()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert choose("auto", Traits()) is Level.NONE
    with pytest.raises(EnvironmentUnusable, match="No permissions"):
        choose("need", Traits())
    assert (tmp_path / "tried").read_text() == "x\n"
    why_not.cache_clear()


def test_worth_hiding(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in (
        ".ssh/id_ed25519",
        ".netrc",
        ".cache/huggingface/token",
        "work/keys.json",
        ".gitconfig",
        "other/token",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("x")
    environ = {"HOME": str(home), "HF_HOME": str(home / "other"), "KUBECONFIG": f"{home}/nothing:/none"}
    found = worth_hiding(environ, {"APP_CREDENTIALS": str(home / "work/keys.json"), "K": "/", "T": "abc"}, ())
    mine = {str(path.relative_to(home)) for path in found if path.is_relative_to(home)}
    assert mine == {".ssh", ".netrc", ".cache/huggingface/token", "work/keys.json", "other/token"}
    assert Path("/") not in found


def test_what_an_environment_imports_from_outside_of_itself_is_seen(tmp_path: Path) -> None:
    site = tmp_path / "venv/lib/python3.12/site-packages"
    for name, record in {
        "mine-1.dist-info": {"url": f"file://{tmp_path}/my%20code", "dir_info": {"editable": True}},
        "copied-1.dist-info": {"url": f"file://{tmp_path}/copied", "dir_info": {}},
        "fetched-1.dist-info": {"url": "https://example.org/x.whl", "archive_info": {}},
    }.items():
        (site / name).mkdir(parents=True)
        (site / name / "direct_url.json").write_text(json.dumps(record))
    (site / "torn-1.dist-info").mkdir()
    (site / "torn-1.dist-info/direct_url.json").write_text("{")
    (site / "paths.pth").write_text(f"import os; os.sep\n# {tmp_path}/no\n{tmp_path}/by-hand\nrelative\n")
    found = set(import_roots(tmp_path / "venv/bin/python"))
    assert found == {tmp_path / "my code", tmp_path / "by-hand"} and not set(import_roots(Path("/nowhere/bin/python")))
    (tmp_path / "venv/bin").mkdir()
    assert set(prefixes("", tmp_path / "venv/bin/python")) == found | {tmp_path / "venv"}


@pytest.fixture
def inside(tmp_path: Path, bubblewrap: None) -> Callable[..., subprocess.Popen[str]]:
    """Starts Python code in a sandbox in `tree`; it reads lines, and what it prints is read."""
    for name in ("home", "scratch", "tree"):
        (tmp_path / name).mkdir()

    seen = (tmp_path / "tmux-dir", tmp_path / "state")

    def start(code: str, **given: Any) -> subprocess.Popen[str]:
        words: dict[str, Any] = {"cwd": tmp_path / "tree", "writes": True, "scratch": tmp_path / "scratch"}
        cell = Cell(**(words | {"home": tmp_path / "home", "readable": seen} | given))
        argv = _without_gone(confined((sys.executable, "-c", textwrap.dedent(code)), cell))
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    return start


@contextlib.contextmanager
def listening(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    here = os.open(path.parent, os.O_RDONLY)  # the path may be longer than a socket's name may be
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as one:
        one.bind(f"/proc/self/fd/{here}/{path.name}")
        one.listen()
        yield
    os.close(here)
    path.unlink()


REACH = """
    import os, socket, sys
    def reached(path):
        here = os.open(os.path.dirname(path), os.O_RDONLY)
        one = socket.socket(socket.AF_UNIX)
        return one.connect_ex("/proc/self/fd/%d/%s" % (here, os.path.basename(path))) == 0
    print("ready", flush=True)
    for line in sys.stdin:
        path = line.strip()
        print(os.path.isdir(os.path.dirname(path)) and reached(path), sorted(os.listdir(HOME)), flush=True)
"""


def test_the_directory_of_a_tmux_server_that_is_yet_to_start_is_closed(tmp_path: Path) -> None:
    assert tmp_path in socket_directories({}, str(tmp_path / "tmux.sock"))
    assert tmp_path not in socket_directories({}, "a-name")


@pytest.mark.system
@pytest.mark.parametrize("name", ["home/mux", "home/.tm/tmux-0/default", "tmux-dir/tmux-0/default"])
def test_a_server_that_starts_again_is_not_reached(tmp_path: Path, inside: Any, name: str) -> None:
    """Its new socket has the old one's path; that of TMUX_TMPDIR may come when it is first started."""
    path = tmp_path / name
    (tmp_path / "tmux-dir").mkdir()
    (tmp_path / "home/work").mkdir()
    (tmp_path / "home/.bashrc").touch()
    (tmp_path / "home/latest").symlink_to("work")
    for directory in (tmp_path / "home", tmp_path / "home/work"):  # it is seen as it was
        (directory / "kept").write_text("x")
    with contextlib.ExitStack() as held:
        if "tmux-dir" not in name:
            held.enter_context(listening(path))
        closed = socket_directories({"TMUX_TMPDIR": str(tmp_path / "tmux-dir")})
        process = inside(f"HOME = {str(tmp_path / 'home')!r}\n" + textwrap.dedent(REACH), closed=frozenset(closed))
        assert process.stdout.readline() == "ready\n"
        if "tmux-dir" not in name:
            held.close()
        with listening(path):
            said, _ = process.communicate(f"{path}\n", timeout=300)
    seen = said.strip().partition(" ")
    assert seen[0] == "False" and eval(seen[2]) == sorted(
        ["work", ".bashrc", "latest", "kept", *([".tm"] if ".tm" in name else [])]
    ), said


@pytest.mark.system
def test_our_records_are_hidden_but_for_the_worktree(tmp_path: Path, inside: Any, monkeypatch: Any) -> None:
    state = tmp_path / "state/autoresearch"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("worktrees/slot-1/train.py", "worktrees/slot-2/train.py", "seals/x.json"):
        (state / name).parent.mkdir(parents=True)
        (state / name).write_text("x")
    tree = state / "worktrees/slot-1"
    code = f"""
        import os
        print(sorted(os.path.join(top, name) for top, _, names in os.walk({str(state)!r}) for name in names))
        open("made", "w").close()
        try:
            open({str(state / "evidence.tsv")!r}, "w")
        except OSError as error:
            print(error.strerror)
    """
    for hidden in (ways_out({}), worth_hiding({}, {}, ())):
        process = inside(code, cwd=tree, hidden=frozenset(hidden))
        said = process.communicate(timeout=300)[0].splitlines()
        assert said == [str([str(tree / "train.py")]), "Read-only file system"]
        (tree / "made").unlink()


@pytest.mark.system
def test_what_was_hidden_and_is_gone_at_the_start_is_no_hindrance(tmp_path: Path, inside: Any) -> None:
    """A run is evaluated hours after its sandbox was described."""
    keys, held = tmp_path / "home/.ssh", tmp_path / "home/run"
    keys.mkdir()
    (tmp_path / "home/.netrc").touch()
    with listening(held / "socket"):
        (held / "link").symlink_to("x")
        cell = Cell(
            tmp_path / "tree",
            True,
            tmp_path / "scratch",
            tmp_path / "home",
            readable=(tmp_path,),
            hidden=frozenset([keys, tmp_path / "home/.netrc"]),
            closed=frozenset([held]),
        )
        argv = confined(("true",), cell)
    for place in (keys, held):
        shutil.rmtree(place)
    (tmp_path / "home/.netrc").unlink()
    assert subprocess.run(argv, check=False, capture_output=True).returncode == 1, "bubblewrap refuses"
    assert subprocess.run(_without_gone(argv), check=False).returncode == 0


def test_what_is_needed_is_not_hidden(tmp_path: Path) -> None:
    """A worktree below a directory of secrets stays, alone; what is hidden with its parent is not hidden twice."""
    for name in ("vault/tree", "turn/answer", "scratch", "keys/deep"):
        (tmp_path / name).mkdir(parents=True)
    hidden = frozenset(tmp_path / name for name in ("vault", "keys", "keys/deep"))
    readable = (tmp_path,)
    cell = Cell(
        tmp_path / "vault/tree",
        True,
        tmp_path / "scratch",
        tmp_path,
        tmp_path / "turn",
        readable=readable,
        hidden=hidden,
    )
    words = confined(("true",), cell)
    assert words[words.index("--") :] == ("--", "true")
    places = {words[n + 2]: words[n] for n, word in enumerate(words) if word in ("--bind", "--ro-bind")}
    assert places[str(tmp_path / "vault/tree")] == "--bind"
    empty = [words[n + 1] for n, word in enumerate(words) if word == "--tmpfs" and words[n + 1] != "/run"]
    assert empty == [str(tmp_path / "keys"), str(tmp_path / "vault")]
