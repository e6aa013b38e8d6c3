"""Fence: a log, a diff or an agent's earlier words in a prompt: masked, bounded, and as data (`core.untrusted`)."""

from __future__ import annotations

from autoresearch.core import untrusted
from autoresearch.lab.campaign.texts import block

_LONGEST = 2000  # characters of a line that are looked at; fewer are shown


def fenced(text: str, about: str, *, most: int = 4000, lines: int = 200) -> str:
    """The text as data: at most so many bytes and lines from its beginning, no escapes, secrets masked."""
    every = text.split("\n")
    body = block("\n".join(line[:_LONGEST] for line in every[:lines]), lines, most)
    if len(every) > lines:
        body += f"\n… {len(every) - lines} more lines"
    if len(whole := body.encode("utf-8", "replace")) > most:
        body = f"{whole[:most].decode('utf-8', 'ignore')}\n… cut"
    return untrusted.fenced(about, body, most=2 * most)
