"""Retry storms: a swarm client that meets the same exception again and again, and never gets on.

AgentJet's client template retries an episode for ever (`auto_retry=True`: ajet's PeriodicDrainThreadPoolExecutor logs
the traceback and begins again), so that a mistake in the agent's code neither ends the client nor makes a step.
"""

from __future__ import annotations

from autoresearch.core.text.regex import later

_MOST = 200  # different exceptions that are kept apart
_EXCEPTION = later(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failed|Timeout)\b(?::\s.*)?\Z")
_CHANGING = later(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{12,}\b|\d+")
_BENIGN = later(r"(?i)\b404\b.*(?:claim|episode)|(?:claim|episode).*\b404\b|No available episodes to claim")
_BAR = later(r"@ step \d{1,9}: {1,4}\d{1,3}%[^|]*\|[^|]*\| *(\d+/\d+)")


class Storm:
    """Counts the exceptions of a client's log since something last moved."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._seen: dict[str, tuple[int, float, str]] = {}  # what it says without numbers -> times, first, last line
        self._bar = ""

    def moved(self) -> None:
        """A step, an episode, an evaluation: whoever gets on may fail on the way."""
        self._seen.clear()

    def line(self, now: float, text: str) -> None:
        """One stripped line of the client's output."""
        if bar := _BAR.search(text):
            if bar[1] != self._bar:
                self.moved()
            self._bar = bar[1]
            return
        if not _EXCEPTION.match(text) or _BENIGN.search(text):
            return
        key = _CHANGING.sub("#", text)[:200]
        times, first, _ = self._seen.get(key, (0, now, ""))
        if times or len(self._seen) < _MOST:
            self._seen[key] = (times + 1, first, text[:300])

    def raging(self, now: float) -> str:
        """Which exception it is, how often and since when; "" while there is no storm."""
        for times, first, text in self._seen.values():
            if times >= self.most and now - first >= self.seconds:
                return f"{times} times within {now - first:.0f} s, and nothing moved meanwhile: {text}"
        return ""
