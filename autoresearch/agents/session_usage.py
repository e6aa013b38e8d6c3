"""Agents that count the tokens of a whole session, earlier turns included: each turn is charged with its own.

Nothing is kept between turns, so the session's name carries the counts so far: `NAME:IN:OUT`. A turn that told no
counts (it was ended early) leaves them as they are; what it used up is charged to the next one.
"""

from __future__ import annotations

from autoresearch.agents.agent_output import AgentOutput
from autoresearch.core.agents.agent import Turn


def own_name(session: str) -> str:
    """The session as the agent calls it."""
    return _counted(session)[0]


def charge(turn: Turn, agent_output: AgentOutput) -> None:
    """Take what earlier turns used up out of the counts; the session is told with the sums, for the next turn."""
    name, before_in, before_out = _counted(turn.session)
    if agent_output.session != name:
        before_in = before_out = 0
    read, written = agent_output.tokens_in, agent_output.tokens_out
    if read is not None and read >= before_in:
        agent_output.tokens_in = read - before_in
    if written is not None and written >= before_out:
        agent_output.tokens_out = written - before_out
    if agent_output.session:
        agent_output.session += f":{max(before_in, read or 0)}:{max(before_out, written or 0)}"


def _counted(session: str) -> tuple[str, int, int]:
    name, _, counts = session.partition(":")
    read, _, written = counts.partition(":")
    known = counts.isascii() and read.isdecimal() and written.isdecimal() and len(counts) < 40
    return name, int(read) if known else 0, int(written) if known else 0
