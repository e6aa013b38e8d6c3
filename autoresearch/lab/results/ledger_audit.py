"""Reads the ledger of a loop that keeps whatever beats its best single run: how many of its gains noise alone gives.

If no attempt changes anything, the measured values are draws of one distribution, and the n-th of them is the best so
far with probability 1/n, independently of the others and of the distribution (A. Renyi, "On the extreme elements of
observations", 1962): so the number of gains is known without knowing the noise.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.metrics.objective import Direction, Objective, usual_direction
from autoresearch.core.text.regex import later
from autoresearch.errors import NotFoundError, UsageError
from autoresearch.records.hostile import read_readable

_KEPT = frozenset(("keep", "kept", "best", "baseline", "accept", "accepted", "improved", "confirmed", "committed"))
_LEFT = frozenset(("discard", "discarded", "revert", "reverted", "reject", "rejected", "worse", "regressed"))
_FAILED = frozenset(("crash", "crashed", "fail", "failed", "error", "oom", "timeout", "kill", "killed"))
_WORD = later(r"\W*([A-Za-z]+)")
SURE = 0.95


@dataclass(frozen=True, slots=True)
class LoopRow:
    """One row of the loop's ledger, in its order."""

    name: str  # its commit, or what else it is called
    value: float | None  # None: it has none, or failed
    kept: bool
    words: str = ""


Step = tuple[LoopRow, LoopRow, float]  # the best so far, the one that was it before, and its gain, which is positive


def steps_of(objective: Objective, loop_rows: Iterable[LoopRow]) -> list[Step]:
    """The gains of a loop; the first attempt that was kept is its baseline."""
    steps, best, reached = list[Step](), None, 0.0
    for row in loop_rows:
        if row.kept and row.value is not None and (best is None or objective.better(row.value, reached)):
            steps += [(row, best, objective.change(row.value - reached))] if best else []
            best, reached = row, row.value
    return steps


def gains_by_noise(attempts: int) -> tuple[float, int]:
    """How many gains to expect if no attempt changes anything, and how many noise exceeds in 5 of 100 loops at most."""
    chances = [1 / n for n in range(2, attempts + 1)]
    counts = [1.0]  # probability of each count so far
    for chance in chances:
        counts = [a * (1 - chance) + b * chance for a, b in zip([*counts, 0.0], [0.0, *counts], strict=True)]
    return math.fsum(chances), next(n for n in range(len(counts)) if math.fsum(counts[: n + 1]) >= SURE - 1e-9)


def read_ledger(path: Path, metric: str = "", direction: str = "") -> tuple[Objective, list[LoopRow]]:
    """Read a TSV or CSV file with a header. Raises NotFoundError; UsageError where a column cannot be told."""
    try:
        text = read_readable(path).decode("utf-8-sig", "replace")
        delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
        table = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}") from error
    except csv.Error as error:
        raise UsageError(f"{path} is no table that can be read: {error}") from error
    header, *rows = [[cell.strip() for cell in row] for row in table if any(cell.strip() for cell in row)] or [[]]
    whole = [row for row in rows if len(row) == len(header)]
    if not whole:
        raise UsageError(f"{path} holds no attempts below a header")
    if any(_number(name) is not None for name in header):
        raise UsageError(f"{path} has no header", hint="its first line shall name its columns")
    columns = range(len(header))
    judged = max(columns, key=lambda at: sum(bool(_verdict(row[at])) for row in whole))
    verdicts = [_verdict(row[judged]) for row in whole]
    if 2 * verdicts.count("") > len(whole):
        hint = "each row needs a cell that begins with `keep` or `discard`, or words like them"
        raise UsageError(f"{path} has no column that says what was kept", hint=hint, code="no_verdicts")
    kept = [row for row, verdict in zip(whole, verdicts, strict=True) if verdict in _KEPT]
    if len(whole) < 2 or not kept:
        raise UsageError(f"{path} holds nothing that was kept beside others: there is no gain to look at")
    usual = {at: usual_direction(f'"{header[at].replace(chr(34), "")}"', None) for at in columns}
    named = [at for at in columns if (header[at] == metric if metric else usual[at] and _numbers(kept, at))]
    if len(named) != 1:
        known = ", ".join(header[at] for at in named or columns)
        what = f"{path} has no column {metric}" if metric else f"which column of {path} counts cannot be told"
        raise UsageError(what, hint=f"--metric names one of {known}")
    if not _numbers(kept, named[0]):
        raise UsageError(f"the column {metric} of {path} holds no numbers")
    if not (way := Direction(direction) if direction else usual[named[0]]):
        raise UsageError(f"{metric} does not say which way is better", hint="add --direction")
    return Objective(header[named[0]], way), [
        LoopRow(row[0], None if word in _FAILED else _number(row[named[0]]), word in _KEPT, row[-1])
        for row, word in zip(whole, verdicts, strict=True)
    ]


def _verdict(cell: str) -> str:
    """The word by which a cell says what became of an attempt; "" if it says nothing of it."""
    word = _WORD.match(cell)
    return word[1].lower() if word and word[1].lower() in _KEPT | _LEFT | _FAILED else ""


def _number(cell: str) -> float | None:
    try:
        number = float(cell.rstrip("%"))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _numbers(rows: Sequence[Sequence[str]], column: int) -> bool:
    return sum(_number(row[column]) is not None for row in rows) * 2 > len(rows)
