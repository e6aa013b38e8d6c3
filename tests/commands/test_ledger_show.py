"""`ledger show` on a terminal: no line is folded, whatever its width; sentences end between two words."""

from __future__ import annotations

import sys

import pytest

from autoresearch.commands import output
from autoresearch.commands.ledger import GO_FIRST, fitted
from autoresearch.records.ledger_views import BRIEF

ROWS = [
    ["1", "baseline-1-000001", "keep", "finished", "task_pass_rate@1", "0.500000", "5.00", "Change nothing " * 4],
    ["12", "a-name-of-some-length-7k2m9x", "crash", "first_step_timeout", "task_pass_rate@1", "", "20.1", "試す " * 9],
]


@pytest.mark.parametrize("width", [50, 60, 80, 120, 200])
def test_no_line_is_folded(width: int) -> None:
    from rich.cells import cell_len

    lines = fitted(BRIEF, ROWS, width)
    assert max(map(cell_len, lines)) <= width
    assert lines[0].split()[:2] == ["index", "run_id"] and "description" in lines[0][:width]
    assert lines[2].split()[0] == "12" and "7k2m9x" in lines[2]  # what makes it one is never cut off


def test_columns_go_in_an_order_and_the_metric_is_told_once() -> None:
    at = {width: fitted(BRIEF, ROWS, width)[0].split() for width in range(50, 220)}
    gone = [len(set(BRIEF) - set(names)) for names in at.values()]
    assert gone == sorted(gone, reverse=True)
    assert at[219] == list(BRIEF) and "metric_name" not in at[80] and {"status", "metric_value"} <= set(at[80])
    assert set(BRIEF) - set(at[50]) <= set(GO_FIRST)
    assert fitted(BRIEF, ROWS, 80)[-1] == "metric_value is task_pass_rate@1"
    assert fitted(BRIEF, ROWS, 200)[-1].startswith("12 ")


def test_a_ledger_without_rows() -> None:
    assert len(fitted(BRIEF, [], 80)) == 1


@pytest.mark.parametrize("terminal", [True, False])
def test_a_sentence_ends_between_words_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    sentence = "confirmed, val/pass@1 0.5118, +0.0961 against the baseline"
    command = "next: autoresearch campaign status 20261121-grpo-math --full"
    output.prose(sentence)
    output.prose(command)
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == command and " ".join(line.strip() for line in lines) == sentence
    assert len(lines) == (2 if terminal else 1) and (not terminal or max(map(len, lines)) <= 30)
