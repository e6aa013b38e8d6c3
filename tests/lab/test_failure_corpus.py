"""Recorded failures and healthy logs: the right kind with the line that proves it, and none where there is none.

`tests/samples/failures/corpus.tsv` says of each log which kind it is of, and where it is from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from autoresearch.core.diagnosis.failure import (
    MAX_LINE,
    Failure,
    FailureKind,
    LogPosition,
    killed_from_outside,
    with_the_end,
)
from autoresearch.core.diagnosis.root import Search
from autoresearch.core.run.ending import Ending
from autoresearch.lab.results.diagnosis import words_of
from autoresearch.readers.log_end import last_words
from autoresearch.runner.masking import mask_text

PLACE = Path(__file__).parents[1] / "samples" / "failures"


@dataclass(frozen=True)
class Item:
    """One row of the corpus."""

    file: str
    kinds: str  # one, or several by |, where people would not agree
    proof: str
    origin: str
    source: str
    end: str

    @property
    def failure(self) -> Failure | None:
        """What we say of it, given only the log, or the end where the kind hangs on that."""
        found = words_of(PLACE / self.file, None).cause
        if not self.end:
            return found
        word, _, code = self.end.partition(":")
        killed = killed_from_outside(Ending(word), "", int(code) if code else None)
        return with_the_end(found, Ending(word), killed=killed)


CORPUS = [Item(*line.split("\t")) for line in (PLACE / "corpus.tsv").read_text().splitlines()[1:]]
FAILED = [item for item in CORPUS if item.kinds != "none"]
HEALTHY = [item for item in CORPUS if item.kinds == "none"]


@pytest.mark.parametrize("item", FAILED, ids=lambda item: item.file)
def test_failed(item: Item) -> None:
    found = item.failure
    assert found is not None
    assert found.kind.value in item.kinds.split("|") and item.proof in found.line, found
    if not item.end:
        lines = (PLACE / item.file).read_bytes().split(b"\n")
        assert found.line[:14] in lines[found.position.number - 1].decode("utf-8", "replace")


@pytest.mark.parametrize("item", HEALTHY, ids=lambda item: item.file)
def test_healthy(item: Item) -> None:
    assert item.failure is None


def test_no_line_that_matters_is_passed_over() -> None:
    """The needles cost nothing but time: all lines together say the same."""
    for item in CORPUS:
        search = Search()
        for number, line in enumerate((PLACE / item.file).read_text(errors="replace").split("\n"), 1):
            for piece in line.split("\r"):
                if piece:
                    search.look(piece, LogPosition(number))
        every_line = [mask_text(failure.line)[:MAX_LINE] for failure in search.failures()]
        assert every_line == [failure.line for failure in last_words(PLACE / item.file, ())[0]], item.file


def test_the_corpus_is_large_enough_and_true_to_its_index() -> None:
    real = [item for item in FAILED if item.origin == "real"]
    assert len(FAILED) >= 60
    assert len(real) >= 10
    assert len(HEALTHY) >= 30
    assert sum(item.origin == "real" for item in HEALTHY) >= 10
    files = {f"{path.parent.name}/{path.name}" for path in PLACE.rglob("*.log")}
    assert files == {item.file for item in CORPUS if not item.file.startswith("..")}
    assert all((PLACE / file).stat().st_size < 30_000 for file in files)
    told = {kind for item in FAILED for kind in item.kinds.split("|")}
    assert told == set(list(FailureKind)[: list(FailureKind).index(FailureKind.UNKNOWN) + 1])
