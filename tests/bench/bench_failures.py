"""How many recorded failures get the right family, and how many healthy logs get none; nothing here is timed.

The corpus is `tests/samples/failures`, whose index says where each log is from. The patterns were written with most
of it at hand: it shows what holds together, not what an unseen framework would get.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.diagnosis.failure import killed_from_outside, with_the_end
from autoresearch.core.run.ending import Ending
from autoresearch.lab.results.explain import words_of
from tests.bench.result import Result

PLACE = Path(__file__).parents[1] / "samples" / "failures"
NONE = "none"


@dataclass(frozen=True)
class Row:
    """A log, what it must be called, and what it was called."""

    wanted: str
    said: str
    origin: str
    proved: bool

    @property
    def right(self) -> bool:
        return self.said in self.wanted.split("|") and self.proved


def run(repeats: int = 5) -> list[Result]:
    """Shares of right answers, as percentages; the counts of each family on stderr."""
    rows = [_row(line.split("\t")) for line in (PLACE / "corpus.tsv").read_text().splitlines()[1:]]
    failed = [row for row in rows if row.wanted != NONE]
    healthy = [row for row in rows if row.wanted == NONE]
    right, total = Counter(r.wanted for r in failed if r.right), Counter(r.wanted for r in failed)
    for kind in sorted(total):
        print(f"   {kind}: {right[kind]} of {total[kind]}", file=sys.stderr)
    return [
        _share("recorded failures: right family and proving line", failed),
        _share("of those, from real runs", [row for row in failed if row.origin == "real"]),
        _share("healthy logs: no failure found", healthy),
        _share("of those, from real runs", [row for row in healthy if row.origin == "real"]),
    ]


def _share(what: str, rows: list[Row]) -> Result:
    right = sum(row.right for row in rows)
    return Result(what, "", [100 * right / len(rows)], [], 100, "%", at_least=True, note=f"{right} of {len(rows)}")


def _row(cells: list[str]) -> Row:
    file, wanted, proof, origin, _, end, command = cells
    found = words_of(PLACE / file).cause(ended_badly=False)
    if end:
        word, _, code = end.partition(":")
        killed = killed_from_outside(Ending(word), "", int(code) if code else None)
        found = with_the_end(found, Ending(word), killed=killed, kills=command)
    return Row(wanted, found.family.value if found else NONE, origin, found is None or proof in found.line)
