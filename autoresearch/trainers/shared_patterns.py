"""Patterns shared by several trainers: progress of loading and validation, and the KL in a dict."""

from __future__ import annotations

from autoresearch.core.metrics.signal import SignalKind, SignalPattern

HOLD_S = 120.0  # loading a shard, capturing a graph, a batch: each prints something this often
SILENT_S = 600.0  # initial validation by a loop that prints nothing while it validates

BAR = r"%\|[^|\r\n]{0,640}\| *[1-9]\d{0,8}/\d{1,9} \["
"""A tqdm bar that has moved."""

LOADING = SignalPattern(
    SignalKind.PROGRESS,
    rf"{BAR}|% Completed \| *[1-9]",  # the second: vLLM and SGLang load the shards of a checkpoint
    HOLD_S,
    ("%|", "% Completed |"),
)
"""Any bar that moves; one that stands at 0 proves nothing."""


CLOSED = r"(?=[^\r\n]{0,16384}\}(?: \[repeated \d{1,6}x across cluster\])?[ \t]*(?:[\r\n]|\Z))"
"""A brace ends this line: a sampled answer, which stands in quotation marks or a list, may quote the rest of it."""


def optional_later(name: str, before: str) -> str:
    """The start of an optional group that matches `name` later on the line, after `before`; the caller closes it.

    re jumps to the line's end and back to the first letter of the name; a lazy match takes five times as long.
    """
    return rf"(?:[^\r\n]{{0,8000}}{name[0]}(?<={before}{name[0]}){name[1:]}"
