"""Targets: where runs are started, parsed from `--launcher` and the `launchers:` block of autoresearch.yaml.

local:2, ssh:gpu1:4, slurm:8        KIND[:NAME][:SLOTS], or the NAME of a declared target
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any

from autoresearch.core.text.regex import later


class Unreachable(Exception):  # noqa: N818 - it names a state, not an accident
    """The target did not answer, or not usefully: retry later, and conclude nothing about any run.

    `code` is a stable identifier (`no_answer`, `unauthorized`, `no_python` ...), `hint` what a person can do.
    """

    def __init__(self, reason: str, *, code: str = "no_answer", hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
        self.hint = hint


class Declined(Exception):  # noqa: N818 - as above
    """The target will not run this job, now or later: the run ends as `launch_failed` with this reason."""

    def __init__(self, reason: str, *, code: str = "declined", hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code  # the exit record's cause
        self.hint = hint


class Kind(StrEnum):
    """The kind of launcher that starts a run; one file of `launchers/` each."""

    LOCAL = "local"  # tmux on this machine
    SSH = "ssh"
    SLURM = "slurm"
    RAY = "ray"
    KUBERNETES = "kubernetes"


_OTHER_NAMES = {"tmux": Kind.LOCAL, "k8s": Kind.KUBERNETES}
_NAME = later(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}\Z")
MOST_SLOTS = 10_000  # more is treated as a typo: a campaign has one worktree per slot
_HINT = "write places like `local:2, ssh:gpu1:4, slurm:8`"


@dataclass(frozen=True, slots=True)
class Target:
    """One target with a number of slots."""

    name: str
    kind: Kind | str  # a Kind, or the name of a launcher that is a plug-in
    slots: int = 0  # 0: not given
    options: Mapping[str, Any] = field(default_factory=dict)  # options of its launcher; JSON values

    @property
    def is_local(self) -> bool:
        """Whether runs are started directly by tmux on this machine."""
        return self.kind is Kind.LOCAL

    @property
    def key(self) -> str:
        """Name of its directory, with a hash of kind and options: projects may use one name for different targets."""
        text = json.dumps([self.kind, self.options], sort_keys=True)
        return f"{self.name}-{sha256(text.encode()).hexdigest()[:8]}"

    @property
    def label(self) -> str:
        """The label in a ledger: `slurm`, or `ssh/gpu1` if its name differs from its kind."""
        return str(self.kind) if self.name == self.kind else f"{self.kind}/{self.name}"

    @property
    def shown(self) -> str:
        """The name that people are shown: `local`, `slurm`, `ssh:gpu1`."""
        return self.label.replace("/", ":")

    def __str__(self) -> str:
        """In the syntax of `--launcher`: `slurm:8`, `ssh:gpu1:4`."""
        return f"{self.shown}:{self.slots}" if self.slots else self.shown

    def text(self, option: str, default: str = "") -> str:
        """An option as text; `default` if it is not given."""
        value = self.options.get(option)
        return default if value is None else str(value)


LOCAL = Target("local", Kind.LOCAL)
Declared = Mapping[str, Mapping[str, Any]]  # name -> block, which has `kind` unless the name is a kind


def check_declared(declared: Declared, others: Container[str] = ()) -> None:
    """ValueError for a name that is invalid in `--launcher`, or that is a kind other than that of its block.

    others: kinds of launchers that are plug-ins, here and below.
    """
    for name, block in declared.items():
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is no name of a place: letters, digits and . _ - @")
        try:
            kind = kind_of(str(block.get("kind", name)), others)
        except ValueError as error:
            raise ValueError(f"{name}: kind: {error}" if "kind" in block else f"{name} says no `kind:`") from None
        meant = _OTHER_NAMES.get(name) or next((one for one in Kind if one.value == name), kind)
        if meant != kind:
            raise ValueError(f"{name} is a kind of its own, and its block says {kind}; give it another name")
        _slots(name, block)


def with_slots(targets: tuple[Target, ...], parallel: int | None) -> tuple[Target, ...]:
    """The targets with their slots filled in. ValueError, one clause, if `parallel` contradicts them.

    A target without slots gets one; if it is the only such target, it gets what remains of `parallel`.
    """
    if parallel is not None and parallel > MOST_SLOTS:
        raise ValueError(f"parallel is {parallel}: {MOST_SLOTS} at most")
    said = sum(place.slots for place in targets)
    silent = [place for place in targets if not place.slots]
    left = max(1, parallel - said) if parallel and len(silent) == 1 else 1
    found = tuple(replace(place, slots=place.slots or left) for place in targets)
    total = sum(place.slots for place in found)
    if parallel is not None and parallel != total:
        words = ", ".join(f"{place.name}:{place.slots}" for place in found)
        raise ValueError(f"parallel is {parallel}, and {words} have room for {total}")
    return found


def parse_pool(text: str, declared: Declared, others: Container[str] = ()) -> tuple[Target, ...]:
    """Parse a `--launcher` value into targets. ValueError, one clause, if it is invalid."""
    check_declared(declared, others)
    places = tuple(_target(item.strip(), declared, others) for item in text.split(",") if item.strip())
    if not places:
        raise ValueError(f"no target is named; {_HINT}")
    names = [place.name for place in places]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} is named twice; give it its slots at once: {twice[0]}:4")
    for at, place in enumerate(places):
        if same := [one.name for one in places[:at] if (one.kind, one.options) == (place.kind, place.options)]:
            raise ValueError(f"{same[0]} and {place.name} are the same place; name one of them, with all its slots")
    return places


def _target(item: str, declared: Declared, others: Container[str]) -> Target:
    words = item.split(":")
    slots = 0
    if len(words) > 1 and words[-1].isdecimal():
        slots = int(words.pop())
        if slots < 1:
            raise ValueError(f"{item!r} has no room for a run: slots are 1 or more")
        if slots > MOST_SLOTS:
            raise ValueError(f"{item!r} asks for more slots than a place has: {MOST_SLOTS} at most")
    if len(words) > 2 or not all(_NAME.match(word) for word in words):
        raise ValueError(f"{item!r} is no place; {_HINT}")
    if len(words) == 1 and words[0] in declared:
        return _declared(words[0], declared[words[0]], slots, others)
    kind = kind_of(words[0], others)
    name = words[1] if len(words) == 2 else str(kind)
    if name in declared:
        found = _declared(name, declared[name], slots, others)
        if found.kind != kind:
            raise ValueError(f"{name} is declared as {found.kind}, and {item!r} calls it {kind}")
        return found
    if kind is Kind.SSH and len(words) == 1:
        raise ValueError(f"{item!r} names no host: ssh:HOST, or ssh:HOST:SLOTS")
    return Target(name, kind, slots, {"host": name} if kind is Kind.SSH else {})


def _declared(name: str, block: Mapping[str, Any], slots: int, others: Container[str]) -> Target:
    options = {key: value for key, value in block.items() if key not in ("kind", "slots")}
    kind = kind_of(str(block.get("kind", name)), others)
    if kind is Kind.SSH:
        options.setdefault("host", name)
    return Target(name, kind, slots or _slots(name, block), options)


def _slots(name: str, block: Mapping[str, Any]) -> int:
    """The slots of a block; 0 if it does not set them. ValueError if they are not a valid number of runs."""
    said = block.get("slots", 0)
    if not isinstance(said, int) or isinstance(said, bool) or ("slots" in block and not 1 <= said <= MOST_SLOTS):
        raise ValueError(f"{name}: slots: {said!r} is no number of runs: 1 to {MOST_SLOTS}")
    return said


def kind_of(word: str, others: Container[str] = ()) -> str:
    """The kind for a name: a Kind, or one of the plug-ins' own. ValueError for an unknown one."""
    if word in _OTHER_NAMES:
        return _OTHER_NAMES[word]
    try:
        return Kind(word)
    except ValueError:
        if word in others:
            return word
        raise ValueError(f"{word!r} is no launcher: {', '.join(Kind)}, or a name under `launchers:`") from None
