"""Retry storms: a swarm client that hits the same exception again and again without progress.

AgentJet's client template retries an episode for ever (`auto_retry=True`: ajet's PeriodicDrainThreadPoolExecutor logs
the traceback and starts again), so that with a bug in the agent's code the client neither exits nor completes a step.
"""

from __future__ import annotations

from autoresearch.core.text.regex import later

_MOST = 200  # different exceptions that are counted
_EXCEPTION = later(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failed|Timeout)\b(?::\s.*)?\Z")
_CHANGING = later(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{12,}\b|\d+")
_BENIGN = later(r"(?i)\b404\b.*(?:claim|episode)|(?:claim|episode).*\b404\b|No available episodes to claim")
_BAR = later(r"@ step \d{1,9}: {1,4}\d{1,3}%[^|]*\|[^|]*\| *(\d+/\d+)")


class RetryStorm:
    """Counts equal exceptions in a client's log since its last progress."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._seen: dict[str, tuple[int, float, str]] = {}  # text without numbers -> count, first time, last line
        self._bar = ""

    def reset(self) -> None:
        """Record progress (a step, an episode, an evaluation): reset all counts."""
        self._seen.clear()

    def line(self, now: float, text: str) -> None:
        """Take in one stripped line of the client's output; `now` in seconds."""
        if bar := _BAR.search(text):
            if bar[1] != self._bar:
                self.reset()
            self._bar = bar[1]
            return
        if not _EXCEPTION.match(text) or _BENIGN.search(text):
            return
        key = _CHANGING.sub("#", text)[:200]
        times, first, _ = self._seen.get(key, (0, now, ""))
        if times or len(self._seen) < _MOST:
            self._seen[key] = (times + 1, first, text[:300])

    def active(self, now: float) -> str:
        """The exception of the storm, its count and duration; "" if there is no storm."""
        for times, first, text in self._seen.values():
            if times >= self.most and now - first >= self.seconds:
                return f"{times} times within {now - first:.0f} s, and nothing moved meanwhile: {text}"
        return ""
