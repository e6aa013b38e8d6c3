"""A person's queue: a folder of blueprints or a YAML list, to which can be added while the campaign runs.

It is read anew at each ask, so that appending is all that it takes. What cannot be used is left out and told
by `faults`; it sinks nothing, and is proposed as soon as it is mended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autoresearch.core.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.overrides import unused
from autoresearch.core.proposal import Attempt
from autoresearch.errors import AutoresearchError
from autoresearch.proposers.queue_entry import QUEUE, Broken, from_blueprint, from_entry, token_of

ReadYaml = Callable[[bytes, str], object]
"""Bytes and the file's name to plain data; raises AutoresearchError where it is no YAML."""

Making = Callable[[], Hypothesis]


class Queue:
    """Ideas in the order in which they stand; blueprints in the order of their names.

    The token is the name of the blueprint's file, the slug of an entry, or a hash of an entry without one:
    an entry that was attempted is never proposed again, whatever else is added, moved or taken out.
    """

    name = QUEUE

    def __init__(self, path: Path, read_yaml: ReadYaml) -> None:
        self._path, self._read_yaml = path, read_yaml
        self._asked: dict[str, str] = {}  # in this life: token -> slug
        self._faults: list[str] = []

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The first good entry that was neither attempted nor asked for; None if there is none now."""
        self._faults = []
        slugs = {a.hypothesis.slug for a in attempts}
        gone = self._asked.keys() | {a.hypothesis.token for a in attempts if a.hypothesis.proposer == self.name}
        for where, token, making in self._waiting(gone):
            idea = self._made(where, making, slugs)
            if idea is not None:
                idea = replace(idea, slug=unused(idea.slug, slugs | set(self._asked.values())))
                self._asked[token] = idea.slug
                return idea
        return None

    def faults(self) -> list[str]:
        """One sentence for each entry that the last `ask` passed over, with where it stands and what is wrong."""
        return list(self._faults)

    def tell(self, attempt: Attempt) -> None:
        """A queue learns nothing."""

    def close(self) -> None:
        """Nothing is held open."""

    def _made(self, where: str, making: Making, slugs: set[str]) -> Hypothesis | None:
        try:
            idea = making()
            if idea.parent not in (BEST, BASELINE) and idea.parent not in slugs:
                raise Broken(f"its parent `{idea.parent}` is no idea of this campaign yet")
        except Broken as broken:
            self._faults.append(f"{where}: {broken}")
            return None
        return idea

    def _waiting(self, gone: set[str]) -> Iterator[tuple[str, str, Making]]:
        """Where it stands, the token and how to read it, for all that was not yet proposed."""
        entries = self._blueprints() if self._path.is_dir() else self._entries()
        for where, token, making in entries:
            if token not in gone:
                yield where, token, making

    def _blueprints(self) -> Iterator[tuple[str, str, Making]]:
        for path in sorted(self._path.glob("*.md")):
            if not path.name.startswith("."):
                yield path.name, path.name, lambda path=path: from_blueprint(path)  # type: ignore[misc]

    def _entries(self) -> Iterator[tuple[str, str, Making]]:
        entries = self._listed()
        tokens = [token_of(entry) for entry in entries]
        count, folder = Counter(tokens), self._path.parent
        for number, (entry, token) in enumerate(zip(entries, tokens, strict=True), 1):
            where = f"{self._path.name}: entry {number}"
            if count[token] > 1 and tokens.index(token) != number - 1:
                self._faults.append(f"{where}: it is called like entry {tokens.index(token) + 1}: `{token}`")
            else:
                yield where, token, lambda entry=entry: from_entry(entry, folder)  # type: ignore[misc]

    def _listed(self) -> Sequence[object]:
        """The list in the file, bare or under `ideas`; empty, with a fault, where it cannot be read."""
        try:
            data = self._read_yaml(self._path.read_bytes(), self._path.name)
        except OSError as failure:
            self._faults.append(f"{self._path}: {failure.strerror or failure}")
            return ()
        except AutoresearchError as failure:
            self._faults.append(failure.message)
            return ()
        if isinstance(data, Mapping):
            data = data.get("ideas", data)
        if not data:
            return ()
        if not isinstance(data, list):
            self._faults.append(f"{self._path.name}: it is no list of ideas; begin each with `- `")
            return ()
        return data
