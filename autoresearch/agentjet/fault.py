"""A fatal problem of a swarm run, as one line that its Runner parses, and the exit code for it."""

from __future__ import annotations

from autoresearch.agentjet.engine_watch import TAG

EXIT = 3  # exit code of our own programs if the run cannot go on


class SwarmFault(Exception):  # noqa: N818 - it names what happened to the run
    """The run cannot go on. `kind` is the stable name: port_taken, server_died, engine_busy, boot_failed ..."""

    def __init__(self, kind: str, text: str, evidence: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.kind = kind
        self.evidence = evidence

    def lines(self) -> list[str]:
        """Lines for the log: the fault first, then its evidence."""
        return [f"{TAG}error {self.kind}: {' '.join(str(self).split())}", *self.evidence]
