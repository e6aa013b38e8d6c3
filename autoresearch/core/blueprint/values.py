"""The value of a section, extracted from labels, prose and code blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.blueprint.items import LabelRole, SectionItem, with_role

_NOTHING = re.compile(
    r"^(?:n/?a|none|null|nil|nothing|not (?:needed|applicable)|tbd|todo|无|没有|不需要|未定|-+)"
    r"(?=$|[\s,，。;；:(（]|\.(?:\s|$))",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(r"(?:\be\.?g\b|\bfor example\b|\bsuch as\b|例如|比如|示例).*", re.IGNORECASE)
CODE_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)([^`\n]+)(?<!`)\1(?!`)")


@dataclass(frozen=True, slots=True)
class SectionValue:
    """A value, its lines, and remarks (line, code, message) to be reported as warnings."""

    text: str
    lines: tuple[int, ...]
    remarks: tuple[tuple[int, str, str], ...] = ()
    explained: bool = False  # the same item also has explaining words

    @property
    def line(self) -> int:
        """The first of its lines."""
        return self.lines[0]


@dataclass(frozen=True, slots=True)
class Unclear:
    """An ambiguous value, to be reported as an error. `message` is one sentence."""

    line: int
    message: str
    hint: str


def means_nothing(text: str) -> bool:
    """Whether a text means that there is no value: NA, none, null, 无 ..."""
    return bool(_NOTHING.match(text.strip()))


def without_examples(text: str) -> str:
    """A sentence up to `e.g.` or `例如`: an example is not a value."""
    return _EXAMPLE.sub("", text)


def described(items: Sequence[SectionItem]) -> list[SectionItem]:
    """The `description:` items, in which people put the value if they use no other key."""
    return [i for i in items if _describes(i)]


def _describes(item: SectionItem) -> bool:
    return item.role is LabelRole.TEXT and item.label.startswith(("desc", "描述"))


def purpose(items: Sequence[SectionItem]) -> SectionValue | None:
    """The text of `purpose:` if given, else all of the section except hints; None if empty."""
    chosen = [i for i in with_role(items, LabelRole.VALUE) if i.text]
    if not chosen:
        chosen = [i for i in items if i.text and (i.role is not LabelRole.TEXT or _describes(i))]
    if not chosen:
        return None
    parts = [i.text if i.prose else "\n".join(n.text for n in i.more).strip("\n") for i in chosen]
    lines = {n for i in chosen for n in [i.line, *(m.no for m in i.more)]}
    return SectionValue("\n".join(parts).strip(), tuple(sorted(lines)), (), True)
