"""TRL's console: dicts without a step, and the progress bar from which the step is read.

transformers/trainer_callback.py (ProgressCallback) moves the bar to the step just finished and prints the dict through
tqdm, which then redraws the bar: the first bar after a dict has its step. Dicts without a bar (`disable_tqdm`, another
rank) are counted. transformers 5 puts numbers in quotes, 4 does not.
"""

from __future__ import annotations

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.metric_keys import NO_STEP
from autoresearch.core.metrics.python_values import numbers, python_dict
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.text.regex import later

_BAR = later(r"\s*\d{1,3}%\|[^|]{0,640}\| *(?P<n>\d{1,9})/(?P<of>\d{1,9}) \[")  # Trainer's own bar has no description


def read_dict(line: str) -> Reading | None:
    """Read a line that is, or ends with, a dict printed by the Trainer; its step is unknown.

    The summary at the end is ignored: it has no `loss`.
    """
    start = line.find("{'")
    if start < 0 or not line.endswith("}"):
        return None
    metrics = numbers(python_dict(line[start:]) or {}, strings=True)
    if "epoch" not in metrics:
        return None
    if "loss" not in metrics and not any(map(metric_keys.is_validation, metrics)):
        return None
    return metric_keys.readings(NO_STEP, metrics)[0]


class TrlLog:
    """Reads TRL's log; see `core.run.trainer.LogReader`."""

    needles = ("{'", "%|")

    def __init__(self) -> None:
        self._of = 0  # total steps, from the first bar
        self._held: Reading | None = None

    def line(self, text: str) -> Reading | None:
        """The dict whose step this bar shows, or a previous dict that got no bar before the next one."""
        bar = _BAR.match(text)
        if bar is None:
            reading = read_dict(text)
            if reading is None:
                return None
            done, self._held = self._held, reading
            return done
        n, of = int(bar["n"]), int(bar["of"])
        self._of = self._of or of
        if self._held is None or of != self._of:  # an evaluation has its own bar
            return None
        if n == 0 and self._held.kind is SignalKind.STEP:  # only an evaluation can come before the first step
            return None
        done, self._held = self._held, None
        return Reading(done.kind, n, done.metrics)

    def end(self) -> Reading | None:
        """The last dict, if no bar followed it."""
        done, self._held = self._held, None
        return done
