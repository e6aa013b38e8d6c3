"""Fatal lines that any Python trainer can print: patterns with which the Runner wakes the monitor.

They only report the event at once; `core.diagnosis.root` finds the cause after the run has ended.
"""

from __future__ import annotations

from autoresearch.core.metrics.signal import SignalKind, SignalPattern

# Allowed before the first word of a line: nothing, a Ray prefix `) `, a colour `m` or `m `, a progress bar's `]`,
# torch.distributed's `[rank0]: `.
_WORDS = "Traceback (most recent call last):"
_TRACEBACK = r"Traceback \(most recent call last\):"
_RANKS = "".join(rf"|(?<=\[rank\d{{{digits}}}\]: {_TRACEBACK})" for digits in (1, 2, 3))
_AT_START = (
    rf"(?:(?<=^{_TRACEBACK})|(?<=[\r\n]{_TRACEBACK})|(?<=[)m] {_TRACEBACK})|(?<=\dm{_TRACEBACK})"
    rf"|(?<=\]{_TRACEBACK})|(?<=(?:it|/s)\] {_TRACEBACK}){_RANKS})"
)

TRACEBACK = SignalPattern(SignalKind.ERROR, rf"{_TRACEBACK}{_AT_START}", needles=(_WORDS,))
"""The start of a traceback at the start of a line; one quoted in a sampled answer is elsewhere in its line."""

OUT_OF_MEMORY = SignalPattern(
    SignalKind.ERROR,
    r"out of memory(?:(?<=CUDA out of memory)\. Tried to allocate|(?<=CUDA error: out of memory))",
    needles=("out of memory",),
)
"""The messages of torch and of the CUDA driver."""

RAY_EXCEPTION = SignalPattern(
    SignalKind.ERROR, r"ray\.exceptions\.(?P<text>[A-Z]\w{0,60}[^\r\n]{0,160})", needles=("ray.exceptions.",)
)
"""An exception that Ray re-raised in the driver after a worker raised it."""

NCCL_TIMEOUT = SignalPattern(
    SignalKind.ERROR,
    r"Watchdog caught collective operation timeout: (?P<text>[^\r\n]{0,160})",
    needles=("Watchdog caught collective operation timeout: ",),
)
"""Printed by C++ without a traceback; the process may hang afterwards."""
