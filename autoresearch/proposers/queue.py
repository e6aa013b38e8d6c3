"""A person's queue: a folder of blueprints or a YAML list, to which can be added while the campaign runs.

It is read anew at each ask, so that appending is all that it takes. Before the first run all of it is checked
(`check`). What is broken later is left out and told (`faults`); it sinks nothing, and is proposed once it is mended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.overrides import unused
from autoresearch.core.campaign.proposer import Attempt, Lines, Proposer, ReadYaml
from autoresearch.errors import AutoresearchError
from autoresearch.proposers.queue_entry import QUEUE, Broken, from_blueprint, from_entry, token_of
from autoresearch.records.hostile import read_readable

Fits = Callable[[Hypothesis], str]  # what recipe or command says against an idea's overrides; "" for nothing
KEYS = ("ideas", "queue")  # under which a list may stand: in a file of its own, in a campaign file


@dataclass(frozen=True, slots=True)
class QueueItem:
    """One entry of a list, or one blueprint of a folder."""

    token: str
    file: str
    make: Callable[[], Hypothesis]  # raises Broken
    number: int = 0  # in its list, from 1
    path: tuple[str | int, ...] = ()  # of the entry in its file

    @property
    def name(self) -> str:
        """What it is called in a sentence."""
        return f"entry {self.number}" if self.number else self.file


class Queue(Proposer):
    """Ideas in the order in which they stand; blueprints in the order of their names.

    The token is the name of the blueprint's file, the slug of an entry, or a hash of an entry without one:
    an entry that was attempted is never proposed again, whatever else is added, moved or taken out.
    """

    name = QUEUE

    def __init__(self, path: Path, read_yaml: ReadYaml, lines: Lines = lambda data: {}) -> None:
        self._path, self._read_yaml, self._lines = path, read_yaml, lines
        self._asked: dict[str, str] = {}  # in this life: token -> slug
        self._data = b""
        self._parsed: tuple[object] | None = None  # what it says
        self._items: tuple[QueueItem, ...] = ()  # made of it
        self._faults: dict[str, list[Finding]] = {}  # by token; "" for the file itself

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The first good entry that was neither attempted nor asked for; None if there is none now."""
        slugs = {a.hypothesis.slug for a in attempts}
        for item, idea in self._good(attempts):
            if idea.parent in slugs or idea.parent in (BEST, BASELINE):
                idea = replace(idea, slug=unused(idea.slug, slugs | set(self._asked.values())))
                self._asked[item.token] = idea.slug
                return idea
            self._note(item, f"its parent `{idea.parent}` is no idea of this campaign yet", "parent")
        return None

    def check(self, known: Collection[str] = (), fits: Fits = lambda idea: "", *, gone: Collection[str] = ()) -> None:
        """Look at every entry now, and at how they go together; `faults` then says all that is wrong.

        known: slugs of ideas that are no entries; gone: tokens of entries that were attempted.
        """
        ideas = {item.token: (item, idea) for item, idea in self._good((), gone)}
        slugs = {BEST, BASELINE, *known, *gone, *self._faults}  # a child of what is broken is not a second fault
        added = {key.removeprefix("+") for _, idea in ideas.values() for key in idea.overrides if key.startswith("+")}
        for item, idea in ideas.values():
            if idea.parent not in slugs:
                later = any(other.slug == idea.parent for _, other in ideas.values())
                why = "stands behind it; put it before" if later else "is neither best, nor baseline, nor an idea"
                self._note(item, f"its parent `{idea.parent}` {why}", "parent")
            slugs.add(idea.slug)
            if not added & idea.overrides.keys() and (why := fits(idea)):
                self._note(item, why, "overrides")

    def faults(self) -> list[Finding]:
        """All that is wrong with the entries that the last `ask` or `check` passed over, in their order."""
        return in_order(self._faults)

    def by_entry(self) -> dict[str, list[Finding]]:
        """The same by the entry's token; "" for the file itself."""
        return dict(self._faults)

    def ideas(self) -> list[Hypothesis]:
        """Its sound entries, in their order."""
        return [idea for _, idea in self._good(())]

    def slugs(self) -> set[str]:
        """What its entries are called, and would be: the token of one that is broken."""
        named = {idea.slug for idea in self.ideas()}
        return named | {token for token in self._faults if token}

    def signature(self) -> object:
        """Differs where somebody changed the queue; of the files that it is made of, not of those that they name."""
        paths = [self._path, *sorted(self._path.glob("*.md"))] if self._path.is_dir() else [self._path]
        try:
            return [(path.name, (seen := path.stat()).st_mtime_ns, seen.st_size, seen.st_ino) for path in paths]
        except OSError as failure:
            return str(failure)

    def _good(self, attempts: Sequence[Attempt], gone: Collection[str] = ()) -> Iterator[tuple[QueueItem, Hypothesis]]:
        """Every entry that is sound and was not yet proposed; the others are noted as faults."""
        self._faults = {}
        gone = {*gone, *self._asked, *(a.hypothesis.token for a in attempts if a.hypothesis.proposer == self.name)}
        seen: dict[str, QueueItem] = {}
        for item in self._blueprints() if self._path.is_dir() else self._entries():
            if (first := seen.setdefault(item.token, item)) is not item:
                self._note(item, f"it is called like {first.name}: `{item.token}`", "slug", token=f"#{item.number}")
            elif item.token not in gone:
                try:
                    idea = item.make()
                except Broken as broken:
                    for fault in broken.faults:
                        self._note(item, fault.message, *fault.keys, line=fault.line)
                else:
                    yield item, idea

    def _note(self, queue_item: QueueItem, message: str, *keys: str | int, line: int = 0, token: str = "") -> None:
        if queue_item.path and not line:
            lines, path = self._lines(self._data), (*queue_item.path, *keys)
            line = next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), 0)
        text = f"{queue_item.name}: {message}" if queue_item.number else message
        finding = Finding(Severity.ERROR, "bad_entry", text, where=queue_item.file, line=line)
        self._faults.setdefault(token or queue_item.token, []).append(finding)

    def _blueprints(self) -> Iterator[QueueItem]:
        for path in sorted(self._path.glob("*.md")):
            if not path.name.startswith("."):
                yield QueueItem(path.name, path.name, partial(from_blueprint, path))

    def _entries(self) -> tuple[QueueItem, ...]:
        above, entries = self._listed()
        if not (entries and self._items):
            made = ((n, entry, partial(from_entry, entry, self._path.parent)) for n, entry in enumerate(entries))
            name = self._path.name
            self._items = tuple(QueueItem(token_of(one), name, make, n + 1, (*above, n)) for n, one, make in made)
        return self._items

    def _listed(self) -> tuple[tuple[str, ...], Sequence[object]]:
        """The list in the file and the key above it; empty, with a fault, where it cannot be read."""
        try:
            read = read_readable(self._path)
            if self._parsed is None or read != self._data:  # asked for every idea, and seldom changed
                self._data, self._parsed, self._items = read, None, ()
                self._parsed = (self._read_yaml(read, self._path.name),)
            (data,) = self._parsed
        except OSError as failure:
            return self._unreadable(f"{self._path}: {failure.strerror or failure}")
        except AutoresearchError as failure:
            return self._unreadable(failure.message)
        above = next((key for key in KEYS if isinstance(data, Mapping) and key in data), "")
        if isinstance(data, Mapping) and above:
            data = data[above]
        if not data:
            return (), ()
        if not isinstance(data, list):
            return self._unreadable(f"{self._path.name}: it is no list of ideas; begin each with `- `")
        return ((above,) if above else ()), data

    def _unreadable(self, message: str) -> tuple[tuple[str, ...], Sequence[object]]:
        self._faults[""] = [Finding(Severity.ERROR, "bad_queue", message)]
        return (), ()


def in_order(faults: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    """Each once, as they stand in their files."""
    every = [finding for findings in faults.values() for finding in findings]
    return sorted(dict.fromkeys(every), key=lambda finding: (finding.where, finding.line))
