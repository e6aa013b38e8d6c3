"""Places: where runs go, as `--launcher` and the `launchers:` block of autoresearch.yaml name them.

local:2, ssh:gpu1:4, slurm:8        KIND[:NAME][:SLOTS], or the NAME of a declared place
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What starts a run; one file of `launchers/` each."""

    LOCAL = "local"  # tmux on this machine
    SSH = "ssh"
    SLURM = "slurm"
    RAY = "ray"
    KUBERNETES = "kubernetes"


_OTHER_NAMES = {"tmux": Kind.LOCAL, "k8s": Kind.KUBERNETES}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}\Z")
_HINT = "write places like `local:2, ssh:gpu1:4, slurm:8`"


@dataclass(frozen=True, slots=True)
class Place:
    """One place with room for so many runs at a time."""

    name: str
    kind: Kind
    slots: int = 0  # 0: nobody said
    options: Mapping[str, Any] = field(default_factory=dict)  # what its launcher understands; JSON values

    @property
    def is_local(self) -> bool:
        """Whether runs are started by tmux on this machine, without anybody in between."""
        return self.kind is Kind.LOCAL

    @property
    def key(self) -> str:
        """Name of its own directory: two projects may mean different things by one name."""
        text = json.dumps([self.kind, self.options], sort_keys=True)
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def text(self, option: str, default: str = "") -> str:
        """An option as text; `default` where it is not given."""
        value = self.options.get(option)
        return default if value is None else str(value)

    def to_json(self) -> dict[str, Any]:
        """The JSON object of it."""
        return {"name": self.name, "kind": self.kind.value, "slots": self.slots, "options": dict(self.options)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Place:
        """Read what `to_json` wrote. Raises KeyError, TypeError, ValueError."""
        return cls(str(record["name"]), Kind(record["kind"]), int(record["slots"]), dict(record["options"]))


LOCAL = Place("local", Kind.LOCAL)


def parse_pool(text: str, declared: Mapping[str, Mapping[str, Any]]) -> tuple[Place, ...]:
    """The places of a `--launcher` value. ValueError, one clause, for what cannot be understood.

    declared: name -> its block, which holds `kind` unless its name is one.
    """
    places = tuple(_place(item.strip(), declared) for item in text.split(",") if item.strip())
    if not places:
        raise ValueError(f"no place is named; {_HINT}")
    names = [place.name for place in places]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} is named twice; give it its slots at once: {twice[0]}:4")
    return places


def _place(item: str, declared: Mapping[str, Mapping[str, Any]]) -> Place:
    words = item.split(":")
    slots = 0
    if len(words) > 1 and words[-1].isdecimal():
        slots = int(words.pop())
        if slots < 1:
            raise ValueError(f"{item!r} has no room for a run: slots are 1 or more")
    if len(words) > 2 or not all(_NAME.match(word) for word in words):
        raise ValueError(f"{item!r} is no place; {_HINT}")
    if len(words) == 1 and words[0] in declared:
        return _declared(words[0], declared[words[0]], slots)
    kind = kind_of(words[0])
    name = words[1] if len(words) == 2 else kind.value
    if name in declared:
        found = _declared(name, declared[name], slots)
        if found.kind is not kind:
            raise ValueError(f"{name} is declared as {found.kind}, and {item!r} calls it {kind}")
        return found
    if kind is Kind.SSH and len(words) == 1:
        raise ValueError(f"{item!r} names no host: ssh:HOST, or ssh:HOST:SLOTS")
    return Place(name, kind, slots, {"host": name} if kind is Kind.SSH else {})


def _declared(name: str, block: Mapping[str, Any], slots: int) -> Place:
    options = {key: value for key, value in block.items() if key not in ("kind", "slots")}
    kind = kind_of(str(block.get("kind", name)))
    if kind is Kind.SSH:
        options.setdefault("host", name)
    said = block.get("slots", 0)
    if not isinstance(said, int) or said < 0:
        raise ValueError(f"launchers.{name}.slots: {said!r} is no number of runs")
    return Place(name, kind, slots or said, options)


def kind_of(word: str) -> Kind:
    """The kind that a word means. ValueError for an unknown one."""
    if word in _OTHER_NAMES:
        return _OTHER_NAMES[word]
    try:
        return Kind(word)
    except ValueError:
        raise ValueError(f"{word!r} is no launcher: {', '.join(Kind)}, or a name under `launchers:`") from None
