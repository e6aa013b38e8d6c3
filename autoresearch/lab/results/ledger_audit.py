"""Reads the ledger of another loop: which column is its metric, which way is better, and what was kept.

Karpathy's autoresearch and its forks write `commit val_bpb memory_gb status description`; others have more columns,
other words and other names; evo and CORAL write JSON. So nothing is read by its name: the column of verdicts is the
one whose cells begin with words for keeping and discarding, and the metric is the number that the verdicts follow.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.statistics.ratchet import LoopRow
from autoresearch.core.text.regex import later
from autoresearch.errors import NotFoundError, UsageError
from autoresearch.records.hostile import read_readable

MOSTLY = 0.8  # of the kept rows have a number where the metric is
_KEPT = frozenset(
    "keep kept best baseline accept accepted adopted improved confirmed advance committed".split()  # noqa: SIM905
)
_NOT = frozenset(
    "discard discarded revert reverted reject rejected worse neutral pending duplicate tentative repair skip skipped "  # noqa: SIM905
    "crash crashed fail failed error oom timeout kill killed regressed evaluated pruned unmeasured".split()
)
_WORD = later(r"\W*([A-Za-z]+)")
_TIME = later(r"\d{4}-\d\d-\d\d[T ]\d\d:")
_COMMIT = later(r"[0-9a-f]{6,40}\Z")


@dataclass(frozen=True, slots=True)
class ForeignLedger:
    """What was read."""

    objective: Objective
    attempts: tuple[LoopRow, ...]
    unread: int  # lines that are no rows of its table
    agreeing: int  # rows whose verdict follows the metric, of those that have both


def read_ledger(path: Path, metric: str = "", direction: str = "") -> ForeignLedger:
    """Read a TSV or CSV file, or JSON records. `metric`, `direction`: where they are known.

    Raises NotFoundError, and UsageError for a file in which nothing was kept or whose metric cannot be told.
    """
    try:
        head, *rows = _records(path) if path.is_dir() else _read(path)
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}") from error
    except csv.Error as error:
        raise UsageError(f"{path} is no table that can be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON that can be read: {error}") from error
    if not rows and path.is_dir():
        raise UsageError(f"{path} is a directory without JSON files of attempts", hint="name the ledger in it")
    if not rows:
        raise UsageError(f"{path} holds no attempts" if head else f"{path} is empty")
    if not metric and {"run_id", "metric_value"} <= {*head}:
        metric = "metric_value"  # a ledger of ours, whose other numbers may follow its verdicts by chance
    width = len(head)
    whole = [row for row in rows if len(row) == width]
    verdicts = _verdicts(head, whole)
    if verdicts is None:
        names = ", ".join(head[:12])
        raise UsageError(
            f"{path} has no column that says what was kept; its columns are {names}",
            hint="a column whose cells begin with `keep` or `discard`, or words like them, is looked for",
            code="no_verdicts",
        )
    kept = [_verdict(row[verdicts]) for row in whole]
    judged_rows = [(row, keeps) for row, keeps in zip(whole, kept, strict=True) if keeps is not None]
    if not any(keeps for _, keeps in judged_rows):
        raise UsageError(f"nothing was kept in {path}: there is no gain to look at", code="nothing_kept")
    if len(judged_rows) == 1:
        raise UsageError(f"{path} has one attempt with a verdict: there is no gain to look at", code="nothing_kept")
    columns = [at for at, name in enumerate(head) if (name == metric if metric else at > 0)]  # the first one is a name
    if metric and not columns:
        raise UsageError(f"{path} has no column {metric}", hint=f"its columns are {', '.join(head)}")
    ways = [Direction(direction)] if direction else [Direction.MINIMIZE, Direction.MAXIMIZE]
    share, at, way = max(
        ((_agreement(judged_rows, at, way), -at, way) for at in columns for way in ways), key=lambda found: found[:2]
    )
    column = -at
    if share < 0:
        raise UsageError(f"no column of {path} is a number that its verdicts follow; --metric names it")
    attempts = tuple(
        LoopRow(row[0].strip(), _value(row[column], keeps, judged_rows, column), bool(keeps), row[-1].strip())
        for row, keeps in judged_rows
    )
    agreeing = sum(follows for _, follows in _follows(judged_rows, column, way))
    return ForeignLedger(Objective(f'"{head[column]}"', way), attempts, len(rows) - len(judged_rows), agreeing)


def is_commit(name: str) -> bool:
    """Whether an attempt's name can be one of git's."""
    return bool(_COMMIT.match(name))


def _read(path: Path) -> list[list[str]]:
    text = read_readable(path).decode("utf-8-sig", "replace")
    if text.lstrip()[:1] not in ("{", "["):
        return _table(text)
    try:
        return _table_of(_collection(json.loads(text)))
    except json.JSONDecodeError:  # one record on each line
        return _table_of(_collection([json.loads(line) for line in text.splitlines() if line.strip()]))


def _records(directory: Path) -> list[list[str]]:
    """One record in each file, as CORAL writes them."""
    return _table_of(_collection([json.loads(read_readable(one)) for one in sorted(directory.glob("*.json"))]))


def _collection(document: object) -> list[Mapping[str, Any]]:
    """The longest list of objects in it, or object of objects, such as the nodes of evo's graph."""
    inner = list(document.values()) if isinstance(document, dict) else document if isinstance(document, list) else []
    return max([[one for one in inner if isinstance(one, dict)], *map(_collection, inner)], key=len)


