"""Escapes: whatever a cell holds, a line is a record."""

from __future__ import annotations

import random

import pytest

from autoresearch.records import tsv


def test_random_strings_survive() -> None:
    dice = random.Random(7)
    alphabet = "\\\\\\tnr0u\t\n\r\0 d800xé\udc80\ud83d\ude00🎉"
    for _ in range(3000):
        cells = ["".join(dice.choices(alphabet, k=dice.randrange(9))) for _ in range(dice.randrange(1, 5))]
        line = tsv.join(cells)
        assert tsv.split(line) == cells
        assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    ("text", "cell"),
    [("a\tb", "a\\tb"), ("a\\b", "a\\\\b"), ("a\nb\rc\0", "a\\nb\\rc\\0"), ("\udcff", "\\udcff")],
)
def test_how_cells_look(text: str, cell: str) -> None:
    assert tsv.escape(text) == cell


@pytest.mark.parametrize("cell", ["C:\\Users", "50\\%", "\\", "a\\", "\\u00e9", "\\x"])
def test_an_escape_that_is_none_stays(cell: str) -> None:
    assert tsv.unescape(cell) == cell


@pytest.mark.parametrize("line", [b"a\tb", b"a\tb\n", b"a\tb\r\n", b"a\tb\r"])
def test_unix_and_windows_line_ends(line: bytes) -> None:
    assert tsv.split(line) == ["a", "b"]


def test_damaged_utf8_is_shown_not_raised() -> None:
    assert tsv.split(b"a\xff\tb\n") == ["a\ufffd", "b"]
