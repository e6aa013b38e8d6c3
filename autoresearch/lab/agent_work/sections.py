"""Sections of a prompt, each bounded in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from autoresearch.core.agents.agent import Bounds
from autoresearch.core.text.durations import spoken


def within(lines: Iterable[str], most: int, left: Callable[[int], str]) -> list[str]:
    """The first lines that fit into so many bytes; `left` says how many do not."""
    every = list(lines)
    found: list[str] = []
    size = 0
    for number, line in enumerate(every):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > most:
            return [*found, left(len(every) - number)]
        found.append(line)
    return found


def section(title: str, lines: Sequence[str]) -> str:
    """A heading and its lines; "" without any."""
    return f"# {title}\n\n" + "\n".join(lines) + "\n" if lines else ""


def limits(bounds: Bounds) -> str:
    """`30m, 60 steps or 2.00 USD`: whichever comes first ends a turn."""
    told = [spoken(bounds.seconds)]
    told += [f"{bounds.turns} steps"] if bounds.turns is not None else []
    told += [f"{bounds.usd:.2f} USD"] if bounds.usd is not None else []
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} or {told[-1]}"
