"""Follows the two logs of a swarm run: repeated messages of the client, and the engine's lines in the server's log.

The words that distinguish the end of training from a crash: modelscope/AgentJet, ajet/backbone/trainer_verl.py (at
81e2b7d7).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from autoresearch.agentjet.engine_watch import TAG
from autoresearch.agentjet.server_failure import evidence, root_cause
from autoresearch.core.metrics import metric_keys, step_line
from autoresearch.core.text.lines import logical_lines
from autoresearch.core.text.regex import later
from autoresearch.runner.log_follower import LogFollower

_TOTAL = re.compile(r"Total training steps: (\d{1,9})\b")
_RESUMED = re.compile(
    r"Resuming from \S*global_step_[1-9]\d*|Setting global step to [1-9]\d*|Load from checkpoint folder: \S+"
)
_BOOTS = re.compile(r"\[start_engine\] Successfully started training process|engine status to ENGINE\.BOOTING")
_CRASHED = re.compile(r"Traceback \(most recent call last\):|.{1,80}\| (?:Unexpected error|Error running subprocess): ")
_WELL = "Final validation metrics"
_KEPT = 2000  # lines of the server's log that may explain its end
_NEAR = 400  # lines: a traceback farther before the end belongs to some request, and was survived
_NAN = ("loss", "grad_norm", "kl", "entropy")
_MOST = 200  # different exceptions that are counted
_EXCEPTION = later(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failed|Timeout)\b(?::\s.*)?\Z")
_RETRIED = later(r"\] Error executing episode: (?P<error>.*?)(?:\. Retrying\.\.\.)?\Z")
_CHANGING = later(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{12,}\b|\d+")
_BENIGN = later(r"(?i)\b404\b.*(?:claim|episode)|(?:claim|episode).*\b404\b|No available episodes to claim")
_BAR = later(r"@ step \d{1,9}: {1,4}\d{1,3}%[^|]*\|[^|]*\| *(\d+/\d+)")


class RetryStorm:
    """Counts equal exceptions in a client's log since its last progress.

    AgentJet's client template retries an episode for ever (`auto_retry=True`), so that with a bug in the agent's code
    the client neither exits nor completes a step. ajet's PeriodicDrainThreadPoolExecutor logs each retry as one line,
    `07:34 | retry_wrapper :71 | [PeriodicDrainThreadPoolExecutor] Error executing episode: ... Retrying...`, older
    versions with a traceback (ajet/utils/thread_executors.py at af6b611).
    """

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
        retried = _RETRIED.search(text)
        error = (retried["error"] or "an exception without a message") if retried else text
        if not (retried or _EXCEPTION.match(text)) or _BENIGN.search(error):
            return
        key = _CHANGING.sub("#", error)[:200]
        times, first, _ = self._seen.get(key, (0, now, ""))
        if times or len(self._seen) < _MOST:
            self._seen[key] = (times + 1, first, error[:300])

    def active(self, now: float) -> str:
        """The exception of the storm, its count and duration; "" if there is no storm."""
        for times, first, text in self._seen.values():
            if times >= self.most and now - first >= self.seconds:
                return f"{times} times within {now - first:.0f} s, and nothing moved meanwhile: {text}"
        return ""


class ClientLog:
    """The client's own lines in a run's log, from now on."""

    def __init__(self, path: Path) -> None:
        self._follower = _at_the_end(path)

    def lines(self) -> Iterator[str]:
        """The added lines."""
        for chunk in self._follower.poll():
            yield from (line for line in logical_lines(chunk) if not line.startswith(TAG))

    def close(self) -> None:
        """Close the file."""
        self._follower.close()


class ServerLog:
    """The server's log from now on; empty if the log is on another machine."""

    def __init__(self, path: Path) -> None:
        self._follower = _at_the_end(path)
        self.begin = self._follower.offset
        self.total: int | None = None  # steps that the trainer plans
        self.resumed = ""
        self.booted = False
        self._ended_well = False
        self._since = _NEAR + 1  # lines since the last traceback began, or the last line that stands for one
        self._kept: list[str] = []  # at most twice _KEPT
        self._nan: list[str] = []

    def steps(self) -> Iterator[tuple[int, float | None]]:
        """(step, KL) of each training step printed since the last call."""
        for chunk in self._follower.poll():
            for line in logical_lines(chunk):
                self._kept = [*self._kept[-_KEPT:], line] if len(self._kept) > 2 * _KEPT else self._kept
                self._kept.append(line)
                self._since += 1
                yield from self._take(line)

    def nan_lines(self) -> list[str]:
        """Metrics that became NaN, each reported once."""
        found, self._nan = self._nan, []
        return found

    def complete(self, done: int) -> bool:
        """Whether training reached its end: AgentJet's own clients stop when the last step would begin."""
        if self._ended_well and self._since > _NEAR:
            return True
        return self.total is not None and done >= max(1, self.total - 1)

    @property
    def crash(self) -> str:
        """The exception that ended the engine; "" if the log shows none."""
        return (root_cause(self._kept) or "a traceback in the server's log") if self._since <= _NEAR else ""

    def evidence(self) -> Iterator[str]:
        """The last lines of the log."""
        return evidence(self._kept, "the server's log")

    def close(self) -> None:
        """Close the file."""
        self._follower.close()

    def _take(self, line: str) -> Iterator[tuple[int, float | None]]:
        if "step:" in line and (parsed := step_line.parse(line)) is not None:
            step, metrics = parsed
            if step > 0 and any(key.startswith(metric_keys.TRAINING_PREFIXES) for key in metrics):
                self._nan += [f"{k} at step {step}" for k, v in metrics.items() if math.isnan(v) and k.endswith(_NAN)]
                yield step, metric_keys.kl_of(metrics)
            return
        if found := _TOTAL.search(line):
            self.total = int(found[1])
        elif found := _RESUMED.search(line):
            self.resumed = self.resumed or found[0]
        elif _BOOTS.search(line):
            self.booted = True
        elif _CRASHED.match(line):
            self._since = 0
        elif _WELL in line:
            self._ended_well = True


def _at_the_end(path: Path) -> LogFollower:
    try:
        return LogFollower(str(path), path.stat().st_size)
    except OSError:
        return LogFollower(str(path))
