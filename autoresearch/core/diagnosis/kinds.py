"""Which kind of failure a line of a log tells of: by few words that only such a failure prints, or an exception's type.

The words, the types and what helps stand in kinds.yaml beside this, as torch, vLLM, SGLang, Ray, NCCL, Slurm and Python
print them. An exception that none of them holds is the program's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

from autoresearch.core.diagnosis.failure import FailureKind
from autoresearch.core.text.regex import later

_DOTTED = r"^(?:[A-Za-z_]\w*\.)*"
_EXCEPTION = later(_DOTTED + r"(\w+)(?:\([\w.]{1,80}\))?(?:: |:?$)")
_USUAL_NAME = later(r"(?:Error|Exception|Interrupt|Exit|NotFound|Stop\w*)$")
_OF_CONNECTIONS = later(r"Connect|SSL|Proxy|Retry|RateLimit|Disconnected|Unreachable")


class Rank(IntEnum):
    """How well a line explains the end of a run; the lowest seen wins."""

    PROOF = 0  # a message that only this failure prints
    DIVERGED = 1  # not fatal by itself, but of what follows it the cause
    CAUSE = 2  # the last line of a traceback, or a program's last word
    BARE = 3  # an exception without its traceback
    SIGN = 4  # something else died first: a timeout of NCCL, a dead engine, a dead actor, a fatal signal
    REPORT = 5  # only a report that something else failed


@dataclass(frozen=True, slots=True)
class LineMeaning:
    """What a line tells."""

    kind: FailureKind
    rank: Rank
    note: str = ""
    outside: bool = False  # kernel, scheduler or shell say it


@dataclass(frozen=True, slots=True)
class KindTable:
    """kinds.yaml. needles: every line that can be matched, or that begins what can be, holds one, in small letters."""

    kinds: Mapping[FailureKind, Mapping[str, Any]]
    types: Mapping[str, LineMeaning]  # of exceptions, by their names
    words: tuple[tuple[re.Pattern[str], LineMeaning], ...]
    needles: tuple[bytes, ...]

    def policy(self, failure_kind: FailureKind) -> str:
        """What a campaign may do after such a failure: shrink_batch, wait (and retry), stop (it is a result), ask."""
        return str(self.kinds[failure_kind]["policy"])

    def remedy(self, word: str) -> str:
        """One sentence, what to try; "" for a word that is no kind, as in records of before."""
        return str(self.kinds[FailureKind(word)]["remedy"]) if word in set(FailureKind) else ""

    def suggestions(self, failure_kind: FailureKind, trainer: str = "") -> tuple[str, ...]:
        """What to try, the most likely first."""
        about = self.kinds[failure_kind]
        base = trainer.removesuffix("_swarm")
        own = about.get("trainers", {}).get("verl" if base == "agentjet" else base, ())
        return (about["remedy"], *own, *about.get("more", ()))

    def match(self, line: str) -> LineMeaning | None:
        """What the words of a line tell, stripped of colours and prefixes."""
        return next((meaning for regex, meaning in self.words if regex.search(line)), None)


@cache
def table() -> KindTable:
    """kinds.yaml, read once."""
    from importlib import resources  # takes milliseconds to import, and more in Python 3.12 and later

    import yaml

    text = resources.files(__package__).joinpath("kinds.yaml").read_text("utf-8")
    data: Mapping[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    words = tuple(
        (
            later("|".join(entry["lines"]).replace("^@", _DOTTED)),
            LineMeaning(
                FailureKind(entry["kind"]),
                Rank[entry["rank"].upper()],
                entry.get("note", ""),
                entry.get("outside", False),
            ),
        )
        for entry in data["words"]
    )
    types = {
        name: LineMeaning(FailureKind(kind), Rank[rank.upper()])
        for rank, kinds in data["exceptions"].items()
        for kind, names in kinds.items()
        for name in names
    }
    needles = tuple(needle.encode() for needle in data["needles"])
    return KindTable({FailureKind(kind): about for kind, about in data["kinds"].items()}, types, words, needles)


def of_line(text: str) -> LineMeaning | None:
    """What a line tells that ends no traceback; None if it tells nothing."""
    exception = _EXCEPTION.match(text)
    if exception is None or not (exception[1] in table().types or _USUAL_NAME.search(exception[1])):
        return table().match(text)
    meaning = of_exception(text)
    return LineMeaning(meaning.kind, Rank.BARE, meaning.note) if meaning.rank is Rank.CAUSE else meaning


def of_exception(text: str) -> LineMeaning:
    """What an exception tells by its words, else by its type; the program's own if neither says more."""
    if (meaning := table().match(text)) is not None:
        return meaning
    name = match[1] if (match := _EXCEPTION.match(text)) else ""
    if name in table().types:
        return table().types[name]
    return LineMeaning(FailureKind.MACHINE if _OF_CONNECTIONS.search(name) else FailureKind.PROGRAM, Rank.CAUSE)