def _table_of(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """In the order of their time, where they have one; first what may be a commit, last what is told of them."""
    texts = [{key: str(one) for key, one in record.items() if isinstance(one, str | int | float)} for record in records]
    keys = list(dict.fromkeys(key for text in texts for key in text))
    if not keys:
        return [[]]
    if when := next((key for key in keys if all(_TIME.match(text.get(key, "")) for text in texts)), None):
        texts.sort(key=lambda text: text[when])
    name = max(keys, key=lambda key: sum(is_commit(text.get(key, "")) for text in texts))
    told = max(keys, key=lambda key: sum(text.get(key, "").count(" ") for text in texts))
    keys = [name, *(key for key in keys if key not in (name, told)), told]
    return [keys, *([text.get(key, "") for key in keys] for text in texts)]


def _table(text: str) -> list[list[str]]:
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    delimiter = "\t" if "\t" in first else ","
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows = [row for row in table if any(cell.strip() for cell in row)]
    if not rows:
        return [[]]
    if any(_number(cell) is not None for cell in rows[0]):  # no header
        return [[f"column {at + 1}" for at in range(len(rows[0]))], *rows]
    return [[cell.strip() for cell in rows[0]], *rows[1:]]


def _verdict(cell: str) -> bool | None:
    """Whether a cell says that the attempt was kept; None if it says nothing of it."""
    word = _WORD.match(cell)
    said = word[1].lower() if word else ""
    return True if said in _KEPT else False if said in _NOT else None


def _verdicts(head: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    """The column whose cells are verdicts, most of them."""
    shares = [(sum(_verdict(row[at]) is not None for row in rows), -at) for at in range(len(head))]
    count, at = max(shares, default=(0, 0))
    return -at if count and 2 * count >= len(rows) else None


def _number(cell: str) -> float | None:
    try:
        number = float(cell.strip().rstrip("%"))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


_JudgedRows = Sequence[tuple[Sequence[str], bool]]


def _value(cell: str, keeps: bool, judged_rows: _JudgedRows, column: int) -> float | None:
    """A number that was measured: 0 stands for none where nothing that was kept has it."""
    number = _number(cell)
    if number == 0 and not keeps and not any(_number(row[column]) == 0 for row, kept in judged_rows if kept):
        return None
    return number


def _follows(judged_rows: _JudgedRows, column: int, direction: Direction) -> list[tuple[bool, bool]]:
    """Of each row with a number: whether it was kept, and whether that follows: it beats the last one that was kept."""
    objective, best = Objective("metric", direction), None
    found: list[tuple[bool, bool]] = []
    for row, keeps in judged_rows:
        number = _value(row[column], keeps, judged_rows, column)
        if number is None:
            continue
        if best is not None:
            found.append((keeps, objective.better(number, best) == keeps))
        if keeps:
            best = number
    return found


def _agreement(judged_rows: _JudgedRows, column: int, direction: Direction) -> float:
    """The share of rows that follow, of kept ones and others alike; -1 where too few have a number."""
    found = _follows(judged_rows, column, direction)
    sides = [[follows for kept, follows in found if kept is side] for side in (True, False)]
    shares = [sum(side) / len(side) for side in sides if side]
    kept = [_number(row[column]) is not None for row, keeps in judged_rows if keeps]
    return math.fsum(shares) / len(shares) if shares and sum(kept) >= MOSTLY * len(kept) else -1.0
