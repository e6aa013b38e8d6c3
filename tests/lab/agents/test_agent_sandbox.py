"""What a confined agent can see and write: tried for real within bubblewrap, with somebody to be robbed outside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoresearch.core.agents.agent import Traits
from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.agents import agent_sandbox
from autoresearch.lab.agents.agent_sandbox import Cell, Level, choose, confined, import_roots, prefixes, why_not
from autoresearch.lab.agents.hidden_paths import worth_hiding


@pytest.fixture
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    why_not.cache_clear()
    monkeypatch.setattr(agent_sandbox, "PROGRAM", "bwrap-that-is-nowhere")
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


def test_off_is_off() -> None:
    assert choose("off", Traits()) is Level.NONE


def test_every_level_says_what_it_means() -> None:
    assert all(len(level.sentence) > 40 for level in Level)


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


def test_what_is_needed_is_not_hidden(tmp_path: Path) -> None:
    """A worktree below a directory of secrets stays; what is hidden with its parent is not hidden twice."""
    for name in ("vault/tree", "turn/answer", "scratch", "keys/deep"):
        (tmp_path / name).mkdir(parents=True)
    hidden = frozenset(tmp_path / name for name in ("vault", "keys", "keys/deep"))
    cell = Cell(tmp_path / "vault/tree", True, tmp_path / "scratch", tmp_path, tmp_path / "turn", hidden=hidden)
    words = confined(("true",), cell)
    assert words[words.index("--") :] == ("--", "true")
    places = {words[n + 2]: words[n] for n, word in enumerate(words) if word in ("--bind", "--ro-bind")}
    assert places[str(tmp_path / "vault/tree")] == "--bind" and places[str(tmp_path / "keys")] == "--ro-bind"
    assert str(tmp_path / "vault") not in places and str(tmp_path / "keys/deep") not in places
