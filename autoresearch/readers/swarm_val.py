"""Read a swarm client's validation file: a heading per step and data set, a bullet per value.

    ## Step 10
    - dataset: AIME-2025
    - task_pass_rate@1: 21.67%
    - mean_reward: 0.2167

Written in append mode by tutorial/opencode_build_aime/auto_research/auto_train.py (modelscope/AgentJet). Percentages
become fractions, the step is repeated for each data set, and metrics are named as in `core.metrics.swarm_evaluations`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.metrics.swarm_evaluations import Evaluations, share
from autoresearch.core.text.regex import later
from autoresearch.readers.chunks import lines

_HEADING = later(r"#{1,4}\s*[Ss]tep\s*:?\s*(\d{1,9})\s*\Z")
_BULLET = later(r"[-*]\s+(?:\*\*|`)?([\w@./() -]{1,80}?)(?:\*\*|`)?\s*:\s*(\S.*)\Z")


def read_swarm_val(path: Path, offset: int = 0) -> Iterator[Reading]:
    """The evaluations of a file from a byte offset on; a missing file has none, and a torn last line is skipped."""
    evaluations = Evaluations()
    step, dataset = -1, ""
    values: dict[str, float] = {}

    def section() -> Iterator[Reading]:
        if step >= 0 and values:
            yield Reading(SignalKind.VALIDATION, step, evaluations.add(step, dataset, dict(values)))
        values.clear()

    for raw, whole in lines(path, offset):
        text = raw.decode("utf-8", "replace").strip("\0 \t\r")
        if not whole:
            continue
        if heading := _HEADING.match(text):
            yield from section()
            step, dataset = int(heading[1]), ""
        elif bullet := _BULLET.match(text):
            key, value = bullet[1].strip(), share(bullet[2])
            if key == "dataset":
                dataset = bullet[2].strip()
            elif value is not None:
                values[key] = value
    yield from section()
