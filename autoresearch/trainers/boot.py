"""Boot: lines by which any framework shows that it still loads or validates; they hold the first-step clock."""

from __future__ import annotations

from autoresearch.core.signal import SignalKind, SignalPattern

HOLD_S = 120.0  # a shard, a captured graph, a batch: each says something this often

BAR = r"%\|[^|\r\n]{0,640}\| *[1-9]\d{0,8}/\d{1,9} \["
"""A tqdm bar that has moved."""

LOADING = SignalPattern(
    SignalKind.PROGRESS,
    rf"{BAR}|% Completed \| *[1-9]",  # the second: vLLM and SGLang load the shards of a checkpoint
    HOLD_S,
    ("%|", "% Completed |"),
)
"""Any bar that moves; one that stands at 0 proves nothing."""
