"""`--debug`: one file tells what a command, its Runner, its collector and its controller did, without secrets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.index import state_home

pytestmark = pytest.mark.system


def log_of(stderr: str) -> str:
    (path,) = re.findall(r"^debug log: (.+)$", stderr, re.M)
    assert Path(path).stat().st_mode & 0o077 == 0
    return Path(path).read_text()


def test_a_run_and_all_that_is_started_below_it(bench: Any) -> None:
    (bench.repo / "autoresearch.yaml").write_text("grace: 9s\n")
    blueprint = bench.blueprint("ok")
    done = bench.cli("run", blueprint, "--debug", "--json", SOME_API_KEY="very-secret-5512")
    bench.until(lambda: "[" in log_of(done.stderr) and " collect] exit code 0" in log_of(done.stderr))
    text = log_of(done.stderr)
    assert f"run] autoresearch run {blueprint} --json, in {bench.repo}" in text
    assert f"run] read {bench.repo}/autoresearch.yaml" in text
    assert re.search(r"run\] starts in .*: git .* commit-tree ", text)
    assert re.search(r"run\] starts in .*: \S*tmux .* new-session ", text)
    assert re.search(r" runner \S+\] started \d+ in .*: python trainer.py ok\n", text)
    assert re.search(r" runner \S+\] \d+: exited with 0\n", text)
    assert "run] exit code 0 after " in text and "very-secret-5512" not in text


def test_an_error_leaves_its_traceback_and_a_masked_line(bench: Any) -> None:
    done = bench.cli("--debug", "run", "nosuch.md", "--note", "OPENAI_API_KEY=sk-abcdefghijklmnopqrstuvwx", check=2)
    text = log_of(done.stderr)
    assert "Traceback (most recent call last)" in text
    assert "UsageError: nothing was started: there is no blueprint" in text
    assert "exit code 2 after" in text and "sk-abcdefghijkl" not in text


def test_a_variable_asks_for_it_too_and_off_writes_nothing(bench: Any) -> None:
    debug = state_home(bench.env) / "debug"
    bench.cli("status", AUTORESEARCH_DEBUG="0")
    assert not debug.exists()
    assert "status] exit code 0" in log_of(bench.cli("status", AUTORESEARCH_DEBUG="1").stderr)
    (log,) = debug.iterdir()
    assert "debug log" not in bench.cli("status", AUTORESEARCH_DEBUG=log).stderr
    assert log.read_text().count("status] exit code 0") == 2, "a command below another one writes into its file"


def test_where_it_cannot_be_written_the_command_goes_on(bench: Any) -> None:
    state_home(bench.env).mkdir(parents=True, exist_ok=True)
    (state_home(bench.env) / "debug").write_text("in the way")
    done = bench.cli("status", "--debug")
    assert "the debug log cannot be written: " in done.stderr and "nothing runs" in done.stdout
