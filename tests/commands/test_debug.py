"""`--debug`: what a command starts, and the traceback of its error, without secrets."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytestmark = pytest.mark.system


def test_programs_that_a_run_starts(bench: Any) -> None:
    blueprint = bench.blueprint("ok")
    done = bench.cli("run", blueprint, "--debug", "--json", SOME_API_KEY="very-secret-5512")
    assert re.search(r"^starts in .*: git .* commit-tree ", done.stderr, re.M)
    assert re.search(r"^starts in .*: \S*tmux .* new-session ", done.stderr, re.M)
    assert "very-secret-5512" not in done.stderr and done.stdout.count("\n") == 1
    assert "starts in" not in bench.cli("status").stderr


def test_an_error_has_its_traceback_and_a_masked_line(bench: Any) -> None:
    done = bench.cli("--debug", "run", "nosuch.md", "--note", "OPENAI_API_KEY=sk-abcdefghijklmnopqrstuvwx", check=4)
    assert "Traceback (most recent call last)" in done.stderr
    assert "NotFoundError: there is no blueprint" in done.stderr and "sk-abcdefghijkl" not in done.stderr
