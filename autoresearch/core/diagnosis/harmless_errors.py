"""Harmless errors: removes errors that a framework prints without failing, before the cause is searched for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_HEAD = "Traceback (most recent call last):"


def sifted(lines: Iterable[str], harmless: Sequence[str]) -> list[str]:
    """The lines without those that match one of these patterns and without tracebacks that contain such a line.

    lines: stripped of prefixes and colours. A traceback ends with the first line that is not indented.
    """
    if not harmless:
        return list(lines)
    pattern = re.compile("|".join(f"(?:{one})" for one in harmless))
    return [line for block in _blocks(lines) if not any(map(pattern.search, block)) for line in block]


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Group lines: each traceback is one block, every other line a block of its own."""
    open_: list[str] = []
    for line in lines:
        starts = line.strip() == _HEAD
        if open_ and (starts or not line.startswith((" ", "\t"))):
            done, open_ = open_, []
            if not starts:  # the exception itself
                yield [*done, line]
                continue
            yield done
        if starts or open_:
            open_.append(line)
        else:
            yield [line]
    if open_:
        yield open_
