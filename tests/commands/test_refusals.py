"""Runs whose code nobody can keep, and blueprints that cannot be run: both are said where a leader looks."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.index import state_home

pytestmark = pytest.mark.system

WITHOUT_A_FILTER = "filter.crypt.clean=no-such-program", "filter.crypt.required=true"


def test_a_run_without_a_snapshot_says_so(bench: Any) -> None:
    (bench.repo / ".gitattributes").write_text("*.bin filter=crypt\n")
    (bench.repo / "weights.bin").write_text("1")
    for setting in WITHOUT_A_FILTER:  # as where a filter is required and not installed
        bench.git("config", *setting.split("="))
    path = bench.blueprint()
    assert "no-such-program" in bench.ask("run", path, "--detach")["no_snapshot"]
    for payload in (bench.ask("run", path), bench.ask("status", "last")):  # it follows that run, or is one more
        assert payload["verdict"] == "keep" and payload["commit"] is None
        assert payload["warnings"] == [f"no snapshot of the code was kept: {payload['no_snapshot']}"]
    assert payload["warnings"][0] in Path(payload["results"]).read_text()


def test_code_outside_of_git_is_said(bench: Any) -> None:
    plain = bench.root / "plain"
    plain.mkdir()
    (plain / "trainer.py").write_text((bench.repo / "trainer.py").read_text())
    path = bench.blueprint(codebase=str(plain))
    done = bench.ask("run", path)
    assert done["warnings"] == [f"no snapshot of the code was kept: {plain} is not in a git repository"]
    assert (done["branch"], done["ending"]) == (None, "finished") and str(bench.root / "results") in done["ledger"]
    assert bench.ask("run", bench.blueprint(name="two.md"))["no_snapshot"] is None


def test_edits_in_a_submodule_are_said(bench: Any) -> None:
    part = bench.root / "part"
    part.mkdir()
    bench.git("init", "-q", str(part))
    (part / "lib.py").write_text("scale = 1\n")
    bench.git("-C", str(part), "add", "-A")
    bench.git("-C", str(part), "commit", "-qm", "part")
    bench.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part), "sub")
    bench.git("commit", "-qm", "sub")
    (bench.repo / "sub" / "lib.py").write_text("scale = 2\n")
    path = bench.blueprint()
    lacks = (
        "the snapshot lacks a part of the code: sub/ (uncommitted changes in a submodule; the commit holds its HEAD)"
    )
    assert f"warning: {lacks}" in bench.cli("run", path).stderr
    assert bench.ask("status", "last")["warnings"] == [lacks]
    bench.git("-C", str(bench.repo / "sub"), "commit", "-qam", "scale")
    assert bench.ask("run", path)["warnings"] == []


@pytest.mark.parametrize("fault", ["codebase", "command", "recipe"])
def test_a_refused_blueprint_leaves_a_flag(bench: Any, fault: str) -> None:
    path = _broken(bench, fault)
    flag = bench.root / "results" / "finish.flag"
    bench.ask("blueprint", "check", path, check=3)
    bench.ask("run", path, "--dry-run", check=3)
    assert not flag.parent.exists()
    for _ in range(2):
        error = bench.ask("run", path, check=3)["error"]
        told = json.loads(flag.read_text())
        assert (told["run"], told["ending"], told["reason"]) == ("", "refused", error["message"])
    assert [path.name for path in flag.parent.iterdir()] == ["finish.flag"]


def _broken(bench: Any, fault: str) -> Path:
    path = Path(bench.blueprint())
    text = path.read_text()
    change = {
        "codebase": (f"dir: {bench.repo}\n", f"dir: {bench.root}/nowhere\n"),
        "command": ("python trainer.py ok", ""),
        "recipe": ("- path: NA", "- path: nowhere.yaml"),
    }[fault]
    assert change[0] in text
    path.write_text(text.replace(*change))
    return path


@pytest.mark.parametrize("text", ["", "no blueprint at all", "## [exp_result_dir]\n- dir: ${subject_dir}\n"])
def test_where_nobody_knows_the_directory_nothing_is_written(bench: Any, text: str) -> None:
    path = bench.repo / "exp.md"
    path.write_text(text)
    before = bench.picture("state", "home")
    bench.ask("run", path, check=3)
    assert bench.picture("state", "home") == before


@pytest.mark.parametrize("there", ["finish.flag", "experiment_log.md", ".autoresearch-run", "index"])
def test_a_refusal_never_touches_the_directory_of_a_run(bench: Any, there: str) -> None:
    from autoresearch.records.index import Index, IndexEntry

    results = bench.root / "results"
    results.mkdir()
    if there == "index":
        entry = IndexEntry("old-aaaaaa", "old", "ajet_old", "/nowhere", str(results), created=1.0)
        Index(state_home(bench.env)).add(entry)
    else:
        (results / there).write_text("somebody's")
    before = {path: path.read_text() for path in results.iterdir()}
    bench.ask("run", _broken(bench, "codebase"), check=3)
    assert {path: path.read_text() for path in results.iterdir()} == before


def test_a_repaired_blueprint_runs_where_it_was_refused(bench: Any) -> None:
    bench.ask("run", _broken(bench, "codebase"), check=3)
    path = bench.blueprint()
    findings = bench.ask("blueprint", "check", path)["findings"]
    assert not any("finished run" in finding["message"] for finding in findings)
    payload = bench.ask("run", path)
    flag = json.loads((bench.root / "results" / "finish.flag").read_text())
    assert (flag["run"], flag["ending"]) == (payload["run"], "finished")
    bench.ask("run", _broken(bench, "codebase"), check=3)
    assert json.loads((bench.root / "results" / "finish.flag").read_text()) == flag


def test_a_file_system_without_locks_is_one_sentence(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = bench.blueprint(), fcntl.flock

    def flock(fd: int, operation: int) -> None:
        if str(bench.repo) in os.readlink(f"/proc/self/fd/{fd}"):  # as NFS without its lock daemon
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        real(fd, operation)

    before = bench.git("status", "--porcelain", "--ignored"), bench.git("branch")
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", flock)
        code, _, err = bench.here("run", path)
    assert code == 6 and "cannot be locked: No locks available; its file system has no locks" in err
    assert "Traceback" not in err and bench.git("branch") == before[1]
    assert bench.ask("run", path)["verdict"] == "keep", "nothing is in its way later"


def test_a_line_break_in_the_path_of_a_project(bench: Any) -> None:
    moved = bench.root / "a\nb"
    shutil.copytree(bench.repo, moved, symlinks=True)
    bench.repo = moved
    path = bench.blueprint(codebase=".", result_dir="./out")
    assert bench.ask("run", path)["verdict"] == "keep"
    (moved / "ideas.yaml").write_text("- {slug: more, sentence: more, files: {x.txt: more}}\n")
    keys = ("--count", 2, "--queue", "ideas.yaml", "--yes")
    refused = bench.ask("campaign", path, *keys, check=2)["error"]
    assert refused["code"] == "odd_path" and "has a line break in it" in refused["message"]
