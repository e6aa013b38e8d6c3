"""Regular expressions out of a file are those that `re` compiles: patterns are equal if their code is."""

from __future__ import annotations

import marshal
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autoresearch.commands.pattern_code import _MANY, PatternCode

pytestmark = pytest.mark.smoke

PATTERNS: list[tuple[str | bytes, int]] = [
    ("a", 0), (b"a", 0), ("a", re.IGNORECASE), (r"(?P<x>\w+)-(\d)(?P<y>é)?", re.VERBOSE), (b"[\x80-\xff]", re.DOTALL),
    (r"(?im)^\s*\b(?:ä|ſ)$", 0), (r"(a)|b(?(1)c|d)", 0), (r"(?<!\d)x++(?>y*)", re.ASCII), ("[^\\W\\d_]", re.MULTILINE),
]  # fmt: skip
INTERNAL: Any = re


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the code is kept; after the test, `re` compiles as ever."""
    monkeypatch.setattr(INTERNAL._compiler, "compile", INTERNAL._compiler.compile)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    re.purge()
    return tmp_path / "patterns.regex"


def used(path: Path) -> PatternCode:
    patterns = PatternCode(path)
    patterns.use()
    return patterns


def test_a_second_process_compiles_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ever = [INTERNAL._compiler.compile(*one) for one in PATTERNS]
    first = used(path)
    assert [INTERNAL._compiler.compile(*one) for one in PATTERNS] == ever
    first.keep()
    monkeypatch.setattr(INTERNAL._compiler, "_code", None)
    used(path)
    again = [re.compile(*one) for one in PATTERNS]
    assert again == ever
    assert [(one.groups, one.groupindex, one.flags) for one in again] == [
        (one.groups, one.groupindex, one.flags) for one in ever
    ]
    assert [one[3].match("ab-1").groupdict() for one in (again, ever)] == 2 * [{"x": "ab", "y": None}]


def test_few_new_ones_are_not_written_and_a_directory_that_refuses_is_no_error(path: Path) -> None:
    patterns = used(path)
    for number in range(_MANY - 1):
        re.compile(f"few{number}")
    patterns.keep()
    assert not path.exists()
    unwritable = used(path / "below" / "it")
    for number in range(_MANY):
        re.compile(f"many{number}")
    unwritable.keep()
    assert not any(path.parent.iterdir())


@pytest.mark.parametrize("content", (b"", b"no marshal", marshal.dumps(7), marshal.dumps(("2.7", {("a", 0): b""}))))
def test_a_file_that_is_broken_or_of_another_python_is_as_none(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    used(path)
    assert re.compile("a").match("a")


def test_what_is_no_expression_is_refused_as_ever(path: Path) -> None:
    used(path)
    with pytest.raises(re.error, match="unterminated"):
        re.compile("(")
    with pytest.raises(TypeError):
        re.compile(7)  # type: ignore[call-overload]


@pytest.mark.system
def test_a_command_keeps_what_it_compiled_beside_its_modules(tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text("# one\n\n## [exp_launch_command]\n`true`\n")
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "pyc"), "PYTHONPATH": os.getcwd()}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    argv = [sys.executable, "-m", "autoresearch", "blueprint", "check", "one.md"]
    written = []
    for _ in range(2):
        subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, timeout=120)
        (kept,) = tmp_path.glob("pyc/**/*.regex")
        written.append((kept.stat().st_ino, len(marshal.loads(kept.read_bytes())[1])))
    assert written[0] == written[1]
    assert written[0][1] > 20
